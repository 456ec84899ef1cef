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
from rtl.context import ContextCache
from sim.timing.interface import ACQUIRE, LOOKUP
from sim.timing.traffic import Traffic
from tb.build import build, run
from tools import cache
from tools.cache import ROOT, BuildError
from tools.mutants import Mutant, Mutated, mutated

SURVIVED = ""
SAID = 300  # characters kept of what a bench said


@dataclass(frozen=True)
class Check:
    """One run of a bench."""

    name: str
    module: str  # of cocotb tests
    job: dict[str, Any]
    testcase: str | None = None  # all of the module's if not given
    seed: int = 1


@dataclass(frozen=True)
class Bed:
    """A unit and what judges it, what is quick and notices most first."""

    top: str
    component: Callable[[], wiring.Component]
    checks: tuple[Check, ...]


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
CONTEXT = CacheConfig(sets=4, ways=4, entry_bytes=64, misses=4, targets=2, write_buffer=2,
                      tenants=2, timeout_cycles=1024)
WIDTH, PORTS, LOG_ENTRIES = 256, 2, 6
TENANT_WAYS = (0b0011, 0b1110)


def _timing(name: str, **fields: Any) -> Check:
    traffic = dataclasses.asdict(Traffic(**{"keys": 24, "tenants": CONTEXT.tenants} | fields))
    job = {"cache": dataclasses.asdict(CONTEXT), "traffic": traffic, "ports": PORTS,
           "width": WIDTH, "weights": list(traffic.pop("weights").items()),
           "log_entries": LOG_ENTRIES, "tenant_ways": TENANT_WAYS,
           "limit": 400 * traffic["requests"]}
    return Check(name, "tb.context_timing_tb", job, seed=traffic["seed"])


def _judged(name: str, module: str = "tb.context_cache_tb", **job: Any) -> Check:
    fields = {"entry_bytes": CONTEXT.entry_bytes, "width": WIDTH, "ports": PORTS}
    return Check(name, module, fields | job)


BEDS = {
    "context": Bed("context_cache", lambda: ContextCache(CONTEXT, WIDTH, PORTS), (
        _timing("timing, stalls", requests=600, fail=0.1, idle=0.2, stall=0.3),
        _timing("timing", requests=1200, fail=0.05, seed=2),
        _timing("timing, overdue", requests=400, overdue=0.05, timeout=CONTEXT.timeout_cycles,
                weights={LOOKUP: 3, ACQUIRE: 1}, seed=3),
        _judged("random traffic", testcase="random_traffic", keys=24),
        _judged("random traffic, lost answers", testcase="random_traffic", keys=24, lose=0.02,
                timeout=CONTEXT.timeout_cycles),
    )),
}


def judge(unit: str, count: int, seed: int, workers: int | None = None) -> Iterator[Verdict]:
    """What becomes of `count` mutants of `unit`, in the order in which it is found out.

    Raises `BuildError` if a check fails on the design as it is.
    """
    bed = BEDS[unit]
    design = mutated(bed.top, bed.component(), count, seed)
    folder = build(bed.top, design.verilog)
    kept = design.verilog.parent / f"verdicts-{_benches(bed)}"
    kept.mkdir(exist_ok=True)
    _as_it_is(bed, folder, kept)
    pool = ThreadPoolExecutor(workers or os.cpu_count())
    try:
        for done in as_completed([pool.submit(_verdict, bed, folder, kept, mutant)
                                  for mutant in design.mutants]):
            yield done.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _benches(bed: Bed) -> str:
    """Hash of everything that judges: the jobs, the benches and the timing model."""
    digest = hashlib.sha256(repr(bed.checks).encode())
    for folder in ("tb", "sim"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _as_it_is(bed: Bed, folder: Path, kept: Path) -> None:
    passed = kept / "0.json"
    if passed.exists():
        return
    for check in bed.checks:
        if said := _run(bed, folder, check, 0):
            raise BuildError(f"'{check.name}' fails without any fault: {said}")
    passed.write_text("{}")


def _verdict(bed: Bed, folder: Path, kept: Path, mutant: Mutant) -> Verdict:
    path = kept / f"{mutant.number}.json"
    if not path.exists():
        found = {"by": SURVIVED, "said": ""}
        for check in bed.checks:
            if said := _run(bed, folder, check, mutant.number):
                found = {"by": check.name, "said": said}
                break
        partial = path.with_suffix(".part")
        partial.write_text(json.dumps(found))
        partial.rename(path)
    return Verdict(mutant, **json.loads(path.read_text()))


def _run(bed: Bed, folder: Path, check: Check, number: int) -> str:
    """What the check complains of, or nothing."""
    try:
        run(bed.top, folder, check.module, job=check.job, seed=check.seed,
            testcase=check.testcase, plusargs=(f"+mutant={number}",))
    except AssertionError as error:
        return str(error).strip()[-SAID:] or "failed"
    return ""


def design_of(unit: str, count: int, seed: int) -> Mutated:
    """The mutants that `judge` turns on."""
    bed = BEDS[unit]
    return mutated(bed.top, bed.component(), count, seed)
