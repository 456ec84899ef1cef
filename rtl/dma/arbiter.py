"""Round-robin choice, flow-control credits, the arbiter in front of the request port."""

from collections.abc import Sequence

from amaranth.hdl import Array, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.dma.beat import OutputBeat, RequestBeat
from rtl.pcie.tlp import TlpType
from rtl.stream import SkidBuffer
from rtl.stream.rotate import rotated


class RoundRobin(wiring.Component):
    """`grant` (one hot) among `requests`, first the one after the last grant taken (`next`).

    With `weights`, requester i is served up to `weights[i]` times a round, by turns with the
    others; a round ends when nobody who asks has any left. Combinational; the turn moves on in the
    cycle after `next`.
    """

    def __init__(self, count: int, weights: Sequence[int] = ()):
        super().__init__({"requests": In(count), "next": In(1), "grant": Out(count),
                          "index": Out(range(max(2, count)))})
        self.count = count
        self.weights = tuple(weights) or (1,) * count

    def elaborate(self, platform):
        m = Module()
        behind = Signal(self.count)  # requesters after the last one served
        able = Signal(self.count)  # to be served in this round
        upper = Signal(self.count)
        chosen = Signal(self.count)
        m.d.comb += able.eq(self.requests)
        if len(set(self.weights)) > 1:
            self._weigh(m, able)
        m.d.comb += [
            upper.eq(able & behind),
            chosen.eq(Mux(upper.any(), upper, able)),
            self.grant.eq(chosen & (~chosen + 1)),
        ]
        for i in range(self.count):
            with m.If(self.grant[i]):
                m.d.comb += self.index.eq(i)
                with m.If(self.next):
                    m.d.sync += behind.eq((1 << self.count) - (2 << i))
        return m

    def _weigh(self, m, able):
        left = [Signal(range(weight + 1), init=weight, name=f"left_{i}")
                for i, weight in enumerate(self.weights)]
        some = Signal(self.count)
        renew = Signal()
        m.d.comb += [
            some.eq(self.requests & Cat(turns != 0 for turns in left)),
            renew.eq(~some.any()),
            able.eq(Mux(renew, self.requests, some)),
        ]
        for i, (turns, weight) in enumerate(zip(left, self.weights, strict=True)):
            with m.If(self.next & self.requests.any()):
                m.d.sync += turns.eq(Mux(renew, weight, turns) - self.grant[i])


class Credits(data.Struct):
    """CREDIT_LIMIT of the link, modulo each field's size (PCIe base specification 2.6.1).

    Headers count TLPs, data counts 16 bytes. `infinite`, a bit for each in that order: not limited,
    or the link's own logic keeps account.
    """

    posted_header: unsigned(12)
    posted_data: unsigned(16)
    nonposted_header: unsigned(12)
    infinite: unsigned(3)


NO_LIMIT = {"posted_header": 0, "posted_data": 0, "nonposted_header": 0, "infinite": 0b111}


class CreditGate(wiring.Component):
    """Counts the credits consumed; tells, combinationally, what may go.

    A posted TLP of `data` credits may go if `posted` and `data` is at most `posted_data`; a
    non-posted one if `nonposted`. `take` consumes what a TLP needs, `give` returns it: that TLP
    was not sent.
    """

    def __init__(self):
        super().__init__({
            "limit": In(Credits),
            "take": In(1), "take_posted": In(1), "take_data": In(9),
            "give": In(1), "give_posted": In(1), "give_data": In(9),
            "posted": Out(1), "posted_data": Out(16), "nonposted": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        limit, infinite = self.limit, self.limit.infinite
        used = Signal(Credits)  # CREDITS_CONSUMED
        left = Signal(Credits)
        m.d.comb += [
            left.posted_header.eq(limit.posted_header - used.posted_header),
            left.posted_data.eq(limit.posted_data - used.posted_data),
            left.nonposted_header.eq(limit.nonposted_header - used.nonposted_header),
            self.posted.eq(infinite[0] | (left.posted_header != 0)),
            self.posted_data.eq(Mux(infinite[1], 0xFFFF, left.posted_data)),
            self.nonposted.eq(infinite[2] | (left.nonposted_header != 0)),
        ]
        take_posted, give_posted = self.take & self.take_posted, self.give & self.give_posted
        m.d.sync += [
            used.posted_header.eq(used.posted_header + take_posted - give_posted),
            used.posted_data.eq(used.posted_data + Mux(take_posted, self.take_data, 0)
                                - Mux(give_posted, self.give_data, 0)),
            used.nonposted_header.eq(used.nonposted_header + (self.take & ~self.take_posted)
                                     - (self.give & ~self.give_posted)),
        ]
        return m


class RequestArbiter(wiring.Component):
    """Streams of request beats, one a weight, to one: a whole TLP at a time, by weighted turns.

    Turns the data to its lanes. Latency 1 cycle, one beat a cycle, no bubble between TLPs. Once a
    TLP's first beat was taken no other source gets in before its last. A TLP that `credits` does
    not cover waits, and only the sources with such a TLP: writes pass reads, and the reverse.
    `unsent`: the TLP whose beat is at `o` will not be sent; its credits are back.
    """

    def __init__(self, data_width: int, weights: Sequence[int]):
        beat = stream.Signature(RequestBeat(data_width))
        super().__init__({
            "i": In(beat).array(len(weights)),
            "o": Out(stream.Signature(OutputBeat(data_width))),
            "credits": In(Credits, init=NO_LIMIT),
            "unsent": In(1),
        })
        self.data_width = data_width
        self.weights = weights

    def elaborate(self, platform):
        m = Module()
        sources = len(self.weights)
        m.submodules.turn = turn = RoundRobin(sources, self.weights)
        m.submodules.gate = gate = CreditGate()
        m.submodules.skid = skid = SkidBuffer(OutputBeat(self.data_width))
        wiring.connect(m, skid.o, wiring.flipped(self.o))
        locked = Signal()
        owner = Signal(range(max(2, sources)))
        index = Signal.like(owner)
        beat = Signal(RequestBeat(self.data_width))
        valid = Signal()
        m.d.comb += [
            gate.limit.eq(self.credits),
            turn.requests.eq(Cat(port.valid & self._covered(gate, port.p) for port in self.i)),
            index.eq(Mux(locked, owner, turn.index)),
            valid.eq(Mux(locked, Array(port.valid for port in self.i)[owner],
                         turn.requests.any())),
        ]
        with m.Switch(index):
            for i, port in enumerate(self.i):
                with m.Case(i):
                    m.d.comb += [beat.eq(port.payload),
                                 port.ready.eq(skid.i.ready & (locked | turn.grant[i]))]
        m.d.comb += [
            skid.i.valid.eq(valid),
            skid.i.p.tlp.eq(beat.tlp),
            skid.i.p.tlp.data.eq(rotated(m, beat.tlp.data, beat.rotate)),
            skid.i.p.note.eq(beat.note),
        ]
        m.d.comb += [
            gate.take.eq(valid & skid.i.ready & ~locked & ~beat.note.null),
            gate.take_posted.eq(beat.tlp.header.type == TlpType.WRITE),
            gate.take_data.eq(data_credits(beat.tlp.header.length)),
            gate.give.eq(self.unsent),
            gate.give_posted.eq(self.o.p.tlp.header.type == TlpType.WRITE),
            gate.give_data.eq(data_credits(self.o.p.tlp.header.length)),
        ]
        with m.If(valid & skid.i.ready):
            m.d.comb += turn.next.eq(~locked)
            m.d.sync += [locked.eq(~beat.tlp.last), owner.eq(index)]
        return m

    def _covered(self, gate, beat):
        """Whether a TLP that starts with `beat` may go."""
        header = beat.tlp.header
        data_fits = data_credits(header.length) <= gate.posted_data
        return beat.note.null | Mux(header.type == TlpType.WRITE, gate.posted & data_fits,
                                    gate.nonposted)


def data_credits(length):
    """Of a payload of `length` DWs: 4 DWs each."""
    return (length + 3) >> 2
