"""The parser with its ICRC check behind it, as benches and `parse` use them."""

from amaranth.hdl import Cat, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.config import NicConfig
from rtl.headers import Headers
from rtl.icrc import IcrcCheck, IcrcCounters, IcrcReport
from rtl.parser import HostInfo, Parser, ParserCounters, ParserReport, RssSettings
from rtl.stream import PacketLayout


class ParserTop(wiring.Component):
    """`payload` and `headers` are what the check lets through; `seen` shows each beat of payload
    that the parser gives to it, `early` each header item, when it is first offered. `activity`, the
    port to poll, has a bit for each of `report`, `icrc_report`, `seen` and `early`."""

    def __init__(self, config: NicConfig):
        self.config = config
        layout = PacketLayout(config.data_width)
        packet, headers = stream.Signature(layout), stream.Signature(Headers)
        self.seen_layout = data.StructLayout({"valid": unsigned(1), "beat": layout})
        self.early_layout = data.StructLayout({"valid": unsigned(1), "sequence": unsigned(32)})
        super().__init__({
            "i": In(packet), "headers": Out(headers), "payload": Out(packet),
            "rss": In(RssSettings),
            "host": Out(packet), "host_info": Out(stream.Signature(HostInfo)),
            "report": Out(ParserReport), "counters": Out(ParserCounters),
            "icrc_report": Out(IcrcReport), "icrc_counters": Out(IcrcCounters),
            "seen": Out(self.seen_layout), "early": Out(self.early_layout), "activity": Out(4),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.parser = parser = Parser(self.config)
        m.submodules.check = check = IcrcCheck(self.config)
        connect(m, flipped(self.i), parser.i)
        for name in ("info", "frame", "headers", "payload"):
            connect(m, getattr(parser, name), getattr(check, f"i_{name}"))
        connect(m, check.o_headers, flipped(self.headers))
        connect(m, check.o_payload, flipped(self.payload))
        connect(m, parser.host, flipped(self.host))
        connect(m, parser.host_info, flipped(self.host_info))
        waiting, item = Signal(), parser.headers
        m.d.sync += waiting.eq(item.valid & ~item.ready)
        m.d.comb += [
            self.report.eq(parser.report), self.counters.eq(parser.counters),
            self.icrc_report.eq(check.report), self.icrc_counters.eq(check.counters),
            self.seen.valid.eq(parser.payload.valid & parser.payload.ready),
            self.seen.beat.eq(parser.payload.payload),
            self.early.valid.eq(item.valid & ~waiting), self.early.sequence.eq(item.p.sequence),
            parser.rss.eq(self.rss),
            self.activity.eq(Cat(parser.report.valid, check.report.valid, self.seen.valid,
                                 self.early.valid)),
        ]
        return m
