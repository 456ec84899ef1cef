"""Cuts the payload out of a frame and moves it to byte 0."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.parser.judge import PayloadPlace
from rtl.stream import PacketLayout, rotated

_OFFSET_PHASE = 2  # headers take 2 bytes modulo 4, since Ethernet takes 14 and the rest are words


def rotate_down(m, word, lanes):
    """`word` rotated so that byte `lanes` comes to byte 0; `lanes` is 2 modulo 4."""
    beat_bytes = len(word) // 8
    step = Signal(len(word))
    m.d.comb += step.eq(Cat(word[8 * _OFFSET_PHASE:], word[:8 * _OFFSET_PHASE]))
    return rotated(m, step, lanes[2:exact_log2(beat_bytes)], unit=32)


class PayloadAligner(wiring.Component):
    """Takes every beat of a frame, in the cycle `valid`, with its number `index`, whether it is the
    `last` of the frame, and the `place` of the payload; gives the payload as packet.

    A beat may come only while `ready`, which is a function of registers. Each beat of payload
    leaves with the following beat of its frame, or alone if the payload ends in it, so it takes 1
    cycle and frames may follow each other without a gap. A frame that ends before its payload
    should ends the packet there; one with payload must reach beat `place.first`. Reset: empty.
    """

    def __init__(self, data_width: int):
        self.data_width = data_width
        self.beat_log = exact_log2(data_width // 8)
        super().__init__({
            "valid": In(1),
            "ready": Out(1),
            "data": In(data_width),
            "index": In(14 - self.beat_log),
            "last": In(1),
            "place": In(PayloadPlace),
            "o": Out(stream.Signature(PacketLayout(data_width))),  # `o.ready` from a register
        })

    def elaborate(self, platform):
        m = Module()
        place, beat_bytes = self.place, self.data_width // 8
        turned = rotate_down(m, self.data, place.shift)

        held = Signal(self.data_width)  # rotated beat with the first bytes of a payload beat
        held_valid, held_last, within = Signal(), Signal(), Signal()
        empty, shift = Signal(self.beat_log), Signal(self.beat_log)
        m.d.comb += [
            self.ready.eq(~held_valid | self.o.ready),
            self.o.valid.eq(held_valid & (within | self.valid)),
            self.o.p.last.eq(held_last),
            self.o.p.empty.eq(Mux(held_last, empty, 0)),
        ]
        for lane in range(beat_bytes):
            part = slice(8 * lane, 8 * lane + 8)
            mine = Signal(name=f"mine{lane}")  # the held beat's byte, else the next beat's
            m.d.comb += mine.eq(lane + shift < beat_bytes)
            m.d.comb += self.o.p.data[part].eq(Mux(mine, held[part], turned[part]))

        with m.If(self.o.valid & self.o.ready):
            m.d.sync += held_valid.eq(0)
        final = Signal()
        m.d.comb += final.eq(self.index == place.last)
        with m.If(self.valid):
            m.d.sync += [
                held.eq(turned),
                held_valid.eq(place.some & (self.index >= place.first)
                              & (self.index <= place.last)),
                held_last.eq(final | self.last),
                within.eq((final & place.within) | self.last),
                empty.eq(place.empty), shift.eq(place.shift),
            ]
        return m
