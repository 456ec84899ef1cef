"""A run judged by the capture: its answers, and the final memory."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from sim.golden.memory import HostMemory
from sim.golden.outcome import Outcome
from sim.wire.build import reseal
from sim.wire.codec import ETHERNET_BYTES, ipv4_checksum, parse
from sim.workload.scenario import Scenario

Mismatch = dict[str, Any]
CE = 3  # congestion experienced: set on the way


class _Answer(NamedTuple):
    number: int  # ours: the frame that brought it about; the capture's: its own
    data: bytes
    fields: dict[str, Any]


def check_answers(scenario: Scenario, outcomes: Sequence[Outcome],
                  ) -> tuple[list[Mismatch], Counter[str]]:
    """The outcomes, one a frame of the scenario, against the answers that the capture holds.

    Per QP and in order. Gives the mismatches, each {frame, field, expected, got}, where `frame`
    is the one answered (or the capture's own answer when there is none of ours), and how often
    each oddity of Linux's software NIC was allowed for (docs/golden.md).
    """
    ours = _by_qp([(frame.number, answer)
                   for frame, outcome in zip(scenario.frames, outcomes, strict=True)
                   for answer in outcome.frames])
    theirs = _by_qp([(frame.number, frame.data) for frame in scenario.answers])
    mismatches: list[Mismatch] = []
    allowed: Counter[str] = Counter()
    for qp in sorted(ours.keys() | theirs.keys()):
        _check_qp(theirs[qp], ours[qp], mismatches, allowed)
    return sorted(mismatches, key=lambda found: found["frame"]), allowed


def check_memory(scenario: Scenario, memory: HostMemory) -> list[dict[str, Any]]:
    """Each region whose final contents are known: {id, sha256, ok}."""
    found = []
    for region in scenario.regions:
        if region.final is not None:
            held = memory.read(region.va, region.length)
            found.append({"id": region.id, "sha256": hashlib.sha256(held).hexdigest(),
                          "ok": held == region.final})
    return found


def _by_qp(answers: list[tuple[int, bytes]]) -> dict[tuple[str, int], list[_Answer]]:
    """By destination address and QPN."""
    by_qp: dict[tuple[str, int], list[_Answer]] = defaultdict(list)
    for number, data in answers:
        report = parse(data)
        fields = {name: report["bth"][name] for name in ("opcode", "psn", "dqpn", "pkey", "ackreq")}
        fields |= report.get("aeth", {}) | {"icrc": "right" if report["icrc_ok"] else "wrong"}
        by_qp[report["ip"]["dst"], fields["dqpn"]].append(_Answer(number, data, fields))
    return by_qp


def _check_qp(theirs: list[_Answer], ours: list[_Answer], mismatches: list[Mismatch],
              allowed: Counter[str]) -> None:
    for expected, got in zip(theirs, ours, strict=False):
        _compare(expected, got, mismatches, allowed)
    for missing in theirs[len(ours):]:
        mismatches.append({"frame": missing.number, "field": "answer",
                           "expected": missing.data.hex(), "got": None})
    for extra in ours[len(theirs):]:
        mismatches.append({"frame": extra.number, "field": "answer", "expected": None,
                           "got": extra.data.hex()})


def _compare(expected: _Answer, got: _Answer, mismatches: list[Mismatch],
             allowed: Counter[str]) -> None:
    differing = [name for name in expected.fields
                 if expected.fields[name] != got.fields.get(name)]
    for name in differing:
        mismatches.append({"frame": got.number, "field": name, "expected": expected.fields[name],
                           "got": got.fields.get(name)})
    if not differing and expected.data != got.data:
        _compare_bytes(expected, got, mismatches, allowed)


def _compare_bytes(expected: _Answer, got: _Answer, mismatches: list[Mismatch],
                   allowed: Counter[str]) -> None:
    """The whole frame, once ours has what the sender or the way may choose freely."""
    likened, oddities = _liken(got, expected)
    if likened == expected.data:
        allowed.update(oddities)
    else:
        mismatches.append({"frame": got.number, "field": "bytes",
                           "expected": expected.data.hex(), "got": got.data.hex()})


def _liken(ours: _Answer, theirs: _Answer) -> tuple[bytes, list[str]]:
    """Our frame with the IPv4 identification and the CE mark of theirs; which of them it took."""
    frame, oddities = bytearray(ours.data), []
    start = ETHERNET_BYTES + 4 * len(parse(ours.data)["eth"]["vlan"])
    if frame[start] >> 4 != 4 or len(frame) != len(theirs.data):
        return bytes(frame), []
    if frame[start + 4:start + 6] != theirs.data[start + 4:start + 6]:
        frame[start + 4:start + 6] = theirs.data[start + 4:start + 6]
        oddities.append("ip_identification")
    if theirs.data[start + 1] & 3 == CE and frame[start + 1] & 3 in (1, 2):
        frame[start + 1] |= CE
        oddities.append("ce_mark")
    frame[start + 10:start + 12] = bytes(2)
    frame[start + 10:start + 12] = ipv4_checksum(bytes(frame[start:start + 20])).to_bytes(2, "big")
    return reseal(bytes(frame), start), oddities
