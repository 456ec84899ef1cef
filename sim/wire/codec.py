"""Frames to packets: what `parse` says of a frame, from docs/parser.md."""

import hashlib
import ipaddress
import struct
from typing import Any

from sim.wire import headers
from sim.wire.icrc import BTH_BYTES, GRH_BYTES, UDP_BYTES, icrc
from sim.wire.opcodes import CNP, OPCODES, Payload

ETHERNET_BYTES = 14
ICRC_BYTES = 4
MIN_FRAME = 14
MAX_PAYLOAD = 4096
ROCE_PORT = 4791
VLAN_TPIDS = (0x8100, 0x88A8)
MAX_TAGS = 2
TYPE_IPV4, TYPE_ARP, TYPE_IPV6, TYPE_MAC_CONTROL, TYPE_ROCE1 = \
    0x0800, 0x0806, 0x86DD, 0x8808, 0x8915
UDP_PROTOCOL = 17
GRH_NEXT_HEADER = 0x1B
MAC_CONTROL: dict[int | None, str] = {0x0001: "pause", 0x0101: "pfc"}
MAC_CONTROL_BYTES = {"pause": 4, "pfc": 20}  # from the opcode to the last field
RDMA_KINDS = ("roce2", "roce1", "cnp")

Report = dict[str, Any]


def parse(frame: bytes, sequence: int = 0, max_frame: int = 9216,
          mac_error: bool = False) -> Report:
    """The frame in the form of `parse --json`, plus `payload` (bytes, see `json_form`).

    A header is in the report when the frame holds it whole. The payload, its hash and the verdict
    on the ICRC are None unless every check before the ICRC has passed.
    """
    report: Report = {"frame": sequence, "kind": "other", "error": None, "eth": None,
                      "payload_length": None, "payload_sha256": None, "payload": None,
                      "icrc_ok": None}
    fault = None
    if len(frame) >= MIN_FRAME:
        tags, start, ethertype = ethernet(frame)
        report["eth"] = {"dst": mac_text(frame[0:6]), "src": mac_text(frame[6:12]),
                         "vlan": [tag & 0xFFF for tag in tags]}
        fault = _dispatch(frame, start, ethertype, report)
    for reason, applies in (("mac_error", mac_error), ("runt", len(frame) < MIN_FRAME),
                            ("oversize", len(frame) > max_frame)):
        if applies:
            fault = reason
            break
    report["error"] = fault
    if fault not in (None, "icrc"):
        for name in ("payload_length", "payload_sha256", "payload", "icrc_ok"):
            report[name] = None
    return report


def json_form(report: Report) -> Report:
    """The report without its payload bytes."""
    return {name: value for name, value in report.items() if name != "payload"}


def mac_text(mac: bytes) -> str:
    return mac.hex(":")


def mac_bytes(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))


def gid_bytes(address: str) -> bytes:
    """An IP address as GID: IPv4 is mapped (::ffff:a.b.c.d)."""
    packed = ipaddress.ip_address(address).packed
    return packed if len(packed) == 16 else bytes(10) + b"\xff\xff" + packed


def ipv4_checksum(header: bytes) -> int:
    """Internet checksum of a header whose own checksum counts as it stands: 0 when it is right."""
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ethernet(frame: bytes) -> tuple[list[int], int, int | None]:
    """The TCIs, the first byte after Ethernet header and tags, and the EtherType.

    At most two tags are taken off. The EtherType is None if the frame ends inside a tag.
    """
    tags: list[int] = []
    start = ETHERNET_BYTES
    ethertype = int.from_bytes(frame[12:14], "big")
    while ethertype in VLAN_TPIDS and len(tags) < MAX_TAGS:
        if len(frame) < start + 4:
            return tags, start, None
        tci, ethertype = struct.unpack_from(">2H", frame, start)
        tags.append(tci)
        start += 4
    return tags, start, ethertype


def _dispatch(frame: bytes, start: int, ethertype: int | None, report: Report) -> str | None:
    if ethertype in (TYPE_IPV4, TYPE_IPV6):
        report["kind"] = "ip"
        packet = frame[start:]
        return _ipv4(packet, report) if ethertype == TYPE_IPV4 else _ipv6(packet, report)
    if ethertype == TYPE_ROCE1:
        report["kind"] = "roce1"
        return _roce1(frame[start:], report)
    if ethertype == TYPE_ARP:
        report["kind"] = "arp"
    elif ethertype == TYPE_MAC_CONTROL:
        return _mac_control(frame[start:], report)
    return None


def _mac_control(packet: bytes, report: Report) -> str | None:
    """PAUSE (IEEE 802.3 annex 31B) and PFC (IEEE 802.1Q clause 36); times are in quanta."""
    opcode = int.from_bytes(packet[:2], "big") if len(packet) >= 2 else None
    kind = report["kind"] = MAC_CONTROL.get(opcode, "other")
    if kind == "other":
        return None
    if len(packet) < MAC_CONTROL_BYTES[kind]:
        return "truncated"
    if kind == "pause":
        report["pause"] = {"time": int.from_bytes(packet[2:4], "big")}
    else:
        # The vector's upper byte is reserved; class 0 is its lowest bit and the first time.
        report["pfc"] = {"enable": packet[3], "times": list(struct.unpack_from(">8H", packet, 4))}
    return None


def _ipv4(packet: bytes, report: Report) -> str | None:
    if len(packet) < 20:
        return None
    version, ihl = packet[0] >> 4, packet[0] & 15
    header = 4 * max(ihl, 5)  # a header that claims less than it must hold is taken as the least
    total, = struct.unpack_from(">H", packet, 2)
    report["ip"] = _ip_report(4, packet[12:16], packet[16:20], packet[1], packet[8])
    fragment = struct.unpack_from(">H", packet, 6)[0] & 0x3FFF
    if packet[9] != UDP_PROTOCOL or fragment or not _udp(packet, header, report):
        return None
    faults = [
        ("ip_version", version != 4),
        ("ip_ihl", ihl < 5),
        ("ip_length", total < header or total > len(packet)),
        ("ip_checksum", ipv4_checksum(packet[:header]) != 0),
    ]
    return _roce2(packet, header, total, faults, report)


def _ipv6(packet: bytes, report: Report) -> str | None:
    if len(packet) < 40:
        return None
    total = 40 + int.from_bytes(packet[4:6], "big")
    tclass = int.from_bytes(packet[0:2], "big") >> 4 & 0xFF
    report["ip"] = _ip_report(6, packet[8:24], packet[24:40], tclass, packet[7])
    if packet[6] != UDP_PROTOCOL or not _udp(packet, 40, report):
        return None
    faults = [("ip_version", packet[0] >> 4 != 6), ("ip_length", total > len(packet))]
    return _roce2(packet, 40, total, faults, report)


def _ip_report(version: int, src: bytes, dst: bytes, tclass: int, ttl: int) -> Report:
    return {"version": version, "src": str(ipaddress.ip_address(src)),
            "dst": str(ipaddress.ip_address(dst)), "dscp": tclass >> 2, "ecn": tclass & 3,
            "ttl": ttl}


def _udp(packet: bytes, start: int, report: Report) -> bool:
    """Whether the datagram is RoCE: its destination port is there and is 4791."""
    if len(packet) >= start + UDP_BYTES:
        sport, dport = struct.unpack_from(">2H", packet, start)
        report["udp"] = {"sport": sport, "dport": dport}
    return packet[start + 2:start + 4] == ROCE_PORT.to_bytes(2, "big")


def _roce2(packet: bytes, udp: int, total: int, faults: list[tuple[str, bool]],
           report: Report) -> str | None:
    bth = udp + UDP_BYTES
    report["kind"] = "cnp" if packet[bth:bth + 1] == bytes([CNP]) else "roce2"
    length = int.from_bytes(packet[udp + 4:udp + 6], "big")
    faults.append(("udp_length", length != total - udp))
    # Padding of the Ethernet frame is no part of the packet; a length that cannot be is no border.
    sane = udp <= total <= len(packet)
    return _transport(packet[:total] if sane else packet, bth, faults, report)


def _roce1(packet: bytes, report: Report) -> str | None:
    total = len(packet)
    faults = []
    if len(packet) >= GRH_BYTES:
        grh = report["grh"] = headers.unpack(headers.GRH, packet)
        total = GRH_BYTES + grh["length"]
        faults.append(("grh", grh["version"] != 6 or grh["next_header"] != GRH_NEXT_HEADER
                       or total > len(packet)))
    return _transport(packet[:total], GRH_BYTES, faults, report)


def _transport(packet: bytes, bth: int, faults: list[tuple[str, bool]],
               report: Report) -> str | None:
    """BTH, extension headers, payload and ICRC of `packet`, which starts at its network header."""
    end = bth + BTH_BYTES
    if len(packet) < end:
        return "truncated"
    fields = report["bth"] = headers.unpack(headers.BTH, packet[bth:])
    opcode = OPCODES.get(fields["opcode"])
    for name in opcode.headers if opcode else ():
        layout = headers.EXTENSIONS[name]
        body = packet[end:end + headers.size(layout)]
        end += headers.size(layout)
        if len(packet) >= end and name != "cnp":
            report[name] = headers.unpack(layout, body)
    length = len(packet) - end - ICRC_BYTES - fields["pad"]
    faults = [("truncated", len(packet) < end + ICRC_BYTES), *faults,
              ("bth_tver", fields["tver"] != 0), ("bth_opcode", opcode is None),
              ("pad", length < 0), ("payload_too_long", length > MAX_PAYLOAD),
              ("payload_missing", opcode is not None and not _payload_fits(opcode.payload, length))]
    for reason, applies in faults:
        if applies:
            return reason
    payload = packet[end:end + length]
    report["icrc_ok"] = icrc(packet[:-ICRC_BYTES]) == packet[-ICRC_BYTES:]
    report |= {"payload_length": length, "payload": payload,
               "payload_sha256": hashlib.sha256(payload).hexdigest()}
    return None if report["icrc_ok"] else "icrc"


def _payload_fits(rule: Payload, length: int) -> bool:
    return rule is Payload.OPTIONAL or (length > 0) == (rule is Payload.REQUIRED)
