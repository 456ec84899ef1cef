"""Where answers of Linux's software NIC may differ from ours by right (docs/golden.md).

Each oddity has a name, is recognised as narrowly as the answer and its request allow, and is
counted by the comparison.
"""

from dataclasses import dataclass
from typing import Any

from sim.golden.answer import (
    ACK,
    INVALID_REQUEST,
    PSN_ERROR,
    REMOTE_ACCESS,
    REMOTE_OPERATIONAL,
    RNR_NAK,
)
from sim.golden.layout import QpContext
from sim.wire import opcodes
from sim.wire.build import reseal
from sim.wire.codec import ETHERNET_BYTES, Report, ipv4_checksum, parse
from sim.workload.scenario import Frame
from sim.workload.traffic import relative_psn

NO_PSN = 0xFFFFFF  # what rxe acknowledges before it has executed anything
CE = 3  # congestion experienced: set on the way
INVALIDATES = (opcodes.SEND_LAST_INV, opcodes.SEND_ONLY_INV)
SENDS = (*range(opcodes.SEND_FIRST, opcodes.SEND_ONLY_IMM + 1), *INVALIDATES)
READ_RESPONSES = range(opcodes.READ_RESP_FIRST, opcodes.READ_RESP_ONLY + 1)

OF_DROPS = {"uc_message": "uc_after_loss", "ud_length": "ud_too_long"}  # reason → oddity
FORKS = ("send_length_unchecked", "invalidate_refused_late", "empty_read_checked_again")


@dataclass(frozen=True)
class Cause:
    """The request that an answer of ours is to."""

    number: int  # of its frame
    qpn: int
    before: QpContext
    opcode: int
    duplicate: bool
    odd_length: bool  # a payload length that the path MTU and the opcode do not allow
    length: int  # of its RETH

    @classmethod
    def of(cls, frame: Frame, qpn: int, before: QpContext) -> "Cause":
        report = parse(frame.data)
        opcode = report["bth"]["opcode"]
        return cls(frame.number, qpn, before, opcode,
                   relative_psn(report["bth"]["psn"], before.epsn) < 0,
                   not _length_fits(opcode, report["payload_length"], before.mtu_bytes),
                   report.get("reth", {}).get("length", 0))


@dataclass(frozen=True)
class Answer:
    number: int  # ours: the frame that brought it about; the capture's: its own
    data: bytes
    destination: str
    fields: dict[str, Any]
    cause: Cause | None = None

    @classmethod
    def of(cls, number: int, data: bytes, cause: Cause | None = None) -> "Answer":
        report = parse(data)
        fields = {name: report["bth"][name] for name in ("opcode", "psn", "dqpn", "pkey", "ackreq")}
        fields |= report.get("aeth", {}) | {"icrc": "right" if report["icrc_ok"] else "wrong"}
        return cls(number, data, report["ip"]["dst"], fields, cause)

    @property
    def text(self) -> str:
        opcode = opcodes.OPCODES.get(self.fields["opcode"])
        syndrome = f", syndrome {self.fields['syndrome']:#04x}" if "syndrome" in self.fields else ""
        return f"{opcode.name if opcode else '?'}, PSN {self.fields['psn']}{syndrome}"

    def is_like(self, other: "Answer") -> bool:
        return all(self.fields.get(name) == other.fields.get(name)
                   for name in ("opcode", "psn", "syndrome"))


def of_pair(theirs: Answer, ours: Answer) -> str | None:
    """The oddity by which two answers to one request differ, if it is one."""
    cause = ours.cause
    differing = {name for name in theirs.fields if theirs.fields[name] != ours.fields.get(name)}
    syndromes = theirs.fields.get("syndrome"), ours.fields.get("syndrome")
    if cause is None or not differing:
        return None
    if (syndromes == (REMOTE_OPERATIONAL, INVALID_REQUEST) and cause.opcode in SENDS
            and differing == {"syndrome"} and not cause.odd_length):
        return "send_too_long"
    if syndromes == (ACK, INVALID_REQUEST) and cause.opcode in SENDS and cause.odd_length:
        return "send_length_unchecked"
    if syndromes == (ACK, ACK) and cause.duplicate and differing == {"psn"}:
        older = relative_psn(theirs.fields["psn"], ours.fields["psn"]) < 0
        return "duplicate_ack_psn" if older or theirs.fields["psn"] == NO_PSN else None
    if syndromes == (ACK, REMOTE_ACCESS) and cause.opcode in INVALIDATES:
        return "invalidate_refused_late"
    if cause.opcode == opcodes.READ_REQUEST and cause.duplicate:
        return _of_repeated_read(theirs, ours, cause)
    return None


def _of_repeated_read(theirs: Answer, ours: Answer, cause: Cause) -> str | None:
    if theirs.fields.get("syndrome") == REMOTE_ACCESS and cause.length == 0:
        return "empty_read_checked_again"
    same = all(theirs.fields[name] == ours.fields[name] for name in ("psn", "dqpn", "pkey", "icrc"))
    if (same and theirs.fields["opcode"] in READ_RESPONSES
            and parse(theirs.data)["payload"] == parse(ours.data)["payload"]):
        return "read_from_the_middle"
    return None


def is_nak_after_rnr(before: Answer, answer: Answer) -> bool:
    """A PSN sequence NAK for what was in flight when the RNR NAK before it went out."""
    return (answer.fields.get("syndrome") == PSN_ERROR
            and before.fields.get("syndrome", 0) & 0xE0 == RNR_NAK
            and before.fields["psn"] == answer.fields["psn"])


def liken(ours: Answer, theirs: Answer) -> tuple[bytes, list[str]]:
    """Our frame with the IPv4 identification and the CE mark of theirs; which of them it took."""
    frame, taken = bytearray(ours.data), []
    report, other = parse(ours.data), parse(theirs.data)
    start = ETHERNET_BYTES + 4 * len(report["eth"]["vlan"])
    if len(ours.data) != len(theirs.data) or report["ip"]["version"] != other["ip"]["version"]:
        return ours.data, []
    if other["ip"]["ecn"] == CE and report["ip"]["ecn"] in (1, 2):
        _set_ce(frame, start, report)
        taken.append("ce_mark")
    if report["ip"]["version"] == 4:
        identification = theirs.data[start + 4:start + 6]
        if frame[start + 4:start + 6] != identification:
            frame[start + 4:start + 6] = identification
            taken.append("ip_identification")
        frame[start + 10:start + 12] = bytes(2)
        checksum = ipv4_checksum(bytes(frame[start:start + 20]))
        frame[start + 10:start + 12] = checksum.to_bytes(2, "big")
    return reseal(bytes(frame), start), taken


def _set_ce(frame: bytearray, start: int, report: Report) -> None:
    if report["ip"]["version"] == 4:
        frame[start + 1] |= CE
    else:
        frame[start + 1] |= CE << 4


def _length_fits(opcode: int, length: int, mtu: int) -> bool:
    if opcode in (opcodes.SEND_FIRST, opcodes.SEND_MIDDLE):
        return length == mtu
    if opcode in (opcodes.SEND_LAST, opcodes.SEND_LAST_IMM):
        return 1 <= length <= mtu
    return length <= mtu
