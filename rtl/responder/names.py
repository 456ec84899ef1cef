"""Names of what the responder decides (docs/responder.md)."""

from amaranth.lib import enum


class Drop(enum.Enum, shape=4):
    """Why a packet is dropped in silence; the lower-case name is the counter's."""

    NONE = 0
    CNP = 1
    NO_QP = 2
    CONTEXT_FETCH = 3
    SERVICE = 4
    QP_STATE = 5
    PKEY = 6
    ADDRESS = 7
    NO_REQUESTER = 8
    PSN_GAP = 9
    DUPLICATE = 10  # that cannot be answered again
    UC_MESSAGE = 11  # the message is broken, up to the next FIRST or ONLY
    QKEY = 12
    NO_RECEIVE = 13  # UD: none is posted
    UD_LENGTH = 14  # longer than the path MTU or the receive


class Verdict(enum.Enum, shape=4):
    """What the checks on packet and context alone say."""

    DROP = 0
    DUPLICATE = 1  # acknowledge again, do nothing
    SEQUENCE_NAK = 2
    INVALID = 3  # NAK 0x61, error state
    READ = 4  # go on: a READ, or a duplicate of one
    SEND = 5  # go on: a packet of a SEND
    WRITE = 6  # go on: a packet of an RDMA WRITE
    ATOMIC = 7  # go on: an atomic, or a duplicate of one
    BREAK = 8  # UC: drop the message that this packet is of


class Syndrome(enum.IntEnum, shape=8):
    """AETH syndromes (IBTA 9.7.5.2, table 44 and 45)."""

    ACK = 0x1F  # no credit limit
    RNR = 0x20  # | timer
    PSN_SEQUENCE = 0x60
    INVALID_REQUEST = 0x61
    REMOTE_ACCESS = 0x62
    REMOTE_OPERATIONAL = 0x63
