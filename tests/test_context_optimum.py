"""Belady's optimum: as good as the best of all choices, and better than every policy."""

import functools
import random

import numpy as np
import pytest

from sim.timing.optimum import belady
from sim.timing.replacement import POLICIES


def best_of_all(keys, ways):
    """The most hits, by trying every way to evict at every miss."""
    @functools.cache
    def hits(now, held):
        if now == len(keys):
            return 0
        key = keys[now]
        if key in held:
            return 1 + hits(now + 1, held)
        if len(held) < ways:
            return hits(now + 1, held | {key})
        return max(hits(now + 1, held - {old} | {key}) for old in held)
    return hits(0, frozenset())


def policy_hits(keys, ways, name):
    """One set, with the policy's plain definition."""
    policy, held, hits = POLICIES[name](ways), [], 0
    for now, key in enumerate(keys):
        if key in held:
            hits += 1
            policy.use(held.index(key))
            continue
        way = len(held) if len(held) < ways else policy.victim(range(ways), now)
        held[way:way + 1] = [key]
        policy.fill(way)
    return hits


@pytest.mark.parametrize("ways", [1, 2, 3, 4])
def test_as_good_as_the_best_of_all_choices(ways):
    rng = random.Random(ways)
    for length in range(1, 40):
        keys = [rng.randrange(ways + 4) for _ in range(length)]
        assert belady(np.array(keys), ways=ways).sum() == best_of_all(tuple(keys), ways)


@pytest.mark.parametrize("name", POLICIES)
def test_no_policy_beats_it(name):
    rng = random.Random(1)
    for ways in (1, 2, 4, 16):
        for spread in (ways + 1, 2 * ways, 5 * ways):
            keys = [min(rng.randrange(spread), rng.randrange(spread)) for _ in range(2000)]
            assert belady(np.array(keys), ways=ways).sum() >= policy_hits(keys, ways, name)


def test_a_cyclic_walk():
    """Of C + 1 keys in turn C − 1 stay for a while: one miss every C lookups."""
    keys = np.arange(16 * 100) % 17
    assert belady(keys, ways=16)[16:].mean() == pytest.approx(15 / 16, abs=0.01)


def test_each_set_for_itself():
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 64, 4000)
    hits = belady(keys, sets=8, ways=4)
    for row in range(8):
        mine = keys % 8 == row
        assert (hits[mine] == belady(keys[mine], ways=4)).all()
    assert hits.sum() <= belady(keys, ways=32).sum()


def test_an_empty_trace():
    assert len(belady(np.array([], np.int64), ways=4)) == 0
