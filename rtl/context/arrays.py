"""The cache's memories, with their error correction."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from rtl.context.line import Arrived, SetLayout
from rtl.context.secded import WORD_BITS, Secded

WORD_BYTES = WORD_BITS // 8


class EntryArray(wiring.Component):
    """`depth` entries in words of 8 bytes, each with a check byte.

    `read` gives the entry at `read_address` as `entry` in the next cycle: with a bit flipped in
    any of its words it is right and `corrected` is set; with two in one word it is not, and
    `uncorrectable` is set. `write` puts the words of `mask` in.

    What was corrected is written back in the cycle after that, unless the entry or the write
    port was needed in between; then the next read tries again.
    """

    def __init__(self, depth: int, entry_bytes: int):
        address = ceil_log2(depth)
        super().__init__({
            "read": In(1), "read_address": In(address),
            "entry": Out(8 * entry_bytes), "corrected": Out(1), "uncorrectable": Out(1),
            "write": In(1), "address": In(address), "data": In(8 * entry_bytes),
            "mask": In(entry_bytes // WORD_BYTES),
        })
        self.depth = depth
        self.words = entry_bytes // WORD_BYTES
        self.code = Secded(WORD_BITS)

    def elaborate(self, platform):
        m = Module()
        shape = data.ArrayLayout(unsigned(self.code.bits), self.words)
        m.submodules.store = store = memory.Memory(
            shape=shape, depth=max(self.depth, 2), init=[])
        port, read = store.write_port(granularity=1), store.read_port()
        self.port, self.stored = port, Signal(shape)  # what goes into the memory, and where
        scrub = Signal(self.words)
        scrubbed = Signal.like(self.entry)
        scrub_address = Signal.like(self.read_address)
        last_address = Signal.like(self.read_address)  # of the entry that is shown
        reading = Signal()
        chosen = Signal.like(self.data)
        checked = [self.code.decode(m, read.data[i]) for i in range(self.words)]
        single = Cat(word.corrected for word in checked)
        m.d.comb += [
            read.en.eq(self.read), read.addr.eq(self.read_address),
            self.entry.eq(Cat(word.data for word in checked)),
            self.corrected.eq(reading & single.any()),
            self.uncorrectable.eq(reading & Cat(word.uncorrectable for word in checked).any()),
            chosen.eq(Mux(self.write, self.data, scrubbed)),
            *(self.stored[i].eq(self.code.encode(chosen.word_select(i, WORD_BITS)))
              for i in range(self.words)),
            port.addr.eq(Mux(self.write, self.address, scrub_address)),
            port.data.eq(self.stored),
            port.en.eq(Mux(self.write, self.mask, scrub)),
        ]
        m.d.sync += [
            reading.eq(self.read),
            scrub.eq(Mux(reading & ~(self.write & (self.address == last_address)), single, 0)),
            scrubbed.eq(self.entry), scrub_address.eq(last_address),
        ]
        with m.If(self.read):
            m.d.sync += last_address.eq(self.read_address)
        return m


class SetArray(wiring.Component):
    """What the cache keeps of each set: the lines and the age, and what the fills have left.

    `read` gives the set at `read_number` in the next cycle, with what was written by then: `word`
    and `arrived`, right but for the ways of `broken`, of which two bits are flipped; `corrected`
    if one was. `update` replaces it by `word_in`, but leaves broken ways alone, and so does what
    was corrected by itself in the cycle in which it is shown. `fill` writes `fill_arrived` of
    `fill_way`. An age that cannot be corrected is the `first_age`. With `clear`, `number` is
    emptied.
    """

    def __init__(self, sets: int, layout: SetLayout, ways: int, age_bits: int, first_age: int):
        super().__init__({
            "read": In(1), "read_number": In(ceil_log2(sets)),
            "word": Out(layout), "arrived": Out(data.ArrayLayout(Arrived, ways)),
            "broken": Out(ways), "corrected": Out(1),
            "update": In(1), "number": In(ceil_log2(sets)), "word_in": In(layout),
            "fill": In(1), "fill_number": In(ceil_log2(sets)), "fill_way": In(ceil_log2(ways)),
            "fill_arrived": In(Arrived), "clear": In(1),
        })
        self.sets = sets
        self.ways = ways
        self.first_age = first_age
        line = layout["lines"].shape.elem_shape
        self.line_code = Secded(data.Layout.cast(line).size)
        self.age_code = Secded(age_bits) if age_bits else None
        self.arrived_code = Secded(data.Layout.cast(Arrived).size)
        self.stored = {}  # memory → what goes into it, and where

    def elaborate(self, platform):
        m = Module()
        shown = Signal()
        m.d.sync += shown.eq(self.read)
        wrong = [self._lines(m, shown), self._arrived(m, shown)]
        if self.age_code:
            wrong.append(self._age(m, shown))
        else:
            m.d.comb += self.word.age.eq(0)
        m.d.comb += self.corrected.eq(shown & Cat(wrong).any())
        return m

    def _memory(self, m, name, code, count):
        m.submodules[name] = store = memory.Memory(
            shape=data.ArrayLayout(unsigned(code.bits), count), depth=max(self.sets, 2), init=[])
        port = store.write_port(granularity=1)
        read = store.read_port(transparent_for=(port,))
        m.d.comb += [read.en.eq(self.read), read.addr.eq(self.read_number)]
        stored = Signal(data.ArrayLayout(unsigned(code.bits), count), name=f"stored_{name}")
        m.d.comb += port.data.eq(stored)
        self.stored[name] = port, stored
        return port, read, stored

    def _lines(self, m, shown):
        port, read, stored = self._memory(m, "lines", self.line_code, self.ways)
        checked = [self.line_code.decode(m, read.data[way]) for way in range(self.ways)]
        single = Cat(word.corrected for word in checked).any()
        self.lines_broken = Cat(word.uncorrectable for word in checked)
        for way, word in enumerate(checked):
            line = self.word_in.lines[way].as_value()
            m.d.comb += [
                self.word.lines[way].as_value().eq(word.data),
                stored[way].eq(self.line_code.encode(Mux(self.clear, 0, line))),
            ]
        m.d.comb += [
            port.addr.eq(self.number),
            port.en.eq(Mux(self.clear, -1, Mux(self.update | (shown & single),
                                               ~self.broken, 0))),
        ]
        return single

    def _arrived(self, m, shown):
        port, read, stored = self._memory(m, "arrived", self.arrived_code, self.ways)
        checked = [self.arrived_code.decode(m, read.data[way]) for way in range(self.ways)]
        single = Cat(word.corrected for word in checked)
        fill = Mux(self.clear, 0, self.fill_arrived.as_value())
        scrubs = shown & single.any() & ~self.fill & ~self.clear
        for way, word in enumerate(checked):
            m.d.comb += [
                self.arrived[way].as_value().eq(word.data),
                stored[way].eq(self.arrived_code.encode(Mux(scrubs, word.data, fill))),
            ]
        m.d.comb += [
            self.broken.eq(self.lines_broken | Cat(word.uncorrectable for word in checked)),
            port.addr.eq(Mux(self.clear | scrubs, self.number, self.fill_number)),
            port.en.eq(Mux(self.clear, -1, Mux(
                scrubs, single, self.fill << self.fill_way))),
        ]
        return single.any()

    def _age(self, m, shown):
        port, read, stored = self._memory(m, "age", self.age_code, 1)
        word = self.age_code.decode(m, read.data[0])
        wrong = word.corrected | word.uncorrectable
        m.d.comb += [
            self.word.age.eq(Mux(word.uncorrectable, self.first_age, word.data)),
            stored[0].eq(self.age_code.encode(Mux(self.clear, self.first_age,
                                                  self.word_in.age))),
            port.addr.eq(self.number),
            port.en.eq(self.clear | self.update | (shown & wrong)),
        ]
        return wrong
