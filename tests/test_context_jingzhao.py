"""The JingZhao-like model shows the figures that it was made from."""

import numpy as np
import pytest

from sim.timing.jingzhao import JingZhaoLike, play

CACHE = JingZhaoLike()


def test_hits_every_third_cycle_after_six():
    keys = np.array([5, *[5] * 50])
    answered, hits = play(CACHE, keys, latency=100, window=1)
    assert hits.tolist() == [False] + [True] * 50
    assert set(np.diff(answered[1:])) == {7}  # one at a time: 6, and the next a cycle later
    warm = np.concatenate([[5], np.full(1000, 5)])
    answered, hits = play(CACHE, warm, latency=1, window=64)
    assert set(np.diff(answered[hits])) == {3}


def test_a_miss_takes_eleven_cycles_more_than_the_memory():
    answered, hits = play(CACHE, np.array([1]), latency=400, window=1)
    assert answered.tolist() == [1 + 411] and not hits.any()


def test_one_answer_of_a_miss_every_seven_cycles():
    answered, _ = play(CACHE, np.arange(20), latency=400, window=64)
    assert set(np.diff(answered)) == {7}


def test_no_merging():
    """Three requests for one key are three misses, as long as it is not there."""
    _, hits = play(CACHE, np.array([9, 9, 9]), latency=400, window=8)
    assert not hits.any()


def test_thirty_outstanding_bound_the_rate():
    count, latency = 30_000, 800
    answered, _ = play(CACHE, np.arange(count), latency=latency, window=256)
    assert count / answered.max() == pytest.approx(30 / (latency + 11), rel=0.03)


def test_true_lru_of_two_ways():
    row = [0, 256, 0, 512, 0, 256]  # one set; 512 takes the place of 256
    _, hits = play(CACHE, np.array(row), latency=10, window=1)
    assert hits.tolist() == [False, False, True, False, True, False]


def test_hits_pass_misses():
    answered, hits = play(CACHE, np.array([7, 8, 7, 7]), latency=100, window=8)
    assert not hits.any()
    keys = np.concatenate([np.full(40, 7), [300, 7, 7]])
    answered, hits = play(CACHE, keys, latency=100, window=50)
    assert hits[-1] and answered[-1] < answered[-3]
