"""Moves a client's packet to the lanes of its TLPs."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.dma.beat import RequestBeat
from rtl.dma.split import Piece
from rtl.pcie.tlp import TlpType
from rtl.stream import PacketLayout


class Realigner(wiring.Component):
    """Pieces and the packets they cut in, write TLP beats out.

    Takes `piece` and, for each request of length > 0, one packet on `data`. Gives the beats of one
    TLP a piece, and one beat with `note.null` for a request of length 0. The data is merged from
    two input beats but not turned yet: the arbiter's single rotator does it (`rotate`).
    Lanes without a byte of the piece hold whatever the packet before left there; their byte
    enables are 0.

    Latency 1 cycle; one beat a cycle, no bubble between pieces or requests. A TLP's first beat
    shows only when its data is there.
    """

    def __init__(self, data_width: int, writer: int):
        super().__init__({
            "piece": In(stream.Signature(Piece)),
            "data": In(stream.Signature(PacketLayout(data_width))),
            "o": Out(stream.Signature(RequestBeat(data_width))),
        })
        self.data_width = data_width
        self.writer = writer

    def elaborate(self, platform):
        # Window: the beat taken before (`held`), then the one at the input. `start` is the byte of
        # the window where the next output beat begins: 1 to `size`, `size` being the input's own.
        m = Module()
        size = self.data_width // 8
        piece = self.piece.p
        held = Signal(self.data_width)
        start = Signal(range(size + 1), init=size)
        inside = Signal()  # not the first beat of a piece
        rest = Signal(14)  # bytes of the piece after the beats sent, from its first DW's byte 0

        begin = Signal(range(size + 1))
        left = Signal(14)
        count = Signal(range(size + 1))
        final = Signal()
        reach = Signal(range(2 * size + 1))
        m.d.comb += [
            begin.eq(Mux(piece.first & ~inside, size - piece.skip, start)),
            left.eq(Mux(inside, rest, piece.bytes + piece.skip)),
            final.eq(left <= size),
            count.eq(Mux(final, left, size)),
            reach.eq(begin + count),
        ]
        null = Signal()
        take = Signal()  # this beat uses the input up to its end or opens it
        free = Signal()
        fire = Signal()
        out = Signal(RequestBeat(self.data_width))
        out_valid = Signal()
        m.d.comb += [
            null.eq(piece.bytes == 0),
            take.eq((reach > size) & ~null),
            free.eq(~out_valid | self.o.ready),
            fire.eq(free & self.piece.valid & (~take | self.data.valid)),
            self.piece.ready.eq(fire & final),
            self.data.ready.eq(fire & take),
            self.o.valid.eq(out_valid),
            self.o.payload.eq(out),
        ]
        merged = Signal(self.data_width)
        m.d.comb += merged.eq(Cat(
            Mux(begin <= i, held.word_select(i, 8), self.data.p.data.word_select(i, 8))
            for i in range(size)))
        with m.If(free):
            m.d.sync += out_valid.eq(fire)
        with m.If(fire):
            header = out.tlp.header
            m.d.sync += [
                inside.eq(~final), rest.eq(left - size),
                header.type.eq(TlpType.WRITE), header.length.eq(piece.dw),
                header.address.eq(piece.address), header.first_be.eq(piece.first_be),
                header.last_be.eq(piece.last_be), header.attributes.eq(piece.attributes),
                header.poisoned.eq(piece.poisoned),
                out.tlp.data.eq(merged), out.tlp.last.eq(final),
                out.tlp.empty.eq(Mux(final, (size - count) >> 2, 0)),
                out.rotate.eq(begin[:exact_log2(size)]),
                out.note.writer.eq(self.writer), out.note.tag.eq(piece.tag),
                out.note.done.eq(piece.last), out.note.null.eq(null),
                out.note.bytes.eq(piece.bytes),
                start.eq(Mux(take, reach - size, reach)),
            ]
            with m.If(take):
                m.d.sync += held.eq(self.data.p.data)
        return m
