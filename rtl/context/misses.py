"""The miss table: which fetches are under way, and what comes back."""

from amaranth.hdl import Array, Cat, Module, Signal, unsigned
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from rtl.context.interface import KEY_BITS, CacheTable
from rtl.dma.interface import DmaStatus, ReadClient
from rtl.stream.free_list import FreeList

AHEAD = 4  # misses accepted beyond M, so that a fetch follows the end of another at once


class FillLayout(data.StructLayout):
    """An entry that came back, or did not."""

    def __init__(self, entry_bytes: int, way_bits: int):
        super().__init__({
            "key": unsigned(KEY_BITS), "way": unsigned(way_bits), "failed": unsigned(1),
            "data": unsigned(8 * entry_bytes),
        })


class MissTable(wiring.Component):
    """Fetches of whole entries, at most `misses` in flight; `misses` + AHEAD are accepted.

    `take` (only while `available`) starts a miss of `key` into `way`; the request leaves 1 cycle
    later at the earliest. `fill` gives the entry 1 cycle after its last beat. An answer to a
    request that is not in flight is dropped (`stray` pulses). Answers with a bad status, without
    data or with too few beats are `failed`.
    """

    def __init__(self, misses: int, entry_bytes: int, way_bits: int, data_width: int):
        depth = misses + AHEAD
        super().__init__({
            "table": In(CacheTable),
            "available": Out(1), "count": Out(range(depth + 1)),
            "in_flight": Out(range(misses + 1)),
            "take": In(1), "key": In(KEY_BITS), "way": In(way_bits),
            "fetch": Out(ReadClient(data_width)),
            "fill": Out(stream.Signature(FillLayout(entry_bytes, way_bits))),
            "freed": Out(1), "failed": Out(1), "stray": Out(1),
        })
        self.misses = misses
        self.depth = depth
        self.entry_bytes = entry_bytes
        self.data_width = data_width
        self.way_bits = way_bits

    def elaborate(self, platform):
        m = Module()
        m.submodules.free = free = FreeList(self.depth)
        bits = len(free.index)
        layout = data.StructLayout({"key": KEY_BITS, "way": self.way_bits})
        m.submodules.info = info = memory.Memory(shape=layout, depth=self.depth, init=[])
        m.submodules.queue = queue = SyncFIFO(width=bits + KEY_BITS, depth=self.depth)
        write = info.write_port()
        read = info.read_port(domain="comb")
        m.d.comb += [
            self.available.eq(free.available),
            self.count.eq(free.count),
            free.take.eq(self.take),
            write.addr.eq(free.index),
            write.data.key.eq(self.key),
            write.data.way.eq(self.way),
            write.en.eq(self.take),
            queue.w_data.eq(Cat(free.index, self.key)),
            queue.w_en.eq(self.take),
        ]
        request, response = self.fetch.request, self.fetch.response
        index = queue.r_data[:bits]
        m.d.comb += [
            request.valid.eq(queue.r_rdy & (self.in_flight != self.misses)),
            request.p.address.eq(self.table.base + queue.r_data[bits:] * self.entry_bytes),
            request.p.length.eq(self.entry_bytes),
            request.p.tag.eq(index),
            queue.r_en.eq(request.valid & request.ready),
        ]
        known = Signal(self.depth)
        ended = Signal()
        answer = Signal(bits)
        last = response.valid & response.ready & response.p.last
        m.d.comb += [
            answer.eq(response.p.tag),
            ended.eq(last & known.bit_select(answer, 1)
                     & (response.p.tag < self.depth)),
            self.stray.eq(last & ~ended),
            self.freed.eq(ended),
            free.give.eq(ended),
            free.given.eq(answer),
            read.addr.eq(answer),
        ]
        with m.If(ended):
            m.d.sync += known.bit_select(answer, 1).eq(0)
        with m.If(queue.r_en):
            m.d.sync += known.bit_select(index, 1).eq(1)
        flight = Signal.like(self.in_flight)
        m.d.comb += self.in_flight.eq(flight)
        m.d.sync += flight.eq(flight + queue.r_en - ended)
        self._collect(m, read.data, ended)
        return m

    def _collect(self, m, info, ended):
        """Beats into one entry; answers don't interleave, so one is enough."""
        response = self.fetch.response
        width = min(self.data_width, 8 * self.entry_bytes)
        count = 8 * self.entry_bytes // width
        entry = Array(Signal(width, name=f"part_{i}") for i in range(count))
        beat = Signal(range(count))
        wrong = Signal()
        fill = Signal(data.StructLayout({"key": KEY_BITS, "way": self.way_bits, "failed": 1}))
        full = Signal()
        bad = Signal()
        m.d.comb += [
            bad.eq(wrong | response.p.none | (response.p.status != DmaStatus.OK)
                   | (beat != count - 1)),
            response.ready.eq(~full | self.fill.ready),
            self.fill.valid.eq(full),
            self.fill.p.key.eq(fill.key),
            self.fill.p.way.eq(fill.way),
            self.fill.p.failed.eq(fill.failed),
            self.fill.p.data.eq(Cat(entry)),
            self.failed.eq(ended & bad),
        ]
        with m.If(self.fill.ready):
            m.d.sync += full.eq(0)
        with m.If(response.valid & response.ready):
            m.d.sync += [entry[beat].eq(response.p.data), beat.eq(beat + 1)]
            with m.If((beat == count - 1) & ~response.p.last):
                m.d.sync += [wrong.eq(1), beat.eq(beat)]  # more beats than were asked for
            with m.If(response.p.last):
                m.d.sync += [beat.eq(0), wrong.eq(0)]
        with m.If(ended):
            m.d.sync += [full.eq(1), fill.key.eq(info.key), fill.way.eq(info.way),
                         fill.failed.eq(bad)]
