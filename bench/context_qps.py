"""Lookups a cycle against the number of QPs: this cache and a JingZhao-like one, same traffic.

The figures are the timing models'; at some points the hardware plays the same trace, and has to
take the model's cycles.
"""

import dataclasses
from typing import Any

import numpy as np

from bench.row import Row, Settings, make_row
from rtl.config import CacheConfig, NicConfig
from sim.timing import jingzhao
from sim.timing.oracles import zipf
from sim.timing.plain import HIT
from sim.timing.trace import Keys, Trace, predict
from tb.context_trace_run import hardware, predicted

QPS = tuple(4 ** n for n in range(9))  # 1 … 64 K
PATTERNS = ("uniform", "cyclic", "zipf")
EXPONENT = 0.99  # of Zipf's law, as in YCSB
LATENCIES_NS = (500, 1000)
WINDOW = 256  # open requests: as many as a port has tags
IN_HARDWARE = (("uniform", 1), ("uniform", 256), ("uniform", 4096), ("cyclic", 4096),
               ("zipf", 65536))
THEIRS = jingzhao.JingZhaoLike()


def requests(pattern: str, qps: int, count: int, seed: int = 1) -> Keys:
    """QP numbers; the popular ones of Zipf's law are spread among all."""
    if pattern == "cyclic":
        return np.arange(count) % qps
    rng = np.random.default_rng(seed)
    if pattern == "uniform":
        return rng.integers(0, qps, count)
    return rng.permutation(qps)[rng.choice(qps, count, p=zipf(qps, EXPONENT))]


def caches(config: NicConfig) -> dict[str, CacheConfig | jingzhao.JingZhaoLike]:
    """Ours as configured, ours with the other's entries and misses, and the other."""
    same = dataclasses.replace(
        config.context, sets=THEIRS.sets, ways=THEIRS.ways, misses=THEIRS.outstanding,
        policy="lru", index="modulo")
    return {f"{config.name}": config.context, "ours as large": same, "JingZhao-like": THEIRS}


def _trace(config: NicConfig, keys: Keys, latency: int) -> Trace:
    beats = max(config.context.entry_bytes // config.beat_bytes, 1)
    return Trace(keys=keys[None, :], latency=(latency,), window=WINDOW, beats=beats)


def rate(config: NicConfig, cache: CacheConfig | jingzhao.JingZhaoLike, keys: Keys,
         latency_ns: float) -> tuple[float, float]:
    """(lookups a cycle, hits a lookup), of the second half."""
    latency = round(latency_ns * config.clock_mhz / 1000)
    if isinstance(cache, jingzhao.JingZhaoLike):
        answered, hits = jingzhao.play(cache, keys, latency=latency, window=WINDOW)
    else:
        found = predict(cache, _trace(config, keys, latency))[0]
        answered, hits = found["answered"], found["outcome"] == HIT
    half = len(keys) // 2
    times = np.sort(answered)
    return (len(keys) - 1 - half) / (times[-1] - times[half]), float(hits[half:].mean())


def _equal_in_hardware(settings: Settings, keys: Keys, latency_ns: float) -> float:
    """Share of the lookups that the hardware takes and answers in the model's cycles."""
    config, cache = settings.config, settings.config.context
    trace = _trace(config, keys, round(latency_ns * config.clock_mhz / 1000))
    played = hardware(cache, trace, config.data_width, settings.simulator, settings.seed)
    return float((played == predicted(predict(cache, trace))).all(axis=2).mean())


def context_qps(settings: Settings) -> list[Row]:
    """At the clock of the configuration."""
    config = settings.config

    def row(metric: str, unit: str, value: float, **target: Any) -> Row:
        return make_row("context_qps", settings, metric, unit, round(value, 4), **target)

    rows = []
    count = 20_000 if settings.quick else 400_000
    for latency in LATENCIES_NS[:1] if settings.quick else LATENCIES_NS:
        for pattern in PATTERNS:
            for qps in QPS[::4] if settings.quick else QPS:
                keys = requests(pattern, qps, count, settings.seed)
                rows += [row(f"{name}, {pattern}, {qps} QPs, {latency} ns", "lookups/cycle",
                             rate(config, cache, keys, latency)[0])
                         for name, cache in caches(config).items()]
    for pattern, qps in IN_HARDWARE[:1] if settings.quick else IN_HARDWARE:
        keys = requests(pattern, qps, 1000 if settings.quick else 5000, settings.seed)
        rows.append(row(f"in hardware as predicted, {pattern}, {qps} QPs", "of all lookups",
                        _equal_in_hardware(settings, keys, LATENCIES_NS[0]), at_least=1))
    return rows
