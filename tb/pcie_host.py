"""The host of third parties: cocotbext-pcie's root complex behind the NIC's TLP streams.

`PcieHost` takes the place of `HostAgent` (tb/host.py). It keeps that agent's beats and checks, but
what a request does, and how its completions are made, is the library's: each TLP goes through its
packed header, a simulated link with flow control, a root port and the root complex to memory.
"""

import logging
from collections import deque
from typing import Any

import cocotb
from cocotb.queue import Queue
from cocotb.triggers import Timer
from cocotbext.axi import Region
from cocotbext.pcie.core import Device, Endpoint, RootComplex
from cocotbext.pcie.core.tlp import CplStatus, Tlp, TlpAttr, TlpType
from cocotbext.pcie.core.utils import PcieId

from tb.host import Completion, HostAgent, Request

CLOCK_NS = 10  # of the benches
SENDING = 8  # requests that may wait for the link before `rq.ready` falls
ABORTS = 0x7A << 48  # reads of this 2^48 bytes are answered CA; there is nothing above


class Memory(Region):
    """`memory` as a region of the root complex; reads in `ABORTS` fail."""

    def __init__(self, host: "PcieHost", size: int):
        super().__init__(size)
        self._host = host

    async def _read(self, address: int, length: int, **_: Any) -> bytes:
        if address >= ABORTS:
            raise ValueError("the completer aborts")
        return self._host.memory.read(address, length)

    async def _write(self, address: int, data: bytes, **_: Any) -> None:
        self._host.memory.write(address, bytes(data))
        self._host.stored += len(data)


class Host(RootComplex):
    """Serves each read after a time of its own, so that completions of several interleave."""

    def __init__(self, agent: "PcieHost"):
        self._agent = agent
        super().__init__()
        # all addresses are memory: this bench has no device with address space of its own
        size = ABORTS + (1 << 48)
        self.mem_address_space.regions.clear()
        self.mem_address_space.register_region(Memory(agent, size), 0, size)

    @property
    def split_on_all_rcb(self) -> bool:
        """Looked at before each completion: the cuts of one read are random."""
        return bool(self._agent.split and self._agent.rng.random() < 0.6)

    @split_on_all_rcb.setter
    def split_on_all_rcb(self, value: bool) -> None:
        pass

    async def handle_mem_read_tlp(self, tlp: Tlp) -> None:
        if not self._agent.out_of_order:
            await self._serve(tlp)
        else:
            cocotb.start_soon(self._serve(tlp))

    async def _serve(self, tlp: Tlp) -> None:
        await Timer(CLOCK_NS * self._agent.delay(), "ns")
        await super().handle_mem_read_tlp(tlp)


class NicFunction(Endpoint):
    """The NIC on the bus: completions go to the agent."""

    def __init__(self, agent: "PcieHost"):
        super().__init__()
        self._agent = agent

    async def handle_tlp(self, tlp: Tlp) -> None:
        if tlp.is_completion():
            tlp.release_fc()
            self._agent.came(tlp)
        else:
            await super().handle_tlp(tlp)


class PcieHost(HostAgent):
    """As `HostAgent`, without its `faults`; `start` first, which enumerates the bus.

    `requester_id` is what enumeration gave the NIC. `on_write` is called when a write is taken
    from `rq`; the bytes are in memory once `idle`.
    """

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self.stored = 0  # bytes that reached memory
        self._outgoing: Queue = Queue()
        self._parked = 0  # requests that wait for the link

    async def start(self) -> None:
        logging.getLogger("cocotb.pcie").setLevel(logging.ERROR)
        self.complex = Host(self)
        self.complex.max_payload_size_supported = self.complex.max_payload_size = \
            (self.mps // 128).bit_length() - 1
        self.complex.read_completion_boundary = self.rcb == 128
        self.function = NicFunction(self)
        device = Device()
        device.add_function(self.function)
        self.complex.make_port().connect(device)
        await self.complex.enumerate()
        cocotb.start_soon(self._transmit())

    @property
    def requester_id(self) -> int:
        return int(self.function.pcie_id)

    @property
    def idle(self) -> bool:
        return super().idle and not self._tags and not self._parked \
            and self.stored == self.write_bytes

    @property
    def busy(self) -> bool:
        return self._parked >= SENDING

    def delay(self) -> int:
        """Cycles for one read."""
        latency = self.latency
        if callable(latency):
            return latency()
        return self.rng.randint(*latency) if isinstance(latency, tuple) else latency

    # -- from the NIC ------------------------------------------------------------------------------

    def _store(self, address: int, data: bytes) -> None:
        """The root complex does it."""

    def _write(self, request: Request) -> None:
        super()._write(request)
        self._post(request)

    def _read(self, request: Request) -> None:
        self._count_read(request)
        self._post(request)

    def _post(self, request: Request) -> None:
        self._parked += 1
        self._outgoing.put_nowait(Tlp.unpack(_tlp(request).pack()))

    async def _transmit(self) -> None:
        while True:
            tlp = await self._outgoing.get()
            await self.function.send(tlp)
            self._parked -= 1

    # -- to the NIC --------------------------------------------------------------------------------

    def came(self, tlp: Tlp) -> None:
        tlp = Tlp.unpack(tlp.pack())
        self._answers.append(deque([Completion(
            tlp.tag, int(tlp.requester_id), int(tlp.status), tlp.byte_count, tlp.lower_address,
            int(tlp.ep), tlp.length if tlp.has_data() else 0, bytes(tlp.data))]))

    def _next_answer(self) -> int:
        return 0  # the link keeps the order; the root complex has mixed the reads

    def _closes(self, completion: Completion, rest: deque[Completion]) -> bool:
        """The library sends no completion after the one that has the last byte."""
        return completion.status != CplStatus.SC or completion.byte_count <= \
            4 * completion.length - (completion.lower_address & 3)


def _tlp(request: Request) -> Tlp:
    """The library's form: addresses from 4 GB on take a header of 4 DWs, others must not."""
    tlp = Tlp()
    wide = request.address >> 32
    if request.write:
        tlp.fmt_type = TlpType.MEM_WRITE_64 if wide else TlpType.MEM_WRITE
        tlp.data = bytearray(request.data)
    else:
        tlp.fmt_type = TlpType.MEM_READ_64 if wide else TlpType.MEM_READ
    tlp.length, tlp.address = request.length, request.address
    tlp.first_be, tlp.last_be, tlp.tag = request.first_be, request.last_be, request.tag
    tlp.requester_id = PcieId.from_int(request.requester_id)
    tlp.attr = TlpAttr(request.attributes)
    return tlp
