"""Index and replacement of sim/timing/replacement.py, compiled.

`ages[set]` holds a policy's state of a set: of LRU when each way was used last, of tree-PLRU a bit
a node, of SRRIP an interval a way.
"""

import numpy as np
from numpy.typing import NDArray

from sim.timing.compiled import compiled
from sim.timing.replacement import Random

LRU, PLRU, SRRIP, RANDOM = range(4)
POLICY = {"lru": LRU, "plru": PLRU, "srrip": SRRIP, "random": RANDOM}
NOISE = np.array(Random.noise)


@compiled
def set_of(key, sets, hashed):
    """The low bits of the key; hashed: all groups of as many bits, added modulo 2."""
    row = key & (sets - 1)
    if hashed and sets > 1:
        bits = 0
        while 1 << bits < sets:
            bits += 1
        rest = key >> bits
        while rest:
            row ^= rest & (sets - 1)
            rest >>= bits
    return row


def new_ages(policy: str, sets: int, ways: int) -> NDArray[np.int64]:
    return np.full((sets, ways), 3 if policy == "srrip" else 0, np.int64)


@compiled
def use(policy, age, way, clock):
    """After a hit."""
    if policy == LRU:
        age[way] = clock
    elif policy == PLRU:
        _point_away(age, way)
    elif policy == SRRIP:
        age[way] = 0


@compiled
def fill(policy, age, way, clock):
    """When a new entry takes the way."""
    if policy == SRRIP:
        step = 3 - age[way]
        for other in range(len(age)):
            age[other] = min(3, age[other] + step)
        age[way] = 2
    else:
        use(policy, age, way, clock)


@compiled
def _point_away(upper, way):
    node, low, size = 1, 0, len(upper)
    while size > 1:
        size >>= 1
        up = way >= low + size
        upper[node] = not up
        node, low = 2 * node + up, low + size * up


@compiled
def victim(policy, age, may, now, noise):
    """A way among those that `may` go."""
    if policy == LRU:
        return _first(may, age, False)
    if policy == SRRIP:
        return _first(may, age, True)
    if policy == PLRU:
        return _pointed_at(may, age)
    return _from(may, noise[now % len(noise)])


@compiled
def _first(may, age, oldest):
    """The lowest way of the highest age, or else of the lowest."""
    best = -1
    for way in range(len(age)):
        if may[way] and (best < 0 or (age[way] > age[best] if oldest else age[way] < age[best])):
            best = way
    return best


@compiled
def _pointed_at(may, upper):
    node, low, size = 1, 0, len(upper)
    while size > 1:
        size >>= 1
        lower, higher = may[low:low + size].any(), may[low + size:low + 2 * size].any()
        up = upper[node] != 0 if lower and higher else higher
        node, low = 2 * node + up, low + size * up
    return low


@compiled
def _from(may, drawn):
    """The first at or after a way drawn; `drawn` is the register of the cycle."""
    ways = len(may)
    span = 1
    while span < ways:
        span *= 2
    start = drawn % span
    if start >= ways:
        start -= ways
    for step in range(ways):
        way = (start + step) % ways
        if may[way]:
            return way
    return -1


