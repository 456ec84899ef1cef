"""Gathers the first bytes of each frame while it passes."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.stream import PacketLayout

WINDOW = 142  # two tags, IPv4 with all options, UDP, BTH, and RD's longest extension headers
MAX_LENGTH = (1 << 14) - 1


class FrameStart(data.Struct):
    """What the decoder sees of a frame."""

    window: unsigned(8 * WINDOW)  # its first bytes; 0 where the frame has none
    length: unsigned(14)  # saturates
    mac_error: unsigned(1)
    sequence: unsigned(32)


class HeaderWindow(wiring.Component):
    """Takes a beat whenever `valid` and never stalls; gives a frame's start 2 cycles after its
    last beat, one a cycle. Frames are numbered from 0 at reset."""

    def __init__(self, data_width: int):
        self.data_width = data_width
        super().__init__({
            "valid": In(1),
            "beat": In(PacketLayout(data_width)),
            "o_valid": Out(1),
            "o": Out(FrameStart),
        })

    def elaborate(self, platform):
        m = Module()
        beat_bytes = self.data_width // 8
        beat_log = exact_log2(beat_bytes)
        valid, last, error = Signal(), Signal(), Signal()
        bytes_here = Signal(beat_log + 1)
        masked = Signal(self.data_width)
        index, next_index = Signal(14 - beat_log), Signal(14 - beat_log)
        end = (1 << 14 - beat_log) - 1  # the index stays here
        m.d.sync += [
            valid.eq(self.valid), last.eq(self.beat.last), error.eq(self.beat.error),
            bytes_here.eq(beat_bytes - self.beat.empty),
        ]
        for lane in range(beat_bytes):
            byte = self.beat.data[8 * lane:8 * lane + 8]
            held = Signal(name=f"held{lane}")
            m.d.comb += held.eq(self.beat.empty < beat_bytes - lane)
            m.d.sync += masked[8 * lane:8 * lane + 8].eq(Mux(held, byte, 0))
        with m.If(self.valid):
            m.d.sync += [
                index.eq(next_index),
                next_index.eq(Mux(self.beat.last, 0, next_index + (next_index != end))),
            ]

        for place in range(-(-WINDOW // beat_bytes)):
            part = self.o.window[8 * beat_bytes * place:8 * beat_bytes * (place + 1)]
            with m.If(valid & (index == place)):
                m.d.sync += part.eq(masked)
            with m.Elif(valid & (index < place)):
                m.d.sync += part.eq(0)
        m.d.sync += self.o_valid.eq(valid & last)
        with m.If(self.o_valid):
            m.d.sync += self.o.sequence.eq(self.o.sequence + 1)
        with m.If(valid):
            m.d.sync += [
                self.o.mac_error.eq(error),
                self.o.length.eq(Mux(index == end, MAX_LENGTH, (index << beat_log) + bytes_here)),
            ]
        return m
