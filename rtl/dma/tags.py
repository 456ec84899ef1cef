"""Tags of the reads: which are free, and what each read in flight is for."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.dma.interface import TAG_BITS


class ReadRecord(data.Struct):
    """What a read in flight is for."""

    reader: unsigned(4)
    tag: unsigned(TAG_BITS)  # the client's
    skip: unsigned(2)  # bytes before the piece in its first DW
    bytes: unsigned(13)  # 0: nothing was asked of the host
    dw: unsigned(11)
    low: unsigned(5)  # bits 6:2 of the address
    last: unsigned(1)  # of the client's request


def tag_bits(tags: int) -> int:
    return max(1, ceil_log2(tags))


class TagPool(wiring.Component):
    """The free tags. `tag` is the one to use next, if `available`; `take` uses it up; `give` frees
    `given`. The tag freed first is used first, so a tag rests as long as possible.

    The pool refills itself by logic: at reset every tag is free, whatever the memory holds.
    """

    def __init__(self, tags: int):
        width = tag_bits(tags)
        super().__init__({
            "available": Out(1), "tag": Out(width), "take": In(1),
            "give": In(1), "given": In(width),
            "used": Out(range(tags + 1)),
        })
        self.tags = tags

    def elaborate(self, platform):
        m = Module()
        tags = self.tags
        m.submodules.ring = ring = Memory(shape=len(self.tag), depth=tags, init=[])
        read = ring.read_port(domain="comb")
        write = ring.write_port()
        fresh = Signal(range(tags + 1))  # tags never used since reset: `fresh` and above
        produce = Signal(range(tags))
        consume = Signal(range(tags))
        count = Signal(range(tags + 1))
        from_ring = Signal()
        m.d.comb += [
            from_ring.eq(fresh == tags),
            self.available.eq(~from_ring | (count != 0)),
            read.addr.eq(consume),
            self.tag.eq(Mux(from_ring, read.data, fresh)),
            write.addr.eq(produce), write.data.eq(self.given), write.en.eq(self.give),
        ]
        with m.If(self.take & ~from_ring):
            m.d.sync += fresh.eq(fresh + 1)
        take_ring = self.take & from_ring
        with m.If(take_ring):
            m.d.sync += consume.eq(consume + 1)
        with m.If(self.give):
            m.d.sync += produce.eq(produce + 1)
        m.d.sync += [
            count.eq(count + self.give - take_ring),
            self.used.eq(self.used + self.take - self.give),
        ]
        return m
