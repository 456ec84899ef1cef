"""Sends each frame where its decision says."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from rtl.icrc.info import IcrcInfo
from rtl.parser.align import PayloadAligner
from rtl.parser.host_store import FrameEnd, HostFrame, HostInfo, HostStore
from rtl.parser.judge import PayloadPlace, Route
from rtl.parser.rss import RssSettings
from rtl.stream import PacketLayout, SkidBuffer


class Decision(data.Struct):
    """Known of a frame once its headers are in."""

    route: Route
    place: PayloadPlace
    info: IcrcInfo
    host: HostFrame


def output_ports(data_width: int) -> dict:
    """Where frames go, by name: the router's outputs, which are the parser's."""
    packet = stream.Signature(PacketLayout(data_width))
    return {
        "payload": Out(packet),
        "info": Out(stream.Signature(IcrcInfo)),
        "frame": Out(packet),
        "host": Out(packet),
        "host_info": Out(stream.Signature(HostInfo)),
    }


class Router(wiring.Component):
    """Takes frames, one decision and one end for each; gives the outputs of the parser but headers.

    A beat moves when all outputs that its frame needs can take it, so they stay in step: a frame's
    `info` is offered with its first beat at the latest. The last beat, which is `done`, waits for
    its `ends` item; on `frame` it has `error` if the frame is to be dropped. One beat a cycle,
    frames back to back; 1 cycle to `frame` and `info`, 2 to `payload`, 2 from a frame's last beat
    to `host`. Reset: empty.
    """

    def __init__(self, data_width: int, max_frame: int):
        self.data_width = data_width
        self.max_frame = max_frame
        super().__init__({
            "settings": In(RssSettings),
            "i": In(stream.Signature(PacketLayout(data_width))),
            "decisions": In(stream.Signature(Decision)),
            "ends": In(stream.Signature(FrameEnd)),
            "done": Out(1),
            **output_ports(data_width),
        })

    def elaborate(self, platform):
        m = Module()
        layout = PacketLayout(self.data_width)
        for name, shape in (("frame", layout), ("info", IcrcInfo), ("payload", layout)):
            m.submodules[name] = skid = SkidBuffer(shape)
            connect(m, skid.o, flipped(getattr(self, name)))
        frame, info = m.submodules.frame, m.submodules.info
        m.submodules.aligner = aligner = PayloadAligner(self.data_width)
        connect(m, aligner.o, m.submodules.payload.i)
        m.submodules.host = host = HostStore(self.data_width, self.max_frame)
        connect(m, host.o, flipped(self.host))
        connect(m, host.info, flipped(self.host_info))

        decision, beat, end = self.decisions.p, self.i.p, self.ends.p
        index, greatest = Signal(14 - exact_log2(self.data_width // 8)), Signal()
        first, rdma, to_host = Signal(), Signal(), Signal()
        can, move = Signal(), Signal()
        m.d.comb += [
            first.eq(index == 0), greatest.eq(index.all()),
            rdma.eq(decision.route == Route.RDMA), to_host.eq(decision.route == Route.HOST),
            can.eq(1),
        ]
        with m.If(rdma):
            m.d.comb += can.eq(frame.i.ready & aligner.ready & (~first | info.i.ready))
        with m.Elif(to_host):
            m.d.comb += can.eq(host.i.ready)
        known = self.decisions.valid & (~beat.last | self.ends.valid)
        m.d.comb += [
            move.eq(self.i.valid & known & can),
            self.i.ready.eq(known & can),
            self.done.eq(move & beat.last),
            self.decisions.ready.eq(self.done),
            self.ends.ready.eq(self.done),
        ]
        with m.If(move):
            # It stops at its greatest value, so that no beat of a long frame counts twice.
            m.d.sync += index.eq(Mux(beat.last, 0, index + ~greatest))

        m.d.comb += [
            aligner.valid.eq(move & rdma), aligner.data.eq(beat.data), aligner.index.eq(index),
            aligner.last.eq(beat.last), aligner.place.eq(decision.place),
            frame.i.valid.eq(move & rdma), frame.i.payload.eq(beat),
            frame.i.p.error.eq(beat.last & end.drop),
            info.i.valid.eq(move & rdma & first), info.i.payload.eq(decision.info),
            host.settings.eq(self.settings),
            host.i.valid.eq(self.i.valid & known & to_host), host.i.payload.eq(beat),
            host.frame.eq(decision.host), host.end.eq(end),
        ]
        return m
