"""Names of packet kinds, opcodes and error reasons.

The lower-case name of a member is its name in results, counters and docs.
"""

from amaranth.lib import enum


class Kind(enum.Enum, shape=4):
    """What a frame is, as `parse` reports it."""

    OTHER = 0  # no protocol that the parser knows
    IP = 1  # IPv4 or IPv6 that is not RoCE
    ARP = 2
    ROCE2 = 3
    ROCE1 = 4
    CNP = 5  # RoCEv2 congestion notification packet (opcode 0x81)
    PAUSE = 6  # IEEE 802.3 annex 31B
    PFC = 7  # IEEE 802.1Q clause 36


class Reason(enum.Enum, shape=6):
    """Why the wire side drops a frame; docs/parser.md has the table."""

    NONE = 0
    MAC_ERROR = 1
    RUNT = 2
    OVERSIZE = 3
    TRUNCATED = 4
    IP_VERSION = 5
    IP_IHL = 6
    IP_LENGTH = 7
    IP_CHECKSUM = 8
    UDP_LENGTH = 9
    GRH = 10
    BTH_TVER = 11
    BTH_OPCODE = 12
    PAD = 13
    PAYLOAD_TOO_LONG = 14
    PAYLOAD_MISSING = 15
    ICRC = 16
    MAC_CONTROL = 17


class Opcode(enum.IntEnum, shape=8):
    """BTH opcodes (IBTA table 38; RC unless the name says otherwise)."""

    SEND_FIRST = 0x00
    SEND_MIDDLE = 0x01
    SEND_LAST = 0x02
    SEND_LAST_IMM = 0x03
    SEND_ONLY = 0x04
    SEND_ONLY_IMM = 0x05
    WRITE_FIRST = 0x06
    WRITE_MIDDLE = 0x07
    WRITE_LAST = 0x08
    WRITE_LAST_IMM = 0x09
    WRITE_ONLY = 0x0A
    WRITE_ONLY_IMM = 0x0B
    READ_REQUEST = 0x0C
    READ_RESPONSE_FIRST = 0x0D
    READ_RESPONSE_MIDDLE = 0x0E
    READ_RESPONSE_LAST = 0x0F
    READ_RESPONSE_ONLY = 0x10
    ACKNOWLEDGE = 0x11
    ATOMIC_ACKNOWLEDGE = 0x12
    COMPARE_SWAP = 0x13
    FETCH_ADD = 0x14
    SEND_LAST_INV = 0x16
    SEND_ONLY_INV = 0x17
    FLUSH = 0x1C
    ATOMIC_WRITE = 0x1D
    CNP = 0x81
