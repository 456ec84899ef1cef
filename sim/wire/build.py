"""Packets to frames: RoCEv2 over IPv4 and IPv6, RoCEv1, with or without VLAN tags."""

import struct
from dataclasses import dataclass, field
from typing import Literal

from sim.wire import codec, headers
from sim.wire.icrc import UDP_BYTES, icrc
from sim.wire.opcodes import OPCODES

DONT_FRAGMENT = 0x4000


@dataclass(kw_only=True)
class Packet:
    """Everything that `build` puts into a frame."""

    dst: bytes = bytes(6)
    src: bytes = bytes(6)
    vlan: tuple[int, ...] = ()  # TCIs, outermost first
    tpids: tuple[int, ...] = (0x8100,)  # of the tags; the last one repeats
    network: Literal["ipv4", "ipv6", "roce1"] = "ipv4"
    sgid: bytes = bytes(16)  # an IPv4 address is the last four bytes
    dgid: bytes = bytes(16)
    tclass: int = 0
    flow_label: int = 0
    hop_limit: int = 64
    identification: int = 0
    sport: int = 0xC000
    dport: int = codec.ROCE_PORT
    bth: headers.Values = field(default_factory=dict)  # opcode is needed; pad is worked out
    extensions: dict[str, headers.Values] = field(default_factory=dict)
    payload: bytes = b""
    pad_byte: int = 0


def build(packet: Packet) -> bytes:
    """The frame from MAC address to ICRC, without Ethernet padding and FCS."""
    transport = _transport(packet)
    ethertype, header = {"ipv4": (codec.TYPE_IPV4, _ipv4), "ipv6": (codec.TYPE_IPV6, _ipv6),
                         "roce1": (codec.TYPE_ROCE1, _grh)}[packet.network]
    covered = header(packet, len(transport)) + transport
    return _ethernet(packet, ethertype) + covered + icrc(covered)


def reseal(frame: bytes, start: int = codec.ETHERNET_BYTES) -> bytes:
    """The frame with its ICRC, its last four bytes, made right; its packet begins at `start`."""
    return frame[:-codec.ICRC_BYTES] + icrc(frame[start:-codec.ICRC_BYTES])


def _transport(packet: Packet) -> bytes:
    pad = -len(packet.payload) % 4
    bth = {"pkey": 0xFFFF, "pad": pad, **packet.bth}
    opcode = OPCODES.get(bth["opcode"])
    names = opcode.headers if opcode else ()
    extensions = b"".join(headers.pack(headers.EXTENSIONS[name], packet.extensions.get(name, {}))
                          for name in names)
    body = headers.pack(headers.BTH, bth) + extensions + packet.payload
    return body + bytes([packet.pad_byte]) * pad


def _ethernet(packet: Packet, ethertype: int) -> bytes:
    tags = b""
    for index, tci in enumerate(packet.vlan):
        tags += struct.pack(">HH", packet.tpids[min(index, len(packet.tpids) - 1)], tci)
    return packet.dst + packet.src + tags + struct.pack(">H", ethertype)


def _udp(packet: Packet, length: int) -> bytes:
    size = UDP_BYTES + length + codec.ICRC_BYTES
    return struct.pack(">4H", packet.sport, packet.dport, size, 0)


def _ipv4(packet: Packet, length: int) -> bytes:
    udp = _udp(packet, length)
    total = 20 + UDP_BYTES + length + codec.ICRC_BYTES
    fields = (0x45, packet.tclass, total, packet.identification, DONT_FRAGMENT, packet.hop_limit,
              codec.UDP_PROTOCOL)
    addresses = packet.sgid[12:] + packet.dgid[12:]
    form = ">BBHHHBBH"
    checksum = codec.ipv4_checksum(struct.pack(form, *fields, 0) + addresses)
    return struct.pack(form, *fields, checksum) + addresses + udp


def _ipv6(packet: Packet, length: int) -> bytes:
    udp = _udp(packet, length)
    fixed = {"version": 6, "tclass": packet.tclass, "flow_label": packet.flow_label,
             "length": UDP_BYTES + length + codec.ICRC_BYTES,
             "next_header": codec.UDP_PROTOCOL, "hop_limit": packet.hop_limit}
    return headers.pack(headers.GRH, fixed)[:8] + packet.sgid + packet.dgid + udp


def _grh(packet: Packet, length: int) -> bytes:
    grh = {"version": 6, "tclass": packet.tclass, "flow_label": packet.flow_label,
           "length": length + codec.ICRC_BYTES, "next_header": codec.GRH_NEXT_HEADER,
           "hop_limit": packet.hop_limit}
    return headers.pack(headers.GRH, grh)[:8] + packet.sgid + packet.dgid
