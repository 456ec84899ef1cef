"""ICRC check and insertion at every width: beats a cycle, and cycles to the verdict."""

from typing import Any

from bench.rate import ONE_BEAT, every_width, parts, rate
from bench.row import AGREED, Row, Settings, make_row
from rtl.icrc import IcrcCheck, IcrcInsert
from rtl.verilog import to_verilog
from tb.build import simulate

UNITS = {"check": IcrcCheck, "insert": IcrcInsert}
SMALL = 300  # frames, before those of all sizes: 64 bytes, without padding 62


def icrc(settings: Settings) -> list[Row]:
    return [row for each in every_width(settings) for row in _check(each) + _insert(each)]


def _check(settings: Settings) -> list[Row]:
    seen = _run(settings, "check", cases="good")
    agreed = _row(settings, AGREED, "", 1, at_least=1)  # an error of the bench otherwise
    return [agreed, *_rates(settings, "check", seen),
            _row(settings, "check: last beat to verdict", "cycles", max(seen["latencies"]))]


def _insert(settings: Settings) -> list[Row]:
    seen = _run(settings, "insert", idle=0, stall=0)
    return [*_rates(settings, "insert", seen),
            _row(settings, "insert: last beat in to last beat out", "cycles", seen["latency"])]


def _run(settings: Settings, unit: str, **job: Any) -> dict[str, Any]:
    """Small frames, then payloads of all sizes up to 4096 bytes; each judged by the bench."""
    config = settings.config
    top = f"icrc_{unit}"
    # at every width about the same time
    count = (1 if settings.quick else 4) * {64: 12, 128: 25}.get(config.data_width, 50)
    return simulate(top, (config.data_width, ""),
                    lambda: to_verilog(UNITS[unit](config), top), "tb.icrc_tb",
                    settings.simulator, seed=settings.seed, testcase=unit,
                    job={"width": config.data_width, "small": SMALL, "count": count, **job})


def _rates(settings: Settings, unit: str, seen: dict[str, Any]) -> list[Row]:
    width, lengths = settings.config.data_width, seen["lengths"]
    small, mixed = parts(seen["taken"], (lengths[:SMALL], lengths[SMALL:]), width)
    return [
        _row(settings, f"{unit}: frames of all sizes", "beats/cycle", rate(mixed), at_least=1),
        _row(settings, f"{unit}: frames of {lengths[0]} bytes", "frames/cycle",
             rate(small, SMALL), at_least=1 if width >= ONE_BEAT else None),
    ]


def _row(settings: Settings, metric: str, unit: str, value: float, **target: float | None) -> Row:
    return make_row("icrc", settings, metric, unit, value, **target)
