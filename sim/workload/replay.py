"""Captures as scenarios, with a truth file or without, and what the capture says of a run."""

from pathlib import Path

from sim.workload.check import check_answers, check_memory
from sim.workload.from_truth import from_truth
from sim.workload.inferred import inferred
from sim.workload.scenario import Scenario
from sim.workload.truth import TruthError

__all__ = ["TruthError", "check_answers", "check_memory", "from_truth", "inferred", "load"]


def load(path: str | Path, truth: str | Path | None = "auto",
         entry_bytes: int = 256) -> Scenario:
    """The capture with the truth file given, with the one beside it ("auto": same stem, .json) if
    there is one, or with none (None)."""
    if truth == "auto":
        beside = Path(path).with_suffix(".json")
        truth = beside if beside.exists() else None
    if truth is None:
        return inferred(path, entry_bytes=entry_bytes)
    return from_truth(path, truth, entry_bytes)
