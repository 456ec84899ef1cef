"""Which fetches are in flight, and which of them are overdue."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class InFlight(wiring.Component):
    """A fetch under the number `started` begins with `start` and ends with `end`.

    `known`: `answered` is in flight. Every `timeout` cycles a pass over all numbers, one a cycle,
    marks what is in flight and gives what the last pass has marked as `expired`; once taken, that
    is in flight no more. Its number rests, since its answer may still come (`late`, with
    `answered`), and is given as `rested` by the next pass after that, or by the second if it
    never comes.
    """

    def __init__(self, misses: int, depth: int, timeout: int):
        number = range(max(depth, 2))
        super().__init__({
            "start": In(1), "started": In(number),
            "end": In(1), "late": In(1), "answered": In(number), "known": Out(1),
            "count": Out(range(misses + 1)),
            "expired": Out(stream.Signature(number)),
            "rested": Out(stream.Signature(number)),
        })
        if timeout <= depth:
            raise ValueError(f"timeout_cycles must be more than {depth}, not {timeout}")
        self.depth = depth
        self.timeout = timeout

    def elaborate(self, platform):
        m = Module()
        flying, resting, marked = (Signal(self.depth, name=name)
                                   for name in ("flying", "resting", "marked"))
        now = Signal(range(self.timeout))
        index = Signal.like(self.started)
        passing = Signal()
        expire = self.expired.valid & self.expired.ready
        m.d.comb += [
            self.known.eq(flying.bit_select(self.answered, 1)),
            self.expired.payload.eq(index), self.rested.payload.eq(index),
        ]
        m.d.sync += [
            now.eq(Mux(now == self.timeout - 1, 0, now + 1)),
            self.count.eq(self.count + self.start - (self.end | expire)),
        ]
        with m.If(passing):
            old = marked.bit_select(index, 1)
            m.d.comb += [
                self.expired.valid.eq(flying.bit_select(index, 1) & old),
                self.rested.valid.eq(resting.bit_select(index, 1) & old),
            ]
            m.d.sync += marked.bit_select(index, 1).eq(1)
            with m.If((~self.expired.valid | self.expired.ready)
                      & (~self.rested.valid | self.rested.ready)):
                m.d.sync += [index.eq(index + 1), passing.eq(index != self.depth - 1)]
        with m.Elif(now == self.timeout - 1):
            m.d.sync += [passing.eq(1), index.eq(0)]
        with m.If(expire):
            m.d.sync += [flying.bit_select(index, 1).eq(0), resting.bit_select(index, 1).eq(1),
                         marked.bit_select(index, 1).eq(0)]
        with m.If(self.rested.valid & self.rested.ready):
            m.d.sync += resting.bit_select(index, 1).eq(0)
        with m.If(self.late):
            m.d.sync += marked.bit_select(self.answered, 1).eq(1)
        with m.If(self.end):
            m.d.sync += flying.bit_select(self.answered, 1).eq(0)
        with m.If(self.start):
            m.d.sync += [flying.bit_select(self.started, 1).eq(1),
                         marked.bit_select(self.started, 1).eq(0)]
        return m
