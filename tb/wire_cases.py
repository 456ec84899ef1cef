"""Random RoCE packets for the benches of parser and deparser, of the model's own making."""

import random
import struct
from typing import Any

from sim.wire import headers
from sim.wire.build import Packet, build, reseal
from sim.wire.codec import ipv4_checksum
from sim.wire.icrc import icrc
from sim.wire.opcodes import OPCODES, Payload

NETWORKS = ("ipv4", "ipv6", "roce1")
TAGS: tuple[tuple[int, ...], ...] = ((), (0x8100,), (0x88A8,), (0x88A8, 0x8100), (0x8100, 0x8100))


def fields(layout: headers.Layout, rng: random.Random) -> dict[str, int]:
    return {name: rng.getrandbits(bits) for name, bits in layout if name}


def payload_size(rng: random.Random, opcode: int, size: int) -> int:
    """`size` as far as the opcode allows it."""
    rule = OPCODES[opcode].payload
    if rule is Payload.NONE:
        return 0
    return size or (rng.randrange(1, 200) if rule is Payload.REQUIRED else 0)


def packet(rng: random.Random, opcode: int, size: int, network: str = "ipv4",
           tpids: tuple[int, ...] = (), **changes: Any) -> Packet:
    """A packet of random fields; only what the opcode and the network need is fixed."""
    def address() -> bytes:
        return bytes(10) + b"\xff\xff" + rng.randbytes(4) if network == "ipv4" \
            else rng.randbytes(16)

    bth = fields(headers.BTH, rng) | {"opcode": opcode, "tver": 0}
    del bth["pad"]
    values: dict[str, Any] = {
        "dst": rng.randbytes(6), "src": rng.randbytes(6), "network": network,
        "vlan": tuple(rng.getrandbits(16) for _ in tpids), "tpids": tpids or (0x8100,),
        "sgid": address(), "dgid": address(), "tclass": rng.getrandbits(8),
        "flow_label": rng.getrandbits(20), "hop_limit": rng.getrandbits(8),
        "identification": rng.getrandbits(16), "sport": rng.getrandbits(16), "bth": bth,
        "extensions": {name: fields(headers.EXTENSIONS[name], rng)
                       for name in OPCODES[opcode].headers},
        "payload": rng.randbytes(payload_size(rng, opcode, size)),
    }
    return Packet(**(values | changes))


def with_options(frame: bytes, l3: int, options: bytes) -> bytes:
    """The IPv4 frame with options (a multiple of 4 bytes) in its header."""
    header = bytearray(frame[l3:l3 + 20] + options)
    header[0] = 0x40 | len(header) // 4
    struct.pack_into(">H", header, 2, len(frame) - l3 + len(options))
    header[10:12] = bytes(2)
    struct.pack_into(">H", header, 10, ipv4_checksum(bytes(header)))
    covered = bytes(header) + frame[l3 + 20:-4]
    return frame[:l3] + covered + icrc(covered)


def every_opcode(rng: random.Random) -> list[Packet]:
    """Each opcode of the table over each network, with each kind of tags in turn."""
    packets = []
    for number, opcode in enumerate(sorted(OPCODES)):
        for turn, network in enumerate(NETWORKS):
            tpids = TAGS[(number + turn) % len(TAGS)]
            packets.append(packet(rng, opcode, rng.choice((0, rng.randrange(1, 300))), network,
                                  tpids))
    return packets


def every_size(rng: random.Random) -> list[Packet]:
    """Payloads of all small sizes and around the MTUs, over all stacks in turn."""
    sizes = [*range(71), *(mtu + d for mtu in (256, 512, 1024, 2048) for d in (-1, 0, 1)),
             4093, 4095, 4096]
    return [packet(rng, rng.choice((0x04, 0x0B, 0x64, 0xA4)), size, NETWORKS[n % 3],
                   TAGS[n % len(TAGS)]) for n, size in enumerate(sizes)]


def put(frame: bytes, at: int, data: bytes) -> bytes:
    """The frame with `data` in place of what was at `at`."""
    return frame[:at] + data + frame[at + len(data):]


def resum(frame: bytes, l3: int) -> bytes:
    """The frame with its IPv4 header checksum made right."""
    size = 4 * max(frame[l3] & 15, 5)
    header = put(frame[l3:l3 + size], 10, bytes(2))
    return put(frame, l3 + 10, ipv4_checksum(header).to_bytes(2, "big"))


def faulty(rng: random.Random) -> list[tuple[str | None, bytes]]:
    """(reason, frame) for every reason that lies in the frame itself; None: not RDMA or good."""
    def make(opcode: int = 0x04, size: int = 40, network: str = "ipv4", **changes: Any) -> bytes:
        return build(packet(rng, opcode, size, network, **changes))

    def length(frame: bytes, at: int, change: int) -> bytes:
        old = int.from_bytes(frame[at:at + 2], "big")
        return put(frame, at, ((old + change) % 65536).to_bytes(2, "big"))

    v4, v6, grh = make(), make(network="ipv6"), make(network="roce1")
    cases: list[tuple[str | None, bytes]] = [("runt", v4[:n]) for n in (1, 7, 8, 9, 13)]
    cases += [(None, v4), (None, v6), (None, grh)]
    cases += [("ip_version", resum(put(v4, 14, b"\x55"), 14)), ("ip_version", put(v6, 14, b"\x40"))]
    cases += [("ip_ihl", resum(put(v4, 14, bytes([0x40 | n])), 14)) for n in (0, 4)]
    cases += [("ip_length", resum(length(v4, 16, n), 14)) for n in (1, 4, 1000, -400)]
    cases += [("ip_length", length(v6, 18, n)) for n in (1, 500)]
    cases += [("udp_length", resum(length(v4, 16, -4), 14)), ("udp_length", length(v6, 18, -4)),
              ("udp_length", length(v4, 38, 1)), ("udp_length", length(v6, 58, -1))]
    cases += [("ip_checksum", length(v4, at, 1)) for at in (18, 24, 26, 32)]
    cases += [("grh", put(grh, 14, b"\x50")), ("grh", put(grh, 20, b"\x1c")),
              ("grh", length(grh, 18, 1))]
    cases += [("truncated", length(grh, 18, -44)), ("icrc", length(grh, 18, -4))]
    for frame, bth in ((v4, 42), (v6, 62), (grh, 54)):
        cases += [("bth_tver", put(frame, bth + 1, b"\x01")), ("truncated", frame[:bth + 6]),
                  ("bth_opcode", put(frame, bth, b"\x15")),
                  ("bth_opcode", put(frame, bth, b"\xff")),
                  ("icrc", put(frame, bth + 9, b"\x00" * 3)),
                  ("payload_missing", put(frame, bth, b"\x0c")),
                  ("truncated", put(frame[:bth + 20], bth, b"\x0c"))]
    for network in NETWORKS:
        size = {"ipv4": 42, "ipv6": 62, "roce1": 54}[network]
        cases += [("pad", put(make(0x04, 0, network), size + 1, b"\x10")),
                  ("payload_missing", make(0x01, 0, network, payload=b"")),
                  ("payload_missing", make(0x11, 0, network, payload=bytes(4))),
                  ("payload_too_long", make(0x04, 4097, network)),
                  ("payload_too_long", make(0x04, 5000, network)),
                  ("icrc", put(make(0x04, 9, network), size + 20, b"xx"))]
    cases.append(("oversize", v4 + bytes(9217 - len(v4))))
    cases.append((None, v4 + bytes(9216 - len(v4))))
    cases.append(("oversize", rng.randbytes(9500)))
    cases.append(("oversize", v4 + bytes(20000)))
    return cases


def not_rdma(rng: random.Random) -> list[bytes]:
    """Frames for the host queue, and MAC control."""
    v4, v6 = (build(packet(rng, 0x04, 40, network)) for network in ("ipv4", "ipv6"))
    macs = rng.randbytes(12)
    fragments = [resum(put(v4, 20, flags.to_bytes(2, "big")), 14)
                 for flags in (0x2000, 0x0001, 0x1FFF)]
    return [
        *fragments, resum(put(v4, 23, b"\x06"), 14), put(v4, 36, b"\x12\xb8"),
        put(v6, 20, b"\x00"), put(v6, 20, b"\x2c"), put(v6, 56, b"\x00\x35"),
        macs + b"\x08\x06" + rng.randbytes(28), macs + b"\x88\x08\x00\x01" + rng.randbytes(44),
        macs + b"\x88\x08\x01\x01\x00\xff" + rng.randbytes(42), macs + b"\x88\x08\x00\x02",
        macs + b"\x81\x00" + rng.randbytes(2) + b"\x88\x08\x01\x01" + rng.randbytes(40),
        macs + b"\x88\xcc" + rng.randbytes(60), macs + b"\x00\x2e" + rng.randbytes(46),
        macs + b"\x81\x00" * 3 + rng.randbytes(60), macs + b"\x81\x00\x00\x01" * 3 + v4[12:],
        macs + b"\x08\x00", macs + b"\x86\xdd",
    ]


def mutant(rng: random.Random) -> bytes:
    """A good frame with damage of some kind, mostly in its headers, often sealed again."""
    network = rng.choice(NETWORKS)
    frame = build(packet(rng, rng.choice(list(OPCODES)), rng.choice((0, 1, 30, 300)), network,
                         rng.choice(TAGS)))
    kind = rng.randrange(6)
    if kind == 0:
        return frame[:rng.randrange(1, len(frame))]
    if kind == 1:
        return frame + rng.randbytes(rng.randrange(1, 80))
    if kind == 2:
        return put(frame, 12, rng.choice((b"\x08\x00", b"\x86\xdd", b"\x89\x15", b"\x81\x00")))
    for _ in range(rng.randrange(3)):
        at = rng.randrange(12, min(len(frame), 100))
        frame = put(frame, at, bytes([frame[at] ^ 1 << rng.randrange(8)]))
    l3 = 14
    while frame[l3 - 2:l3] in (b"\x81\x00", b"\x88\xa8") and l3 < 22:
        l3 += 4
    if kind == 3 and frame[l3 - 2:l3] == b"\x08\x00" and len(frame) > l3 + 60:
        frame = resum(frame, l3)
    if kind == 4 and len(frame) > l3 + 60:
        frame = reseal(frame, l3)
    return frame
