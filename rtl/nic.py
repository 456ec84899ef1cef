"""The NIC: instances and connections, nothing else.

    mac_rx ► parser ► icrc check ► responder ──────► answer ► deparser ► icrc insert ► mac_tx
               │                     │  │  └ completion ► completer
               └ not RDMA ► host     │  └ payload          │ CQE
                                     ▼      ▼              ▼
                         context caches  ► ► ►  dma  ◄ ► ► rq / rc (PCIe)
"""

from amaranth.hdl import Module, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.config import NicConfig
from rtl.context import ContextCache
from rtl.context.cache import CacheCounters
from rtl.deparser import Deparser
from rtl.dma import Dma
from rtl.dma.engine import DmaCounters
from rtl.host.completion import Completer, CompleterCounters, CompleterEvents
from rtl.host.control import Control, Settings
from rtl.icrc import IcrcCheck, IcrcCounters, IcrcInsert, IcrcReport
from rtl.parser import HostInfo, Parser
from rtl.parser.parser import ParserCounters, ParserReport
from rtl.pcie import TlpLayout
from rtl.responder import Responder
from rtl.responder.records import ResponderCounters, ResponderEvents
from rtl.stream import PacketLayout


def dma_engine(config: NicConfig) -> Dma:
    """Its writers: payload, CQEs, entries of the three caches. Its readers: the three caches,
    receive WQEs, READs and atomics."""
    context, completion = config.dma.context_weight, config.dma.completion_weight
    writers = (1, completion, context, context, context)
    readers = (context, context, context, completion, 1)
    in_order = (False, False, False, True, True)
    return Dma(config, len(writers), len(readers), in_order, writers, readers)


class Counters(data.Struct):
    """Every counter of the NIC, by block."""

    parser: ParserCounters
    icrc: IcrcCounters
    responder: ResponderCounters
    completer: CompleterCounters
    context: CacheCounters
    mpt: CacheCounters
    cqc: CacheCounters
    dma: DmaCounters


class Events(data.Struct):
    """The observation ports of the blocks on a packet's way."""

    parser: ParserReport
    icrc: IcrcReport
    responder: ResponderEvents
    completer: CompleterEvents


class Activity(data.Struct):
    """One bit for each thing that can happen in a cycle: what an observer polls."""

    rx_ready: unsigned(1)
    tx_valid: unsigned(1)
    host_valid: unsigned(1)
    host_info_valid: unsigned(1)
    rq_valid: unsigned(1)
    rc_ready: unsigned(1)
    parser: unsigned(1)
    icrc: unsigned(1)
    responder: unsigned(1)
    completer: unsigned(1)
    flushed: unsigned(1)


class Nic(wiring.Component):
    """The whole NIC between MAC and PCIe.

    `mac_rx`, `mac_tx`: frames without FCS; `error` with the last beat marks a damaged frame.
    `host`, `host_info`: frames that are not RDMA, whole, with the receive queue of each.
    `rq`, `rc`: TLPs (rtl/pcie/tlp.py). `settings` must hold still from the first frame on.
    `flush`, `flushed`: the context caches go back to host memory (docs/nic.md).
    Reset leaves every block empty and ready; contexts that were in a cache and changed are lost.
    """

    def __init__(self, config: NicConfig):
        width = config.data_width
        packet, tlp = stream.Signature(PacketLayout(width)), stream.Signature(TlpLayout(width))
        super().__init__({
            "mac_rx": In(packet), "mac_tx": Out(packet),
            "host": Out(packet), "host_info": Out(stream.Signature(HostInfo)),
            "rq": Out(tlp), "rc": In(tlp),
            "settings": In(Settings),
            "flush": In(1), "flushed": Out(1),
            "counters": Out(Counters), "events": Out(Events), "activity": Out(Activity),
        })
        self.config = config

    def elaborate(self, platform):
        m = Module()
        config, width = self.config, self.config.data_width
        m.submodules.parser = parser = Parser(config)
        m.submodules.icrc_check = icrc_check = IcrcCheck(config)
        m.submodules.responder = responder = Responder(config)
        m.submodules.deparser = deparser = Deparser(config)
        m.submodules.icrc_insert = icrc_insert = IcrcInsert(config)
        m.submodules.completer = completer = Completer(width)
        m.submodules.context = context = ContextCache(config.context, width)
        m.submodules.mpt = mpt = ContextCache(config.mpt, width)
        m.submodules.cqc = cqc = ContextCache(config.cqc, width)
        m.submodules.control = control = Control(config)
        writers = (responder.write, completer.write, context.writeback, mpt.writeback,
                   cqc.writeback)
        readers = (context.fetch, mpt.fetch, cqc.fetch, responder.wqe,
                   responder.read)
        m.submodules.dma = dma = dma_engine(config)

        # Wire side
        connect(m, flipped(self.mac_rx), parser.i)
        connect(m, parser.host, flipped(self.host))
        connect(m, parser.host_info, flipped(self.host_info))
        connect(m, parser.info, icrc_check.i_info)
        connect(m, parser.frame, icrc_check.i_frame)
        connect(m, parser.headers, icrc_check.i_headers)
        connect(m, parser.payload, icrc_check.i_payload)
        connect(m, icrc_check.o_headers, responder.headers)
        connect(m, icrc_check.o_payload, responder.payload)
        connect(m, responder.answer, deparser.headers)
        connect(m, responder.answer_payload, deparser.payload)
        connect(m, deparser.o, icrc_insert.i)
        connect(m, deparser.info, icrc_insert.info)
        connect(m, icrc_insert.o, flipped(self.mac_tx))

        # Contexts: port 0 for the packets, port 1 for the host's control
        connect(m, responder.qpc, context.port[0])
        connect(m, responder.mpt, mpt.port[0])
        connect(m, completer.cqc, cqc.port[0])
        connect(m, responder.completion, completer.i)
        for cache, port, table in ((context, control.qpc, self.settings.qpc),
                                   (mpt, control.mpt, self.settings.mpt),
                                   (cqc, control.cqc, self.settings.cqc)):
            connect(m, port, cache.port[1])
            m.d.comb += cache.host_table.eq(table)
        m.d.comb += [control.flush.eq(self.flush), self.flushed.eq(control.flushed)]

        # Host side
        for client, port in zip(writers, dma.writer, strict=True):
            connect(m, client, port)
        for client, port in zip(readers, dma.reader, strict=True):
            connect(m, client, port)
        connect(m, dma.rq, flipped(self.rq))
        connect(m, flipped(self.rc), dma.rc)
        m.d.comb += [dma.requester_id.eq(self.settings.requester_id),
                     parser.rss.eq(self.settings.rss)]

        self._observe(m, parser, icrc_check, responder, completer, context, mpt, cqc, dma)
        return m

    def _observe(self, m, parser, icrc_check, responder, completer, context, mpt, cqc, dma):
        blocks = {"parser": parser, "icrc": icrc_check, "responder": responder,
                  "completer": completer, "context": context, "mpt": mpt, "cqc": cqc, "dma": dma}
        for name, block in blocks.items():
            m.d.comb += self.counters[name].eq(block.counters)
        activity, events = self.activity, self.events
        m.d.comb += [
            events.parser.eq(parser.report),
            events.icrc.eq(icrc_check.report),
            events.responder.eq(responder.events),
            events.completer.eq(completer.events),
            activity.rx_ready.eq(self.mac_rx.ready),
            activity.tx_valid.eq(self.mac_tx.valid),
            activity.host_valid.eq(self.host.valid),
            activity.host_info_valid.eq(self.host_info.valid),
            activity.rq_valid.eq(self.rq.valid),
            activity.rc_ready.eq(self.rc.ready),
            activity.parser.eq(parser.report.valid),
            activity.icrc.eq(icrc_check.report.valid),
            activity.responder.eq(responder.events.valid),
            activity.completer.eq(completer.events.valid),
            activity.flushed.eq(self.flushed),
        ]
