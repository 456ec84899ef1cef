"""Stream agents for benches: one object a port, all stepped by one loop.

`run` drives every agent, waits for the clock edge and lets every agent sample, so a cycle costs
as few accesses to the simulator as there is activity. A payload is one integer, as the Verilog
port is; tb/bits.py turns records of fields into it by an Amaranth layout.
"""

import random
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from cocotb.triggers import RisingEdge

from tb.bits import number, unpack


class Source:
    """Offers the items of `queue` on a stream port, in order.

    `idle` is the chance of a cycle without an offer; while `gate()` is false nothing new is
    offered. `taken` lists the cycles of the transfers.
    """

    def __init__(self, dut: Any, name: str, rng: random.Random, idle: float = 0.0,
                 gate: Callable[[], bool] | None = None) -> None:
        self._valid = getattr(dut, f"{name}__valid")
        self._payload = getattr(dut, f"{name}__payload")
        self._ready = getattr(dut, f"{name}__ready")
        self.queue: deque[int] = deque()
        self.taken: list[int] = []
        self.idle, self.gate, self._rng = idle, gate, rng
        self._offering = False
        self._valid.value = 0
        self._payload.value = 0
        self._high = False

    def drive(self) -> None:
        if self._offering:
            return
        open_ = self.queue and (self.gate is None or self.gate())
        if open_ and not (self.idle and self._rng.random() < self.idle):
            self._payload.value = self.queue[0]
            self._offering = True
        if self._offering != self._high:
            self._high = self._offering
            self._valid.value = int(self._high)

    def sample(self, cycle: int) -> None:
        if self._offering and self._ready.value == 1:
            self.queue.popleft()
            self.taken.append(cycle)
            self._offering = False


class Sink:
    """Takes items from a stream port into `items`, as (cycle, payload).

    Checks the stream rule: once valid, valid and payload hold until the transfer. `stall` is the
    chance of a cycle that is not ready; while `gate()` is false it is never ready.
    """

    def __init__(self, dut: Any, name: str, rng: random.Random, stall: float = 0.0,
                 gate: Callable[[], bool] | None = None) -> None:
        self.name = name
        self._valid = getattr(dut, f"{name}__valid")
        self._payload = getattr(dut, f"{name}__payload")
        self._ready = getattr(dut, f"{name}__ready")
        self.items: list[tuple[int, int]] = []
        self.stall, self.gate, self._rng = stall, gate, rng
        self._ready.value = 0
        self._high = False
        self._held: int | None = None

    def drive(self) -> None:
        high = (self.gate is None or self.gate()) and not (
            self.stall and self._rng.random() < self.stall)
        if high != self._high:
            self._high = high
            self._ready.value = int(high)

    def sample(self, cycle: int) -> None:
        if self._valid.value != 1:
            assert self._held is None, f"{self.name}: valid fell before the transfer"
            return
        payload = number(self._payload.value)
        assert self._held in (None, payload), f"{self.name}: payload changed before the transfer"
        self._held = None if self._high else payload
        if self._high:
            self.items.append((cycle, payload))


class Pulses:
    """Collects (cycle, fields) of an observation port whose lowest bit is `valid`."""

    def __init__(self, dut: Any, name: str, layout: Any) -> None:
        self._port = getattr(dut, name)
        self._layout = layout
        self.items: list[tuple[int, dict[str, Any]]] = []

    def drive(self) -> None:
        pass

    def sample(self, cycle: int) -> None:
        value = number(self._port.value)
        if value & 1:
            self.items.append((cycle, unpack(self._layout, value)))


async def reset(dut: Any, cycles: int = 2) -> None:
    dut.rst.value = 1
    for _ in range(cycles):
        await RisingEdge(dut.clk)
    dut.rst.value = 0


async def run(dut: Any, agents: Iterable[Any], until: Callable[[], bool], limit: int = 100_000,
              quiet: int = 0, first: int = 0) -> int:
    """Step the agents until `until()` holds and `quiet` cycles more.

    Cycles are numbered from `first`; gives the number of the next one.
    """
    agents = list(agents)
    cycle = first
    left = quiet
    while True:
        if until():
            if left == 0:
                return cycle
            left -= 1
        assert cycle - first < limit, f"nothing more after {limit} cycles"
        for agent in agents:
            agent.drive()
        await RisingEdge(dut.clk)
        for agent in agents:
            agent.sample(cycle)
        cycle += 1


def beats(packet: bytes, width: int, error: bool = False, garbage: int = 0) -> list[int]:
    """A packet as beats of `PacketLayout(width)`; `garbage` fills the invalid bytes."""
    size = width // 8
    count = -(-len(packet) // size)
    empty = count * size - len(packet)
    words = [int.from_bytes(packet[i:i + size], "little") for i in range(0, len(packet), size)]
    if empty:
        lowest = 8 * (size - empty)
        words[-1] |= (garbage << lowest) & ((1 << width) - 1)
    empty_bits = (size - 1).bit_length()
    words[-1] |= (1 | empty << 1 | error << (1 + empty_bits)) << width
    return words


def is_last(word: int, width: int) -> bool:
    """Whether the beat ends its packet."""
    return bool(word >> width & 1)


def packets(words: Iterable[int], width: int) -> list[bytes]:
    """The packets that a list of beats holds; a last one without end is an error."""
    size = width // 8
    done, current = [], bytearray()
    for word in words:
        current += (word & ((1 << width) - 1)).to_bytes(size, "little")
        if is_last(word, width):
            empty = word >> (width + 1) & (size - 1)
            done.append(bytes(current[:len(current) - empty]))
            current = bytearray()
    assert not current, "a packet has no last beat"
    return done
