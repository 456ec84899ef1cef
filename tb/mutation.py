"""Turns on one small fault after another in a unit and looks which benches notice.

All faults are in one Verilog file (tools/mutants.py), so a unit is built once. What became of each
is kept by the content of the design and of the benches; a run that was interrupted goes on there.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amaranth.lib import wiring

from rtl.config import CacheConfig
from sim.timing.interface import ACQUIRE, FLUSH_ALL, LOOKUP, PREFETCH
from sim.timing.traffic import Traffic
from tb.build import build, run
from tb.context_timing_run import Script, Setting
from tb.player import Player
from tools.cache import ROOT, BuildError
from tools.mutants import Mutant, mutated

SURVIVED = ""
SAID = 300  # characters kept of what a bench said


@dataclass(frozen=True)
class Check:
    """`run` plays a bench with the mutant of a number; `AssertionError` if it notices."""

    name: str
    run: Callable[[int], object]


@dataclass(frozen=True)
class Bed:
    """A unit, and what judges the Verilog of its mutants: what is quick and notices most first."""

    top: str
    component: Callable[[], wiring.Component]
    checks: Callable[[Path], tuple[Check, ...]]


@dataclass(frozen=True)
class Verdict:
    """`by` is the check that noticed, or SURVIVED; `said` the end of its complaint."""

    mutant: Mutant
    by: str
    said: str

    @property
    def caught(self) -> bool:
        return self.by != SURVIVED


# Small, with every feature: several ways and sets, tenants, entries of several beats, merging.
CONTEXT = Setting(CacheConfig(sets=4, ways=4, entry_bytes=64, misses=4, targets=2, write_buffer=2,
                              tenants=2, timeout_cycles=1024), width=256,
                  tenant_ways=(0b0011, 0b1110))


def _context_checks(verilog: Path) -> tuple[Check, ...]:
    """The timing model sees all but the data, which the judge of tb/context_cache_agents.py sees.
    """
    config = CONTEXT.config
    player, folder = Player("context_cache", verilog), build("context_cache", verilog)

    def timing(name: str, log_entries: int, base: int = CONTEXT.base, **fields: Any) -> Check:
        setting = dataclasses.replace(CONTEXT, log_entries=log_entries, base=base)
        script = Script(setting, Traffic(keys=24, tenants=config.tenants, **fields))
        return Check(f"timing, {name}", lambda number: script.compare(player, plusarg(number)))

    def judged(name: str, **fields: Any) -> Check:
        job = {"entry_bytes": config.entry_bytes, "width": CONTEXT.width,
               "ports": CONTEXT.ports, "keys": 24, **fields}
        return Check(name, lambda number: run(
            "context_cache", folder, "tb.context_cache_tb", testcase="random_traffic",
            job=job, plusargs=plusarg(number)))

    timeout = config.timeout_cycles
    cut = Script(CONTEXT, Traffic(requests=400, keys=24, tenants=config.tenants, seed=4))
    after = Script(CONTEXT, Traffic(requests=400, keys=24, tenants=config.tenants, seed=5))
    before = cut.rows(player.inputs)[:len(cut.cycles) // 2]
    return (
        timing("stalls", 6, requests=1000, fail=0.1, idle=0.2, stall=0.3),
        timing("none waits", 20, requests=2000, fail=0.05, seed=2),
        timing("many wait", 11, 0xFFFF_FFFF_FFE0_0000, requests=3000, window=64, stall=0.7,
               weights={LOOKUP: 1}, seed=6),
        timing("hints", 6, 0x8000, requests=2000, seed=7,
               weights={PREFETCH: 40, LOOKUP: 10, FLUSH_ALL: 1}),
        timing("overdue", 11, requests=3000, overdue=0.1, timeout=timeout,
               weights={LOOKUP: 3, ACQUIRE: 1}, seed=3),
        Check("timing, after a reset in the middle",
              lambda number: after.compare(player, plusarg(number), before)),
        judged("random traffic", log_entries=20),
        judged("random traffic, lost answers", lose=0.02, timeout=timeout),
    )


BEDS = {"context": Bed("context_cache", CONTEXT.component, _context_checks)}


def plusarg(number: int) -> tuple[str, ...]:
    return (f"+mutant={number}",)


def judge(unit: str, count: int, seed: int, workers: int | None = None) -> Iterator[Verdict]:
    """What becomes of `count` mutants of `unit`, in the order in which it is found out.

    Raises `BuildError` if a check fails on the design as it is.
    """
    bed = BEDS[unit]
    design = mutated(bed.top, bed.component(), count, seed)
    kept = design.verilog.parent / f"verdicts-{_benches()}"
    kept.mkdir(exist_ok=True)
    checks = bed.checks(design.verilog)
    if not (kept / "0.json").exists():
        for check in checks:
            if said := _complaint(check, 0):
                raise BuildError(f"'{check.name}' fails without any fault: {said}")
        (kept / "0.json").write_text("{}")
    pool = ThreadPoolExecutor(workers or os.cpu_count())
    try:
        for done in as_completed([pool.submit(_verdict, checks, kept, mutant)
                                  for mutant in design.mutants]):
            yield done.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _benches() -> str:
    """Hash of everything that judges."""
    digest = hashlib.sha256()
    for folder in ("tb", "sim"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _verdict(checks: tuple[Check, ...], kept: Path, mutant: Mutant) -> Verdict:
    path = kept / f"{mutant.number}.json"
    if not path.exists():
        found = {"by": SURVIVED, "said": ""}
        for check in checks:
            if said := _complaint(check, mutant.number):
                found = {"by": check.name, "said": said}
                break
        partial = path.with_suffix(".part")
        partial.write_text(json.dumps(found))
        partial.rename(path)
    return Verdict(mutant, **json.loads(path.read_text()))


def _complaint(check: Check, number: int) -> str:
    """What the check says, or nothing."""
    try:
        check.run(number)
    except AssertionError as error:
        return str(error).strip()[-SAID:] or "failed"
    return ""
