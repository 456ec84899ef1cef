"""The DMA engine against its targets: payload rate, reads at a latency, small requests, latency.

A beat a cycle is all that the boundary carries, so rates are beats over cycles. Where a request
does not fill its beats (unaligned), what the TLPs need is the bound, not the payload.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

from bench.row import AGREED, Row, Settings, make_row
from rtl.dma import Dma
from rtl.verilog import to_verilog
from tb.build import simulate

WIDTHS = (512, 1024, 2048)
LENGTHS = (64, 256, 4096, 65536, 1 << 20)
SKEWS = (0, 1, 37)
LATENCIES = (200, 400, 1000)
SMALL = 64
OPERATIONS = 300
TAXI = {"cycles/s": 7226, "cycles": 18.7}  # its 512-bit DMA read bench, on 2 cores


def dma(settings: Settings) -> list[Row]:
    rows = [make_row("dma", settings, AGREED, "", 1, at_least=1)]  # an error of the bench otherwise
    for width in WIDTHS[:1] if settings.quick else WIDTHS:
        config = dataclasses.replace(settings.config, data_width=width,
                                     name=f"{settings.config.name} {width} b")
        each = dataclasses.replace(settings, config=config)
        rows += [*_writes(each), *_reads(each), *_small(each), *_both(each), *_beside(each),
                 *_latency(each)]
    return rows


def _run(settings: Settings, bulk: int = 0, weight: int = 1, **job: Any) -> dict[str, Any]:
    """One writer and one ordered reader; with `bulk` of each more, the reader is a cache's.

    `weight` is its own, where all others have 1.
    """
    config = settings.config
    ordered = (not bulk, *(True,) * bulk)
    count, weights = len(ordered), (weight, *(1,) * bulk)
    overrides = [f"data_width={config.data_width}"]
    overrides += [f"dma.{name}={value}" for name, value in dataclasses.asdict(config.dma).items()]
    return simulate(
        "dma", ("speed", repr(config.dma), config.data_width, bulk, weight),
        lambda: to_verilog(Dma(config, count, count, ordered, (), weights), "dma"),
        "tb.dma_speed_tb",
        settings.simulator, seed=settings.seed, testcase="speed",
        job={"preset": "asic400g", "settings": overrides, "ordered": ordered, "bulk": bulk,
             **job})


def _beats(seen: dict[str, Any]) -> float:
    """Beats on `rq` a cycle, from the first to the last."""
    tlps = seen["tlps"]
    first = tlps[0][0] - tlps[0][2] + 1
    return round(sum(beats for *_, beats in tlps) / (tlps[-1][0] - first + 1), 4)


def _writes(settings: Settings) -> Iterator[Row]:
    lengths = (64, 4096) if settings.quick else LENGTHS
    total = (1 << 15) if settings.quick else 1 << 18
    for length in lengths:
        for skew in SKEWS[:2] if settings.quick else SKEWS:
            count = max(1, min(1024, total // length))
            seen = _run(settings, writes={"length": length, "skew": skew, "count": count})
            yield _row(settings, f"writes of {length} bytes, skew {skew}", "beats/cycle",
                       _beats(seen), at_least=0.98)


def _reads(settings: Settings) -> Iterator[Row]:
    limits = settings.config.dma
    size = settings.config.data_width // 8
    for latency in LATENCIES[-1:] if settings.quick else LATENCIES:
        link = limits.tags * limits.mrrs / size / latency
        count = 4 * limits.tags + 2 * latency * size // limits.mrrs
        seen = _run(settings, latency=latency,
                    reads={"length": limits.mrrs, "skew": 0, "count": count})
        yield _row(settings, f"reads over min(link, tags × MRRS / latency), {latency} cycles", "",
                   round(_read_rate(seen) / min(1, link), 4), at_least=0.95)


def _read_rate(seen: dict[str, Any]) -> float:
    """Beats delivered a cycle after the first quarter."""
    cycles = seen["read_beats"]
    skip = len(cycles) // 4
    return (len(cycles) - 1 - skip) / (cycles[-1] - cycles[skip])


def _small(settings: Settings) -> Iterator[Row]:
    what = {"length": SMALL, "skew": 0, "count": OPERATIONS}
    seen = _run(settings, reads=what, latency=400)
    taken = seen["reads_taken"][:settings.config.dma.tags]
    yield _row(settings, f"reads of {SMALL} bytes until the tags run out", "requests/cycle",
               round((len(taken) - 1) / (taken[-1] - taken[0]), 4), at_least=1)
    taken = _run(settings, writes=what)["writes_taken"]
    yield _row(settings, f"writes of {SMALL} bytes", "requests/cycle",
               round((len(taken) - 1) / (taken[-1] - taken[0]), 4), at_least=1)


def _both(settings: Settings) -> Iterator[Row]:
    """Each alone, then both at once."""
    limits, latency = settings.config.dma, 200
    count = OPERATIONS // 2 if settings.quick else 2 * OPERATIONS
    reads = {"length": limits.mrrs, "skew": 0, "count": count}
    alone = _read_rate(_run(settings, reads=reads, latency=latency))
    # more writes than the time of the reads takes
    size = settings.config.data_width // 8
    writes = {"length": 4096, "skew": 0, "count": 2 * count * limits.mrrs // 4096 + 8 * size // 64}
    seen = _run(settings, reads=reads, writes=writes, latency=latency)
    yield _row(settings, "reads beside writes, over reads alone", "",
               round(_read_rate(seen) / alone, 4), at_least=0.98)
    yield _row(settings, "beats on rq, reads and writes at once", "beats/cycle",
               _beats(seen), at_least=0.98)


def _beside(settings: Settings) -> Iterator[Row]:
    """Context misses while payload is written and read by three ports each."""
    entry = settings.config.context.entry_bytes
    for weight in (1, settings.config.dma.context_weight):
        taken = _run(settings, bulk=3, weight=weight, latency=200,
                     reads={"length": entry, "skew": 0, "count": OPERATIONS},
                     writes={"length": 4096, "skew": 0, "count": OPERATIONS // 2})["reads_taken"]
        # the first ones find an empty engine
        rate = (len(taken) - 65) / (taken[-1] - taken[64])
        yield _row(settings, f"context reads beside payload, weight {weight}", "requests/cycle",
                   round(rate, 4))


def _latency(settings: Settings) -> Iterator[Row]:
    for kind in ("writes", "reads"):
        job: dict[str, Any] = {kind: {"length": SMALL, "skew": 0, "count": 1}}
        seen = _run(settings, **job)
        cycle, _, beats = seen["tlps"][0]
        yield _row(settings, f"{kind[:-1]} request to TLP, idle engine", "cycles",
                   cycle - beats + 1 - seen[f"{kind}_taken"][0], at_most=4)
    seen = _run(settings, reads={"length": SMALL, "skew": 0, "count": 1000}, latency=400)
    yield _row(settings, "co-simulation", "cycles/s", round(seen["cycles"] / seen["seconds"]),
               at_least=TAXI["cycles/s"])
    yield _row(settings, f"a read of {SMALL} bytes of 1000, latency 400", "cycles",
               round(seen["cycles"] / 1000, 2), at_most=TAXI["cycles"])


def _row(settings: Settings, metric: str, unit: str, value: float, **target: float | None) -> Row:
    return make_row("dma", settings, metric, unit, value, **target)
