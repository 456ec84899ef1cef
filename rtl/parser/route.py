"""Sends each frame where its verdict says."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from rtl.headers import Headers, Kind
from rtl.icrc.info import IcrcInfo
from rtl.parser.align import PayloadAligner
from rtl.parser.transport import Route, Verdict
from rtl.stream import PacketLayout, SkidBuffer


def output_ports(data_width: int) -> dict:
    """Where frames go, by name: the router's outputs, which are the parser's."""
    packet = stream.Signature(PacketLayout(data_width))
    headers = stream.Signature(Headers)
    return {
        "headers": Out(headers),
        "payload": Out(packet),
        "info": Out(stream.Signature(IcrcInfo)),
        "frame": Out(packet),
        "host": Out(packet),
        "host_headers": Out(headers),
    }


class Router(wiring.Component):
    """Takes frames and one verdict for each; gives the outputs of the parser.

    A beat moves when all outputs that its frame needs can take it, so they stay in step: a frame's
    items of `headers` and `info` (or `host_headers`) are offered with its first beat at the latest.
    A verdict leaves with its frame's last beat, which is `done`. One beat a cycle, frames back to
    back; 1 cycle to the outputs, 2 to `payload`. Reset: empty.
    """

    def __init__(self, data_width: int):
        self.data_width = data_width
        super().__init__({
            "i": In(stream.Signature(PacketLayout(data_width))),
            "verdicts": In(stream.Signature(Verdict)),
            "done": Out(1),
            **output_ports(data_width),
        })

    def elaborate(self, platform):
        m = Module()
        skids = {}
        for name in output_ports(self.data_width):
            port = getattr(self, name)
            skids[name] = skid = SkidBuffer(port.payload.shape())
            m.submodules[name] = skid
            connect(m, skid.o, flipped(port))
        m.submodules.aligner = aligner = PayloadAligner(self.data_width)
        connect(m, aligner.o, skids["payload"].i)

        verdict = self.verdicts.p
        index = Signal(14 - exact_log2(self.data_width // 8))
        first = Signal()
        m.d.comb += first.eq(index == 0)
        rdma, host = Signal(), Signal()
        m.d.comb += [rdma.eq(verdict.route == Route.RDMA), host.eq(verdict.route == Route.HOST)]

        def free(*names):
            """All of these can take something."""
            ready = skids[names[0]].i.ready
            for name in names[1:]:
                ready = ready & skids[name].i.ready
            return ready

        can, move = Signal(), Signal()
        with m.If(rdma):
            m.d.comb += can.eq(free("frame") & aligner.ready & (~first | free("headers", "info")))
        with m.Elif(host):
            m.d.comb += can.eq(free("host") & (~first | free("host_headers")))
        with m.Else():
            m.d.comb += can.eq(1)
        m.d.comb += [
            move.eq(self.i.valid & self.verdicts.valid & can),
            self.i.ready.eq(self.verdicts.valid & can),
            self.done.eq(move & self.i.p.last),
            self.verdicts.ready.eq(self.done),
        ]
        with m.If(move):
            m.d.sync += index.eq(index + 1)
            with m.If(self.i.p.last):
                m.d.sync += index.eq(0)

        m.d.comb += [
            aligner.valid.eq(move & rdma),
            aligner.data.eq(self.i.p.data),
            aligner.index.eq(index),
            aligner.place.eq(verdict.place),
        ]
        for name, valid in (("frame", move & rdma), ("host", move & host),
                            ("headers", move & rdma & first), ("info", move & rdma & first),
                            ("host_headers", move & host & first)):
            m.d.comb += skids[name].i.valid.eq(valid)
        h, info = verdict.headers, skids["info"].i.p
        m.d.comb += [
            skids["frame"].i.payload.eq(self.i.p), skids["host"].i.payload.eq(self.i.p),
            skids["headers"].i.payload.eq(h), skids["host_headers"].i.payload.eq(h),
            info.l3_offset.eq(h.l3_offset), info.bth_offset.eq(h.bth_offset),
            info.ip_version.eq(h.ip.version), info.roce1.eq(h.kind == Kind.ROCE1),
            info.end.eq(verdict.end), info.sequence.eq(h.sequence),
        ]
        return m
