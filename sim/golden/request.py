"""A verified RC request as the responder looks at it."""

from dataclasses import dataclass

from sim.golden.layout import ReceiveOp
from sim.wire import opcodes as op
from sim.wire.codec import Report, gid_bytes

_SENDS = range(op.SEND_FIRST, op.SEND_ONLY_IMM + 1)
_WRITES = range(op.WRITE_FIRST, op.WRITE_ONLY_IMM + 1)
_INVALIDATES = (op.SEND_LAST_INV, op.SEND_ONLY_INV)
_FIRSTS = (op.SEND_FIRST, op.WRITE_FIRST)
_MIDDLES = (op.SEND_MIDDLE, op.WRITE_MIDDLE)
_ONLIES = (op.SEND_ONLY, op.SEND_ONLY_IMM, op.WRITE_ONLY, op.WRITE_ONLY_IMM)


@dataclass(frozen=True)
class Request:
    opcode: int
    psn: int
    pkey: int
    ackreq: bool
    solicited: bool
    source: bytes  # GIDs
    destination: bytes
    va: int
    rkey: int
    length: int  # of the whole WRITE, from its RETH
    imm: bytes | None
    payload: bytes

    @classmethod
    def of(cls, report: Report) -> "Request":
        bth, ip = report["bth"], report["ip"]
        reth = report.get("reth", {"va": 0, "rkey": 0, "length": 0})
        imm = report["immdt"]["imm"].to_bytes(4, "big") if "immdt" in report else None
        return cls(bth["opcode"], bth["psn"], bth["pkey"], bool(bth["ackreq"]), bool(bth["se"]),
                   gid_bytes(ip["src"]), gid_bytes(ip["dst"]), reth["va"], reth["rkey"],
                   reth["length"], imm, report["payload"])

    @property
    def operation(self) -> ReceiveOp:
        """NONE for what this responder does not carry out."""
        if self.opcode in _SENDS:
            return ReceiveOp.SEND
        return ReceiveOp.WRITE if self.opcode in _WRITES else ReceiveOp.NONE

    @property
    def is_response(self) -> bool:
        return self.opcode in op.RESPONSES

    @property
    def repeats_quietly(self) -> bool:
        """A duplicate of it is acknowledged without doing anything."""
        return self.operation is not ReceiveOp.NONE or self.opcode in _INVALIDATES

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
