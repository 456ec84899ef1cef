"""From whole reads in the reassembly memory to the readers' byte streams."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from rtl.dma.arbiter import RoundRobin
from rtl.dma.interface import TAG_BITS, DmaStatus, ReadBeat
from rtl.dma.tags import ReadRecord, tag_bits
from rtl.stream.rotate import rotated

ANSWER_BEATS = 8  # of one reader, in the pipeline and its output FIFO


class ReadOp(data.StructLayout):
    """One step of the delivery pipeline: fetch a row, turn it, give a beat or keep it.

    The row is turned left by `rotate` bytes; bytes below `bound` of the beat come from what the
    reader kept. `free`: the slot of `slot` is not needed after this step.
    """

    def __init__(self, data_width: int, tags: int):
        size = ceil_log2(data_width // 8)
        super().__init__({
            "slot": unsigned(tag_bits(tags)), "row": unsigned(11), "free": unsigned(1),
            "rotate": unsigned(size), "bound": unsigned(size),
            "emit": unsigned(1), "last": unsigned(1), "none": unsigned(1),
            "empty": unsigned(size), "tag": unsigned(TAG_BITS), "status": DmaStatus,
        })


class Walker(wiring.Component):
    """Plans the steps that bring one reader's pieces out as packets that start at byte 0.

    `i` gives the slots in the order of delivery; a slot is used once `complete`, with its `record`
    and `status` (both looked up by `slot`). Gives one step a cycle: a row each, one more at a
    request's end if its bytes spill into a further beat, and one for a piece that failed or has no
    bytes. After a failure the rest of the request gives no data; its last step ends it with `none`.
    """

    def __init__(self, data_width: int, tags: int):
        super().__init__({
            "i": In(stream.Signature(unsigned(tag_bits(tags)))),
            "record": In(ReadRecord), "complete": In(1), "status": In(DmaStatus),
            "o": Out(stream.Signature(ReadOp(data_width, tags))),
        })
        self.data_width = data_width
        self.tags = tags

    def elaborate(self, platform):
        m = Module()
        size = self.data_width // 8
        size_bits = exact_log2(size)
        record = self.record
        row = Signal(11)
        rest = Signal(13)  # bytes of the piece after the rows done
        fill = Signal(size_bits)  # bytes kept for the next beat
        tail = Signal()  # only the kept bytes are left
        error = Signal(DmaStatus)  # of an earlier piece of the request

        skip = Signal(2)
        left = Signal(13)
        count = Signal(range(size + 1))
        reach = Signal(range(2 * size + 1))
        final = Signal()  # last row of the piece
        outcome = Signal(DmaStatus)
        m.d.comb += [
            skip.eq(Mux(row == 0, record.skip, 0)),
            left.eq(Mux(row == 0, record.bytes, rest)),
            final.eq(left <= size - skip),
            count.eq(Mux(final, left, size - skip)),
            reach.eq(fill + count),
            outcome.eq(Mux(error != DmaStatus.OK, error, self.status)),
        ]
        out = Signal(ReadOp(self.data_width, self.tags))
        out_valid = Signal()
        free = Signal()
        fire = Signal()
        ends = Signal()  # the piece is done with this step
        op = Signal.like(out)
        # chosen below; apart from `op`, since a signal that is decided in part by an `If` keeps
        # its other bits undefined in Icarus until they change
        emit = Signal()
        last = Signal()
        none = Signal()
        empty = Signal(size_bits)
        m.d.comb += [
            free.eq(~out_valid | self.o.ready),
            fire.eq(free & self.i.valid & self.complete),
            self.i.ready.eq(fire & ends),
            self.o.valid.eq(out_valid), self.o.payload.eq(out),
            op.slot.eq(self.i.payload), op.row.eq(row), op.free.eq(ends),
            op.tag.eq(record.tag), op.bound.eq(fill), op.rotate.eq(fill - skip),
            op.status.eq(outcome),
            op.emit.eq(emit), op.last.eq(last), op.none.eq(none), op.empty.eq(empty),
        ]
        with m.If(free):
            m.d.sync += out_valid.eq(fire)
        with m.If(fire):
            m.d.sync += [out.eq(op), row.eq(Mux(ends, 0, row + 1)), rest.eq(left - count)]

        with m.If((outcome != DmaStatus.OK) | (record.bytes == 0)):
            m.d.comb += [ends.eq(1), emit.eq(record.last), last.eq(1), none.eq(1)]
            with m.If(fire):
                m.d.sync += [fill.eq(0), error.eq(Mux(record.last, DmaStatus.OK, outcome))]
        with m.Elif(tail):
            m.d.comb += [ends.eq(1), emit.eq(1), last.eq(1), empty.eq(size - fill)]
            with m.If(fire):
                m.d.sync += [fill.eq(0), tail.eq(0)]
        with m.Else():
            spills = Signal()
            closes = Signal()
            m.d.comb += [
                closes.eq(final & record.last & (reach <= size)),
                spills.eq(final & record.last & (reach > size)),
                ends.eq(final & ~spills),
                emit.eq(closes | (reach >= size)), last.eq(closes),
                empty.eq(Mux(closes, size - reach, 0)),
            ]
            with m.If(fire):
                m.d.sync += [fill.eq(Mux(closes, 0, reach)), tail.eq(spills)]
        return m


class Deliver(wiring.Component):
    """Carries out the steps of all readers, one a cycle, round robin.

    Row fetch (`read_*`, the data one cycle later), rotation, then the reader's own register of
    kept bytes and its FIFO. A step that gives a beat starts only if the FIFO has room for it, so a
    reader that takes nothing holds up nobody else. Latency from step to `response` 4 cycles.
    """

    def __init__(self, data_width: int, tags: int, readers: int):
        slot = tag_bits(tags)
        super().__init__({
            "i": In(stream.Signature(ReadOp(data_width, tags))).array(readers),
            "read_slot": Out(slot), "read_row": Out(11), "read_data": In(data_width),
            "forwarded": Out(1), "forwarded_slot": Out(slot),
            "forwarded_reader": Out(range(max(2, readers))),
            "response": Out(stream.Signature(ReadBeat(data_width))).array(readers),
        })
        self.data_width = data_width
        self.tags = tags
        self.readers = readers

    def elaborate(self, platform):
        m = Module()
        size = self.data_width // 8
        shape = ReadOp(self.data_width, self.tags)
        m.submodules.turn = turn = RoundRobin(self.readers)
        op = Signal(shape)
        m.d.comb += [
            turn.next.eq(1),
            self.read_slot.eq(op.slot), self.read_row.eq(op.row),
            self.forwarded.eq(turn.requests.any() & op.free), self.forwarded_slot.eq(op.slot),
            self.forwarded_reader.eq(turn.index),
        ]
        fetch = Signal(shape)
        fetch_for = Signal(self.readers)
        ready = Signal(shape)
        ready_for = Signal(self.readers)
        word = Signal(self.data_width)
        m.d.sync += [
            fetch.eq(op), fetch_for.eq(turn.grant),
            ready.eq(fetch), ready_for.eq(fetch_for),
            word.eq(rotated(m, self.read_data, fetch.rotate, left=True)),
        ]
        for i in range(self.readers):
            room = Signal(range(ANSWER_BEATS + 1), init=ANSWER_BEATS)
            m.d.comb += [
                turn.requests[i].eq(self.i[i].valid & (~self.i[i].p.emit | (room != 0))),
                self.i[i].ready.eq(turn.grant[i]),
            ]
            with m.If(turn.grant[i]):
                m.d.comb += op.eq(self.i[i].payload)
            kept = Signal(self.data_width)
            merged = Signal(self.data_width)
            m.d.comb += merged.eq(Cat(
                Mux(b < ready.bound, kept.word_select(b, 8), word.word_select(b, 8))
                for b in range(size)))
            beat = Signal(ReadBeat(self.data_width))
            fifo = SyncFIFOBuffered(width=len(beat.as_value()), depth=ANSWER_BEATS)
            m.submodules[f"fifo_{i}"] = fifo
            response = self.response[i]
            m.d.comb += [
                beat.data.eq(merged), beat.last.eq(ready.last), beat.none.eq(ready.none),
                beat.empty.eq(ready.empty), beat.tag.eq(ready.tag), beat.status.eq(ready.status),
                fifo.w_data.eq(beat), fifo.w_en.eq(ready_for[i] & ready.emit),
                response.valid.eq(fifo.r_rdy), response.payload.eq(fifo.r_data),
                fifo.r_en.eq(response.ready),
            ]
            with m.If(ready_for[i]):
                m.d.sync += kept.eq(Mux(ready.emit, word, merged))
            m.d.sync += room.eq(room - (turn.grant[i] & op.emit)
                                + (response.valid & response.ready))
        return m
