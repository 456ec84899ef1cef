"""Gathers the first bytes of each frame while it passes."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.stream import PacketLayout

WINDOW = 142  # two tags, IPv4 with all options, UDP, BTH, and RD's longest extension headers
MAX_LENGTH = (1 << 14) - 1


class Progress(data.Struct):
    """Which beat of its frame a look follows."""

    first: unsigned(1)
    last: unsigned(1)


class FrameLook(data.Struct):
    """What has been seen of a frame after one of its beats."""

    progress: Progress
    window: unsigned(8 * WINDOW)  # its first bytes; 0 where the frame has none yet
    length: unsigned(14)  # bytes so far; saturates
    mac_error: unsigned(1)
    sequence: unsigned(32)


class HeaderWindow(wiring.Component):
    """Takes a beat whenever `valid` and never stalls; gives the look at the frame after this beat
    1 cycle later. Frames are numbered from 0 at reset."""

    def __init__(self, data_width: int):
        self.data_width = data_width
        super().__init__({
            "valid": In(1),
            "beat": In(PacketLayout(data_width)),
            "o_valid": Out(1),
            "o": Out(FrameLook),
        })

    def elaborate(self, platform):
        m = Module()
        beat_bytes = self.data_width // 8
        beat_log = exact_log2(beat_bytes)
        o, beat = self.o, self.beat
        index = Signal(14 - beat_log)  # of the beat that enters
        end = (1 << 14 - beat_log) - 1  # the index stays here
        first, bytes_here = Signal(), Signal(beat_log + 1)
        m.d.comb += [first.eq(index == 0), bytes_here.eq(beat_bytes - beat.empty)]
        masked = Signal(self.data_width)
        for lane in range(beat_bytes):
            byte = beat.data[8 * lane:8 * lane + 8]
            m.d.comb += masked[8 * lane:8 * lane + 8].eq(
                Mux(beat.empty < beat_bytes - lane, byte, 0))

        m.d.sync += self.o_valid.eq(self.valid)
        with m.If(self.valid):
            m.d.sync += [
                index.eq(Mux(beat.last, 0, index + (index != end))),
                o.progress.first.eq(first), o.progress.last.eq(beat.last),
                o.mac_error.eq(beat.error),
                o.length.eq(Mux(index == end, MAX_LENGTH, (index << beat_log) + bytes_here)),
            ]
        with m.If(self.o_valid & o.progress.last):
            m.d.sync += o.sequence.eq(o.sequence + 1)
        for place in range(-(-WINDOW // beat_bytes)):
            part = o.window[8 * beat_bytes * place:8 * beat_bytes * (place + 1)]
            with m.If(self.valid & (index == place)):
                m.d.sync += part.eq(masked)
            with m.Elif(self.valid & first):
                m.d.sync += part.eq(0)
        return m
