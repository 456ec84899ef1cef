"""The DMA engine: all of the NIC's traffic to host memory."""

from collections.abc import Sequence

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.config import NicConfig
from rtl.dma.arbiter import NO_LIMIT, Credits, RequestArbiter
from rtl.dma.inflight import ReadErrors
from rtl.dma.interface import ReadClient, WriteClient
from rtl.dma.read import ReadEngine
from rtl.dma.write import WriteLane
from rtl.pcie.tlp import TlpLayout, TlpType


class DmaEvents(data.Struct):
    """What happened in the cycle before: pulses, and the fields that go with `tlp`."""

    tlp: unsigned(1)  # the last beat of a request TLP was accepted at `rq`
    write: unsigned(1)  # it was a write
    tag: unsigned(10)  # of a read
    address: unsigned(64)
    length: unsigned(11)  # DW
    completion: unsigned(1)  # the last beat of a completion came
    errors: ReadErrors


class DmaCounters(data.Struct):
    read_tlps: unsigned(32)
    write_tlps: unsigned(32)
    read_bytes: unsigned(64)  # asked for
    write_bytes: unsigned(64)  # sent
    tags_max: unsigned(11)  # most tags in use at once
    unexpected: unsigned(32)
    refused: unsigned(32)
    poisoned: unsigned(32)
    timeout: unsigned(32)
    blocked: unsigned(32)  # TLPs that were not sent, since the host forbids bus mastering
    tags_used: unsigned(11)  # now: 0 when no read is open


class Dma(wiring.Component):
    """`writers` write ports and `readers` read ports on one pair of TLP streams (docs/dma.md).

    Takes byte-exact requests (`writer[i]`, `reader[i]`: see rtl/dma/interface.py) and the
    completions `rc`; gives request TLPs on `rq`, of at most Max_Payload_Size and
    Max_Read_Request_Size bytes and within 4 KB. `ordered[i]`: reader i is answered in request
    order, else in order of completion.

    Latency: 3 cycles from a write (and its data) to its TLP, 2 from a read; one TLP beat a cycle,
    with no bubble.
    Ordering: writes of one writer leave in its order; TLPs of the ports take turns, of each
    as many a round as its weight says (`writer_weights`, `reader_weights`; 1 if not given). A read
    that is requested after a write's `done` is behind that write on the link.
    `bus_master` (Bus Master Enable of the command register): while 0 no TLP starts on `rq`; it is
    dropped, and its request ends REFUSED. Other TLPs of the request may have been sent.
    `credits`: what the link has granted; a TLP that needs more waits (rtl/dma/arbiter.py).
    Errors: a failed read is answered with its status and disturbs nothing else; each is counted.
    Reset: empty and ready in the next cycle; completions of reads from before are `unexpected`
    unless their tag is in use again.
    Clauses: PCIe base specification 2.2 (TLPs), 2.3.2 (completions), 2.4 (ordering).
    """

    def __init__(self, config: NicConfig, writers: int, readers: int, ordered: tuple[bool, ...],
                 writer_weights: Sequence[int] = (), reader_weights: Sequence[int] = ()):
        if not 1 <= writers <= 16 or not 1 <= readers <= 16:
            raise ValueError(f"writers and readers must be 1 to 16, not {writers} and {readers}")
        if len(ordered) != readers:
            raise ValueError(f"ordered must name {readers} readers, not {len(ordered)}")
        dma = config.dma
        if dma.tags < readers:
            raise ValueError(f"dma.tags must be at least {readers}, one a reader, not {dma.tags}")
        width = config.data_width
        # A context entry that takes two TLPs cannot be answered in order of completion.
        entry = max(config.context.entry_bytes, config.mpt.entry_bytes, config.cqc.entry_bytes)
        self.ordered = tuple(bool(kept) or dma.mrrs < entry for kept in ordered)
        self.config = config
        self.writers = writers
        self.writer_weights = tuple(writer_weights) or (1,) * writers
        self.reader_weights = tuple(reader_weights) or (1,) * readers
        if (len(self.writer_weights), len(self.reader_weights)) != (writers, readers):
            raise ValueError(f"there must be {writers} and {readers} weights")
        super().__init__({
            "writer": In(WriteClient(width)).array(writers),
            "reader": In(ReadClient(width)).array(readers),
            "rq": Out(stream.Signature(TlpLayout(width))),
            "rc": In(stream.Signature(TlpLayout(width))),
            "requester_id": In(16),
            "bus_master": In(1, init=1),
            "credits": In(Credits, init=NO_LIMIT),
            "events": Out(DmaEvents),
            "counters": Out(DmaCounters),
        })

    def elaborate(self, platform):
        m = Module()
        dma, width = self.config.dma, self.config.data_width
        m.submodules.arbiter = arbiter = RequestArbiter(
            width, (*self.writer_weights, sum(self.reader_weights)))
        m.submodules.read = read = ReadEngine(
            width, dma.tags, dma.mrrs, dma.timeout_cycles, self.ordered, self.reader_weights)
        m.d.comb += arbiter.credits.eq(self.credits)
        m.d.comb += read.requester_id.eq(self.requester_id)
        wiring.connect(m, wiring.flipped(self.rc), read.rc)
        wiring.connect(m, read.o, arbiter.i[self.writers])
        for i, port in enumerate(self.reader):
            wiring.connect(m, wiring.flipped(port), read.client[i])

        # the port: a request of length 0 passes through as a beat that nobody outside sees, and so
        # do TLPs that the host forbids, decided with their first beat unless `rq` has shown it
        out = arbiter.o.p
        leaves = Signal()
        last = Signal()
        starts = Signal(init=1)
        shown = Signal()
        dropping = Signal()
        drop = Signal()
        is_read = Signal()
        m.d.comb += [
            is_read.eq(out.tlp.header.type == TlpType.READ),
            drop.eq(~out.note.null & Mux(starts, ~self.bus_master & ~shown, dropping)),
            self.rq.valid.eq(arbiter.o.valid & ~out.note.null & ~drop),
            self.rq.payload.eq(out.tlp),
            self.rq.p.header.requester_id.eq(self.requester_id),
            read.refuse.eq(arbiter.o.valid & drop & is_read),
            read.refuse_tag.eq(out.tlp.header.tag),
            arbiter.o.ready.eq(out.note.null | Mux(drop, ~is_read | read.refuse_ready,
                                                   self.rq.ready)),
            arbiter.unsent.eq(arbiter.o.valid & arbiter.o.ready & starts & drop),
            leaves.eq(arbiter.o.valid & arbiter.o.ready & out.tlp.last),
            last.eq(self.rq.valid & self.rq.ready & out.tlp.last),
        ]
        m.d.sync += shown.eq(self.rq.valid & ~self.rq.ready)
        with m.If(arbiter.o.valid & arbiter.o.ready):
            m.d.sync += [starts.eq(out.tlp.last), dropping.eq(drop)]
        for i, port in enumerate(self.writer):
            lane = WriteLane(width, dma.mps, i)
            m.submodules[f"writer_{i}"] = lane
            wiring.connect(m, wiring.flipped(port), lane.client)
            wiring.connect(m, lane.o, arbiter.i[i])
            m.d.comb += [lane.left.eq(leaves & ~is_read & (out.note.writer == i)),
                         lane.left_note.eq(out.note), lane.left_dropped.eq(drop)]
        self._observe(m, out, last, read)
        with m.If(leaves & drop):
            m.d.sync += self.counters.blocked.eq(self.counters.blocked + 1)
        return m

    def _observe(self, m, out, last, read):
        """Events and counters."""
        events, counters = self.events, self.counters
        write = Signal()
        m.d.comb += write.eq(out.tlp.header.type == TlpType.WRITE)
        m.d.sync += [
            events.tlp.eq(last), events.write.eq(write), events.tag.eq(out.tlp.header.tag),
            events.address.eq(out.tlp.header.address), events.length.eq(out.tlp.header.length),
        ]
        m.d.comb += [events.completion.eq(read.completion), events.errors.eq(read.errors)]
        with m.If(last & write):
            m.d.sync += [counters.write_tlps.eq(counters.write_tlps + 1),
                         counters.write_bytes.eq(counters.write_bytes + out.note.bytes)]
        with m.If(last & ~write):
            m.d.sync += [counters.read_tlps.eq(counters.read_tlps + 1),
                         counters.read_bytes.eq(counters.read_bytes + out.note.bytes)]
        with m.If(read.used > counters.tags_max):
            m.d.sync += counters.tags_max.eq(read.used)
        m.d.comb += counters.tags_used.eq(read.used)
        for name in ("unexpected", "refused", "poisoned", "timeout"):
            counter = counters[name]
            m.d.sync += counter.eq(counter + read.errors[name])
