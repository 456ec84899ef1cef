"""The cache's timing model predicts every transfer and event of the hardware, cycle by cycle."""

import dataclasses

import pytest

from rtl.config import CacheConfig
from rtl.context import ContextCache
from rtl.verilog import to_verilog
from sim.timing.interface import ACQUIRE, LOOKUP
from sim.timing.traffic import Traffic
from tb.build import simulate


def compare(cache: CacheConfig, traffic: Traffic, *, ports=2, width=64, log_entries=6,
            tenant_ways=(), simulator="icarus", mutate=""):
    def generate():
        return to_verilog(ContextCache(cache, width, ports), "context_cache") + mutate

    fields = dataclasses.asdict(traffic)
    job = {"cache": dataclasses.asdict(cache), "traffic": fields, "ports": ports, "width": width,
           "weights": list(fields.pop("weights").items()), "log_entries": log_entries,
           "tenant_ways": tenant_ways, "limit": 400 * traffic.requests}
    return simulate("context_cache", (dataclasses.asdict(cache), width, ports, mutate), generate,
                    "tb.context_timing_tb", simulator, job=job, seed=traffic.seed)


def cache(**fields):
    return CacheConfig(**{"entry_bytes": 64, "write_buffer": 2, "timeout_cycles": 1024} | fields)


STALLS = {"idle": 0.2, "stall": 0.3}
LOOKUPS = {LOOKUP: 1.0}
GEOMETRIES = {
    "one entry": (cache(sets=1, ways=1, misses=1, targets=1, write_buffer=1), {}),
    "plru": (cache(sets=2, ways=2, misses=4, targets=2), {}),
    "lru, 2 beats": (cache(sets=2, ways=4, entry_bytes=128, misses=4, targets=8, policy="lru"),
                     {"keys": 24}),
    "srrip": (cache(sets=4, ways=4, misses=16, targets=4, policy="srrip"), {"keys": 24}),
    "random, hash": (cache(sets=4, ways=4, misses=2, index="hash", policy="random"), {"keys": 32}),
    "16 ways": (cache(sets=1, ways=16, misses=8), {"keys": 32}),
    "tenants": (cache(sets=4, ways=4, misses=4, tenants=2), {"keys": 24, "tenants": 2}),
    "direct-mapped": (cache(sets=16, ways=1, misses=64, targets=1), {"keys": 48}),
}
TENANT_WAYS = {"tenants": (0b0011, 0b1110)}


@pytest.mark.parametrize("stalls", [{}, STALLS], ids=["free", "stalls"])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_equal(name, stalls):
    config, fields = GEOMETRIES[name]
    traffic = Traffic(**{"requests": 1200, "fail": 0.05} | fields | stalls)
    result = compare(config, traffic, tenant_ways=TENANT_WAYS.get(name, ()))
    assert result["answers"] >= traffic.requests
    assert all(result["events"][event] for event in ("hit", "miss", "merged", "fill", "writeback"))


def test_equal_where_fetches_are_overdue():
    traffic = Traffic(requests=600, overdue=0.05, timeout=1024, weights={LOOKUP: 3, ACQUIRE: 1})
    result = compare(GEOMETRIES["plru"][0], traffic)
    assert result["events"]["timeout"] > 3


def test_equal_with_many_misses():
    """Lookups alone, with as many open as a port has tags."""
    traffic = Traffic(requests=3000, weights=LOOKUPS, keys=300, window=200, latency=(90, 110))
    result = compare(GEOMETRIES["direct-mapped"][0], traffic, log_entries=12)
    assert result["events"]["miss"] > 1000
