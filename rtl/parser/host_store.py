"""Frames for the host wait here until their end is known."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from rtl.headers import Kind
from rtl.parser.rss import QUEUE_BITS, RssResult, RssSettings
from rtl.stream import PacketLayout

SPARE = 32  # beats and frames beside a frame of the greatest length
SMALL_FRAME = 64  # bytes; of such frames, as many may wait as a frame of the greatest length has


class HostInfo(data.Struct):
    """What the host is told of a frame that is not RDMA."""

    sequence: unsigned(32)  # that of its report
    kind: Kind
    length: unsigned(14)  # bytes
    rss: RssResult
    queue: unsigned(QUEUE_BITS)  # the receive queue


class HostFrame(data.Struct):
    """What is known of a frame as it enters."""

    sequence: unsigned(32)
    kind: Kind
    rss: RssResult


class FrameEnd(data.Struct):
    """What is known of a frame at its last beat."""

    drop: unsigned(1)
    length: unsigned(14)


class HostStore(wiring.Component):
    """Takes the beats of a frame with what is known of it; `end` counts with its last beat. Gives
    those frames whole that are not to be dropped, and one `info` for each.

    A frame shows only once its last beat is in: 2 cycles from then to its first beat on `o` and its
    `info`. One beat a cycle, frames back to back, also of one beat behind one of the greatest
    length. The tail of a frame beyond `max_frame` is not stored; such a frame must be dropped.
    Reset: empty.
    """

    def __init__(self, data_width: int, max_frame: int):
        self.data_width = data_width
        beat_bytes = data_width // 8
        self.longest = -(-max_frame // beat_bytes)  # beats
        self.depth = self.longest + SPARE
        self.frames = max_frame // max(SMALL_FRAME, beat_bytes) + SPARE
        packet = stream.Signature(PacketLayout(data_width))
        super().__init__({
            "settings": In(RssSettings),
            "i": In(packet), "frame": In(HostFrame), "end": In(FrameEnd),
            "o": Out(packet), "info": Out(stream.Signature(HostInfo)),
        })

    def elaborate(self, platform):
        m = Module()
        layout = PacketLayout(self.data_width)
        m.submodules.memory = memory = Memory(shape=layout.size, depth=self.depth, init=[])
        m.submodules.infos = infos = SyncFIFOBuffered(width=HostInfo.as_shape().size,
                                                      depth=self.frames)
        write, read = memory.write_port(), memory.read_port()
        produce, start, consume = (Signal(range(self.depth), name=name)
                                   for name in ("produce", "start", "consume"))
        count = Signal(range(self.longest + 1))  # beats of the frame that enters
        used = Signal(range(self.depth + 1))  # beats, with those of the frame that enters
        whole = Signal(range(self.depth + 1))  # beats of whole frames not yet read
        take, keep, fetch = Signal(), Signal(), Signal()

        def after(pointer):
            return Mux(pointer == self.depth - 1, 0, pointer + 1)

        store = take & (count != self.longest)
        m.d.comb += [
            self.i.ready.eq((used != self.depth) & infos.w_rdy),
            take.eq(self.i.valid & self.i.ready),
            keep.eq(take & self.i.p.last & ~self.end.drop),
            write.en.eq(store), write.addr.eq(produce), write.data.eq(self.i.payload),
            fetch.eq((whole != 0) & (~self.o.valid | self.o.ready)),
            read.en.eq(fetch), read.addr.eq(consume), self.o.payload.eq(read.data),
        ]
        with m.If(store):
            m.d.sync += [produce.eq(after(produce)), count.eq(count + 1)]
        with m.If(take & self.i.p.last):
            m.d.sync += count.eq(0)
            with m.If(self.end.drop):
                m.d.sync += produce.eq(start)
            with m.Else():
                m.d.sync += start.eq(after(produce))
        kept = Mux(keep, count + 1, 0)
        lost = Mux(take & self.i.p.last & self.end.drop, count + store, 0)
        m.d.sync += [
            whole.eq(whole + kept - fetch), used.eq(used + store - fetch - lost),
            self.o.valid.eq(fetch | (self.o.valid & ~self.o.ready)),
        ]
        with m.If(fetch):
            m.d.sync += consume.eq(after(consume))
        self._inform(m, infos, keep)
        return m

    def _inform(self, m, infos, keep):
        info, frame = Signal(HostInfo), self.frame
        m.d.comb += [
            info.sequence.eq(frame.sequence), info.kind.eq(frame.kind),
            info.length.eq(self.end.length), info.rss.eq(frame.rss),
            info.queue.eq(self.settings.table[frame.rss.hash[:7]]),
            infos.w_data.eq(info), infos.w_en.eq(keep),
            self.info.payload.eq(infos.r_data), self.info.valid.eq(infos.r_rdy),
            infos.r_en.eq(self.info.ready),
        ]
