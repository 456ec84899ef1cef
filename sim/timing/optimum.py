"""Belady's optimum: the most hits that any replacement can have, known only afterwards.

It evicts the entry that is asked for again last (L. Belady, IBM Systems Journal 5(2), 1966). Like
the cache it installs each entry that it fetches; it has no misses that overlap.
"""

import numpy as np
from numpy.typing import NDArray

from sim.timing.compiled import compiled
from sim.timing.victims import set_of

NEVER = np.iinfo(np.int64).max


@compiled
def _next_uses(keys):
    """For each request, when its key comes again."""
    again = np.empty(len(keys), np.int64)
    last = {keys[0]: NEVER}
    for now in range(len(keys) - 1, -1, -1):
        again[now] = last.get(keys[now], NEVER)
        last[keys[now]] = now
    return again


@compiled
def _hits(keys, again, sets, ways, hashed):
    held = np.full((sets, ways), -1, np.int64)
    next_use = np.full((sets, ways), NEVER, np.int64)
    hits = np.zeros(len(keys), np.bool_)
    for now, key in enumerate(keys):
        row = set_of(key, sets, hashed)
        place = 0
        for way in range(ways):
            if held[row, way] == key:
                hits[now] = True
                place = way
                break
            if next_use[row, way] > next_use[row, place]:
                place = way
        held[row, place] = key
        next_use[row, place] = again[now]
    return hits


def belady(keys: NDArray[np.int64], *, sets: int = 1, ways: int, index: str = "modulo"
           ) -> NDArray[np.bool_]:
    """Which lookups hit; `sets=1` is the fully associative cache."""
    keys = np.ascontiguousarray(keys, np.int64)
    if not len(keys):
        return np.zeros(0, np.bool_)
    return _hits(keys, _next_uses(keys), sets, ways, index == "hash")
