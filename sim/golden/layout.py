"""Structures in host memory as the model sees them (docs/host-interface.md).

A record is a view of its bytes: reading a field decodes it, writing a field changes only the bytes
of that field, so whatever the host put into reserved places stays as it was.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Any, Self


class Field:
    """`offset` in bytes and the `struct` code; integers are little-endian."""

    def __init__(self, offset: int, code: str) -> None:
        self.offset = offset
        self.form = struct.Struct("<" + code)

    def __get__(self, record: "Record | None", owner: type) -> Any:
        return self if record is None else self.form.unpack_from(record.raw, self.offset)[0]

    def __set__(self, record: "Record", value: int | bytes) -> None:
        self.form.pack_into(record.raw, self.offset, value)


class Record:
    """A structure of `SIZE` bytes; subclasses list their fields."""

    SIZE = 0

    def __init__(self, raw: bytes | None = None, **fields: int | bytes) -> None:
        self.raw = bytearray(self.SIZE if raw is None else raw)
        if len(self.raw) < self.SIZE:
            raise ValueError(f"{type(self).__name__} takes {self.SIZE} bytes, not {len(self.raw)}")
        for name, value in fields.items():
            if not isinstance(getattr(type(self), name, None), Field):
                raise TypeError(f"{type(self).__name__} has no field {name}")
            setattr(self, name, value)

    @classmethod
    def fields(cls) -> dict[str, Field]:
        return {name: field for name, field in vars(cls).items() if isinstance(field, Field)}

    def copy(self) -> Self:
        return type(self)(bytes(self.raw))

    def __bytes__(self) -> bytes:
        return bytes(self.raw)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and bytes(self) == bytes(other)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.fields())
        return f"{type(self).__name__}({fields})"


class State(IntEnum):
    RESET = 0
    INIT = 1
    RTR = 2
    RTS = 3
    SQD = 4
    SQE = 5
    ERR = 6


class Service(IntEnum):
    RC = 0
    UC = 1
    UD = 2


class QpFlags(IntFlag):
    IPV6 = 1
    VLAN = 2


class QpAccess(IntFlag):
    WRITE = 1
    READ = 2
    ATOMIC = 4


class MrAccess(IntFlag):
    LOCAL_WRITE = 1
    REMOTE_WRITE = 2
    REMOTE_READ = 4
    REMOTE_ATOMIC = 8


class Kind(IntEnum):
    """Of an MPT entry."""

    REGION = 0
    FAST_REGION = 1  # a SEND with invalidate may end it
    WINDOW = 2  # type 2: so may one on the queue pair that it is bound to, and only that may use it


class ReceiveOp(IntEnum):
    """What `r_op` says about the message in progress."""

    NONE = 0
    SEND = 1
    WRITE = 2


class WcOpcode(IntEnum):
    RECV = 128
    RECV_RDMA_WITH_IMM = 129


class WcStatus(IntEnum):
    SUCCESS = 0
    LOC_LEN_ERR = 1
    LOC_QP_OP_ERR = 2
    LOC_PROT_ERR = 4
    WR_FLUSH_ERR = 5
    REM_INV_REQ_ERR = 9
    REM_ACCESS_ERR = 10
    REM_OP_ERR = 11


class WcFlags(IntFlag):
    IMM = 1
    SOLICITED = 2
    INVALIDATED = 4  # imm holds the R_Key


class QpContext(Record):
    SIZE = 256
    state = Field(0, "B")
    service = Field(1, "B")
    mtu = Field(2, "B")
    flags = Field(3, "B")
    pkey = Field(4, "H")
    access = Field(6, "B")
    min_rnr_timer = Field(7, "B")
    dest_qpn = Field(8, "I")
    pd = Field(12, "I")
    qkey = Field(16, "I")
    udp_sport = Field(20, "H")
    vlan_tci = Field(22, "H")
    dmac = Field(24, "6s")
    smac = Field(30, "6s")
    tclass = Field(36, "B")
    hop_limit = Field(37, "B")
    max_dest_rd_atomic = Field(38, "B")
    flow_label = Field(40, "I")
    dip = Field(48, "16s")
    sip = Field(64, "16s")
    epsn = Field(80, "I")
    msn = Field(84, "I")
    rq_base = Field(88, "Q")
    rq_log_size = Field(96, "B")
    r_op = Field(97, "B")
    r_nak = Field(98, "B")
    rq_consume = Field(100, "I")
    recv_cqn = Field(104, "I")
    r_key = Field(108, "I")
    r_va = Field(112, "Q")
    r_left = Field(120, "I")
    r_bytes = Field(124, "I")
    r_wr_id = Field(128, "Q")
    atomic_base = Field(136, "Q")
    r_atomic = Field(144, "B")

    @property
    def mtu_bytes(self) -> int:
        return 128 << self.mtu


class SavedAtomic(Record):
    SIZE = 16
    psn = Field(0, "I")
    valid = Field(4, "B")
    original = Field(8, "Q")


class MemoryRegion(Record):
    SIZE = 64
    key = Field(0, "I")
    pd = Field(4, "I")
    access = Field(8, "B")
    state = Field(9, "B")
    kind = Field(10, "B")
    qpn = Field(12, "I")
    va = Field(16, "Q")
    length = Field(24, "Q")
    base = Field(32, "Q")


class CompletionQueue(Record):
    SIZE = 64
    base = Field(0, "Q")
    log_size = Field(8, "B")
    produce = Field(12, "I")


class ReceiveWqe(Record):
    SIZE = 64
    owner = Field(0, "B")
    sge_count = Field(1, "B")
    wr_id = Field(8, "Q")
    va = Field(16, "Q")
    length = Field(24, "I")
    lkey = Field(28, "I")


class Completion(Record):
    SIZE = 64
    qpn = Field(0, "I")
    opcode = Field(4, "B")
    status = Field(5, "B")
    flags = Field(6, "B")
    owner = Field(7, "B")
    byte_len = Field(8, "I")
    imm = Field(12, "4s")
    wr_id = Field(16, "Q")
    src_qpn = Field(24, "I")
    wqe_index = Field(28, "I")


def owner_bit(index: int, log_size: int) -> int:
    """Owner bit of entry `index` of a ring: 1 on the first pass, 0 on the second, and so on."""
    return ~index >> log_size & 1


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of contexts in host memory."""

    base: int
    log_entries: int

    def address(self, index: int, entry_bytes: int) -> int | None:
        """Where entry `index` is, or None outside the table."""
        return self.base + index * entry_bytes if index < 1 << self.log_entries else None


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Inputs of the NIC: where its tables are."""

    qpc: Table
    mpt: Table
    cqc: Table
