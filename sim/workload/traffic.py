"""A capture seen as two hosts' traffic: every frame parsed once, and how a host sends."""

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from sim.wire import opcodes
from sim.wire.capture import read_capture
from sim.wire.codec import RDMA_KINDS, Report, mac_bytes, parse

VLAN_TYPE = b"\x81\x00"
HALF = 1 << 23  # half the PSN space
TAKES_WQE = {opcodes.SEND_FIRST, opcodes.SEND_ONLY, opcodes.SEND_ONLY_IMM, opcodes.SEND_ONLY_INV,
             opcodes.WRITE_LAST_IMM, opcodes.WRITE_ONLY_IMM}
CONTINUED = {opcodes.SEND_FIRST, opcodes.SEND_MIDDLE, opcodes.WRITE_FIRST, opcodes.WRITE_MIDDLE}


class Seen(NamedTuple):
    """Frame `number` (1-based) of a capture and what the parser says of it."""

    number: int
    data: bytes
    report: Report

    @property
    def is_rdma(self) -> bool:
        """A RoCE packet without a fault."""
        return self.report["kind"] in RDMA_KINDS and self.report["error"] is None

    @property
    def is_roce2(self) -> bool:
        return self.is_rdma and self.report["kind"] == "roce2"

    @property
    def is_answer(self) -> bool:
        """What an RC responder sends."""
        return self.is_roce2 and self.report["bth"]["opcode"] in opcodes.RESPONSES

    @property
    def opcode(self) -> int:
        return self.report["bth"]["opcode"]

    @property
    def ends(self) -> bool:
        """Whether the request is the last packet of its message."""
        return self.opcode not in CONTINUED

    @property
    def dqpn(self) -> int:
        return self.report["bth"]["dqpn"]

    @property
    def psn(self) -> int:
        return self.report["bth"]["psn"]


def read_traffic(path: str | Path) -> list[Seen]:
    return [Seen(number, frame.data, parse(frame.data, number))
            for number, frame in enumerate(read_capture(path), 1)]


def addressed_to(traffic: Iterable[Seen], mac: str) -> list[Seen]:
    """Frames that a NIC with this address takes in: its own and the others' group frames."""
    own = mac_bytes(mac)
    return [seen for seen in traffic if len(seen.data) >= 14
            and (seen.data[:6] == own or (seen.data[0] & 1 and seen.data[6:12] != own))]


class WqeUse(NamedTuple):
    """A request PSN that takes a receive WQE, and when that WQE was there."""

    psn: int
    refusals: int  # RNR NAKs that it got
    frame: int | None  # the request that found the WQE; None if none came after the last RNR NAK


def wqe_uses(requests: Iterable[Seen], answers: Iterable[Seen], epsn: int) -> list[WqeUse]:
    """The receive WQEs of one QP in the order of use, so use `i` is of WQE `i`.

    A requester repeats a request only after it has got the RNR NAK, so the WQE was found by the
    first repetition that comes after the last RNR NAK.
    """
    arrivals: dict[int, list[int]] = {}
    for seen in requests:
        if seen.opcode in TAKES_WQE and relative_psn(seen.psn, epsn) >= 0:
            arrivals.setdefault(seen.psn, []).append(seen.number)
    refusals: dict[int, list[int]] = {}
    for seen in answers:
        if is_rnr_nak(seen):
            refusals.setdefault(seen.psn, []).append(seen.number)
    uses = []
    for psn in sorted(arrivals, key=lambda psn: relative_psn(psn, epsn)):
        refused = refusals.get(psn, [])
        last = refused[-1] if refused else 0
        found = [number for number in arrivals[psn] if number > last]
        uses.append(WqeUse(psn, len(refused), found[0] if found else None))
    return uses


def in_psn_order(requests: Iterable[Seen], epsn: int) -> list[Seen]:
    """Each PSN from `epsn` on once, as it was first seen."""
    first: dict[int, Seen] = {}
    for seen in requests:
        first.setdefault(relative_psn(seen.psn, epsn), seen)
    return [first[ahead] for ahead in sorted(first) if ahead >= 0]


def relative_psn(psn: int, base: int) -> int:
    """How far `psn` is ahead of `base`: -2^23 ... 2^23 - 1."""
    return (psn - base + HALF) % (2 * HALF) - HALF


def is_rnr_nak(seen: Seen) -> bool:
    return seen.opcode == opcodes.ACK and seen.report["aeth"]["syndrome"] >> 5 == 1


class Manner(NamedTuple):
    """What a host puts into its packets of one QP and nothing in the protocol settles."""

    udp_sport: int
    hop_limit: int
    flow_label: int
    tclass: int
    vlan_tci: int | None

    @classmethod
    def of(cls, frames: list[Seen]) -> "Manner | None":
        """As the frames have it, the most frequent value of each; None without frames."""
        if not frames:
            return None
        return cls(_most(frames, lambda seen: seen.report["udp"]["sport"]),
                   _most(frames, lambda seen: seen.report["ip"]["ttl"]),
                   _most(frames, _flow_label), _most(frames, _tclass), _most(frames, _vlan_tci))


def _most(frames: list[Seen], value: Callable[[Seen], Any]) -> Any:
    return Counter(map(value, frames)).most_common(1)[0][0]


def _tclass(seen: Seen) -> int:
    return seen.report["ip"]["dscp"] << 2 | seen.report["ip"]["ecn"]


def _vlan_tci(seen: Seen) -> int | None:
    tagged = seen.data[12:14] == VLAN_TYPE
    return int.from_bytes(seen.data[14:16], "big") if tagged else None


def _flow_label(seen: Seen) -> int:
    if seen.report["ip"]["version"] != 6:
        return 0
    start = 14 + 4 * len(seen.report["eth"]["vlan"])
    return int.from_bytes(seen.data[start:start + 4], "big") & 0xFFFFF
