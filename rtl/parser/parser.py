"""Frames from the MAC, taken apart."""

from amaranth.hdl import EnableInserter, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.headers import Headers, Kind, Reason
from rtl.parser.collect import WINDOW, HeaderWindow
from rtl.parser.host_store import FrameEnd
from rtl.parser.judge import Judge, Route
from rtl.parser.network import NetworkDecoder
from rtl.parser.route import Decision, Router, output_ports
from rtl.parser.rss import RssHash, RssSettings
from rtl.parser.transport import TransportDecoder
from rtl.stream import CatchBuffer, PacketLayout

SPARE = 16  # beats and frames that the decoders and queues hold, with some to spare


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
    """Decides what each frame is and takes it apart while it passes (docs/parser.md).

    Takes frames without FCS on `i`; `error` on a frame's last beat says that the MAC found it
    damaged. A RoCE frame gives, as soon as its headers are in,
      - one item on `headers`: its `error` is `NONE` and its lengths are as the packet states them,
      - one item on `info` and the frame on `frame`, whose last beat has `error` if the frame has
        any fault: nothing of it may take effect then,
      - the payload as a packet on `payload`, if `info` says so.
    One that has a fault and ends before its headers do gives nothing. A frame that is no RDMA goes
    whole to `host`, with one item on `host_info`, once its end is in and has no fault. Every frame
    gives a pulse on `report` after its last beat, with its fault, and is counted once in
    `counters`. Order is that of arrival on each port. Fields of `headers` that the frame does not
    hold are 0, except that extension headers are meaningful only where `present` says so.

    From the beat with the last byte of the headers to `headers`: 4 cycles. From a frame's last beat
    to `report`: 6; to its first beat on `host`: 10, 11 at 64 bits. Initiation interval: one beat,
    frames back to back, also of one beat. Outputs that are not taken stall `i`. The reset empties
    it; ready in the next cycle.
    Clauses: IEEE 802.3 3.2, 31B; 802.1Q 9.6, 36; RFC 791, RFC 8200, RFC 768; IBTA 9 and annexes
    A16, A17.
    """

    def __init__(self, config):
        self.data_width = config.data_width
        self.max_frame = config.parser.max_frame
        self.depth = -(-WINDOW // config.beat_bytes) + SPARE
        super().__init__({
            "i": In(stream.Signature(PacketLayout(config.data_width))),
            "rss": In(RssSettings),
            "headers": Out(stream.Signature(Headers)),
            **output_ports(config.data_width),
            "report": Out(ParserReport),
            "counters": Out(ParserCounters),
        })

    def elaborate(self, platform):
        m = Module()
        layout = PacketLayout(self.data_width)
        m.submodules.entry = entry = CatchBuffer(layout)
        m.submodules.router = router = Router(self.data_width, self.max_frame)
        connect(m, flipped(self.i), entry.i)
        for name in output_ports(self.data_width):
            connect(m, getattr(router, name), flipped(getattr(self, name)))
        m.d.comb += router.settings.eq(self.rss)

        step, take = Signal(), Signal()  # the decoders move; a beat enters them
        m.d.comb += step.eq(~self.headers.valid | self.headers.ready)
        room = self._store(m, entry.o, router, take)
        m.d.comb += [entry.o.ready.eq(step & room), take.eq(entry.o.valid & entry.o.ready)]
        verdict, valid, rss = self._decode(m, entry.o.p, take, step)
        self._tell(m, router, verdict, valid & step, rss)
        self._count(m, verdict)
        return m

    def _store(self, m, beats, router, take):
        """Beats wait here for the decision on their frame. Says whether there is room, in the
        store and, for their frames, in the queues of decisions and ends."""
        layout = PacketLayout(self.data_width)
        m.submodules.store = store = SyncFIFOBuffered(width=layout.size, depth=self.depth)
        inside = Signal(range(self.depth + 1))  # frames
        room = Signal(init=1)
        m.d.comb += [
            store.w_data.eq(beats.payload), store.w_en.eq(take),
            router.i.valid.eq(store.r_rdy), router.i.payload.eq(store.r_data),
            store.r_en.eq(router.i.ready),
        ]
        left = Signal(range(self.depth + 1))
        m.d.comb += left.eq(inside + (take & beats.p.last) - router.done)
        m.d.sync += [inside.eq(left), room.eq(left != self.depth)]
        return store.w_rdy & room

    def _decode(self, m, beat, take, step):
        """Look → network → transport (its headers leave) → judge; all move in `step`."""
        parts = {
            "window": HeaderWindow(self.data_width), "network": NetworkDecoder(self.max_frame),
            "transport": TransportDecoder(), "judge": Judge(self.data_width), "hash": RssHash(),
        }
        for name, part in parts.items():
            m.submodules[name] = EnableInserter(step)(part)
        window, network, transport, judge, rss = parts.values()
        out = transport.o
        m.d.comb += [
            window.valid.eq(take), window.beat.eq(beat),
            network.valid.eq(window.o_valid), network.i.eq(window.o),
            transport.valid.eq(network.o_valid), transport.i.eq(network.o),
            judge.valid.eq(transport.o_valid), judge.i.eq(out),
            rss.settings.eq(self.rss), rss.i.hashable.eq(out.hashable),
            rss.i.src.eq(out.headers.ip.src), rss.i.dst.eq(out.headers.ip.dst),
            rss.i.ports.eq(out.ports),
            self.headers.valid.eq(transport.headers_valid), self.headers.payload.eq(out.headers),
        ]
        return judge.o, judge.o_valid, rss.o

    def _tell(self, m, router, verdict, valid, rss):
        """A decision for the decisive look at a frame, an end and a report for the last one."""
        decision, end, h = Signal(Decision), Signal(FrameEnd), verdict.headers
        for name, item, tells in (("decisions", decision, verdict.decisive),
                                  ("ends", end, verdict.progress.last)):
            width = len(item.as_value())
            m.submodules[name] = queue = SyncFIFOBuffered(width=width, depth=self.depth)
            port = getattr(router, name)
            m.d.comb += [
                queue.w_en.eq(valid & tells), queue.w_data.eq(item),
                port.valid.eq(queue.r_rdy), port.payload.eq(queue.r_data),
                queue.r_en.eq(port.ready),
            ]
        m.d.comb += [
            decision.route.eq(verdict.route), decision.place.eq(verdict.place),
            decision.info.l3_offset.eq(h.l3_offset), decision.info.bth_offset.eq(h.bth_offset),
            decision.info.ip_version.eq(h.ip.version),
            decision.info.roce1.eq(h.kind == Kind.ROCE1),
            decision.info.end.eq(verdict.end), decision.info.payload.eq(verdict.place.some),
            decision.info.sequence.eq(h.sequence),
            decision.host.sequence.eq(h.sequence), decision.host.kind.eq(h.kind),
            decision.host.rss.eq(rss),
            end.drop.eq(h.error != Reason.NONE), end.length.eq(h.frame_length),
            self.report.valid.eq(valid & verdict.progress.last), self.report.headers.eq(h),
        ]

    def _count(self, m, verdict):
        counters, h = self.counters, verdict.headers
        good = h.error == Reason.NONE
        control = (h.kind == Kind.PAUSE) | (h.kind == Kind.PFC)
        with m.If(self.report.valid):
            m.d.sync += [
                counters.frames.eq(counters.frames + 1),
                counters.roce.eq(counters.roce + (good & (verdict.route == Route.RDMA))),
                counters.host.eq(counters.host + (good & (verdict.route == Route.HOST))),
                counters.mac_control.eq(counters.mac_control + (good & control)),
            ]
            for reason in Reason:
                place = counters.dropped[reason.value]
                if reason is not Reason.NONE:
                    m.d.sync += place.eq(place + (h.error == reason))
