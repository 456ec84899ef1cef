"""Random RoCE packets for the benches of parser and deparser, of the model's own making."""

import random
import struct
from typing import Any

from sim.wire import headers
from sim.wire.build import Packet, build
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
    values = {
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


__all__ = ["NETWORKS", "TAGS", "build", "every_opcode", "every_size", "packet", "with_options"]
