"""Packets of the model through the RTL deparser."""

from collections.abc import Sequence
from typing import Any

from rtl.config import NicConfig
from rtl.deparser import Deparser
from rtl.headers import Kind
from rtl.verilog import to_verilog
from sim.wire.build import Packet
from sim.wire.opcodes import OPCODES
from tb.build import simulate
from tb.deparser_top import DeparserTop

DONT_FRAGMENT = 0b010


def number(data: bytes) -> int:
    """Opaque bytes, the first one lowest."""
    return int.from_bytes(data, "little")


def fields(p: Packet, sequence: int = 0) -> dict[str, Any]:
    """The header item of which the deparser makes `p`."""
    kind = {"roce1": Kind.ROCE1}.get(p.network, Kind.CNP if p.bth["opcode"] == 0x81 else Kind.ROCE2)
    names = [name for name in OPCODES[p.bth["opcode"]].headers if name != "cnp"]
    ext = p.extensions
    plain = {"rdeth": "eecn", "xrceth": "srqn", "atomicacketh": "original", "ieth": "rkey"}
    items = {name: ext[name][plain[name]] if name in plain else ext[name]
             for name in names if name not in ("immdt", "feth")}
    if "immdt" in names:
        items["immdt"] = number(ext["immdt"]["imm"].to_bytes(4, "big"))
    if "feth" in names:
        items["feth"] = ext["feth"]["selectivity"] << 4 | ext["feth"]["placement"]
    tpids = [p.tpids[min(n, len(p.tpids) - 1)] for n in range(len(p.vlan))]
    return {
        "kind": kind.value, "sequence": sequence, "payload_length": len(p.payload),
        "eth": {"dst": number(p.dst), "src": number(p.src), "vlan_count": len(p.vlan),
                "vlan": [{"tci": tci, "service": tpid == 0x88A8}
                         for tci, tpid in zip(p.vlan, tpids, strict=True)]},
        "ip": {"version": 4 if p.network == "ipv4" else 6, "dscp": p.tclass >> 2,
               "ecn": p.tclass & 3, "ttl": p.hop_limit, "identification": p.identification,
               "flags": DONT_FRAGMENT, "flow_label": p.flow_label,
               "src": number(p.sgid), "dst": number(p.dgid)},
        "udp": {"sport": p.sport, "dport": p.dport}, "bth": dict(p.bth),
        "present": dict.fromkeys(names, 1), **items}


def deparse(items: Sequence[int], payloads: Sequence[bytes], width: int, *, icrc: bool = True,
            simulator: str = "verilator", errors: list[int] | None = None, key: object = "",
            **job: Any) -> dict[str, Any]:
    """`items` are words of `Headers`; gives the bench's result, `frames` as bytes. With `icrc` the
    ICRC is inserted."""
    config = NicConfig(data_width=width)
    top = "deparser_top" if icrc else "deparser"

    def generate() -> str:
        return to_verilog(DeparserTop(config) if icrc else Deparser(config), top)

    payloads = [payload for payload in payloads if payload]
    result = simulate(top, (width, key), generate, "tb.deparser_tb", simulator, job={
        "width": width, "alone": not icrc, "headers": [hex(item) for item in items],
        "payloads": [payload.hex() for payload in payloads],
        "errors": errors or [0] * len(payloads), **job})
    result["frames"] = [bytes.fromhex(frame) for frame in result["frames"]]
    return result
