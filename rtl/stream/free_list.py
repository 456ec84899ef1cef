"""Hands out indices and takes them back."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2


class FreeList(wiring.Component):
    """`index` is free while `available`; `take` uses it, `give` returns `given`.

    One take and one give a cycle; an index given is available from the next cycle on, and rests as
    long as possible: the one freed first is used first. `count` indices are free. After reset
    all `depth` indices are free: they are counted out first, so that no memory needs initial words.
    """

    def __init__(self, depth: int):
        bits = max(ceil_log2(depth), 1)
        super().__init__({
            "available": Out(1), "index": Out(bits), "take": In(1),
            "give": In(1), "given": In(bits), "count": Out(range(depth + 1)),
        })
        self.depth = depth

    def elaborate(self, platform):
        m = Module()
        m.submodules.store = store = memory.Memory(
            shape=self.index.shape(), depth=max(self.depth, 2), init=[])
        write = store.write_port()
        read = store.read_port(domain="comb")
        fresh = Signal(range(self.depth + 1))  # indices never handed out start here
        count = Signal(range(self.depth + 1), init=self.depth)
        put = Signal.like(self.index)
        get = Signal.like(self.index)
        m.d.comb += [
            self.available.eq(count != 0),
            self.count.eq(count),
            read.addr.eq(get),
            write.addr.eq(put),
            write.data.eq(self.given),
            write.en.eq(self.give),
            self.index.eq(read.data),
        ]
        with m.If(fresh != self.depth):
            m.d.comb += self.index.eq(fresh)
        with m.If(self.take):
            with m.If(fresh != self.depth):
                m.d.sync += fresh.eq(fresh + 1)
            with m.Else():
                m.d.sync += get.eq(following(get, self.depth))
        with m.If(self.give):
            m.d.sync += put.eq(following(put, self.depth))
        m.d.sync += count.eq(count - self.take + self.give)
        return m


def following(pointer, depth: int):
    """The next position of a ring of any size."""
    return Mux(pointer == depth - 1, 0, pointer + 1)
