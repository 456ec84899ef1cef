"""The main job on the bundled capture: speed of co-simulation, cycles a packet, time to wait."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.row import AGREED, Row, Settings, make_row
from rtl.config import NicConfig
from sim.workload.replay import load
from sim.workload.scenario import Frame
from tb.nic_job import wire_cycles
from tb.nic_run import simulate_scenario
from tools import cache

CAPTURE = Path(__file__).resolve().parent.parent / "captures" / "first.pcap"
SPEED = 5000  # cycles/s in co-simulation, at 512 bits
WAIT = 20.0  # seconds, when built already


def simulate(settings: Settings) -> list[Row]:
    """The capture with the simulator built already; unless quick, also a build from nothing."""
    config, simulator = settings.config, settings.simulator
    scenario = load(CAPTURE, entry_bytes=config.context.entry_bytes)

    def run() -> dict[str, Any]:
        return simulate_scenario(scenario, config, simulator=simulator, seed=settings.seed)

    rows = []
    if not settings.quick:
        with _empty_cache():
            rows.append(_row(settings, "build from nothing", "s", run()["wall_s"]["build"]))
    run()  # builds, if that was not done before
    result = run()
    wide = config.data_width == 512 and simulator == "verilator"
    packets = len(scenario.frames)
    return [
        _row(settings, AGREED, "", int(result["verdict"] == "pass"), at_least=1),
        _row(settings, "co-simulation speed", "cycles/s", result["cycles_per_s"],
             at_least=SPEED if wide else None),
        _row(settings, "cycles a packet", "cycles", round(result["cycles"] / packets, 2)),
        _row(settings, "bound of cycles a packet", "cycles",
             round(sum(_bound(config, frame) for frame in scenario.frames) / packets, 2)),
        *rows,
        _row(settings, "run, built already", "s", round(sum(result["wall_s"].values()), 2),
             at_most=WAIT if wide else None),
    ]


def _row(settings: Settings, metric: str, unit: str, value: float, **target: float | None) -> Row:
    return make_row("simulate", settings, metric, unit, value, **target)


def _bound(config: NicConfig, frame: Frame) -> float:
    """Cycles that the frame takes on the wire or in beats, whichever is more."""
    return max(wire_cycles(frame.data, config), -(-len(frame.data) // config.beat_bytes))


@contextmanager
def _empty_cache() -> Iterator[None]:
    kept = cache.CACHE
    with tempfile.TemporaryDirectory(prefix="rnic-bench-") as folder:
        cache.CACHE = Path(folder)
        try:
            yield
        finally:
            cache.CACHE = kept
