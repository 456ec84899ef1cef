"""The opcode table of the base transport header (IBTA vol. 1, 9.2; FLUSH and ATOMIC WRITE of 1.5).

The top three bits name the service, the rest the operation; a service adds its own header in front
of the operation's.
"""

from enum import Enum
from typing import NamedTuple


class Payload(Enum):
    NONE = "none"
    OPTIONAL = "optional"
    REQUIRED = "required"


class Opcode(NamedTuple):
    name: str
    headers: tuple[str, ...]  # extension headers in wire order
    payload: Payload


RC, UC, RD, UD, XRC = 0x00, 0x20, 0x40, 0x60, 0xA0
CNP = 0x81

SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_LAST_IMM, SEND_ONLY, SEND_ONLY_IMM = range(0x06)
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMM, WRITE_ONLY, WRITE_ONLY_IMM = \
    range(0x06, 0x0C)
READ_REQUEST, READ_RESP_FIRST, READ_RESP_MIDDLE, READ_RESP_LAST, READ_RESP_ONLY = \
    range(0x0C, 0x11)
ACK, ATOMIC_ACK, CMP_SWAP, FETCH_ADD, RESYNC = range(0x11, 0x16)
SEND_LAST_INV, SEND_ONLY_INV = 0x16, 0x17
FLUSH, ATOMIC_WRITE = 0x1C, 0x1D

_NONE, _OPTIONAL, _REQUIRED = Payload.NONE, Payload.OPTIONAL, Payload.REQUIRED
_OPERATIONS: dict[int, Opcode] = {
    SEND_FIRST: Opcode("SEND_FIRST", (), _REQUIRED),
    SEND_MIDDLE: Opcode("SEND_MIDDLE", (), _REQUIRED),
    SEND_LAST: Opcode("SEND_LAST", (), _OPTIONAL),
    SEND_LAST_IMM: Opcode("SEND_LAST_IMM", ("immdt",), _OPTIONAL),
    SEND_ONLY: Opcode("SEND_ONLY", (), _OPTIONAL),
    SEND_ONLY_IMM: Opcode("SEND_ONLY_IMM", ("immdt",), _OPTIONAL),
    WRITE_FIRST: Opcode("WRITE_FIRST", ("reth",), _REQUIRED),
    WRITE_MIDDLE: Opcode("WRITE_MIDDLE", (), _REQUIRED),
    WRITE_LAST: Opcode("WRITE_LAST", (), _OPTIONAL),
    WRITE_LAST_IMM: Opcode("WRITE_LAST_IMM", ("immdt",), _OPTIONAL),
    WRITE_ONLY: Opcode("WRITE_ONLY", ("reth",), _OPTIONAL),
    WRITE_ONLY_IMM: Opcode("WRITE_ONLY_IMM", ("reth", "immdt"), _OPTIONAL),
    READ_REQUEST: Opcode("READ_REQUEST", ("reth",), _NONE),
    READ_RESP_FIRST: Opcode("READ_RESP_FIRST", ("aeth",), _REQUIRED),
    READ_RESP_MIDDLE: Opcode("READ_RESP_MIDDLE", (), _REQUIRED),
    READ_RESP_LAST: Opcode("READ_RESP_LAST", ("aeth",), _OPTIONAL),
    READ_RESP_ONLY: Opcode("READ_RESP_ONLY", ("aeth",), _OPTIONAL),
    ACK: Opcode("ACK", ("aeth",), _NONE),
    ATOMIC_ACK: Opcode("ATOMIC_ACK", ("aeth", "atomicacketh"), _NONE),
    CMP_SWAP: Opcode("CMP_SWAP", ("atomiceth",), _NONE),
    FETCH_ADD: Opcode("FETCH_ADD", ("atomiceth",), _NONE),
    RESYNC: Opcode("RESYNC", (), _NONE),
    SEND_LAST_INV: Opcode("SEND_LAST_INV", ("ieth",), _OPTIONAL),
    SEND_ONLY_INV: Opcode("SEND_ONLY_INV", ("ieth",), _OPTIONAL),
    FLUSH: Opcode("FLUSH", ("feth", "reth"), _NONE),
    ATOMIC_WRITE: Opcode("ATOMIC_WRITE", ("reth",), _REQUIRED),
}
RESPONSES = frozenset(range(READ_RESP_FIRST, ATOMIC_ACK + 1))
_INVALIDATES = frozenset({SEND_LAST_INV, SEND_ONLY_INV})
_COMMON = frozenset(range(SEND_FIRST, FETCH_ADD + 1))


def _service_headers(service: int, operation: int) -> tuple[str, ...]:
    """RD requests carry RDETH and DETH, its responses RDETH; XRC requests XRCETH; UD DETH."""
    response = operation in RESPONSES
    if service == RD:
        return ("rdeth",) if response else ("rdeth", "deth")
    if service == XRC:
        return () if response else ("xrceth",)
    return ("deth",) if service == UD else ()


def _table() -> dict[int, Opcode]:
    services = {
        "RC": (RC, _COMMON | _INVALIDATES | {FLUSH, ATOMIC_WRITE}),
        "UC": (UC, frozenset(range(SEND_FIRST, WRITE_ONLY_IMM + 1))),
        "RD": (RD, _COMMON | {RESYNC}),
        "UD": (UD, frozenset({SEND_ONLY, SEND_ONLY_IMM})),
        "XRC": (XRC, _COMMON | _INVALIDATES),
    }
    table = {CNP: Opcode("CNP", ("cnp",), Payload.NONE)}
    for prefix, (service, operations) in services.items():
        for operation in sorted(operations):
            name, headers, payload = _OPERATIONS[operation]
            table[service | operation] = Opcode(
                f"{prefix}_{name}", _service_headers(service, operation) + headers, payload)
    return table


OPCODES: dict[int, Opcode] = _table()
