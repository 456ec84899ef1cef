"""Which way of a set goes next, as the policies are defined in the literature.

A policy is one set's state. `victim(candidates, cycle)` picks among ways that may go; `use(way)` is
called on a hit, `fill(way)` when a new entry takes the way.
"""

from collections.abc import Sequence


class Lru:
    def __init__(self, ways: int):
        self.order = list(range(ways))  # used last comes first

    def victim(self, candidates: Sequence[int], cycle: int) -> int:
        return max(candidates, key=self.order.index)

    def use(self, way: int) -> None:
        self.order.remove(way)
        self.order.insert(0, way)

    fill = use


class TreePlru:
    """`upper[node]`: the victim is in the upper half below that node; children 2n and 2n + 1."""

    def __init__(self, ways: int):
        self.ways = ways
        self.upper = [False] * ways

    def victim(self, candidates: Sequence[int], cycle: int) -> int:
        node, low, size = 1, 0, self.ways
        left = list(candidates)
        while size > 1:
            size //= 2
            halves = [w for w in left if w < low + size], [w for w in left if w >= low + size]
            up = self.upper[node] if halves[0] and halves[1] else bool(halves[1])
            left = halves[up]
            node, low = 2 * node + up, low + size * up
        return low

    def use(self, way: int) -> None:
        node, low, size = 1, 0, self.ways
        while size > 1:
            size //= 2
            up = way >= low + size
            self.upper[node] = not up
            node, low = 2 * node + up, low + size * up

    fill = use


class Srrip:
    """Re-reference interval prediction, 2 bits, hit priority (Jaleel et al., ISCA 2010)."""

    def __init__(self, ways: int):
        self.interval = [3] * ways

    def victim(self, candidates: Sequence[int], cycle: int) -> int:
        return max(candidates, key=lambda way: (self.interval[way], -way))

    def use(self, way: int) -> None:
        self.interval[way] = 0

    def fill(self, way: int) -> None:
        step = 3 - self.interval[way]  # everyone ages until the victim is at 3
        self.interval = [min(3, value + step) for value in self.interval]
        self.interval[way] = 2


def _noise() -> list[int]:
    """x^16 + x^14 + x^13 + x^11 + 1, a step a cycle."""
    value, values = 0xACE1, []
    for _ in range(0xFFFF):
        values.append(value)
        bit = value ^ value >> 2 ^ value >> 3 ^ value >> 5
        value = value >> 1 | (bit & 1) << 15
    return values


class Random:
    """The first candidate at or after a way drawn from a register that shifts every cycle."""

    noise = _noise()

    def __init__(self, ways: int):
        self.ways = ways

    def victim(self, candidates: Sequence[int], cycle: int) -> int:
        drawn = self.noise[cycle % len(self.noise)] % (1 << (self.ways - 1).bit_length())
        start = drawn - self.ways if drawn >= self.ways else drawn
        return min(candidates, key=lambda way: (way < start, way))

    def use(self, way: int) -> None:
        pass

    fill = use


Policy = Lru | TreePlru | Srrip | Random
POLICIES: dict[str, type[Policy]] = {
    "lru": Lru, "plru": TreePlru, "srrip": Srrip, "random": Random}
