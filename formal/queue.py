"""A first-in first-out queue that says what it holds, in place of Amaranth's."""

from amaranth.asserts import AnySeq
from amaranth.hdl import Array, Elaboratable, Module, Mux, Signal

from formal.peek import Opened
from formal.properties import Properties


class AnyQueue(Elaboratable):
    """Has the ports of `SyncFIFOBuffered`, and may show an item as late as it likes.

    That one is one of these is a proof of formal/stream.py; what is proved of a block with queues
    like this is so for its own, whose items are too hard to follow through a memory.
    """

    def __init__(self, *, width: int, depth: int):
        self.depth = depth
        self.w_data, self.r_data = Signal(width, name="w_data"), Signal(width, name="r_data")
        self.w_en, self.w_rdy = Signal(name="w_en"), Signal(name="w_rdy")
        self.r_en, self.r_rdy = Signal(name="r_en"), Signal(name="r_rdy")

    def elaborate(self, platform):
        m = Module()
        items = [Signal.like(self.w_data, name=f"item{i}") for i in range(self.depth)]
        count = Signal(range(self.depth + 1), name="count")
        shown = Signal(name="shown")
        write, read = Signal(name="write"), Signal(name="read")
        m.d.comb += [
            self.w_rdy.eq(count != self.depth),
            self.r_rdy.eq((count != 0) & (shown | AnySeq(1))),
            self.r_data.eq(Mux(self.r_rdy, items[0], AnySeq(len(self.r_data)))),
            write.eq(self.w_en & self.w_rdy), read.eq(self.r_en & self.r_rdy),
        ]
        m.d.sync += [
            count.eq(count + write - read),
            shown.eq(self.r_rdy & ~read),
        ]
        for i, item in enumerate(items):
            with m.If(write & (count - read == i)):
                m.d.sync += item.eq(self.w_data)
            with m.Elif(read):
                m.d.sync += item.eq(items[i + 1] if i + 1 < self.depth else 0)
        return m


class Inside:
    """What an `AnyQueue` named `path` of an opened block holds."""

    def __init__(self, p: Properties, inner: Opened, path: str, depth: int):
        self.items = [inner[f"{path}.item{i}"] for i in range(depth)]
        self.count = inner[f"{path}.count"]
        self.written, self.read = inner[f"{path}.write"], inner[f"{path}.read"]
        p.invariant(f"{path} holds {depth} items at most", self.count <= depth)

    def item(self, place):
        return Array(self.items)[place]

    def number(self, test, below=None):
        """How many items at the front (all that there are, or `below` of them) pass `test`."""
        return sum(test(item) & (i < (self.count if below is None else below))
                   for i, item in enumerate(self.items))
