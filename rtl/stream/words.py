"""Between packets of a fixed size and one wide word."""

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.stream.packet import PacketLayout


class WordSender(wiring.Component):
    """A word of `size` bytes in, a packet of ⌈size / beat⌉ beats out.

    The word must hold until `i.ready`, which comes with the last beat. Latency 0, one beat a cycle.
    """

    def __init__(self, data_width: int, size: int):
        super().__init__({
            "i": In(stream.Signature(unsigned(8 * size))),
            "o": Out(stream.Signature(PacketLayout(data_width))),
        })
        self.data_width = data_width
        self.size = size

    def elaborate(self, platform):
        m = Module()
        beat_bytes = self.data_width // 8
        count = -(-self.size // beat_bytes)
        beat = Signal(range(count))
        last = beat == count - 1
        m.d.comb += [
            self.o.valid.eq(self.i.valid),
            self.o.p.last.eq(last),
            self.o.p.empty.eq((count * beat_bytes - self.size) & -last),
            self.i.ready.eq(self.o.ready & last),
            self.o.p.data.eq(self.i.payload.word_select(beat, self.data_width)
                             if count > 1 else self.i.payload),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += beat.eq(beat + 1)
            with m.If(last):
                m.d.sync += beat.eq(0)
        return m
