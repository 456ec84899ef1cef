"""The miss table: which fetches are under way, what comes back, and who is told."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from rtl.context.in_flight import InFlight
from rtl.context.interface import KEY_BITS, TAG_BITS, CacheTable
from rtl.dma.interface import DmaStatus, ReadClient
from rtl.stream.free_list import FreeList

AHEAD = 4  # misses accepted beyond M, so that a fetch follows the end of another at once


class FirstLayout(data.StructLayout):
    """The request that started a miss; not `valid` for a PREFETCH, which is answered at once."""

    def __init__(self, port_bits: int):
        super().__init__({"valid": unsigned(1), "acquire": unsigned(1),
                          "port": unsigned(port_bits), "tag": unsigned(TAG_BITS)})


class MissLayout(data.StructLayout):
    def __init__(self, way_bits: int, port_bits: int):
        super().__init__({"key": unsigned(KEY_BITS), "way": unsigned(way_bits),
                          "phase": unsigned(1), "first": FirstLayout(port_bits)})


class FillLayout(data.StructLayout):
    """An entry that came back, or did not. `merged`: requests wait in the list from `head`."""

    def __init__(self, entry_bytes: int, miss: MissLayout, slot_bits: int):
        super().__init__({
            "miss": miss, "failed": unsigned(1), "merged": unsigned(1),
            "head": unsigned(slot_bits), "data": unsigned(8 * entry_bytes),
        })


class MissTable(wiring.Component):
    """Fetches of whole entries, at most `misses` in flight; `misses` + AHEAD are accepted.

    `take` (only while `available`) starts `miss` under the number `index`; its request leaves 1
    cycle later at the earliest. With `forward` (only while `forward_available`) nothing is
    fetched: the entry is `forward_data` from the next cycle on, or has failed if that is
    `forward_spoiled`. `merge` notes that requests wait
    in the list from `merge_head` for miss `merge_index`, and may still come in the cycle of its
    fill. `fill` gives the entry 1 cycle after its last beat; it is made `ready` only when
    `valid`, and the number is free 1 cycle after that. An answer to a request that is not in
    flight is dropped (`stray` pulses). Answers with a bad status, without data or with too few
    beats are `failed`, and so is a fetch without answer after 1 to 2 `timeout` cycles. Its number
    then rests: its answer may still come, but no later than `timeout` cycles after that.
    """

    def __init__(self, misses: int, entry_bytes: int, layout: MissLayout, slot_bits: int,
                 data_width: int, timeout: int):
        depth = misses + AHEAD
        super().__init__({
            "table": In(CacheTable),
            "available": Out(1), "count": Out(range(depth + 1)), "index": Out(range(depth)),
            "in_flight": Out(range(misses + 1)),
            "take": In(1), "miss": In(layout),
            "forward": In(1), "forward_available": Out(1), "forward_data": In(8 * entry_bytes),
            "forward_spoiled": In(1),
            "merge": In(1), "merge_index": In(range(depth)), "merge_head": In(slot_bits),
            "fetch": Out(ReadClient(data_width)),
            "fill": Out(stream.Signature(FillLayout(entry_bytes, layout, slot_bits))),
            "stray": Out(1), "timed_out": Out(1),
        })
        self.layout = layout
        self.misses = misses
        self.depth = depth
        self.entry_bytes = entry_bytes
        self.data_width = data_width
        self.timeout = timeout

    def elaborate(self, platform):
        m = Module()
        m.submodules.free = free = FreeList(self.depth)
        m.submodules.info = info = memory.Memory(shape=self.layout, depth=self.depth, init=[])
        m.submodules.flight = self.flight = InFlight(self.misses, self.depth, self.timeout)
        self.full = Signal()  # an entry is there, or known not to come
        self.got = Signal(data.StructLayout({
            "miss": self.layout, "index": self.index.shape(), "failed": 1,
            "timed_out": 1}))
        self.forwarding = Signal()
        write = info.write_port()
        m.d.comb += [
            self.available.eq(free.available),
            self.count.eq(free.count),
            self.index.eq(free.index),
            free.take.eq(self.take),
            write.addr.eq(free.index),
            write.data.eq(self.miss),
            write.en.eq(self.take),
        ]
        self._request(m)
        entry, bad = self._collect(m)
        self._end(m, info.read_port(domain="comb"), bad)
        self._fill(m, free, entry)
        return m

    def _request(self, m):
        bits = len(self.index)
        m.submodules.queue = queue = SyncFIFO(width=bits + KEY_BITS, depth=self.depth)
        request = self.fetch.request
        m.d.comb += [
            queue.w_data.eq(Cat(self.index, self.miss.key)),
            queue.w_en.eq(self.take & ~self.forward),
            request.valid.eq(queue.r_rdy & (self.flight.count != self.misses)),
            request.p.address.eq(self.table.base + queue.r_data[bits:] * self.entry_bytes),
            request.p.length.eq(self.entry_bytes),
            request.p.tag.eq(queue.r_data[:bits]),
            queue.r_en.eq(request.valid & request.ready),
            self.flight.start.eq(queue.r_en),
            self.flight.started.eq(queue.r_data[:bits]),
            self.in_flight.eq(self.flight.count),
        ]

    def _collect(self, m):
        """Beats into one entry; answers don't interleave, so one is enough."""
        response = self.fetch.response
        width = min(self.data_width, 8 * self.entry_bytes)
        count = 8 * self.entry_bytes // width
        parts = Array(Signal(width, name=f"part_{i}") for i in range(count))
        beat = Signal(range(count))
        wrong = Signal()
        with m.If(response.valid & response.ready):
            m.d.sync += [parts[beat].eq(response.p.data), beat.eq(beat + 1)]
            with m.If((beat == count - 1) & ~response.p.last):
                m.d.sync += [wrong.eq(1), beat.eq(beat)]  # more beats than were asked for
            with m.If(response.p.last):
                m.d.sync += [beat.eq(0), wrong.eq(0)]
        bad = (wrong | response.p.none | (response.p.status != DmaStatus.OK)
               | (beat != count - 1))
        return Cat(parts), bad

    def _end(self, m, read, bad):
        """A fetch ends with its last beat, or overdue."""
        response, flight = self.fetch.response, self.flight
        last = response.valid & response.ready & response.p.last
        inside = response.p.tag < self.depth
        m.d.comb += [
            response.ready.eq(~self.full | (self.fill.ready & ~self.forwarding)),
            flight.answered.eq(response.p.tag),
            flight.end.eq(last & inside & flight.known),
            flight.late.eq(last & inside & ~flight.known),
            self.stray.eq(last & ~flight.end),
            flight.expired.ready.eq(~self.full & ~flight.end),
            self.timed_out.eq(flight.expired.valid & flight.expired.ready),
            read.addr.eq(Mux(flight.end, response.p.tag, flight.expired.payload)),
        ]
        with m.If(self.fill.ready & ~self.forwarding):
            m.d.sync += self.full.eq(0)
        with m.If(flight.end | self.timed_out):
            m.d.sync += [self.full.eq(1), self.got.miss.eq(read.data),
                         self.got.index.eq(read.addr), self.got.failed.eq(self.timed_out | bad),
                         self.got.timed_out.eq(self.timed_out)]

    def _fill(self, m, free, entry):
        """What was forwarded goes first: it is one at a time."""
        fill, got, rested = self.fill, self.got, self.flight.rested
        ahead = Signal(data.StructLayout({"miss": self.layout, "index": self.index.shape()}))
        index = Signal.like(self.index)
        merged = Signal(self.depth)
        m.submodules.heads = heads = memory.Memory(
            shape=self.merge_head.shape(), depth=self.depth, init=[])
        write, read = heads.write_port(), heads.read_port(domain="comb")
        merging = Signal()  # the first of the list comes in this very cycle
        ends = self.fill.ready & ~(got.timed_out & ~self.forwarding)
        m.d.comb += [
            self.forward_available.eq(~self.forwarding),
            index.eq(Mux(self.forwarding, ahead.index, got.index)),
            merging.eq(self.merge & (self.merge_index == index)),
            write.addr.eq(self.merge_index), write.data.eq(self.merge_head),
            write.en.eq(self.merge),
            read.addr.eq(index),
            fill.valid.eq(self.full | self.forwarding),
            fill.p.miss.eq(Mux(self.forwarding, ahead.miss, got.miss)),
            fill.p.failed.eq(Mux(self.forwarding, self.forward_spoiled, got.failed)),
            fill.p.merged.eq(merged.bit_select(index, 1) | merging),
            fill.p.head.eq(Mux(merging, self.merge_head, read.data)),
            fill.p.data.eq(Mux(self.forwarding, self.forward_data, entry)),
            rested.ready.eq(~ends),
            free.give.eq(ends | rested.valid),
            free.given.eq(Mux(ends, index, rested.payload)),
        ]
        with m.If(self.fill.ready):
            m.d.sync += self.forwarding.eq(0)
        with m.If(self.take):
            m.d.sync += merged.bit_select(self.index, 1).eq(0)
            with m.If(self.forward):
                m.d.sync += [self.forwarding.eq(1), ahead.miss.eq(self.miss),
                             ahead.index.eq(self.index)]
        with m.If(self.merge):
            m.d.sync += merged.bit_select(self.merge_index, 1).eq(1)
