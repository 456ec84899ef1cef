"""A run judged by the capture: its answers, and the final memory."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from sim.golden.layout import QpContext
from sim.golden.memory import HostMemory
from sim.golden.outcome import Outcome
from sim.workload import oddities
from sim.workload.excused import Fork, after_fork, without
from sim.workload.oddities import Answer, Cause
from sim.workload.scenario import Frame, Scenario

Mismatch = dict[str, Any]


def check_answers(scenario: Scenario, outcomes: Sequence[Outcome],
                  ) -> tuple[list[Mismatch], Counter[str]]:
    """The outcomes, one a frame of the scenario, against the answers that the capture holds.

    Per QP and in order. Gives the mismatches, each {frame, field, expected, got}, where `frame`
    is the one answered (or the capture's own answer when there is none of ours), and how often
    each oddity of Linux's software NIC was allowed for (docs/golden.md).
    """
    mismatches, allowed, _ = _check(scenario, outcomes)
    return sorted(mismatches, key=lambda found: found["frame"]), allowed


def check_memory(scenario: Scenario, memory: HostMemory,
                 outcomes: Sequence[Outcome] = ()) -> list[dict[str, Any]]:
    """Each region whose final contents are known: {id, sha256, ok, excused}.

    `excused` counts bytes that differ by right: the capture's host wrote them by requests of its
    own, or a QP did after an oddity from which the two part (docs/golden.md).
    """
    excused = list(scenario.not_ours)
    if outcomes:
        for fork in _check(scenario, outcomes)[2]:
            excused += after_fork(scenario, fork)
    found = []
    for region in scenario.regions:
        if region.final is not None:
            held = memory.read(region.va, region.length)
            one, other = (without(data, region.va, excused) for data in (held, region.final))
            differing = sum(a != b for a, b in zip(held, region.final, strict=True))
            found.append({"id": region.id, "sha256": hashlib.sha256(held).hexdigest(),
                          "ok": one == other, "excused": differing if one == other else 0})
    return found


def _check(scenario: Scenario, outcomes: Sequence[Outcome],
           ) -> tuple[list[Mismatch], Counter[str], list[Fork]]:
    ours = _by_qp(_our_answers(scenario, outcomes))
    theirs = _by_qp([Answer.of(frame.number, frame.data) for frame in scenario.answers])
    mismatches: list[Mismatch] = []
    allowed: Counter[str] = Counter()
    forks = []
    for qp in sorted(ours.keys() | theirs.keys()):
        cause = _check_qp(theirs[qp], ours[qp], mismatches, allowed)
        if cause is not None:
            forks.append(Fork(cause.qpn, cause.number, cause.before))
    for oddity, fork in _without_answer(scenario, outcomes):
        forks.append(fork)
        allowed[oddity] += 1
    return mismatches, allowed, forks


def _without_answer(scenario: Scenario, outcomes: Sequence[Outcome],
                    ) -> Iterator[tuple[str, Fork]]:
    """Where rxe does with a UC or UD queue pair what it should not: the first time on each."""
    found = set()
    for frame, outcome, qpn, before in _with_contexts(scenario, outcomes):
        oddity = oddities.OF_DROPS.get(outcome.reason or "")
        if oddity is not None and qpn not in found:
            found.add(qpn)
            yield oddity, Fork(qpn, frame.number, before)


def _our_answers(scenario: Scenario, outcomes: Sequence[Outcome]) -> list[Answer]:
    answers = []
    for frame, outcome, qpn, before in _with_contexts(scenario, outcomes):
        cause = Cause.of(frame, qpn, before)
        answers += [Answer.of(frame.number, data, cause) for data in outcome.frames]
    return answers


def _with_contexts(scenario: Scenario, outcomes: Sequence[Outcome],
                   ) -> Iterator[tuple[Frame, Outcome, int, QpContext]]:
    """Each frame that reached a QP, that QP's number, and its context before the frame."""
    contexts: dict[int, QpContext] = {}
    for frame, outcome in zip(scenario.frames, outcomes, strict=True):
        qpn = outcome.qpn
        if qpn is not None:
            yield frame, outcome, qpn, contexts.get(qpn) or _first_context(scenario, qpn)
            contexts[qpn] = QpContext(outcome.context)


def _first_context(scenario: Scenario, qpn: int) -> QpContext:
    address = scenario.settings.qpc.address(qpn, scenario.entry_bytes)
    assert address is not None
    return QpContext(scenario.memory.read(address, scenario.entry_bytes))


def _by_qp(answers: list[Answer]) -> dict[tuple[str, int], list[Answer]]:
    """By destination address and QPN."""
    by_qp: dict[tuple[str, int], list[Answer]] = defaultdict(list)
    for answer in answers:
        by_qp[answer.destination, answer.fields["dqpn"]].append(answer)
    return by_qp


def _check_qp(theirs: list[Answer], ours: list[Answer], mismatches: list[Mismatch],
              allowed: Counter[str]) -> Cause | None:
    """The request from which the two part by right, if there is one."""
    theirs = _without_extra_naks(theirs, ours, allowed)
    for expected, got in zip(theirs, ours, strict=False):
        oddity = oddities.of_pair(expected, got)
        if oddity is None:
            mismatches += _compare(expected, got, allowed)
        else:
            allowed[oddity] += 1
            if oddity in oddities.FORKS:  # what the QP does from here on differs by right
                return got.cause
    for missing in theirs[len(ours):]:
        mismatches.append({"frame": missing.number, "field": "answer",
                           "expected": missing.text, "got": None})
    for extra in ours[len(theirs):]:
        mismatches.append({"frame": extra.number, "field": "answer", "expected": None,
                           "got": extra.text})
    return None


def _without_extra_naks(theirs: list[Answer], ours: list[Answer],
                        allowed: Counter[str]) -> list[Answer]:
    """Their answers but for the sequence NAKs after an RNR NAK, if we sent none."""
    kept: list[Answer] = []
    for answer in theirs:
        same = len(kept) < len(ours) and ours[len(kept)].is_like(answer)
        if not same and kept and oddities.is_nak_after_rnr(kept[-1], answer):
            allowed["nak_after_rnr"] += 1
        else:
            kept.append(answer)
    return kept


def _compare(expected: Answer, got: Answer, allowed: Counter[str]) -> list[Mismatch]:
    differing = [name for name in expected.fields
                 if expected.fields[name] != got.fields.get(name)]
    if not differing:
        likened, taken = oddities.liken(got, expected)
        if likened == expected.data:
            allowed.update(taken)
            return []
        return [{"frame": got.number, "field": "bytes", "expected": expected.data.hex(),
                 "got": got.data.hex()}]
    return [{"frame": got.number, "field": name, "expected": expected.fields[name],
             "got": got.fields.get(name)} for name in differing]

