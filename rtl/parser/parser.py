"""Frames from the MAC, taken apart."""

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.headers import Headers, Kind, Reason
from rtl.parser.collect import HeaderWindow
from rtl.parser.network import NetworkDecoder
from rtl.parser.route import Router, output_ports
from rtl.parser.transport import Route, TransportDecoder, Verdict
from rtl.stream import PacketLayout

SPARE = 32  # beats and frames beside a frame of the greatest length: the decoder's latency
SMALL_FRAME = 64  # bytes; of such frames, as many may wait as a frame of the greatest length has


class ParserReport(data.Struct):
    """A pulse for every frame, in order."""

    valid: unsigned(1)
    headers: Headers


class ParserCounters(data.Struct):
    """`frames` is the sum of the others."""

    frames: unsigned(32)
    roce: unsigned(32)
    host: unsigned(32)
    mac_control: unsigned(32)
    dropped: data.ArrayLayout(unsigned(32), len(Reason))  # by reason


class Parser(wiring.Component):
    """Decides what each frame is and takes it apart (docs/parser.md).

    Takes frames without FCS on `i`; `error` on a frame's last beat says that the MAC found it
    damaged. Every frame gives a pulse on `report`, is counted once in `counters`, and
      - if it is RoCE without a fault: one item on `headers`, one on `info`, the whole frame on
        `frame`, and the payload as a packet on `payload` unless `payload_length` is 0,
      - if it is no RDMA: the whole frame on `host` and one item on `host_headers`,
      - else (a fault, or MAC control) nothing.
    The items of a frame are offered with its first beat at the latest. Order is that of arrival on
    each port. Fields of `headers` that the frame does not hold are 0, except that extension headers
    are meaningful only where `present` says so. A frame longer than `parser.max_frame` is cut, not
    stored; its reported length saturates at 16383.

    A frame is stored until its end is known. From its last beat to its first beat on `frame` or
    `host` and to its headers: 12 cycles when nothing waits; to the payload 1 more. Initiation
    interval: one beat, frames back to back, also of one beat behind one of `parser.max_frame`.
    Full outputs stall `i` once so many bytes or frames wait. The reset empties it; ready in the
    next cycle.
    Clauses: IEEE 802.3 3.2, 802.1Q 9.6, RFC 791, RFC 8200, RFC 768, IBTA 9 and annexes A16, A17.
    """

    def __init__(self, config):
        self.data_width = config.data_width
        self.max_frame = config.parser.max_frame
        self.frames = self.max_frame // max(SMALL_FRAME, config.beat_bytes) + SPARE
        super().__init__({
            "i": In(stream.Signature(PacketLayout(config.data_width))),
            **output_ports(config.data_width),
            "report": Out(ParserReport),
            "counters": Out(ParserCounters),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.router = router = Router(self.data_width)
        for name in output_ports(self.data_width):
            connect(m, getattr(router, name), flipped(getattr(self, name)))
        take = self._store(m, router)
        self._decode(m, router, take)
        self._count(m)
        return m

    def _store(self, m, router):
        """Beats wait for the verdict on their frame; those of an oversize frame's tail do not."""
        layout = PacketLayout(self.data_width)
        beat_bytes = self.data_width // 8
        beats = -(-self.max_frame // beat_bytes)
        m.submodules.frames = frames = SyncFIFOBuffered(width=layout.size,
                                                        depth=beats + SPARE)
        count = Signal(range(beats + 1))  # of the frame that enters, stored already
        inside = Signal(range(self.frames + 1))
        room, full, take = Signal(init=1), Signal(), Signal()
        entry = Signal(layout)
        m.d.comb += [
            full.eq(count == beats),
            self.i.ready.eq(frames.w_rdy & room),
            take.eq(self.i.valid & self.i.ready),
            entry.eq(self.i.p),
            frames.w_data.eq(entry),
            frames.w_en.eq(take & ~full),
            router.i.valid.eq(frames.r_rdy),
            router.i.payload.eq(frames.r_data),
            frames.r_en.eq(router.i.ready),
        ]
        with m.If(count == beats - 1):
            m.d.comb += entry.last.eq(1)
        with m.If(take):
            m.d.sync += count.eq(count + ~full)
            with m.If(self.i.p.last):
                m.d.sync += count.eq(0)
        left = Signal(range(self.frames + 1))
        m.d.comb += left.eq(inside + (take & self.i.p.last) - router.done)
        m.d.sync += [inside.eq(left), room.eq(left != self.frames)]
        return take

    def _decode(self, m, router, take):
        """Start of the frame → verdict; the queue holds one for each frame inside."""
        m.submodules.window = window = HeaderWindow(self.data_width)
        m.submodules.network = network = NetworkDecoder(self.max_frame)
        m.submodules.transport = transport = TransportDecoder(self.data_width)
        m.submodules.verdicts = verdicts = SyncFIFOBuffered(width=Verdict.as_shape().size,
                                                            depth=self.frames)
        verdict = transport.o
        m.d.comb += [
            window.valid.eq(take), window.beat.eq(self.i.p),
            network.valid.eq(window.o_valid), network.i.eq(window.o),
            transport.valid.eq(network.o_valid), transport.i.eq(network.o),
            verdicts.w_en.eq(transport.o_valid), verdicts.w_data.eq(verdict),
            router.verdicts.valid.eq(verdicts.r_rdy),
            router.verdicts.payload.eq(verdicts.r_data),
            verdicts.r_en.eq(router.verdicts.ready),
            self.report.valid.eq(transport.o_valid),
            self.report.headers.eq(verdict.headers),
        ]
        self._verdict = verdict

    def _count(self, m):
        verdict, counters = self._verdict, self.counters
        h = verdict.headers
        with m.If(self.report.valid):
            m.d.sync += counters.frames.eq(counters.frames + 1)
            for reason in Reason:
                place = counters.dropped[reason.value]
                if reason is not Reason.NONE:
                    with m.If(h.error == reason):
                        m.d.sync += place.eq(place + 1)
            with m.If(verdict.route == Route.RDMA):
                m.d.sync += counters.roce.eq(counters.roce + 1)
            with m.If(verdict.route == Route.HOST):
                m.d.sync += counters.host.eq(counters.host + 1)
            with m.If((h.error == Reason.NONE)
                      & ((h.kind == Kind.PAUSE) | (h.kind == Kind.PFC))):
                m.d.sync += counters.mac_control.eq(counters.mac_control + 1)
