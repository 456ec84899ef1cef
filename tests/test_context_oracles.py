"""Hit rates that can be calculated without any model, on the timing model and on the hardware.

The hardware takes the same requests as the model, and its cycles must be the model's; so what the
oracles say of the model's answers they say of its own.
"""

import numpy as np
import pytest

from rtl.config import CacheConfig
from sim.timing import plain
from sim.timing.optimum import belady
from sim.timing.oracles import che, cyclic_random, hashed_sets, stack_distances, zipf
from sim.timing.trace import AnyCache, Trace, predict
from tb.context_trace_run import hardware, predicted

POLICIES = ("lru", "plru", "srrip", "random")


def hits(cache, keys, **fields):
    """Of lookups one by one."""
    fields = {"window": 1, "latency": (5,)} | fields
    found = predict(cache, Trace(keys=np.array(keys)[None, :], **fields))[0]
    return found["outcome"] == plain.HIT


def hit_rate(cache, keys):
    """Of the second half, the first having warmed the cache."""
    return hits(cache, keys)[len(keys) // 2:].mean()


def uniform(keys, count, seed=1):
    return np.random.default_rng(seed).choice(keys, count)


def cyclic(keys, count):
    return np.arange(count) % keys


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("keys", [600, 1024, 2048])
@pytest.mark.parametrize("ways", [1, 4, 16])
def test_uniform_traffic_hits_c_of_n(policy, keys, ways):
    """h = C/N for every policy; 0.005 is more than 3 standard deviations of 100,000 lookups."""
    cache = CacheConfig(sets=512 // ways, ways=ways, entry_bytes=64, policy=policy)
    spread = keys // cache.sets * cache.sets or keys  # as many keys in each set
    rate = hit_rate(cache, uniform(np.arange(spread), 200_000))
    assert rate == pytest.approx(512 / spread, abs=0.005)


@pytest.mark.parametrize("keys", [513, 600, 768, 1024, 2048])
def test_cyclic_traffic_never_hits_lru(keys):
    assert not hits(AnyCache(ways=512, policy="lru"), cyclic(keys, 8 * keys)).any()


@pytest.mark.parametrize("policy", ["lru", "plru"])
def test_cyclic_traffic_never_hits_in_sets(policy):
    """In sets of 16 ways with 20 keys each."""
    cache = CacheConfig(sets=4, ways=16, entry_bytes=64, policy=policy)
    assert hit_rate(cache, cyclic(80, 4000)) == 0


@pytest.mark.parametrize("keys, expected", [(600, .723), (768, .418), (1024, .203), (2048, .020)])
def test_cyclic_traffic_and_random_replacement(keys, expected):
    assert cyclic_random(512, keys) == pytest.approx(expected, abs=0.0006)
    rate = hit_rate(AnyCache(ways=512, policy="random"), cyclic(keys, 200 * keys))
    assert rate == pytest.approx(expected, abs=0.006)


@pytest.mark.parametrize("ways, expected", [(2, 0.729), (4, 0.805), (8, 0.860)])
def test_hashed_sets_with_as_many_keys_as_entries(ways, expected):
    assert hashed_sets(ways) == pytest.approx(expected, abs=0.0005)
    rates = []
    for seed in range(10):
        keys = np.random.default_rng(seed).choice(1 << 24, 4096, replace=False)
        cache = AnyCache(sets=4096 // ways, ways=ways, policy="lru", index="hash")
        rates.append(hit_rate(cache, uniform(keys, 100_000, seed)))
    assert np.mean(rates) == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize("entries", [1, 2, 7, 32, 64])
def test_lru_hits_up_to_its_stack_distance(entries):
    """Request by request, not only as a rate."""
    keys = uniform(np.arange(100) ** 2, 5000) // 3
    distances = stack_distances(keys)
    found = hits(AnyCache(ways=entries, policy="lru"), keys)
    assert (found == ((distances > 0) & (distances <= entries))).all()


@pytest.mark.parametrize("exponent", [0.6, 0.8, 0.99, 1.2])
@pytest.mark.parametrize("entries", [64, 512])
def test_zipf_traffic_hits_as_che_says(exponent, entries):
    popularity = zipf(8192, exponent)
    keys = np.random.default_rng(1).choice(8192, 200_000, p=popularity)
    rate = hit_rate(AnyCache(ways=entries, policy="lru"), keys)
    assert rate == pytest.approx(che(popularity, entries), abs=0.006)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("sets, ways, index", [(1, 64, "modulo"), (16, 4, "modulo"),
                                               (16, 4, "hash"), (64, 1, "hash")])
def test_none_beats_belady(policy, sets, ways, index):
    for keys in (uniform(np.arange(128), 20_000), cyclic(100, 20_000),
                 np.random.default_rng(2).zipf(1.3, 20_000) % 4096):
        best = belady(keys, sets=sets, ways=ways, index=index).mean()
        cache = AnyCache(sets=sets, ways=ways, policy=policy, index=index)
        assert hits(cache, keys).mean() <= best


# The IOMMU of a Broadwell Xeon under random 64-byte DMA reads, as pcie-bench measured it (SIGCOMM
# 2018; raw data at github.com/pcie-bench/data): millions of reads a second for a window of so many
# KB, pages of 4 KB. It is a cache of 128 entries with these times for one read after the other.
IOMMU = {1024: 28.0, 1536: 24.5, 2048: 22.9, 3072: 21.5, 4096: 20.8, 8192: 19.9}
HIT_NS, MISS_NS = 18.56, 52.0
HIT_CYCLES, MISS_CYCLES = 3, 6  # with one request open, and a fetch of 1 cycle


def iommu(kilobytes, count, clock_ns, seed=1):
    """Lookups of the pages, timed such that a hit takes HIT_NS, and a miss on average MISS_NS."""
    gap = round(HIT_NS / clock_ns) - HIT_CYCLES
    rest = MISS_NS / clock_ns - gap - MISS_CYCLES + 1
    share = round((rest % 1) * 5)  # of 5 fetches, so many take a cycle more
    latency = [int(rest) + (n < share) for n in range(5)]
    keys = uniform(np.arange(kilobytes // 4), count, seed)[None, :]
    return (CacheConfig(sets=8, ways=16, entry_bytes=64),
            Trace(keys=keys, window=1, gap=gap, latency=latency))


def reads_per_second(found, clock_ns):
    """In millions, of the second half."""
    times = np.sort(found["answered"].ravel())
    half = len(times) // 2
    return 1e3 * (len(times) - 1 - half) / ((times[-1] - times[half]) * clock_ns)


@pytest.mark.parametrize("kilobytes", IOMMU)
@pytest.mark.parametrize("clock_ns", [0.08, 4.64])
def test_iommu_of_pcie_bench(kilobytes, clock_ns):
    """At both clocks HIT_NS is a whole number of cycles."""
    cache, trace = iommu(kilobytes, 400_000, clock_ns)
    assert reads_per_second(predict(cache, trace), clock_ns) == pytest.approx(
        IOMMU[kilobytes], rel=0.02)


def equal_in_hardware(cache, keys, simulator="verilator", width=512, **fields):
    """What the model says of the trace, the hardware having done just that."""
    trace = Trace(keys=np.array(keys), **fields)
    found = predict(cache, trace)
    assert (predicted(found) == hardware(cache, trace, width, simulator)).all()
    return found


def rate_of(found):
    """Of the second half: what found its entry there or on its way. Either has a place, and C / N
    is the share of keys that have one."""
    return (found["outcome"] != plain.MISS)[:, found.shape[1] // 2:].mean()


def test_uniform_traffic_in_hardware():
    cache = CacheConfig(sets=4, ways=4, entry_bytes=64)
    keys = uniform(np.arange(32), 3000).reshape(2, -1)
    found = equal_in_hardware(cache, keys, "icarus", 64, window=1, latency=(5,), beats=8)
    assert rate_of(found) == pytest.approx(0.5, abs=0.04)  # 3 standard deviations


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_in_hardware(policy):
    """Uniform: C/N. Cyclic: none with LRU and tree-PLRU, and the formula with random replacement
    in each set of 16, where 32 keys take turns."""
    cache = CacheConfig(sets=32, ways=16, entry_bytes=64, policy=policy)
    keys = uniform(np.arange(1024), 40_000).reshape(2, -1)
    assert rate_of(equal_in_hardware(cache, keys, latency=(60,))) == pytest.approx(0.5, abs=0.02)
    found = equal_in_hardware(cache, cyclic(1024, 20_480)[None, :], window=1, latency=(3,))
    expected = {"lru": 0, "plru": 0, "random": cyclic_random(512, 1024)}
    if policy in expected:
        assert rate_of(found) == pytest.approx(expected[policy], abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("ways", [2, 4, 8])
def test_hashed_sets_in_hardware(ways):
    cache = CacheConfig(sets=1024 // ways, ways=ways, entry_bytes=64, policy="lru", index="hash")
    keys = np.random.default_rng(ways).choice(1 << 24, 1024, replace=False)
    found = equal_in_hardware(cache, uniform(keys, 20_000).reshape(2, -1), latency=(20,))
    assert rate_of(found) == pytest.approx(hashed_sets(ways), abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("kilobytes", IOMMU)
def test_iommu_of_pcie_bench_in_hardware(kilobytes):
    cache, trace = iommu(kilobytes, 40_000, 4.64)
    fields = {name: getattr(trace, name) for name in ("window", "gap", "latency")}
    found = equal_in_hardware(cache, trace.keys, **fields)
    assert reads_per_second(found, 4.64) == pytest.approx(IOMMU[kilobytes], rel=0.02)


@pytest.mark.slow
def test_lru_and_che_in_hardware():
    """Mattson's distances set by set, request by request; Zipf traffic close to Che's rate."""
    cache = CacheConfig(sets=4, ways=16, entry_bytes=64, policy="lru")
    popularity = zipf(1024, 0.99)
    keys = np.random.default_rng(1).choice(1024, 30_000, p=popularity)
    found = equal_in_hardware(cache, keys[None, :], window=1, latency=(3,))[0]
    for row in range(4):
        distances = stack_distances(keys[keys % 4 == row])
        assert ((found["outcome"] == plain.HIT)[keys % 4 == row]
                == ((distances > 0) & (distances <= 16))).all()
    assert rate_of(found[None, :]) == pytest.approx(che(popularity, 64), abs=0.03)
