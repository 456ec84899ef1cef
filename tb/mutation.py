"""Turns on one small fault after another in a unit and looks which benches notice.

All faults are in one Verilog file (tools/mutants.py), so a unit is built once. What became of each
is kept by the content of the design and of the benches; a run that was interrupted goes on there.
"""

import importlib
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tools import cache
from tools.cache import BuildError

if TYPE_CHECKING:  # loaded when they are needed: the command line asks for `BEDS` alone
    from amaranth.lib import wiring

    from tools.mutants import Mutant

BEDS = {"context": "tb.context_mutation"}  # unit → the module that holds its `BED`
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
    component: Callable[[], "wiring.Component"]
    checks: Callable[[Path], tuple[Check, ...]]


@dataclass(frozen=True)
class Verdict:
    """`by` is the check that noticed, or SURVIVED; `said` the end of its complaint."""

    mutant: "Mutant"
    by: str
    said: str

    @property
    def caught(self) -> bool:
        return self.by != SURVIVED


def plusarg(number: int) -> tuple[str, ...]:
    return (f"+mutant={number}",)


def judge(unit: str, count: int, seed: int) -> Iterator[Verdict]:
    """What becomes of `count` mutants of `unit`, in the order in which it is found out.

    Raises `BuildError` if a check fails on the design as it is.
    """
    from tools.mutants import mutated
    bed: Bed = importlib.import_module(BEDS[unit]).BED
    design = mutated(bed.top, bed.component(), count, seed)
    kept = design.verilog.parent / f"verdicts-{cache.folders_hash('tb', 'sim')}"  # what judges
    checks = bed.checks(design.verilog)
    if not (kept / "0.json").exists():
        for check in checks:
            if said := _complaint(check, 0):
                raise BuildError(f"'{check.name}' fails without any fault: {said}")
        cache.keep(kept / "0.json", "{}")
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        for done in as_completed([pool.submit(_verdict, checks, kept, mutant)
                                  for mutant in design.mutants]):
            yield done.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _verdict(checks: tuple[Check, ...], kept: Path, mutant: "Mutant") -> Verdict:
    path = kept / f"{mutant.number}.json"
    if not path.exists():
        found = {"by": SURVIVED, "said": ""}
        for check in checks:
            if said := _complaint(check, mutant.number):
                found = {"by": check.name, "said": said}
                break
        cache.keep(path, json.dumps(found))
    return Verdict(mutant, **json.loads(path.read_text()))


def _complaint(check: Check, number: int) -> str:
    """What the check says, or nothing."""
    try:
        check.run(number)
    except AssertionError as error:
        return str(error).strip()[-SAID:] or "failed"
    return ""
