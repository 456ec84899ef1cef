"""Captures as scenarios, with a truth file or without, and what the capture says of a run."""

from pathlib import Path

from sim.workload.check import check_answers, check_memory
from sim.workload.from_truth import from_truth
from sim.workload.scenario import Scenario
from sim.workload.truth import TruthError

__all__ = ["TruthError", "check_answers", "check_memory", "from_truth"]


def load(path: str | Path, truth: str | Path | None = "auto",
         entry_bytes: int = 256) -> Scenario:
    """The capture with the truth file given, or with the one beside it (same stem, .json)."""
    if truth == "auto":
        truth = Path(path).with_suffix(".json")
    return from_truth(path, truth, entry_bytes)
