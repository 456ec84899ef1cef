"""Round-robin choice, and the arbiter in front of the request port."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.dma.beat import OutputBeat, RequestBeat
from rtl.stream import SkidBuffer
from rtl.stream.rotate import rotated


class RoundRobin(wiring.Component):
    """`grant` (one hot) among `requests`, first the one after the last grant taken (`next`).

    Combinational; the turn moves on in the cycle after `next`.
    """

    def __init__(self, count: int):
        super().__init__({"requests": In(count), "next": In(1), "grant": Out(count),
                          "index": Out(range(max(2, count)))})
        self.count = count

    def elaborate(self, platform):
        m = Module()
        behind = Signal(self.count)  # requesters after the last one served
        upper = Signal(self.count)
        chosen = Signal(self.count)
        m.d.comb += [
            upper.eq(self.requests & behind),
            chosen.eq(Mux(upper.any(), upper, self.requests)),
            self.grant.eq(chosen & (~chosen + 1)),
        ]
        for i in range(self.count):
            with m.If(self.grant[i]):
                m.d.comb += self.index.eq(i)
                with m.If(self.next):
                    m.d.sync += behind.eq((1 << self.count) - (2 << i))
        return m


class RequestArbiter(wiring.Component):
    """`sources` streams of request beats to one, a whole TLP at a time, round robin.

    Turns the data to its lanes. Latency 1 cycle, one beat a cycle, no bubble between TLPs. Once a
    TLP's first beat was taken no other source gets in before its last.
    """

    def __init__(self, data_width: int, sources: int):
        beat = stream.Signature(RequestBeat(data_width))
        super().__init__({
            "i": In(beat).array(sources),
            "o": Out(stream.Signature(OutputBeat(data_width))),
        })
        self.data_width = data_width
        self.sources = sources

    def elaborate(self, platform):
        m = Module()
        m.submodules.turn = turn = RoundRobin(self.sources)
        m.submodules.skid = skid = SkidBuffer(OutputBeat(self.data_width))
        wiring.connect(m, skid.o, wiring.flipped(self.o))
        locked = Signal()
        owner = Signal(range(max(2, self.sources)))
        index = Signal.like(owner)
        beat = Signal(RequestBeat(self.data_width))
        valid = Signal()
        m.d.comb += [
            turn.requests.eq(Cat(port.valid for port in self.i)),
            index.eq(Mux(locked, owner, turn.index)),
            valid.eq(Array(port.valid for port in self.i)[index]),
        ]
        with m.Switch(index):
            for i, port in enumerate(self.i):
                with m.Case(i):
                    m.d.comb += [beat.eq(port.payload), port.ready.eq(skid.i.ready)]
        m.d.comb += [
            skid.i.valid.eq(valid),
            skid.i.p.tlp.eq(beat.tlp),
            skid.i.p.tlp.data.eq(rotated(m, beat.tlp.data, beat.rotate)),
            skid.i.p.note.eq(beat.note),
        ]
        with m.If(valid & skid.i.ready):
            m.d.comb += turn.next.eq(~locked)
            m.d.sync += [locked.eq(~beat.tlp.last), owner.eq(index)]
        return m
