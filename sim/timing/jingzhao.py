"""A cache as JingZhao's RTL has for its queue pairs, as far as its timing has been measured.

256 sets of 2 ways, LRU. A lookup every 3rd cycle, a hit after 6. A miss takes the memory's latency
and 11 cycles; misses are answered in order, one every 7 cycles, and 30 are outstanding. Nothing is
merged: each request that misses fetches for itself. Hits pass misses. These figures were measured
in simulation of github.com/ETH-PLUS/Jingzhao, d282ecfd. Assumed, not measured: a miss that finds
no room holds up what comes after it.
"""

from dataclasses import dataclass

import numpy as np

from sim.timing.compiled import compiled
from sim.timing.trace import Keys


@dataclass(frozen=True, kw_only=True)
class JingZhaoLike:
    sets: int = 256
    ways: int = 2
    outstanding: int = 30
    lookup_cycles: int = 3
    hit_cycles: int = 6
    miss_cycles: int = 11  # beyond the memory's
    answer_cycles: int = 7  # from one miss's answer to the next


@compiled
def _find(held, key):
    for way in range(len(held)):
        if held[way] == key:
            return way
    return -1


@compiled
def _to_front(held, place, key):
    """The ways of a set, used last first."""
    for way in range(place, 0, -1):
        held[way] = held[way - 1]
    held[0] = key


@compiled
def _install(held, key):
    """A second answer to the same key replaces the first."""
    place = _find(held, key)
    _to_front(held, place if place >= 0 else len(held) - 1, key)


@compiled
def _play(keys, held, latency, window, outstanding, lookup, hit, miss, answer):
    """When each request is answered, and which hit."""
    count = len(keys)
    answered, hits = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    ends = np.zeros(outstanding, np.int64)  # of the misses, in turn; they are answered in order
    missed = np.zeros(count, np.int64)  # which requests
    misses = installed = 0
    window_ends = np.zeros(window, np.int64)  # when the requests of the window are answered
    now = 0
    for request in range(count):
        place = np.argmin(window_ends)
        now = max(now, window_ends[place] + 1)
        while True:
            while installed < misses and ends[installed % outstanding] <= now:
                key = keys[missed[installed]]
                _install(held[key % len(held)], key)
                installed += 1
            row, key = keys[request] % len(held), keys[request]
            way = _find(held[row], key)
            if way >= 0 or misses - installed < outstanding:
                break
            now = ends[installed % outstanding]  # a miss that finds no room stops the pipeline
        if way >= 0:
            _to_front(held[row], way, key)
            answered[request], hits[request] = now + hit, True
        else:
            end = now + latency + miss
            if misses:
                end = max(end, ends[(misses - 1) % outstanding] + answer)
            ends[misses % outstanding] = answered[request] = end
            missed[misses] = request
            misses += 1
        window_ends[place] = answered[request]
        now += lookup
    return answered, hits


def play(cache: JingZhaoLike, keys: Keys, *, latency: int, window: int) -> tuple[Keys, Keys]:
    """(cycle of each request's answer, whether it hit); up to `window` requests are open."""
    held = np.full((cache.sets, cache.ways), -1, np.int64)
    answered, hits = _play(np.ascontiguousarray(keys, np.int64), held, latency, window,
                           cache.outstanding, cache.lookup_cycles, cache.hit_cycles,
                           cache.miss_cycles, cache.answer_cycles)
    return answered, hits
