"""Which way of a set goes next.

A policy keeps `bits` of age a set (`first` after reset). `victim` picks among the ways of
`candidates`, of which there is at least one; `used` and `filled` give the age after a hit in a way
and after a new entry took the way. All three are combinational.
"""

from amaranth.hdl import Cat, Mux, Signal
from amaranth.utils import ceil_log2


class Policy:
    """What every policy has; `ways` ways, one age a set."""

    def __init__(self, ways: int):
        self.ways = ways
        self.way_bits = ceil_log2(ways)
        self.bits = 0
        self.first = 0

    def filled(self, m, age, way):
        return self.used(m, age, way)

    def used(self, m, age, way):
        return age

    def first_of(self, m, mask):
        """Lowest way in `mask`."""
        way = Signal(self.way_bits)
        for number in reversed(range(self.ways)):
            with m.If(mask[number]):
                m.d.comb += way.eq(number)
        return way


class TreePlru(Policy):
    """A tree of pointers; node 1 is the root, a set bit points to the upper half."""

    def __init__(self, ways: int):
        super().__init__(ways)
        self.bits = ways - 1

    def victim(self, m, age, candidates):
        def pick(node, low, size):
            if size == 1:
                return candidates[low], []
            half = size // 2
            lower, lower_way = pick(2 * node, low, half)
            upper, upper_way = pick(2 * node + 1, low + half, half)
            up = Signal()  # not into a half without candidates
            m.d.comb += up.eq(Mux(age[node - 1], upper, ~lower))
            below = [Mux(up, b, a) for a, b in zip(lower_way, upper_way, strict=True)]
            return lower | upper, [*below, up]
        return Cat(pick(1, 0, self.ways)[1])

    def used(self, m, age, way):
        after = Signal(self.bits)
        m.d.comb += after.eq(age)
        for level in range(self.way_bits):
            bit = self.way_bits - 1 - level
            for number in range(1 << level):
                with m.If(way[bit + 1:] == number):
                    m.d.comb += after[(1 << level) + number - 1].eq(~way[bit])
        return after


class Lru(Policy):
    """A rank a way: 0 was used last, `ways` − 1 goes first."""

    def __init__(self, ways: int):
        super().__init__(ways)
        self.bits = ways * self.way_bits
        self.first = sum(way << (way * self.way_bits) for way in range(ways))

    def _rank(self, age, way):
        return age[way * self.way_bits:(way + 1) * self.way_bits]

    def victim(self, m, age, candidates):
        oldest = Cat(
            candidates[way] & ~Cat(
                candidates[other] & (self._rank(age, other) > self._rank(age, way))
                for other in range(self.ways)).any()
            for way in range(self.ways))
        return self.first_of(m, oldest)

    def used(self, m, age, way):
        if not self.bits:
            return age
        after = Signal(self.bits)
        mine = Signal(self.way_bits)
        m.d.comb += mine.eq(age.word_select(way, self.way_bits))
        for other in range(self.ways):
            rank = self._rank(age, other)
            m.d.comb += self._rank(after, other).eq(
                Mux(way == other, 0, rank + (rank < mine)))
        return after


class Srrip(Policy):
    """Two bits a way: 0 after a hit, 2 when new, 3 may go; hit-priority SRRIP."""

    def __init__(self, ways: int):
        super().__init__(ways)
        self.bits = 2 * ways
        self.first = (1 << self.bits) - 1

    def victim(self, m, age, candidates):
        by_value = [Cat(candidates[way] & (age[2 * way:2 * way + 2] == value)
                        for way in range(self.ways)) for value in range(4)]
        oldest = Signal(self.ways)
        m.d.comb += oldest.eq(by_value[0])
        for value in (1, 2, 3):
            with m.If(by_value[value].any()):
                m.d.comb += oldest.eq(by_value[value])
        return self.first_of(m, oldest)

    def used(self, m, age, way):
        after = Signal(self.bits)
        m.d.comb += after.eq(age)
        for other in range(self.ways):
            with m.If(way == other):
                m.d.comb += after[2 * other:2 * other + 2].eq(0)
        return after

    def filled(self, m, age, way):
        after = Signal(self.bits)
        step = Signal(2)  # everyone ages until the victim is at 3
        m.d.comb += step.eq(3 - age.word_select(way, 2))
        for other in range(self.ways):
            grown = age[2 * other:2 * other + 2] + step
            m.d.comb += after[2 * other:2 * other + 2].eq(
                Mux(way == other, 2, Mux(grown > 3, 3, grown)))
        return after


class Random(Policy):
    """The first candidate at or after a way drawn from a 16-bit LFSR."""

    def victim(self, m, age, candidates):
        noise = Signal(16, init=0xACE1)
        m.d.sync += noise.eq(Cat(noise[1:], noise[0] ^ noise[2] ^ noise[3] ^ noise[5]))
        drawn = Signal(self.way_bits)
        start = Signal(self.way_bits)
        m.d.comb += drawn.eq(noise)
        m.d.comb += start.eq(Mux(drawn >= self.ways, drawn - self.ways, drawn))
        later = Signal(self.ways)
        m.d.comb += later.eq(Cat(candidates[way] & (way >= start) for way in range(self.ways)))
        mask = Signal(self.ways)
        m.d.comb += mask.eq(Mux(later.any(), later, candidates))
        return self.first_of(m, mask)


POLICIES = {"plru": TreePlru, "lru": Lru, "srrip": Srrip, "random": Random}
