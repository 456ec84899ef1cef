"""The host behind the NIC's TLP streams: memory, checks of every request, completions.

`HostAgent` plays the root complex: it takes request TLPs from `rq`, applies writes to memory in the
order of arrival, answers reads on `rc`, and records each breach of the PCIe rules. It touches as
few signals a cycle as it can: two reads when nothing moves.
"""

import heapq
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cocotb.triggers import RisingEdge

from rtl.config import DmaConfig
from rtl.pcie.tlp import TlpHeader, TlpLayout
from tb.bits import number, pack, unpack

READ, WRITE, COMPLETION = 0, 1, 2
STATUS = {"sc": 0, "ur": 1, "crs": 2, "ca": 4}

Latency = int | tuple[int, int] | Callable[[], int]


class Fields:
    """Where the parts of a TLP beat lie; the header is the lowest."""

    def __init__(self, width: int):
        layout = TlpLayout(width)
        self.header_mask = (1 << layout["header"].width) - 1
        self.data = layout["data"].offset
        self.data_mask = (1 << width) - 1
        self.last = layout["last"].offset
        self.empty = layout["empty"].offset


@dataclass(slots=True)
class Request:
    """A request TLP of the NIC. `data` is what came, whole DWs."""

    write: bool
    address: int  # of the first DW
    length: int  # DW
    first_be: int
    last_be: int
    tag: int
    requester_id: int
    data: bytes = b""
    cycle: int = 0
    attributes: int = 0

    @property
    def start(self) -> int:
        """The first byte that is enabled."""
        return self.address + (_low_bit(self.first_be) if self.first_be else 0)

    @property
    def bytes(self) -> int:
        """From the first to the last enabled byte (PCIe base specification 2.3.1.1, table 2-37)."""
        ends = self.last_be if self.length > 1 else self.first_be
        if not self.first_be:
            return 1
        return 4 * (self.length - 1) + ends.bit_length() - _low_bit(self.first_be)


@dataclass(slots=True)
class Completion:
    """A completion TLP for the NIC; `data` whole DWs, empty in a Cpl."""

    tag: int
    requester_id: int
    status: int = 0
    byte_count: int = 0
    lower_address: int = 0
    poisoned: int = 0
    length: int = 0  # DW
    data: bytes = b""
    extra: dict[str, int] = field(default_factory=dict)

    def changed(self, **fields: Any) -> "Completion":
        return replace(self, **fields)


def _low_bit(value: int) -> int:
    return (value & -value).bit_length() - 1


# what a hook may answer for a read: nothing, the name of a fault, or the completions to send
Fault = None | str | Callable[[list[Completion]], list[Completion]]


class HostAgent:
    """The host at `rq` and `rc` of `dut`, with `memory` (`read(address, length)`, `write(...)`).

    `latency`: cycles from a read's arrival to its service, a number, a (min, max) range or a
    function. The memory is read at service; a read never passes an earlier write. `out_of_order`:
    reads are served as their latencies end, and their completions interleave; else in order of
    request. `split`: completions are cut at random multiples of the RCB, else as long as MPS lets.
    `limits`: what the host allows; `width`: of a beat. `stalls`: share of the cycles in which
    `rq.ready` and, apart from it, `rc.valid` rest.
    `faults(request)`: called for each read; "ur", "ca", "crs", "poison", "drop", or a function of
    the list of completions. `on_write(address, data, cycle)`: called for each run of bytes written.

    Use it by `step()` right after each rising edge (before anything is driven), or let `run()` do
    that. Driving `dut` happens only there. `violations` must be empty at the end.
    """

    def __init__(self, dut: Any, memory: Any, *, limits: DmaConfig, width: int, rq: str = "rq",
                 rc: str = "rc", latency: Latency = 100, rng: random.Random | None = None,
                 out_of_order: bool = False, split: bool = False, stalls: float = 0.0,
                 faults: Callable[[Request], Fault] | None = None,
                 on_write: Sequence[Callable[[int, bytes, int], None]] = (),
                 completer_id: int = 0):
        self.dut = dut
        self.memory = memory
        self.mps, self.mrrs, self.rcb = limits.mps, limits.mrrs, limits.rcb
        self.tags = limits.tags
        self.width = width
        self.lanes = self.width // 32
        self.latency = latency
        self.rng = rng or random.Random(1)
        self.out_of_order = out_of_order
        self.split = split
        self.stalls = stalls
        self.faults = faults
        self.on_write = list(on_write)
        self.completer_id = completer_id
        self.cycle = 0
        self.violations: list[tuple[int, str]] = []
        self.read_tlps = self.write_tlps = self.read_bytes = self.write_bytes = 0
        self.completions = self.rq_beats = self.rc_beats = 0
        self.requests: deque[Request] | None = None  # set to a deque to record every request
        self._fields = Fields(self.width)
        self._rq_valid, self._rq_ready, self._rq = (
            getattr(dut, f"{rq}__{name}") for name in ("valid", "ready", "payload"))
        self._rc_valid, self._rc_ready, self._rc = (
            getattr(dut, f"{rc}__{name}") for name in ("valid", "ready", "payload"))
        self._ready = False  # until the first step
        self._header: dict[str, int] = {}
        self._header_word = -1  # of the TLP under way
        self._parts: list[bytes] = []
        self._tags: dict[int, int] = {}  # tag in use → bytes asked for
        self._due: list[tuple[int, int, Request]] = []  # reads not yet served
        self._due_last = 0
        self._order = 0
        self._answers: list[deque[Completion]] = []  # of reads that were served
        self._beats: deque[int] = deque()  # of the completion on its way
        self._driving = False
        self._shown = False
        self._closing: int | None = None  # tag that is free after the completion on its way
        self._rq_ready.value = 0
        self._rc_valid.value = 0

    @property
    def idle(self) -> bool:
        """Nothing is pending on the host's side."""
        return not (self._due or self._answers or self._beats or self._driving or self._parts)

    @property
    def busy(self) -> bool:
        """No further request is taken now."""
        return False

    def drive(self) -> None:
        """For the loop of tb/ports.py: `step` drives by itself."""

    def sample(self, cycle: int) -> None:
        self.step()

    async def run(self) -> None:
        while True:
            await RisingEdge(self.dut.clk)
            self.step()

    def step(self) -> None:
        """One clock: sample what was there at the edge, then drive the next cycle."""
        self.cycle += 1
        if self._ready and self._rq_valid.value == 1:
            self._take(number(self._rq.value))
        ready = not self.busy and not (self.stalls and self.rng.random() < self.stalls)
        if ready != self._ready:
            self._ready = ready
            self._rq_ready.value = int(ready)
        while self._due and self._due[0][0] <= self.cycle:
            self._serve(heapq.heappop(self._due)[2])
        if self._driving and self._rc_ready.value == 1:
            self._driving = False
            self.rc_beats += 1
            if not self._beats and self._closing is not None:
                self._tags.pop(self._closing, None)
            if not (self._beats or self._answers):
                self._show(False)
        if not self._driving and (self._beats or self._answers):
            self._send()

    # -- requests ----------------------------------------------------------------------------------

    def _breach(self, text: str) -> None:
        self.violations.append((self.cycle, text))

    def _take(self, beat: int) -> None:
        f = self._fields
        self.rq_beats += 1
        word = beat & f.header_mask
        if self._header_word < 0:
            self._header_word = word
            self._header = unpack(TlpHeader, word)
        elif word != self._header_word:
            self._breach("the header changes within a TLP")
        last = beat >> f.last & 1
        empty = beat >> f.empty
        self._parts.append((beat >> f.data & f.data_mask).to_bytes(self.width // 8, "little"))
        beats = 1 if self._header["type"] != WRITE else -(-self._header["length"] // self.lanes)
        if empty and not last:
            self._breach("a beat that is not the last has empty DWs")
        if not last and len(self._parts) >= beats:
            self._breach(f"a TLP of {beats} beats goes on")
        if last:
            self._ends(beats, empty)

    def _ends(self, beats: int, empty: int) -> None:
        h = self._header
        data = b"".join(self._parts)
        if len(self._parts) != beats:
            self._breach(f"a TLP of {beats} beats has {len(self._parts)}")
        if h["type"] == WRITE and self.lanes * beats - empty != h["length"]:
            self._breach(f"empty is {empty} in the last beat of {h['length']} DWs")
        self._parts = []
        self._header_word = -1
        if h["type"] not in (READ, WRITE):
            self._breach(f"type {h['type']} on the request port")
            return
        request = Request(h["type"] == WRITE, h["address"], h["length"], h["first_be"],
                          h["last_be"], h["tag"], h["requester_id"], data[:4 * h["length"]],
                          self.cycle, h["attributes"])
        self._check(request, h)
        if self.requests is not None:
            self.requests.append(request)
        if request.write:
            self._write(request)
        else:
            self._read(request)

    def _check(self, request: Request, h: dict[str, int]) -> None:
        """The rules of PCIe base specification 2.2.5 to 2.2.7."""
        what = f"{'write' if request.write else 'read'} of {request.length} DW at " \
               f"{request.address:#x}"
        limit = self.mps if request.write else self.mrrs
        first, last = request.first_be, request.last_be
        if not 1 <= request.length <= 1024:
            self._breach(f"{what}: length")
        if 4 * request.length > limit:
            self._breach(f"{what}: more than {limit} bytes")
        if request.address & 3:
            self._breach(f"{what}: address is not that of a DW")
        if request.address // 4096 != (request.address + 4 * request.length - 1) // 4096:
            self._breach(f"{what}: crosses 4 KB")
        if request.length == 1 and last:
            self._breach(f"{what}: last byte enables in one DW")
        if request.length > 1 and not (first and last):
            self._breach(f"{what}: no byte enabled at an end")
        if request.length > 2 and (first not in (8, 12, 14, 15) or last not in (1, 3, 7, 15)):
            self._breach(f"{what}: byte enables {first:04b} {last:04b} have gaps")
        for name in ("completer_id", "status", "byte_count", "lower_address", "poisoned"):
            if h[name]:
                self._breach(f"{what}: {name} is set")
        if request.write:
            return
        if request.tag >= self.tags:
            self._breach(f"{what}: tag {request.tag} of {self.tags}")
        if request.tag in self._tags:
            self._breach(f"{what}: tag {request.tag} is in use")

    def _write(self, request: Request) -> None:
        self.write_tlps += 1
        length = request.length
        enables = request.first_be | (
            ((1 << 4 * (length - 2)) - 1) << 4 | request.last_be << 4 * (length - 1)
            if length > 1 else 0)
        at = 0
        while enables:  # each run of enabled bytes
            skip = _low_bit(enables)
            enables >>= skip
            at += skip
            count = _low_bit(~enables)
            enables >>= count
            data = request.data[at:at + count]
            self._store(request.address + at, data)
            self.write_bytes += count
            for hook in self.on_write:
                hook(request.address + at, data, self.cycle)
            at += count

    def _store(self, address: int, data: bytes) -> None:
        self.memory.write(address, data)

    def _count_read(self, request: Request) -> None:
        self.read_tlps += 1
        self.read_bytes += request.bytes
        self._tags[request.tag] = request.bytes

    def _read(self, request: Request) -> None:
        self._count_read(request)
        if callable(self.latency):
            delay = self.latency()
        elif isinstance(self.latency, tuple):
            delay = self.rng.randint(*self.latency)
        else:
            delay = self.latency
        due = self.cycle + delay
        if not self.out_of_order:
            due = self._due_last = max(due, self._due_last)
        self._order += 1
        heapq.heappush(self._due, (due, self._order, request))

    # -- completions -------------------------------------------------------------------------------

    def _serve(self, request: Request) -> None:
        fault = self.faults(request) if self.faults else None
        if fault == "drop":
            return  # the tag stays in use until `forget`
        if fault in ("ur", "ca", "crs"):
            answer = [Completion(request.tag, request.requester_id, STATUS[fault],
                                 request.bytes, request.start & 0x7F)]
        else:
            answer = self._cut(request)
            if fault == "poison":
                i = self.rng.randrange(len(answer))
                answer[i] = answer[i].changed(poisoned=1)
            elif callable(fault):
                answer = fault(answer)
        if answer:
            self._answers.append(deque(answer))

    def _cut(self, request: Request) -> list[Completion]:
        """The read's data in completions (PCIe base specification 2.3.1.1)."""
        data = self.memory.read(request.address, 4 * request.length)
        at, end = request.address, request.address + 4 * request.length
        left = request.bytes
        start = request.start
        answer = []
        while at < end:
            stop = (at // self.mps + 1) * self.mps
            if self.split:
                stop = (at // self.rcb + self.rng.randint(1, max(1, self.mps // self.rcb))) \
                    * self.rcb
                if stop - at > self.mps or stop <= at:
                    stop = (at // self.rcb + 1) * self.rcb
            stop = min(stop, end)
            answer.append(Completion(
                request.tag, request.requester_id, 0, left, start & 0x7F, 0, (stop - at) // 4,
                data[at - request.address:stop - request.address]))
            left -= stop - start
            at = start = stop
        return answer

    def send(self, *completions: Completion) -> None:
        """Send completions that no service makes, one after the other."""
        self._answers.append(deque(completions))

    def forget(self, tag: int) -> None:
        """The read of `tag` will not be answered any more; the NIC may use the tag again."""
        self._tags.pop(tag, None)

    def _send(self) -> None:
        """Put the next beat on `rc`, or rest."""
        if self.stalls and self.rng.random() < self.stalls:
            self._show(False)
            return
        if not self._beats:
            i = self._next_answer()
            queue = self._answers[i]
            completion = queue.popleft()
            self._beats.extend(self._beats_of(completion))
            self.completions += 1
            if not queue:
                self._answers.pop(i)
            self._closing = completion.tag if self._closes(completion, queue) else None
        self._rc.value = self._beats.popleft()
        self._show(True)
        self._driving = True

    def _next_answer(self) -> int:
        return self.rng.randrange(len(self._answers)) if self.out_of_order else 0

    def _closes(self, completion: Completion, rest: deque[Completion]) -> bool:
        """Whether the read's tag is free after `completion`; `rest`: what follows for it."""
        return not rest

    def _show(self, valid: bool) -> None:
        if valid != self._shown:
            self._shown = valid
            self._rc_valid.value = int(valid)

    def _beats_of(self, completion: Completion) -> list[int]:
        f = self._fields
        header = pack(TlpHeader, {
            "type": COMPLETION, "length": completion.length, "tag": completion.tag,
            "requester_id": completion.requester_id, "completer_id": self.completer_id,
            "status": completion.status, "byte_count": completion.byte_count,
            "lower_address": completion.lower_address, "poisoned": completion.poisoned,
            **completion.extra})
        size = self.width // 8
        parts = [completion.data[i:i + size] for i in range(0, len(completion.data), size)] or [b""]
        beats = [header | int.from_bytes(part, "little") << f.data for part in parts]
        empty = (size - len(parts[-1])) // 4 if completion.data else 0
        beats[-1] |= 1 << f.last | empty << f.empty
        return beats
