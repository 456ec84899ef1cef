"""Hit rates that can be calculated without any model, on the cache's timing model."""

import itertools
import random
from collections import deque

import pytest

from rtl.config import CacheConfig
from sim.timing.context_cache import ContextCache
from sim.timing.interface import LOOKUP, Beat, Inputs, Request


def hit_rate(keys, count, *, entries, ways, policy, index="modulo"):
    """Of `count` lookups one by one, after as many again have warmed the cache."""
    cache = ContextCache(CacheConfig(sets=entries // ways, ways=ways, entry_bytes=64,
                                     misses=1, policy=policy, index=index), 1)
    due, hits = deque(), []
    offered = Request(0, LOOKUP, next(keys))
    while len(hits) < 2 * count:
        out = cache.step(Inputs([offered], [True], Beat(due[0], True) if due else None))
        if out.taken[0]:
            offered = None
        if out.beat_taken:
            due.popleft()
        if out.fetch:
            due.append(out.fetch[1])
        if out.answers[0]:
            hits.append(out.answers[0].hit)
            offered = Request(0, LOOKUP, next(keys))
    return sum(hits[count:]) / count


def uniform(keys, seed=1):
    rng = random.Random(seed)
    while True:
        yield rng.choice(keys)


@pytest.mark.parametrize("policy", ["lru", "plru", "srrip", "random"])
def test_uniform_traffic_hits_c_of_n(policy):
    """h = C/N for every policy; 0.02 is 2.5 standard deviations of 4000 lookups."""
    rate = hit_rate(uniform(range(128)), 4000, entries=64, ways=16, policy=policy)
    assert rate == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("policy", ["lru", "plru"])
def test_cyclic_traffic_never_hits(policy):
    """More keys than entries, each set's ways in turn."""
    keys = itertools.cycle(range(80))
    assert hit_rate(keys, 400, entries=64, ways=16, policy=policy) == 0


def test_cyclic_traffic_and_random_replacement():
    """h = (1 − 1/C)^((N − 1)(1 − h)) = 0.203 at C = 512, N = 1024."""
    h = 0.5
    for _ in range(200):
        h = (1 - 1 / 512) ** (1023 * (1 - h))
    assert round(h, 3) == 0.203
    keys = itertools.cycle(range(1024))
    assert hit_rate(keys, 5120, entries=512, ways=16, policy="random") == pytest.approx(
        h, abs=0.02)


@pytest.mark.parametrize("ways, expected", [(2, 0.729), (4, 0.805), (8, 0.860)])
def test_hashed_sets_with_as_many_keys_as_entries(ways, expected):
    """1 − e^−W · W^W / W! of random keys have a place when each set has W."""
    keys = random.Random(ways).sample(range(1 << 24), 1024)
    rate = hit_rate(uniform(keys), 4000, entries=1024, ways=ways, policy="lru", index="hash")
    assert rate == pytest.approx(expected, abs=0.03)
