"""The read engine: requests to read TLPs, completions to answers."""

from collections.abc import Sequence

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from rtl.dma.arbiter import RoundRobin
from rtl.dma.beat import RequestBeat
from rtl.dma.forward import Deliver, Walker
from rtl.dma.inflight import InFlight, ReadErrors
from rtl.dma.interface import ReadClient, ReadRequest
from rtl.dma.reassembly import Reassembly
from rtl.dma.split import Piece, Splitter
from rtl.dma.tags import ReadRecord, tag_bits
from rtl.pcie.tlp import TlpLayout, TlpType
from rtl.stream import FreeList


class Issue(wiring.Component):
    """Chooses the next piece to ask for and gives it a tag.

    `piece`: the pieces of each reader, by turns of `weights`. `o`: the read TLPs, one beat each.
    `open` pulses with `tag`, `record` and `reader` for each piece taken; one of length 0 makes no
    TLP and waits for `null_ready`. One tag is kept back for every reader that has none, so
    a reader that fills the table does not lock out the others.
    """

    def __init__(self, data_width: int, tags: int, weights: Sequence[int]):
        readers = len(weights)
        super().__init__({
            "piece": In(stream.Signature(Piece)).array(readers),
            "o": Out(stream.Signature(RequestBeat(data_width))),
            "open": Out(1), "tag": Out(tag_bits(tags)), "record": Out(ReadRecord),
            "reader": Out(range(max(2, readers))), "null_ready": In(1),
            "give": In(1), "given": In(tag_bits(tags)),
            "forwarded": In(1), "forwarded_reader": In(range(max(2, readers))),
            "used": Out(range(tags + 1)),
        })
        self.tags = tags
        self.readers = readers
        self.weights = weights

    def elaborate(self, platform):
        m = Module()
        m.submodules.pool = pool = FreeList(self.tags)
        m.submodules.turn = turn = RoundRobin(self.readers, self.weights)
        m.d.comb += [pool.give.eq(self.give), pool.given.eq(self.given),
                     self.used.eq(self.tags - pool.count)]

        # tags that each reader holds, and how many readers hold none
        idle = Signal(self.readers)
        waiting = Signal(range(self.readers + 1))
        m.d.comb += waiting.eq(sum(idle[i] for i in range(self.readers)))
        for i in range(self.readers):
            held = Signal(range(self.tags + 1), name=f"held_{i}")
            m.d.comb += idle[i].eq(held == 0)
            m.d.sync += held.eq(held + (self.open & turn.grant[i])
                                - (self.forwarded & (self.forwarded_reader == i)))
            port = self.piece[i]
            m.d.comb += [
                turn.requests[i].eq(port.valid & (idle[i] | (pool.count > waiting))),
                port.ready.eq(turn.grant[i] & self.open),
            ]

        piece = Signal(Piece)
        with m.Switch(turn.index):
            for i in range(self.readers):
                with m.Case(i):
                    m.d.comb += piece.eq(self.piece[i].payload)
        offered = Signal()
        null = Signal()
        m.d.comb += [
            offered.eq(turn.requests.any() & pool.available),
            null.eq(piece.bytes == 0),
            self.open.eq(offered & Mux(null, self.null_ready, self.o.ready)),
            turn.next.eq(self.open), pool.take.eq(self.open),
            self.tag.eq(pool.index), self.reader.eq(turn.index),
            self.record.reader.eq(turn.index), self.record.tag.eq(piece.tag),
            self.record.skip.eq(piece.skip), self.record.bytes.eq(piece.bytes),
            self.record.dw.eq(piece.dw), self.record.low.eq(piece.address[2:7]),
            self.record.last.eq(piece.last),
        ]
        header = self.o.p.tlp.header
        m.d.comb += [
            self.o.valid.eq(offered & ~null),
            header.type.eq(TlpType.READ), header.length.eq(piece.dw),
            header.address.eq(piece.address), header.first_be.eq(piece.first_be),
            header.last_be.eq(piece.last_be), header.attributes.eq(piece.attributes),
            header.tag.eq(pool.index),
            self.o.p.tlp.last.eq(1), self.o.p.note.bytes.eq(piece.bytes),
            self.o.p.note.tag.eq(piece.tag),
        ]
        return m


class ReadEngine(wiring.Component):
    """All read ports, by turns of `weights`. `o`: read TLPs for the arbiter; `rc`: completions,
    always taken.

    `ordered[i]`: reader i is answered in request order; else as its reads become whole, which
    needs each request to be one piece (`Dma` sees to it). `refuse`: see `InFlight`. Latency from
    request to `o` 1 cycle, from the last beat of a completion to the first beat of the answer 7.
    """

    def __init__(self, data_width: int, tags: int, mrrs: int, timeout: int,
                 ordered: tuple[bool, ...], weights: Sequence[int]):
        readers = len(ordered)
        super().__init__({
            "client": In(ReadClient(data_width)).array(readers),
            "o": Out(stream.Signature(RequestBeat(data_width))),
            "rc": In(stream.Signature(TlpLayout(data_width))),
            "requester_id": In(16),
            "refuse": In(1), "refuse_tag": In(tag_bits(tags)), "refuse_ready": Out(1),
            "used": Out(range(tags + 1)), "completion": Out(1), "errors": Out(ReadErrors),
        })
        self.data_width = data_width
        self.tags = tags
        self.mrrs = mrrs
        self.timeout = timeout
        self.ordered = ordered
        self.weights = weights

    def elaborate(self, platform):
        m = Module()
        width, tags, readers = self.data_width, self.tags, len(self.ordered)
        m.submodules.issue = issue = Issue(width, tags, self.weights)
        m.submodules.flight = flight = InFlight(width, tags, readers, self.timeout)
        m.submodules.slots = slots = Reassembly(width, tags, self.mrrs)
        m.submodules.deliver = deliver = Deliver(width, tags, readers)
        wiring.connect(m, issue.o, wiring.flipped(self.o))
        wiring.connect(m, wiring.flipped(self.rc), flight.rc)
        m.d.comb += [
            flight.requester_id.eq(self.requester_id),
            flight.refuse.eq(self.refuse), flight.refuse_tag.eq(self.refuse_tag),
            self.refuse_ready.eq(flight.refuse_ready),
            flight.open.eq(issue.open), flight.open_tag.eq(issue.tag),
            flight.open_record.eq(issue.record), issue.null_ready.eq(flight.null_ready),
            issue.give.eq(flight.give), issue.given.eq(flight.given),
            issue.forwarded.eq(deliver.forwarded),
            issue.forwarded_reader.eq(deliver.forwarded_reader),
            flight.forwarded.eq(deliver.forwarded),
            flight.forwarded_tag.eq(deliver.forwarded_slot),
            slots.write.eq(flight.write), slots.tag.eq(flight.write_tag),
            slots.offset.eq(flight.write_offset), slots.data.eq(flight.write_data),
            slots.enable.eq(flight.write_enable),
            slots.read_tag.eq(deliver.read_slot), slots.read_row.eq(deliver.read_row),
            deliver.read_data.eq(slots.read_data),
            self.used.eq(issue.used), self.completion.eq(flight.completion),
            self.errors.eq(flight.errors),
        ]
        for i, in_order in enumerate(self.ordered):
            split = Splitter(ReadRequest, self.mrrs, whole=not in_order)
            walker = Walker(width, tags)
            # slots in the order in which they are to be delivered
            queue = SyncFIFOBuffered(width=tag_bits(tags), depth=max(2, tags))
            m.submodules[f"split_{i}"] = split
            m.submodules[f"walker_{i}"] = walker
            m.submodules[f"queue_{i}"] = queue
            client = self.client[i]
            look = flight.lookup[i]
            wiring.connect(m, wiring.flipped(client.request), split.i)
            wiring.connect(m, split.o, issue.piece[i])
            wiring.connect(m, walker.o, deliver.i[i])
            wiring.connect(m, deliver.response[i], wiring.flipped(client.response))
            m.d.comb += [
                walker.i.valid.eq(queue.r_rdy), walker.i.payload.eq(queue.r_data),
                queue.r_en.eq(walker.i.ready), look.tag.eq(queue.r_data),
                walker.record.eq(look.record), walker.complete.eq(look.complete),
                walker.status.eq(look.status),
            ]
            if in_order:
                m.d.comb += [queue.w_en.eq(issue.open & (issue.reader == i)),
                             queue.w_data.eq(issue.tag)]
            else:
                m.d.comb += [queue.w_en.eq(flight.finish & (flight.finish_reader == i)),
                             queue.w_data.eq(flight.finish_tag)]
        return m
