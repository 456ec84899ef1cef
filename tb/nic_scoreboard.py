"""Judges what the bench saw against the golden model: every frame, context, CQE and byte."""

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from sim.golden.layout import QpContext
from sim.golden.memory import HostMemory
from sim.golden.nic import GoldenNic
from sim.golden.outcome import Outcome
from sim.workload.scenario import Scenario
from tb.nic_job import Job, Observed

Mismatch = dict[str, Any]  # frame, field, expected, got, cycle
MEMORY_BYTES_SHOWN = 5


def predict(job: Job) -> tuple[list[Outcome], HostMemory]:
    """What the model says of each frame, and host memory at the end."""
    scenario = job.scenario
    memory = scenario.memory.copy()
    nic = GoldenNic(memory, scenario.settings, entry_bytes=scenario.entry_bytes,
                    max_frame=job.config.parser.max_frame)
    posts = list(reversed(scenario.posts))
    outcomes = []
    for frame in scenario.frames:
        while posts and posts[-1].frame_number <= frame.number:
            post = posts.pop()
            memory.write(post.address, post.data)
        outcomes.append(nic.receive(frame.data, frame.number in job.mac_errors))
    return outcomes, memory


def compare(job: Job, seen: Observed, outcomes: list[Outcome],
            memory: HostMemory) -> list[Mismatch]:
    """All differences, in the order of the frames; then what belongs to no frame."""
    found = [*_fates(job.scenario, seen, outcomes), *_answers(job.scenario, seen, outcomes),
             *_host_queue(job.scenario, seen, outcomes),
             *_completions(job.scenario, seen, outcomes)]
    found.sort(key=lambda mismatch: mismatch["frame"])
    found += _end(seen)
    if seen.flushed:
        found += _memory(memory, seen.memory)
    return found


def fate(seen: Observed) -> list[dict[str, Any]]:
    """By sequence: what the RTL did with a frame, in the words of `Outcome`."""
    fates: list[dict[str, Any]] = []
    for report in seen.reports:
        kind, error = report["kind"], report["error"]
        item = {"action": "host_queue", "reason": None, "cycle": report["cycle"]}
        if error != "none":
            item |= {"action": "dropped", "reason": error}
        elif kind in ("pause", "pfc"):
            item |= {"action": "dropped", "reason": "mac_control"}
        elif kind in ("roce2", "roce1", "cnp"):
            item |= {"action": "unfinished"}
        fates.append(item)
    for sequence, ok in seen.icrc.items():
        if not ok:
            fates[sequence] |= {"action": "dropped", "reason": "icrc"}
    for packet in seen.executed:
        item = fates[packet.sequence]
        item["cycle"] = packet.cycle
        if packet.drop != "none":
            item |= {"action": "dropped", "reason": packet.drop}
        else:
            item["action"] = "answered" if packet.answered else "accepted"
        item |= {"qpn": packet.qpn, "context": packet.context}
    return fates


def _fates(scenario: Scenario, seen: Observed, outcomes: list[Outcome]) -> Iterator[Mismatch]:
    fates = fate(seen)
    for frame, outcome, got in zip_longest(scenario.frames, outcomes, fates):
        if got is None or frame is None:
            number = frame.number if frame else 0
            yield _mismatch(number, "report", "one a frame", "missing" if frame else "too many")
            return
        cycle = got["cycle"]
        for name in ("action", "reason"):
            expected = getattr(outcome, name)
            if expected != got[name]:
                yield _mismatch(frame.number, name, expected, got[name], cycle)
        if outcome.context is not None and "context" in got:
            size = len(got["context"])
            if outcome.context[:size] != got["context"]:
                yield from _context(frame.number, outcome.context[:size], got["context"], cycle)


def _context(number: int, expected: bytes, got: bytes, cycle: int) -> Iterator[Mismatch]:
    named = False
    want, have = QpContext(expected), QpContext(got)
    for name in QpContext.fields():
        if getattr(want, name) != getattr(have, name):
            named = True
            yield _mismatch(number, f"context.{name}", getattr(want, name), getattr(have, name),
                            cycle)
    if not named:
        yield _mismatch(number, "context.reserved", expected.hex(), got.hex(), cycle)


def _answers(scenario: Scenario, seen: Observed, outcomes: list[Outcome]) -> Iterator[Mismatch]:
    expected = [(frame.number, answer) for frame, outcome in
                zip(scenario.frames, outcomes, strict=True) for answer in outcome.frames]
    yield from _lists("answer", expected, seen.transmitted)


def _host_queue(scenario: Scenario, seen: Observed,
                outcomes: list[Outcome]) -> Iterator[Mismatch]:
    expected = [(frame.number, frame.data) for frame, outcome in
                zip(scenario.frames, outcomes, strict=True) if outcome.action == "host_queue"]
    yield from _lists("host_queue", expected, seen.host_frames)


def _completions(scenario: Scenario, seen: Observed,
                 outcomes: list[Outcome]) -> Iterator[Mismatch]:
    expected = [(frame.number, cqe) for frame, outcome in
                zip(scenario.frames, outcomes, strict=True) for cqe in outcome.completions]
    yield from _lists("completion", expected, seen.completions)


def _lists(field: str, expected: list[tuple[int, bytes]],
           got: list[tuple[int, bytes]]) -> Iterator[Mismatch]:
    """One line for each item that differs; a list that is out of step ends at the first."""
    number = 0
    for want, have in zip_longest(expected, got):
        if want is None or have is None:
            number = want[0] if want else number
            yield _mismatch(number, f"{field}.count", len(expected), len(got),
                            have[0] if have else None)
            return
        number, data = want
        if data != have[1]:
            yield _mismatch(number, field, data.hex(), have[1].hex(), have[0])


def _end(seen: Observed) -> Iterator[Mismatch]:
    if not seen.finished:
        yield _mismatch(0, "finished", True, False, seen.cycles)
    elif not seen.flushed:
        yield _mismatch(0, "flushed", True, False, seen.cycles_run)
    for text in seen.violations:
        yield _mismatch(0, "pcie", "within the rules", text)


def _memory(expected: HostMemory, got: HostMemory) -> Iterator[Mismatch]:
    addresses = expected.differences(got)
    for address in addresses[:MEMORY_BYTES_SHOWN]:
        yield _mismatch(0, f"memory[{address:#x}] ({len(addresses)} bytes differ)",
                        expected.read(address, 1).hex(), got.read(address, 1).hex())


def _mismatch(frame: int, field: str, expected: Any, got: Any,
              cycle: int | None = None) -> Mismatch:
    return {"frame": frame, "field": field, "expected": expected, "got": got, "cycle": cycle}
