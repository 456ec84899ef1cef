"""A verified RC or UC request as the responder looks at it."""

from dataclasses import dataclass

from sim.golden.layout import ReceiveOp
from sim.wire import opcodes as op
from sim.wire.codec import Report, gid_bytes

ATOMIC_BYTES = 8
OPERATION = 0x1F  # of an opcode; the rest is the service
_INVALIDATES = (op.SEND_LAST_INV, op.SEND_ONLY_INV)
_SENDS = (*range(op.SEND_FIRST, op.SEND_ONLY_IMM + 1), *_INVALIDATES)
_WRITES = range(op.WRITE_FIRST, op.WRITE_ONLY_IMM + 1)
_FIRSTS = (op.SEND_FIRST, op.WRITE_FIRST)
_MIDDLES = (op.SEND_MIDDLE, op.WRITE_MIDDLE)
_ATOMICS = (op.CMP_SWAP, op.FETCH_ADD)
_ONLIES = (op.SEND_ONLY, op.SEND_ONLY_IMM, op.SEND_ONLY_INV, op.WRITE_ONLY, op.WRITE_ONLY_IMM,
           op.READ_REQUEST, *_ATOMICS)


@dataclass(frozen=True)
class Request:
    opcode: int  # as of RC
    psn: int
    ackreq: bool
    solicited: bool
    source: bytes  # GIDs
    destination: bytes
    va: int
    rkey: int
    length: int  # of the whole WRITE or READ, from its RETH; 8 of an atomic
    swap: int  # or what FETCH_ADD adds
    compare: int
    imm: bytes | None
    invalidated: int | None  # R_Key of a SEND with invalidate
    payload: bytes

    @classmethod
    def of(cls, report: Report) -> "Request":
        bth, ip = report["bth"], report["ip"]
        atomic = report.get("atomiceth", {})
        reth = report.get("reth") or {
            "va": 0, "rkey": 0, "length": ATOMIC_BYTES if atomic else 0, **atomic}
        imm = report["immdt"]["imm"].to_bytes(4, "big") if "immdt" in report else None
        return cls(bth["opcode"] & OPERATION, bth["psn"], bool(bth["ackreq"]), bool(bth["se"]),
                   gid_bytes(ip["src"]), gid_bytes(ip["dst"]), reth["va"], reth["rkey"],
                   reth["length"], atomic.get("swap", 0), atomic.get("compare", 0), imm,
                   report["ieth"]["rkey"] if "ieth" in report else None, report["payload"])

    @property
    def operation(self) -> ReceiveOp:
        """What a message of several packets is in the midst of; NONE for all others."""
        if self.opcode in _SENDS:
            return ReceiveOp.SEND
        return ReceiveOp.WRITE if self.opcode in _WRITES else ReceiveOp.NONE

    @property
    def is_read(self) -> bool:
        return self.opcode == op.READ_REQUEST

    @property
    def is_atomic(self) -> bool:
        return self.opcode in _ATOMICS

    @property
    def is_carried_out(self) -> bool:
        return self.operation is not ReceiveOp.NONE or self.is_read or self.is_atomic

    def responses(self, mtu: int) -> int:
        """Packets that a READ is answered with, each of one PSN."""
        return max(1, -(-self.length // mtu))

    @property
    def is_response(self) -> bool:
        return self.opcode in op.RESPONSES

    @property
    def repeats_quietly(self) -> bool:
        """A duplicate of it is acknowledged without doing anything."""
        return self.operation is not ReceiveOp.NONE

    @property
    def starts(self) -> bool:
        return self.opcode in _FIRSTS or self.opcode in _ONLIES

    @property
    def ends(self) -> bool:
        return self.opcode not in _FIRSTS and self.opcode not in _MIDDLES

    @property
    def is_only(self) -> bool:
        return self.opcode in _ONLIES

    @property
    def takes_wqe(self) -> bool:
        """Whether this very packet needs a receive WQE."""
        if self.operation is ReceiveOp.SEND:
            return self.starts
        return self.operation is ReceiveOp.WRITE and self.imm is not None
