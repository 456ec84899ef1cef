"""The context cache: every geometry against a judge that knows each entry's versions."""

import dataclasses

import pytest

from rtl.config import CacheConfig
from rtl.context import ContextCache
from rtl.verilog import to_verilog
from tb.build import simulate


def run(cache: CacheConfig, *, width=64, ports=2, simulator="verilator", testcase="random_traffic",
        module="tb.context_cache_tb", mutate=None, seed=1, **job):
    def generate():
        text = to_verilog(ContextCache(cache, width, ports), "context_cache")
        changed = mutate(text) if mutate else text
        assert mutate is None or changed != text
        return changed

    key = (dataclasses.asdict(cache), width, ports, mutate and mutate("?key?"))
    job |= {"entry_bytes": cache.entry_bytes, "width": width, "ports": ports}
    return simulate("context_cache", key, generate, module, simulator, job=job,
                    testcase=testcase, seed=seed)


GEOMETRIES = {
    "one entry": (CacheConfig(sets=1, ways=1, entry_bytes=64, misses=1, targets=1,
                              write_buffer=1), {}),
    "small": (CacheConfig(sets=2, ways=2, entry_bytes=64, misses=4, targets=2, write_buffer=2),
              {"width": 128}),
    "wide beats": (CacheConfig(sets=8, ways=2, entry_bytes=64, misses=4), {"width": 1024}),
    "contexts": (CacheConfig(sets=4, ways=4, entry_bytes=256, misses=16),
                 {"width": 512, "keys": 24}),
    "lru": (CacheConfig(sets=2, ways=4, entry_bytes=64, misses=4, policy="lru"), {"keys": 16}),
    "srrip": (CacheConfig(sets=2, ways=4, entry_bytes=64, misses=4, policy="srrip"), {"keys": 16}),
    "three ways": (CacheConfig(sets=2, ways=3, entry_bytes=64, misses=4, policy="random"),
                   {"keys": 16}),
    "random": (CacheConfig(sets=2, ways=4, entry_bytes=64, misses=4, policy="random"),
               {"keys": 16}),
    "hash": (CacheConfig(sets=8, ways=1, entry_bytes=64, misses=4, index="hash"), {"keys": 24}),
    "16 ways": (CacheConfig(sets=1, ways=16, entry_bytes=128, misses=8, targets=1), {"keys": 32}),
    "largest": (CacheConfig(sets=4, ways=2, entry_bytes=512, misses=64, targets=8),
                {"width": 512, "keys": 48}),
    "overdue": (CacheConfig(sets=2, ways=2, entry_bytes=64, misses=4, timeout_cycles=1024),
                {"lose": 0.02, "timeout": 1024, "window": 4}),
}
COMPILED = {"contexts", "largest"}


@pytest.mark.parametrize("name", GEOMETRIES)
def test_random_traffic(name):
    cache, job = GEOMETRIES[name]
    result = run(cache, simulator="verilator" if name in COMPILED else "icarus", **job)
    counters = result["counters"]
    assert counters["writebacks"] and counters["fills"] and counters["hits"]


def test_no_failed_fetches():
    cache, job = GEOMETRIES["small"]
    assert run(cache, simulator="icarus", fail=0, **job)["counters"]["fetch_errors"] == 0


def test_three_ports():
    cache, job = GEOMETRIES["small"]
    run(cache, simulator="icarus", ports=3, **job)


@pytest.mark.parametrize("fault", ["dirty", "lock"])
def test_a_fault_is_caught(fault, monkeypatch):
    """A cache that forgets that an entry changed, or that it is locked."""
    from rtl.context.decide import Decision
    right = Decision._commit if fault == "dirty" else Decision._hit

    def wrong(self, m):
        right(self, m)
        m.d.comb += self.next.dirty.eq(0) if fault == "dirty" else self.next.locked.eq(0)

    monkeypatch.setattr(Decision, right.__name__, wrong)
    cache, job = GEOMETRIES["small"]
    with pytest.raises(AssertionError, match="lost|stale|not the last version|locked|tests failed"):
        run(cache, simulator="icarus", mutate=lambda text: text + f"// {fault}\n", **job)


ONE_WAY = CacheConfig(sets=1, ways=1, entry_bytes=64, misses=4, targets=4, write_buffer=2,
                      timeout_cycles=1024)
TWO_WAYS = dataclasses.replace(ONE_WAY, ways=2)


@pytest.mark.parametrize("race, cache", [
    ("fill_against_eviction", ONE_WAY), ("writeback_against_refetch", ONE_WAY),
    ("invalidate_against_fill", ONE_WAY), ("commit_against_eviction", ONE_WAY),
    ("two_ports_acquire", ONE_WAY), ("flush_all_under_load", TWO_WAYS),
    ("late_answer", ONE_WAY), ("reset_with_misses_in_flight", TWO_WAYS),
])
def test_race(race, cache):
    run(cache, simulator="icarus", testcase=race, module="tb.context_cache_races")
