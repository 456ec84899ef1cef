"""Structures in host memory, byte for byte as docs/host-interface.md has them.

The first field of a Struct is the least significant, so field order is byte order.
"""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum

QPC_BYTES = 256  # the part of a context slot that is defined
MPT_BYTES = 64
CQC_BYTES = 64
WQE_BYTES = 64
CQE_BYTES = 64
SAVED_ATOMIC_BYTES = 16


class QpState(enum.Enum, shape=8):
    """IBTA 10.3.1."""

    RESET = 0
    INIT = 1
    RTR = 2
    RTS = 3
    SQD = 4
    SQE = 5
    ERR = 6


class Service(enum.Enum, shape=8):
    RC = 0
    UC = 1
    UD = 2


class Message(enum.Enum, shape=8):
    """The message that a responder is in the middle of (`r_op`)."""

    NONE = 0
    SEND = 1
    WRITE = 2


class QpcFlags(data.Struct):
    ipv6: unsigned(1)
    vlan: unsigned(1)
    reserved: unsigned(6)


class QpcAccess(data.Struct):
    remote_write: unsigned(1)
    remote_read: unsigned(1)
    remote_atomic: unsigned(1)
    reserved: unsigned(5)


class Qpc(data.Struct):
    """Queue pair context."""

    state: unsigned(8)
    service: unsigned(8)
    mtu: unsigned(8)
    flags: QpcFlags
    pkey: unsigned(16)
    access: QpcAccess
    min_rnr_timer: unsigned(8)
    dest_qpn: unsigned(32)
    pd: unsigned(32)
    qkey: unsigned(32)
    udp_sport: unsigned(16)
    vlan_tci: unsigned(16)
    dmac: unsigned(48)
    smac: unsigned(48)
    tclass: unsigned(8)
    hop_limit: unsigned(8)
    max_dest_rd_atomic: unsigned(8)
    reserved_39: unsigned(8)
    flow_label: unsigned(32)
    reserved_44: unsigned(32)
    dip: unsigned(128)
    sip: unsigned(128)
    epsn: unsigned(32)
    msn: unsigned(32)
    rq_base: unsigned(64)
    rq_log_size: unsigned(8)
    r_op: unsigned(8)
    r_nak: unsigned(8)
    reserved_99: unsigned(8)
    rq_consume: unsigned(32)
    recv_cqn: unsigned(32)
    r_key: unsigned(32)
    r_va: unsigned(64)
    r_left: unsigned(32)
    r_bytes: unsigned(32)
    r_wr_id: unsigned(64)
    atomic_base: unsigned(64)
    r_atomic: unsigned(8)
    reserved_145: unsigned(8 * 111)


# What the responder writes in a context; the commit's mask is made of these.
RESPONDER_FIELDS = ("state", "epsn", "msn", "r_op", "r_nak", "rq_consume", "r_key", "r_va",
                    "r_left", "r_bytes", "r_wr_id", "r_atomic")


class MptAccess(data.Struct):
    local_write: unsigned(1)
    remote_write: unsigned(1)
    remote_read: unsigned(1)
    remote_atomic: unsigned(1)
    reserved: unsigned(4)


class MptKind(enum.Enum, shape=8):
    REGION = 0
    FAST_REGION = 1  # a SEND with invalidate may end it
    WINDOW = 2  # type 2, bound to one QP: the same


class Mpt(data.Struct):
    """Memory protection table entry."""

    key: unsigned(32)
    pd: unsigned(32)
    access: MptAccess
    state: unsigned(8)
    kind: unsigned(8)
    reserved_11: unsigned(8)
    qpn: unsigned(32)
    va: unsigned(64)
    length: unsigned(64)
    base: unsigned(64)
    reserved_40: unsigned(8 * 24)


class SavedAtomic(data.Struct):
    """What an atomic found, kept for its duplicates."""

    psn: unsigned(32)
    valid: unsigned(8)
    reserved_5: unsigned(24)
    original: unsigned(64)


class Cqc(data.Struct):
    """Completion queue context."""

    base: unsigned(64)
    log_size: unsigned(8)
    reserved_9: unsigned(24)
    produce: unsigned(32)
    reserved_16: unsigned(8 * 48)


class RecvWqe(data.Struct):
    owner: unsigned(8)
    sge_count: unsigned(8)
    reserved_2: unsigned(48)
    wr_id: unsigned(64)
    va: unsigned(64)
    length: unsigned(32)
    lkey: unsigned(32)
    reserved_32: unsigned(8 * 32)


class Cqe(data.Struct):
    qpn: unsigned(32)
    opcode: unsigned(8)
    status: unsigned(8)
    flags: unsigned(8)
    owner: unsigned(8)
    byte_len: unsigned(32)
    imm: unsigned(32)
    wr_id: unsigned(64)
    src_qpn: unsigned(32)
    wqe_index: unsigned(32)
    reserved_32: unsigned(8 * 32)


class CqeOpcode(enum.IntEnum):
    """As `ibv_wc_opcode`."""

    RECV = 128
    RECV_WRITE_IMM = 129


class CqeStatus(enum.Enum, shape=8):
    """As `ibv_wc_status`."""

    SUCCESS = 0
    LOC_LEN_ERR = 1
    LOC_QP_OP_ERR = 2
    LOC_PROT_ERR = 4
    WR_FLUSH_ERR = 5
    REM_INV_REQ_ERR = 9
    REM_ACCESS_ERR = 10
    REM_OP_ERR = 11


def word_mask(layout: type[data.Struct], fields: tuple[str, ...]) -> int:
    """A commit's mask: one bit a word of 8 bytes, of those that hold `fields`."""
    members = data.Layout.cast(layout)
    mask = 0
    for name in fields:
        field = members[name]
        for word in range(field.offset // 64, (field.offset + field.width - 1) // 64 + 1):
            mask |= 1 << word
    return mask
