"""Hit rates that follow from theory alone, whatever a cache is built like."""

import math

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


def cyclic_random(entries: int, keys: int) -> float:
    """Cyclic traffic with random replacement, fully associative: between two uses of a key there
    are (N − 1)(1 − h) evictions, each of which spares it with 1 − 1/C."""
    low, high = 0.0, 1.0
    for _ in range(60):  # the right side grows with h, and h = 1 solves it too
        h = (low + high) / 2
        below = (1 - 1 / entries) ** ((keys - 1) * (1 - h)) > h
        low, high = (h, high) if below else (low, h)
    return low


def hashed_sets(ways: int) -> float:
    """Share of as many random keys as entries that have a place in sets of W: those of a set are
    Poisson with mean W, so E[min(n, W)] / W = 1 − e^−W · W^W / W!."""
    return 1 - math.exp(-ways) * ways ** ways / math.factorial(ways)


def zipf(keys: int, exponent: float) -> Values:
    """The probability of each key, the most popular first."""
    weights = np.arange(1, keys + 1) ** -exponent
    return weights / weights.sum()


def che(popularity: Values, entries: int) -> float:
    """LRU's hit rate with independent requests (H. Che et al., IEEE JSAC 20(7), 2002): a key is
    there if asked for within T, where T is such that C keys are expected to be."""
    low, high = 0.0, 1.0
    while (1 - np.exp(-popularity * high)).sum() < entries:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        full = (1 - np.exp(-popularity * middle)).sum() > entries
        low, high = (low, middle) if full else (middle, high)
    return float((popularity * (1 - np.exp(-popularity * low))).sum())


def stack_distances(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many keys came since each was last asked for, itself included; 0 for the first time. LRU
    of C entries hits where it is 1 … C (R. Mattson et al., IBM Systems Journal 9(2), 1970)."""
    stack: list[int] = []
    distances = np.zeros(len(keys), np.int64)
    for now, key in enumerate(keys.tolist()):
        if key in stack:
            place = stack.index(key)
            distances[now] = place + 1
            del stack[place]
        stack.insert(0, key)
    return distances
