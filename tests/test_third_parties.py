"""Every frame of every capture: the RTL parser against the codec, tshark and scapy, field by field.

What the others do not tell, or tell otherwise than the specification has it, stands in `DEVIATIONS`
with the reason; anything else is a failure.
"""

import os
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rtl.config import NicConfig
from sim.wire.build import build
from sim.wire.capture import CapturedFrame, CaptureError, read_capture, write_capture
from sim.wire.codec import RDMA_KINDS, json_form, parse
from tb.parser_run import parse_frames
from tb.wire_cases import every_opcode, every_size, not_rdma, packet
from tests.golden_replay import CAPTURES, SHARED
from tests.third_parties import (
    differences,
    flat,
    run_tshark,
    scapy_icrc_ok,
    scapy_report,
    tshark_report,
)

LIMIT = 300  # frames of a capture in the default suite
FOLDERS = [Path(os.environ.get("RNIC_CAPTURES", CAPTURES)), CAPTURES, SHARED / "captures",
           SHARED / "public"]
FOREIGN_LINKS = {"wswiki_infiniband_erf.pcap"}  # not Ethernet: tests/test_capture.py
EXTENSIONS = r"(rdeth|xrceth|deth|feth|reth|atomiceth|aeth|atomicacketh|immdt|ieth)\..*"
TSHARK = shutil.which("tshark") is not None


def captures() -> dict[str, Path]:
    """By name; a name that several folders have is taken from the first."""
    found: dict[str, Path] = {}
    for folder in FOLDERS:
        for path in sorted(folder.glob("*.*cap*")):
            if path.is_file() and path.name not in FOREIGN_LINKS:
                found.setdefault(path.name, path)
    return found


FILES = captures()


class Deviation(NamedTuple):
    judge: str
    reason: str
    applies: Callable[[dict[str, Any], bytes], bool]  # to our report of this frame
    fields: str = ".*"
    silent: bool = False  # it may say nothing of these fields, but not anything else


def opcode_in(*ranges: range) -> Callable[[dict[str, Any], bytes], bool]:
    return lambda report, frame: "bth" in report and any(
        report["bth"]["opcode"] in codes for codes in ranges)


def of_rdma(report, frame):
    return report["kind"] in RDMA_KINDS


def third_tag(report, frame):
    return report["eth"] is not None and len(report["eth"]["vlan"]) == 2 \
        and frame[20:22] in (b"\x81\x00", b"\x88\xa8")


def fragment(report, frame):
    """Its first part, which shows the transport header."""
    if report["kind"] != "ip" or report.get("ip", {}).get("version") != 4:
        return False
    return frame[14 + 4 * len(report["eth"]["vlan"]) + 6] & 0x20 > 0


RD, XRC, RESYNC, NEWER = range(0x40, 0x60), range(0xA0, 0xC0), range(0x55, 0x56), range(0x1C, 0x1E)
DEVIATIONS = [
    Deviation("tshark", "it does not show FECN and BECN", of_rdma, r"bth\.[fb]ecn", silent=True),
    Deviation("tshark", "its table has no XRC, RESYNC, FLUSH and ATOMIC WRITE: it stops at the BTH",
              opcode_in(XRC, RESYNC, NEWER), f"{EXTENSIONS}|padded_length"),
    Deviation("tshark", "it reads what follows the BTH of RD 8 bytes too late, and no RDETH of "
              "acknowledges (IBTA table 38 has RDETH right behind the BTH of every RD packet)",
              opcode_in(RD), f"{EXTENSIONS}|padded_length"),
    Deviation("tshark", "it takes some payloads for RPC, EoIB and the like, and tells no length",
              of_rdma, "padded_length", silent=True),
    Deviation("tshark", "it shows a payload of packets that the parser drops",
              lambda report, frame: of_rdma(report, frame) and report["icrc_ok"] is None,
              "padded_length"),
    Deviation("tshark", "it goes on after a third tag, where the parser stops", third_tag),
    Deviation("tshark", "it reads the first fragment's UDP; ports count in whole datagrams only",
              fragment),
    Deviation("scapy", "its RoCE layer knows no other extension header than the AETH", of_rdma,
              f"(?!aeth){EXTENSIONS}|padded_length", silent=True),
    Deviation("scapy", "it takes an AETH off ACKs only, not off READ responses and atomics",
              of_rdma, r"aeth\..*", silent=True),
    Deviation("scapy", "it takes RD's RDETH for the AETH", opcode_in(RD), r"aeth\..*"),
    Deviation("scapy", "a frame that ends with its EtherType is of no kind to it",
              lambda report, frame: len(frame) == 14, "kind"),
    Deviation("scapy", "it reads the first fragment's UDP; ports count in whole datagrams only",
              fragment),
]


def allowed(judge: str, field: str, their: Any, report: dict[str, Any], frame: bytes) -> bool:
    return any(deviation.judge == judge and re.fullmatch(deviation.fields, field)
               and (their is None or not deviation.silent) and deviation.applies(report, frame)
               for deviation in DEVIATIONS)


@lru_cache(maxsize=2)
def ours(path: Path, limit: int | None) -> tuple[list[bytes], list[dict[str, Any]]]:
    """Frames of the capture and what the RTL parser says of them."""
    frames = [frame.data for frame in read_capture(path)][:limit]
    return frames, parse_frames(frames, NicConfig(data_width=512))


def against_codec(path: Path, limit: int | None) -> None:
    frames, reports = ours(path, limit)
    for number, (frame, report) in enumerate(zip(frames, reports, strict=True)):
        assert report == json_form(parse(frame, number)), (number + 1, frame.hex())


def compare(judge: str, frames: list[bytes], reports: list[dict[str, Any]],
            theirs: list[dict[str, Any]]) -> None:
    wrong = []
    for number, (frame, report, their) in enumerate(zip(frames, reports, theirs, strict=True), 1):
        for field, values in differences(flat(report), their).items():
            if not allowed(judge, field, values[1], report, frame):
                wrong.append((number, field, *values))
    assert not wrong, f"(frame, field, RTL, {judge}): {wrong[:20]}"


def against_tshark(path: Path, limit: int | None) -> None:
    frames, reports = ours(path, limit)
    rows = run_tshark(path, limit)
    assert [int(row["frame.len"]) for row in rows] == [len(frame) for frame in frames]
    compare("tshark", frames, reports, [tshark_report(row) for row in rows])
    for frame, report, row in zip(frames, reports, rows, strict=True):
        if row["infiniband.invariant.crc"] and report["icrc_ok"] is not None \
                and not opcode_in(RD)(report, frame):
            crc = int(row["infiniband.invariant.crc"], 16).to_bytes(4, "big")
            assert crc == frame[:end_of(report, frame)][-4:]


def end_of(report: dict[str, Any], frame: bytes) -> int:
    """Where the packet ends, by the length in its network header."""
    start = 14 + 4 * len(report["eth"]["vlan"])
    if report["kind"] == "roce1" or report["ip"]["version"] == 6:
        return start + 40 + int.from_bytes(frame[start + 4:start + 6], "big")
    return start + int.from_bytes(frame[start + 2:start + 4], "big")


def against_scapy(path: Path, limit: int | None) -> None:
    frames, reports = ours(path, limit)
    compare("scapy", frames, reports, [scapy_report(frame) for frame in frames])
    verdicts = 0
    for number, (frame, report) in enumerate(zip(frames, reports, strict=True), 1):
        verdict = scapy_icrc_ok(frame) if report["icrc_ok"] is not None else None
        if verdict is not None:
            assert report["icrc_ok"] == verdict, (number, frame.hex())
            verdicts += 1
    known = sum(report["icrc_ok"] is not None and report["kind"] != "roce1" for report in reports)
    assert verdicts == known


JUDGES = [against_codec, against_scapy, pytest.param(against_tshark, marks=pytest.mark.skipif(
    not TSHARK, reason="tshark is not installed"))]


def source(name: str, tmp_path: Path) -> Path:
    """A file that `read_capture` takes: tshark turns other tools' formats into pcap."""
    path = FILES[name]
    try:
        read_capture(path)
    except CaptureError as error:
        if "neither pcap nor pcapng" not in str(error):
            raise
        if not TSHARK:
            pytest.skip("tshark is not installed")
        path = tmp_path / "converted.pcap"
        subprocess.run(["tshark", "-r", str(FILES[name]), "-F", "pcap", "-w", str(path)],
                       check=True, capture_output=True)
    return path


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize("name", FILES)
def test_captures(name, judge, tmp_path):
    judge(source(name, tmp_path), LIMIT)


@pytest.mark.slow
@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize("name", FILES)
def test_whole_captures(name, judge, tmp_path):
    judge(source(name, tmp_path), None)


@pytest.mark.parametrize("judge", JUDGES)
def test_every_opcode_and_stack(judge, tmp_path):
    """What captures lack: each opcode over each network with each kind of tags, MAC control."""
    rng = random.Random(1)
    frames = [build(made) for made in every_opcode(rng) + every_size(rng)[::4]]
    frames += not_rdma(rng)
    path = tmp_path / "made.pcap"
    write_capture(path, [CapturedFrame(frame, 1000 * n) for n, frame in enumerate(frames)])
    judge(path, None)


def test_a_wrong_field_would_show():
    """Each field that scapy tells, spoilt in our report of a tagged ACK."""
    frame = build(packet(random.Random(2), 0x11, 0, tpids=(0x88A8, 0x8100)))
    report, their = json_form(parse(frame)), scapy_report(frame)
    compare("scapy", [frame], [report], [their])
    assert {"eth.vlan", "ip.ttl", "udp.sport", "bth.psn", "aeth.msn"} <= their.keys()
    for field in their.keys() - {"kind"}:
        header, name = field.split(".")
        spoilt = report | {header: report[header] | {name: [] if name == "vlan" else -1}}
        with pytest.raises(AssertionError, match=rf"\(1, '{field}', "):
            compare("scapy", [frame], [spoilt], [their])
