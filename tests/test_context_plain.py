"""The compiled model of plain LOOKUPs is the whole model, cycle for cycle.

The whole model is the hardware's equal (test_context_timing.py); test_context_oracles.py holds the
compiled one against the hardware, too."""

import dataclasses

import numpy as np
import pytest

from rtl.config import CacheConfig
from sim.timing import plain
from sim.timing.interface import Stall
from sim.timing.trace import Trace, TraceWorld, play, predict

OUTCOMES = {plain.HIT: "hit", plain.MISS: "miss", plain.MERGED: "merged"}


def compiled(cache, trace):
    """(events by cycle; [taken, answered, hit] of each request of each port)"""
    found = predict(cache, trace)
    events = [(int(r["decided"]), OUTCOMES[int(r["outcome"])], int(r["key"]), int(r["way"]))
              for r in found.ravel()]
    events += [(int(r["decided"]), "evict", int(r["evicted"]))
               for r in found.ravel() if r["evicted"] >= 0]
    hits = found["outcome"] == plain.HIT
    return sorted(events), np.stack([found["taken"], found["answered"], hits], axis=2).tolist()


def cycle_by_cycle(cache, trace):
    world = TraceWorld(trace)
    events = [(now, *event) for now, out in play(cache, world) for event in out.events
              if event[0] in ("hit", "miss", "merged", "evict")]
    return sorted(events), world.times


def random_case(seed):
    rng = np.random.default_rng(seed)
    policy = ["plru", "lru", "srrip", "random"][seed % 4]
    ways = int(rng.choice([1, 2, 4, 8, 16] if policy == "plru" else [1, 2, 3, 5, 16]))
    cache = CacheConfig(
        sets=int(rng.choice([1, 2, 4, 16])), ways=ways, entry_bytes=64, policy=policy,
        misses=int(rng.choice([1, 2, 5, 32])), targets=int(rng.choice([1, 2, 8])),
        index=("modulo", "hash")[seed // 4 % 2], tenants=(1, 2)[seed % 3 == 0])
    ports, count = 1 + seed % 3, 400
    spread = int(rng.choice([2, cache.sets * ways, 3 * cache.sets * ways + 2]))
    keys = rng.integers(0, 1 << 20, spread)[rng.integers(0, spread, (ports, count))]
    return cache, Trace(
        keys=keys, tenants=rng.integers(0, 2, keys.shape), beats=int(rng.choice([1, 2, 4])),
        tenant_ways=(1, (1 << ways) - 1) if cache.tenants == 2 else (),
        latency=rng.integers(1, int(rng.choice([3, 20, 150])), 97).tolist(),
        window=int(rng.choice([1, 3, 8, 40, 256])), gap=int(rng.choice([0, 0, 5])))


@pytest.mark.parametrize("seed", range(48))
def test_equal_to_the_whole_model(seed):
    """Way, outcome and eviction in the same cycle, and every transfer at every port."""
    cache, trace = random_case(seed)
    assert compiled(cache, trace) == cycle_by_cycle(cache, trace)


def test_cases_have_every_stall():
    """Of those that plain lookups can meet."""
    found = set()
    for seed in range(12):
        cache, trace = random_case(seed)
        for _, out in play(cache, TraceWorld(trace)):
            found |= {event[1] for event in out.events if event[0] == "stall"}
    assert found == {Stall.ORDER, Stall.MISSES, Stall.WAYS, Stall.SLOTS}


def test_a_change_of_one_cycle_is_seen():
    cache, trace = random_case(1)
    slower = dataclasses.replace(trace, latency=[n + 1 for n in trace.latency])
    assert compiled(cache, slower) != cycle_by_cycle(cache, trace)
