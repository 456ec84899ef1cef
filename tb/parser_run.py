"""Frames through the RTL parser, reported in the form of `parse --json`."""

import dataclasses
import hashlib
import ipaddress
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rtl.config import NicConfig
from rtl.headers import Headers, Kind, Reason
from rtl.icrc import IcrcCounters, IcrcReport
from rtl.parser import HostInfo, ParserCounters, RssSettings
from tb.bits import pack, unpack
from tb.build import simulate

MIN_FRAME = 14
CONTROL_BYTES = {"pause": 4, "pfc": 20}  # of MAC control, from its opcode on
MAX_BYTES = 1 << 14
TOP = Path(__file__).with_name("parser_top.py")
CHUNK = 2000  # frames a simulation
BTH_FIELDS = ("opcode", "se", "m", "pad", "tver", "pkey", "fecn", "becn", "dqpn", "ackreq", "psn")
Report = dict[str, Any]


@dataclasses.dataclass
class Observed:
    """What a run showed. Headers are unpacked `Headers`; lists are in the order of arrival."""

    reports: list[dict[str, Any]]  # of every frame
    icrc: dict[int, dict[str, int]]  # reports of the ICRC check by sequence
    seen: list[bytes]  # payload that the parser gave to the ICRC check
    headers: list[dict[str, Any]]  # that passed the ICRC check
    payload: list[bytes]  # likewise
    host: list[bytes]
    host_info: list[dict[str, Any]]
    counters: dict[str, Any]
    icrc_counters: dict[str, int]
    raw: dict[str, Any]  # the bench's own result, with cycles


def run_frames(frames: Sequence[bytes], config: NicConfig, simulator: str = "verilator",
               errors: Sequence[bool] | None = None, *, mutate: Callable[[str], str] | None = None,
               key: object = "", seed: int = 1, rss: dict[str, Any] | None = None,
               **job: Any) -> Observed:
    """One simulation; `mutate` changes the Verilog and `key` then names the change. `rss` are
    fields of `RssSettings`; without it nothing is hashed."""

    def generate() -> str:
        from rtl.verilog import to_verilog
        from tb.parser_top import ParserTop
        text = to_verilog(ParserTop(config), "parser_top")
        return mutate(text) if mutate else text

    what = (config.data_width, config.parser.max_frame, TOP.read_text(), key)
    raw = simulate("parser_top", what, generate, "tb.parser_tb", simulator, seed=seed,
                   job={"rss": hex(pack(RssSettings, rss or {})),
                        "width": config.data_width, "max_frame": config.parser.max_frame,
                        "frames": [frame.hex() for frame in frames],
                        "errors": [int(error) for error in errors or [False] * len(frames)],
                        **job})

    def items(name: str, layout: Any) -> list[dict[str, Any]]:
        return [unpack(layout, int(word, 16)) for word in raw[name]]

    # the lowest bit of a report, `valid`, is cut off already
    verdicts = [unpack(IcrcReport, int(word, 16) << 1 | 1) for word in raw["icrc"]]
    return Observed(
        reports=items("reports", Headers), headers=items("headers", Headers),
        host_info=items("host_info", HostInfo),
        icrc={verdict["sequence"]: verdict for verdict in verdicts},
        seen=[bytes.fromhex(text) for text in raw["seen"]],
        payload=[bytes.fromhex(text) for text in raw["payload"]],
        host=[bytes.fromhex(text) for text in raw["host"]],
        counters=unpack(ParserCounters, int(raw["counters"], 16)),
        icrc_counters=unpack(IcrcCounters, int(raw["icrc_counters"], 16)), raw=raw)


def parse_frames(frames: Sequence[bytes], config: NicConfig, simulator: str = "verilator",
                 errors: Sequence[bool] | None = None,
                 progress: Callable[[int, int], None] | None = None) -> list[Report]:
    """Each frame as the RTL parser and ICRC check see it; keys as `sim.wire.codec.parse` has them.

    `errors` says which frames the MAC flags. `progress` is called with (done, all).
    """
    errors = list(errors or [False] * len(frames))
    reports: list[Report] = []
    for start in range(0, len(frames), CHUNK):
        if progress:
            progress(start, len(frames))
        part = slice(start, start + CHUNK)
        for report in reports_of(run_frames(frames[part], config, simulator, errors[part])):
            reports.append(report | {"frame": start + report["frame"]})
    if progress:
        progress(len(frames), len(frames))
    return reports


def reports_of(observed: Observed) -> list[Report]:
    payloads = iter(observed.seen)
    reports = []
    for headers in observed.reports:
        report = report_of(headers)
        verdict = observed.icrc.get(headers["sequence"])
        payload = next(payloads) if verdict and verdict["payload"] else b""
        if verdict and not verdict["flagged"]:
            right = bool(verdict["ok"])
            report |= {"payload_length": headers["payload_length"], "icrc_ok": right,
                       "payload_sha256": hashlib.sha256(payload).hexdigest(),
                       "error": None if right else "icrc"}
        reports.append(report)
    assert next(payloads, None) is None, "more payload than headers announce"
    return reports


def report_of(headers: dict[str, Any]) -> Report:
    """What is known before the ICRC's verdict."""
    kind, error = Kind(headers["kind"]).name.lower(), Reason(headers["error"])
    report: Report = {
        "frame": headers["sequence"], "kind": kind,
        "error": None if error is Reason.NONE else error.name.lower(),
        "eth": None, "payload_length": None, "payload_sha256": None, "icrc_ok": None}
    if headers["frame_length"] >= MIN_FRAME:
        report["eth"] = _ethernet(headers["eth"])
    if headers["ip"]["version"] and kind == "roce1":
        report["grh"] = _grh(headers)
    elif headers["ip"]["version"]:
        report["ip"] = _ip(headers["ip"])
    if headers["l4_offset"] and kind != "roce1":
        report["udp"] = dict(headers["udp"])
    if headers["frame_length"] >= headers["l3_offset"] + CONTROL_BYTES.get(kind, MAX_BYTES):
        report[kind] = _mac_control(kind, headers["control"])
    if headers["bth_offset"]:
        report["bth"] = {name: headers["bth"][name] for name in BTH_FIELDS}
        report |= {name: _extension(name, headers[name])
                   for name, present in headers["present"].items() if present}
    return report


def _bytes(value: int, size: int) -> bytes:
    return value.to_bytes(size, "little")


def _ethernet(eth: dict[str, Any]) -> Report:
    tags = eth["vlan"][:eth["vlan_count"]]
    return {"dst": _bytes(eth["dst"], 6).hex(":"), "src": _bytes(eth["src"], 6).hex(":"),
            "vlan": [tag["tci"] & 0xFFF for tag in tags]}


def _mac_control(kind: str, control: dict[str, Any]) -> Report:
    if kind == "pause":
        return {"time": control["times"][0]}
    return {"enable": control["enable"], "times": list(control["times"])}


def _address(value: int, version: int) -> str:
    packed = _bytes(value, 16)
    return str(ipaddress.ip_address(packed[12:] if version == 4 else packed))


def _ip(ip: dict[str, int]) -> Report:
    return {"version": ip["version"], "src": _address(ip["src"], ip["version"]),
            "dst": _address(ip["dst"], ip["version"]),
            "dscp": ip["dscp"], "ecn": ip["ecn"], "ttl": ip["ttl"]}


def _grh(headers: dict[str, Any]) -> Report:
    """The length that the GRH states is known only of a frame without a fault."""
    ip = headers["ip"]
    length = headers["payload_offset"] + headers["payload_length"] + headers["bth"]["pad"] + 4 \
        - headers["bth_offset"]
    return {"version": ip["version"], "tclass": ip["dscp"] << 2 | ip["ecn"],
            "flow_label": ip["flow_label"], "length": length if headers["bth_offset"] else None,
            "next_header": ip["protocol"], "hop_limit": ip["ttl"],
            "sgid": int.from_bytes(_bytes(ip["src"], 16), "big"),
            "dgid": int.from_bytes(_bytes(ip["dst"], 16), "big")}


def _extension(name: str, value: Any) -> Report:
    """In the fields of the wire's own header."""
    if isinstance(value, dict):
        return dict(value)
    if name == "feth":
        return {"selectivity": value >> 4 & 3, "placement": value & 15}
    if name == "immdt":
        return {"imm": int.from_bytes(_bytes(value, 4), "big")}
    field = {"rdeth": "eecn", "xrceth": "srqn", "atomicacketh": "original", "ieth": "rkey"}[name]
    return {field: value}
