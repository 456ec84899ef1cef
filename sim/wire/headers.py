"""Bit layouts of the RDMA headers (IBTA vol. 1 chapter 9), most significant bit first.

A layout is a tuple of (field, bits); fields named "" are reserved: sent as 0, ignored on receipt.
"""

Layout = tuple[tuple[str, int], ...]
Values = dict[str, int]

BTH: Layout = (
    ("opcode", 8), ("se", 1), ("m", 1), ("pad", 2), ("tver", 4), ("pkey", 16),
    ("fecn", 1), ("becn", 1), ("", 6), ("dqpn", 24), ("ackreq", 1), ("", 7), ("psn", 24))
GRH: Layout = (
    ("version", 4), ("tclass", 8), ("flow_label", 20), ("length", 16), ("next_header", 8),
    ("hop_limit", 8), ("sgid", 128), ("dgid", 128))

EXTENSIONS: dict[str, Layout] = {
    "rdeth": (("", 8), ("eecn", 24)),
    "xrceth": (("", 8), ("srqn", 24)),
    "deth": (("qkey", 32), ("", 8), ("sqpn", 24)),
    "feth": (("", 26), ("selectivity", 2), ("placement", 4)),
    "reth": (("va", 64), ("rkey", 32), ("length", 32)),
    "atomiceth": (("va", 64), ("rkey", 32), ("swap", 64), ("compare", 64)),
    "aeth": (("syndrome", 8), ("msn", 24)),
    "atomicacketh": (("original", 64),),
    "immdt": (("imm", 32),),
    "ieth": (("rkey", 32),),
    "cnp": (("", 128),),
}


def size(layout: Layout) -> int:
    """Bytes of a header."""
    return sum(bits for _, bits in layout) // 8


def unpack(layout: Layout, data: bytes) -> Values:
    """The fields of the header that `data` starts with."""
    word = int.from_bytes(data[:size(layout)], "big")
    left = 8 * size(layout)
    values = {}
    for name, bits in layout:
        left -= bits
        if name:
            values[name] = word >> left & (1 << bits) - 1
    return values


def pack(layout: Layout, values: Values) -> bytes:
    """The header; fields not given are 0."""
    unknown = values.keys() - {name for name, _ in layout}
    if unknown:
        raise KeyError(f"no such header field: {', '.join(sorted(unknown))}")
    word = 0
    for name, bits in layout:
        word = word << bits | values.get(name, 0) & (1 << bits) - 1
    return word.to_bytes(size(layout), "big")
