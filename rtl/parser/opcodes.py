"""What the parser knows of a BTH opcode (IBTA 9.2.1 table 38; FLUSH, ATOMIC WRITE from 1.5 on).

The top three bits of an opcode name the service, the lower five the operation. A service puts its
own header before those of the operation: RD its RDETH (and DETH on requests), UD its DETH, XRC its
XRCETH on requests.
"""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum

from rtl.headers.layout import Present

RC, UC, RD, UD, XRC = 0x00, 0x20, 0x40, 0x60, 0xA0
CNP = 0x81
WORDS = {"rdeth": 1, "xrceth": 1, "deth": 2, "feth": 1, "reth": 4, "atomiceth": 7, "aeth": 1,
         "atomicacketh": 2, "immdt": 1, "ieth": 1}
CNP_WORDS = 4  # reserved bytes after the BTH of a congestion notification (IBTA A17.9.3)
MAX_WORDS = 10  # RDETH, DETH and AtomicETH
PREFIX = ("rdeth", "xrceth", "deth", "feth")  # headers that may stand before the operation's first
MAIN = ("reth", "atomiceth", "aeth")  # of which an operation has at most one


class Rule(enum.Enum, shape=2):
    """Whether a packet has payload."""

    NONE = 0
    OPTIONAL = 1
    REQUIRED = 2


class OpcodeInfo(data.Struct):
    """Sizes are in words of 4 bytes."""

    known: unsigned(1)
    present: Present
    prefix: unsigned(2)  # size of the headers before the main one
    main: unsigned(4)  # … with the main one
    size: unsigned(4)  # of all extension headers
    rule: Rule


_ONLY = Rule.OPTIONAL
_OPERATIONS: dict[int, tuple[tuple[str, ...], Rule]] = {
    0x00: ((), Rule.REQUIRED),  # SEND FIRST
    0x01: ((), Rule.REQUIRED),  # SEND MIDDLE
    0x02: ((), _ONLY),  # SEND LAST
    0x03: (("immdt",), _ONLY),
    0x04: ((), _ONLY),  # SEND ONLY
    0x05: (("immdt",), _ONLY),
    0x06: (("reth",), Rule.REQUIRED),  # RDMA WRITE FIRST
    0x07: ((), Rule.REQUIRED),
    0x08: ((), _ONLY),
    0x09: (("immdt",), _ONLY),
    0x0A: (("reth",), _ONLY),
    0x0B: (("reth", "immdt"), _ONLY),
    0x0C: (("reth",), Rule.NONE),  # RDMA READ request
    0x0D: (("aeth",), Rule.REQUIRED),  # READ response FIRST
    0x0E: ((), Rule.REQUIRED),
    0x0F: (("aeth",), _ONLY),
    0x10: (("aeth",), _ONLY),
    0x11: (("aeth",), Rule.NONE),  # acknowledge
    0x12: (("aeth", "atomicacketh"), Rule.NONE),
    0x13: (("atomiceth",), Rule.NONE),  # compare and swap
    0x14: (("atomiceth",), Rule.NONE),  # fetch and add
    0x15: ((), Rule.NONE),  # RESYNC, RD only
    0x16: (("ieth",), _ONLY),  # SEND LAST with invalidate
    0x17: (("ieth",), _ONLY),
    0x1C: (("feth", "reth"), Rule.NONE),  # FLUSH
    0x1D: (("reth",), Rule.REQUIRED),  # ATOMIC WRITE
}
_RESPONSES = range(0x0D, 0x13)
_SERVICES: dict[int, tuple[int, ...]] = {
    RC: (*range(0x00, 0x15), 0x16, 0x17, 0x1C, 0x1D),
    UC: tuple(range(0x00, 0x0C)),
    RD: tuple(range(0x00, 0x16)),
    UD: (0x04, 0x05),
    XRC: (*range(0x00, 0x15), 0x16, 0x17),
}


def _own_headers(service: int, response: bool) -> tuple[str, ...]:
    if service == RD:
        return ("rdeth",) if response else ("rdeth", "deth")
    if service == UD:
        return ("deth",)
    return ("xrceth",) if service == XRC and not response else ()


def table() -> dict[tuple[tuple[str, ...], Rule], list[int]]:
    """Opcodes by their extension headers in wire order and their rule for payload."""
    groups: dict[tuple[tuple[str, ...], Rule], list[int]] = {}
    for service, operations in _SERVICES.items():
        for operation in operations:
            names, rule = _OPERATIONS[operation]
            names = _own_headers(service, operation in _RESPONSES) + names
            groups.setdefault((names, rule), []).append(service | operation)
    return groups


def look_up(m, opcode, info):
    """Drive `info` (an `OpcodeInfo`, combinational) by `opcode`."""
    with m.Switch(opcode):
        for (names, rule), opcodes in table().items():
            prefix = sum(WORDS[name] for name in names if name in PREFIX)
            main = prefix + sum(WORDS[name] for name in names if name in MAIN)
            with m.Case(*opcodes):
                m.d.comb += [
                    info.known.eq(1), info.rule.eq(rule), info.prefix.eq(prefix),
                    info.main.eq(main), info.size.eq(sum(WORDS[name] for name in names)),
                    *(info.present[name].eq(1) for name in names),
                ]
        with m.Case(CNP):
            m.d.comb += [info.known.eq(1), info.rule.eq(Rule.NONE), info.size.eq(CNP_WORDS)]
