"""Cuts a request into pieces that fit one TLP each."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.dma.interface import TAG_BITS


class Piece(data.Struct):
    """The part of a request that one TLP carries; `bytes` 0: the whole request has length 0."""

    address: unsigned(64)  # of the first DW; bits 1:0 are 0
    skip: unsigned(2)  # bytes of the first DW before the piece
    bytes: unsigned(13)
    dw: unsigned(11)
    first_be: unsigned(4)
    last_be: unsigned(4)
    tag: unsigned(TAG_BITS)  # the client's
    attributes: unsigned(3)
    poisoned: unsigned(1)
    first: unsigned(1)  # of the request
    last: unsigned(1)


class Splitter(wiring.Component):
    """Requests (`WriteRequest` or `ReadRequest`) in, their pieces in address order out.

    A piece ends at the request's end or at the next multiple of `limit` bytes, so it is at most
    `limit` long and, since `limit` divides 4096, crosses no 4 KB boundary (PCIe base specification
    2.2.7). With `whole`, a request that fits one TLP (no 4 KB crossing, at most `limit` bytes of
    DWs) stays in one piece wherever it starts. Byte enables: 2.2.5. Latency 1 cycle, one piece a
    cycle, also across requests. A reset drops what is inside.
    """

    def __init__(self, shape, limit: int, *, whole: bool = False):
        exact_log2(limit)
        if not 4 <= limit <= 4096:
            raise ValueError(f"limit of a TLP must be 4 to 4096 bytes, not {limit}")
        super().__init__({
            "i": In(stream.Signature(shape)),
            "o": Out(stream.Signature(Piece)),
        })
        self.limit = limit
        self.whole = whole
        self.poisons = "poisoned" in dict(data.Layout.cast(shape))

    def elaborate(self, platform):
        m = Module()
        limit = self.limit
        # `active`: the rest of a request of several pieces is in `rest_*`
        active = Signal()
        rest_address = Signal(64)
        rest_length = Signal(32)
        rest_tag = Signal(TAG_BITS)
        rest_attributes = Signal(3)

        address = Signal(64)
        length = Signal(32)
        tag = Signal(TAG_BITS)
        attributes = Signal(3)
        m.d.comb += [
            address.eq(Mux(active, rest_address, self.i.p.address)),
            length.eq(Mux(active, rest_length, self.i.p.length)),
            tag.eq(Mux(active, rest_tag, self.i.p.tag)),
            attributes.eq(Mux(active, rest_attributes, self.i.p.attributes)),
        ]
        room = Signal(range(limit + 1))
        count = Signal(13)
        final = Signal()
        fits = Signal()
        m.d.comb += [
            room.eq(limit - address[:exact_log2(limit)]),
            final.eq(fits | (length <= room)),
            count.eq(Mux(final, length, room)),
        ]
        if self.whole:
            m.d.comb += fits.eq(~active & (length + address[:2] <= limit)
                                & (length + address[:12] <= 4096))
        skip = address[:2]
        span = Signal(14)  # from the first DW's byte 0 to the last byte
        end = Signal(2)  # lane of the last byte
        low = Signal(4)
        high = Signal(4)
        dw = Signal(11)
        m.d.comb += [
            span.eq(count + skip),
            end.eq(span[:2] - 1),
            dw.eq((span + 3) >> 2),
            low.eq(0xF << skip),
            high.eq(0xF >> ~end),
        ]

        out = Signal(Piece)
        out_valid = Signal()
        free = Signal()
        m.d.comb += [
            self.o.valid.eq(out_valid),
            self.o.payload.eq(out),
            free.eq(~out_valid | self.o.ready),
            self.i.ready.eq(free & ~active),
        ]
        with m.If(free):
            m.d.sync += out_valid.eq(active | self.i.valid)
            with m.If(active | self.i.valid):
                if self.poisons:
                    with m.If(~active):
                        m.d.sync += out.poisoned.eq(self.i.p.poisoned)
                m.d.sync += [
                    out.address.eq(address & ~3), out.skip.eq(skip), out.bytes.eq(count),
                    out.dw.eq(dw), out.tag.eq(tag), out.attributes.eq(attributes),
                    out.first.eq(~active), out.last.eq(final),
                    out.first_be.eq(Mux(dw == 1, low & high, low)),
                    out.last_be.eq(Mux(dw == 1, 0, high)),
                    active.eq(~final),
                    rest_address.eq(address + room), rest_length.eq(length - room),
                    rest_tag.eq(tag), rest_attributes.eq(attributes),
                ]
        return m
