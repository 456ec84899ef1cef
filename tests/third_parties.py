"""Frames as tshark and scapy read them, in flat form: `bth.psn`, `ip.src`, … → value.

Only what the other program says is in; `flat` brings a report of ours into the same form.
"""

import ipaddress
import re
import subprocess
import warnings
from itertools import takewhile
from pathlib import Path
from typing import Any

from sim.wire.codec import json_form

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from scapy.contrib import mac_control
    from scapy.contrib.roce import AETH, BTH, GRH
    from scapy.layers.inet import IP, UDP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether

Flat = dict[str, Any]
PAUSE, PFC, CNP = 0x0001, 0x0101, 0x81
ROCE_PORT = 4791


def flat(report: dict[str, Any]) -> Flat:
    """`parse`'s report with the fields of its headers one by one."""
    result: Flat = {}
    for name, value in json_form(report).items():
        if isinstance(value, dict):
            result |= {f"{name}.{field}": inner for field, inner in value.items()}
        elif name == "kind":
            result[name] = value
    if report["payload_length"] is not None:
        result["padded_length"] = report["payload_length"] + report["bth"]["pad"]
    return result


def differences(ours: Flat, theirs: Flat) -> dict[str, tuple[Any, Any]]:
    """Every field that one side has and the other has not, or has otherwise: (ours, theirs)."""
    return {name: (ours.get(name), theirs.get(name)) for name in sorted(ours.keys() | theirs.keys())
            if ours.get(name) != theirs.get(name)}


# tshark

SIMPLE = {  # our field: tshark's, a number
    "udp.sport": "udp.srcport", "udp.dport": "udp.dstport",
    **{f"bth.{ours}": f"infiniband.bth.{theirs}" for ours, theirs in {
        "opcode": "opcode", "se": "se", "m": "m", "pad": "padcnt", "tver": "tver",
        "pkey": "p_key", "dqpn": "destqp", "ackreq": "a", "psn": "psn"}.items()},
    **{f"grh.{ours}": f"infiniband.grh.{theirs}" for ours, theirs in {
        "version": "ipver", "tclass": "tclass", "flow_label": "flowlabel", "length": "paylen",
        "next_header": "nxthdr", "hop_limit": "hoplmt"}.items()},
    "rdeth.eecn": "infiniband.rdeth.eecnxt", "deth.qkey": "infiniband.deth.q_key",
    "deth.sqpn": "infiniband.deth.srcqp", "reth.va": "infiniband.reth.va",
    "reth.rkey": "infiniband.reth.r_key", "reth.length": "infiniband.reth.dmalen",
    "atomiceth.swap": "infiniband.atomiceth.swapdt",
    "atomiceth.compare": "infiniband.atomiceth.cmpdt",
    "aeth.syndrome": "infiniband.aeth.syndrome", "aeth.msn": "infiniband.aeth.msn",
    "atomicacketh.original": "infiniband.atomicacketh.origremdt",
}
BYTES = {"immdt.imm": "infiniband.immdt", "ieth.rkey": "infiniband.ieth"}
GIDS = {"grh.sgid": "infiniband.grh.sgid", "grh.dgid": "infiniband.grh.dgid"}
IP_FIELDS = {
    4: {"src": "ip.src", "dst": "ip.dst", "dscp": "ip.dsfield.dscp", "ecn": "ip.dsfield.ecn",
        "ttl": "ip.ttl"},
    6: {"src": "ipv6.src", "dst": "ipv6.dst", "dscp": "ipv6.tclass.dscp",
        "ecn": "ipv6.tclass.ecn", "ttl": "ipv6.hlim"},
}
TIMES = [f"macc.cbfc.pause_time.c{n}" for n in range(8)]
FIELDS = ["frame.protocols", "frame.len", "eth.dst", "eth.src", "vlan.id", "ieee8021ad.id",
          "infiniband.invariant.crc", "data.len", "macc.opcode", "macc.pause_time",
          "macc.cbfc.enbv", *TIMES, *SIMPLE.values(), *BYTES.values(), *GIDS.values(),
          *IP_FIELDS[4].values(), *IP_FIELDS[6].values()]
FIRST_OF = re.compile(",.*")


def number(text: str) -> int:
    return {"True": 1, "False": 0}[text] if text in ("True", "False") else int(text, 0)


def run_tshark(path: Path, limit: int | None = None) -> list[dict[str, str]]:
    """A row of `FIELDS` for each frame of the capture, in one call; occurrences with commas."""
    command = ["tshark", "-n", "-r", str(path), "-T", "fields", "-E", "occurrence=a",
               "-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE"]
    command += ["-c", str(limit)] if limit else []
    for field in FIELDS:
        command += ["-e", field]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [dict(zip(FIELDS, line.split("\t"), strict=True)) for line in out.splitlines()]


def layers(row: dict[str, str]) -> list[str]:
    """The protocols from Ethernet inwards."""
    return [name for name in row["frame.protocols"].split(":") if name != "ethertype"]


def tshark_report(row: dict[str, str]) -> Flat:
    """Of fields that occur several times (tunnels, quoted headers) the outermost counts."""
    names = layers(row)
    tags = list(takewhile(lambda name: name in ("vlan", "ieee8021ad"), names[1:]))
    inside = names[1 + len(tags):]
    vids = {name: row[f"{name}.id"].split(",") for name in set(tags)}
    first = {name: FIRST_OF.sub("", text) for name, text in row.items()}
    result: Flat = {
        "kind": _tshark_kind(inside, first), "eth.dst": first["eth.dst"],
        "eth.src": first["eth.src"],
        "eth.vlan": [int(vids[name].pop(0)) for name in tags]}
    version = {"ip": 4, "ipv6": 6}.get(inside[0]) if inside else None
    if version and first[IP_FIELDS[version]["src"]]:
        result["ip.version"] = version
        for name, field in IP_FIELDS[version].items():
            value = first[field]
            result[f"ip.{name}"] = value if name in ("src", "dst") else number(value)
    wanted = ["udp"] if inside[1:2] == ["udp"] else []
    if "infiniband" in inside[:3]:
        wanted += ["bth", "grh", "rdeth", "deth", "reth", "atomiceth", "aeth", "atomicacketh"]
        result |= {name: int(first[field], 16) for name, field in BYTES.items() if first[field]}
        result |= {name: int(ipaddress.IPv6Address(first[field])) for name, field in GIDS.items()
                   if first[field]}
    result |= {name: number(first[field]) for name, field in SIMPLE.items()
               if name.split(".")[0] in wanted and first[field]}
    if "atomiceth.swap" in result:  # tshark has one name for what both headers begin with
        result |= {f"atomiceth.{name}": result.pop(f"reth.{name}") for name in ("va", "rkey")}
    if names[-1] == "infiniband":
        result["padded_length"] = 0
    elif names[-2:] == ["infiniband", "data"]:
        result["padded_length"] = int(first["data.len"])
    return result | _tshark_control(first, result["kind"])


def _tshark_kind(inside: list[str], row: dict[str, str]) -> str:
    if inside[:1] == ["infiniband"]:
        return "roce1"
    if inside[:1] in (["ip"], ["ipv6"]):
        if inside[1:3] != ["udp", "infiniband"]:
            return "ip"
        opcode = row["infiniband.bth.opcode"]
        return "cnp" if opcode and number(opcode) == CNP else "roce2"
    if inside[:1] == ["macc"] and row["macc.opcode"]:
        return {PAUSE: "pause", PFC: "pfc"}.get(number(row["macc.opcode"]), "other")
    return "arp" if inside[:1] == ["arp"] else "other"


def _tshark_control(row: dict[str, str], kind: str) -> Flat:
    if kind == "pause" and row["macc.pause_time"]:
        return {"pause.time": number(row["macc.pause_time"])}
    if kind == "pfc" and row[TIMES[7]]:
        return {"pfc.enable": number(row["macc.cbfc.enbv"]) & 0xFF,
                "pfc.times": [number(row[time]) for time in TIMES]}
    return {}


# scapy


def scapy_report(frame: bytes) -> Flat:
    layer = Ether(frame)
    result: Flat = {"eth.dst": layer.dst, "eth.src": layer.src, "eth.vlan": []}
    layer = layer.payload
    while isinstance(layer, (Dot1Q, Dot1AD)) and len(result["eth.vlan"]) < 2:
        result["eth.vlan"].append(layer.vlan)
        layer = layer.payload
    if isinstance(layer, IP):
        result |= _scapy_ip(4, layer.src, layer.dst, layer.tos, layer.ttl)
    elif isinstance(layer, IPv6):
        result |= _scapy_ip(6, layer.src, layer.dst, layer.tc, layer.hlim)
    elif isinstance(layer, GRH):
        result |= {"grh.version": layer.ipver, "grh.tclass": layer.tclass,
                   "grh.flow_label": layer.flowlabel, "grh.length": layer.paylen,
                   "grh.next_header": layer.nexthdr, "grh.hop_limit": layer.hoplmt,
                   "grh.sgid": layer.sgid, "grh.dgid": layer.dgid}
    result["kind"] = _scapy_kind(layer)
    if isinstance(layer, (IP, IPv6)) and isinstance(layer.payload, UDP):
        result |= {"udp.sport": layer.payload.sport, "udp.dport": layer.payload.dport}
    bth = layer.payload if isinstance(layer, GRH) else layer.payload.payload
    if result["kind"] in ("roce2", "roce1", "cnp") and isinstance(bth, BTH):
        result |= _scapy_bth(bth)
    return result | _scapy_control(layer.payload, result["kind"])


def scapy_icrc_ok(frame: bytes) -> bool | None:
    """The ICRC's verdict; None where scapy has none (RoCEv1)."""
    layer = Ether(frame)
    if BTH not in layer or GRH in layer:
        return None
    bth = layer[BTH]
    return bth.compute_icrc(bytes(bth)[:-4]) == bth.icrc.to_bytes(4, "big")


def _scapy_ip(version: int, src: str, dst: str, tclass: int, ttl: int) -> Flat:
    return {"ip.version": version, "ip.src": str(ipaddress.ip_address(src)),
            "ip.dst": str(ipaddress.ip_address(dst)), "ip.dscp": tclass >> 2,
            "ip.ecn": tclass & 3, "ip.ttl": ttl}


def _scapy_kind(layer: Any) -> str:
    if isinstance(layer, (IP, IPv6)):
        udp = layer.payload
        if not isinstance(udp, UDP) or udp.dport != ROCE_PORT:
            return "ip"
        return "cnp" if isinstance(udp.payload, BTH) and udp.payload.opcode == CNP else "roce2"
    if isinstance(layer, mac_control.MACControl):
        return {mac_control.MACControlPause: "pause",
                mac_control.MACControlClassBasedFlowControl: "pfc"}.get(
                    type(layer.payload), "other")
    return {ARP: "arp", GRH: "roce1"}.get(type(layer), "other")


def _scapy_bth(bth: Any) -> Flat:
    result = {f"bth.{name}": bth.getfieldval(field) for name, field in {
        "opcode": "opcode", "se": "solicited", "m": "migreq", "pad": "padcount",
        "tver": "version", "pkey": "pkey", "fecn": "fecn", "becn": "becn", "dqpn": "dqpn",
        "ackreq": "ackreq", "psn": "psn"}.items()}
    if AETH in bth:
        result |= {"aeth.syndrome": bth[AETH].syndrome, "aeth.msn": bth[AETH].msn}
    return result


def _scapy_control(body: Any, kind: str) -> Flat:
    if kind == "pause":
        return {"pause.time": body.pause_time}
    if kind == "pfc":
        enable = sum(body.getfieldval(f"c{n}_enabled") << n for n in range(8))
        return {"pfc.enable": enable,
                "pfc.times": [body.getfieldval(f"c{n}_pause_time") for n in range(8)]}
    return {}
