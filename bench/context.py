"""The context cache: lookups a cycle that hit and that miss, merging, read-modify-writes."""

import dataclasses
from typing import Any, Literal

from bench.row import Row, Settings, make_row
from rtl.config import CacheConfig
from rtl.context import ContextCache
from rtl.verilog import to_verilog
from tb.build import simulate

MISSES = (1, 4, 16, 64, 256)
LATENCIES = (100, 200, 400, 1000)
QUICK = ((4, 100), (16, 200))
MERGED = 16
PORTS, WIDTH = 2, 512
ENTRY: Literal[64] = 64  # bytes: an entry a beat, so that the bus is no bound


def _cache(misses: int) -> CacheConfig:
    return CacheConfig(sets=256, ways=4, entry_bytes=ENTRY, misses=misses)


def _run(settings: Settings, misses: int, testcase: str, **job: Any) -> dict[str, Any]:
    cache = _cache(misses)
    job |= {"entry_bytes": ENTRY, "width": WIDTH, "ports": PORTS, "log_entries": 24,
            "misses": misses}
    return simulate(
        "context_cache", (dataclasses.asdict(cache), WIDTH, PORTS),
        lambda: to_verilog(ContextCache(cache, WIDTH, PORTS), "context_cache"),
        "tb.context_cache_speed", settings.simulator, job=job, testcase=testcase,
        seed=settings.seed)


def context(settings: Settings) -> list[Row]:
    """In cycles, so the figures hold on any machine. The clients take every answer at once."""
    def row(metric: str, unit: str, value: float, **target: float) -> Row:
        return make_row("context", settings, metric, unit, round(value, 4), **target)

    pairs = QUICK if settings.quick else [(m, n) for m in MISSES for n in LATENCIES]
    rows = []
    for misses, latency in pairs:
        rate = _run(settings, misses, "misses", latency=latency)["rate"]
        bound = min(1, misses / latency)
        rows.append(row(f"miss rate over bound, M={misses}, L={latency}", "", rate / bound,
                        at_least=0.95))
    misses = pairs[-1][0]
    hits = _run(settings, misses, "hits")
    one_key = _run(settings, misses, "one_key", merge=MERGED)
    return rows + [
        row("hits", "lookups/cycle", hits["alone"], at_least=1),
        row("hit latency", "cycles", hits["latency"], at_most=4),
        row(f"hits with M={misses} misses outstanding, over hits alone", "",
            hits["loaded"] / hits["alone"], at_least=0.98),
        row(f"fetches for {MERGED} requests to one key", "", one_key["fetches"], at_most=1),
        row("read-modify-write of one entry, acquired after the commit", "cycles",
            one_key["after"], at_most=4),
        row("read-modify-write of one entry, acquired before it", "cycles",
            one_key["waiting"], at_most=4),
    ]
