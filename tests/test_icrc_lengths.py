"""ICRC, checked and inserted, against zlib: every length, every byte, the published frames.

512 bits by default and the bytes also at 64 and 2048; the other widths are slow.
"""

import json

import pytest

from rtl.config import DATA_WIDTHS, NicConfig
from rtl.verilog import to_verilog
from sim.wire.build import Packet, build
from sim.wire.codec import ICRC_BYTES, parse
from sim.wire.icrc import icrc
from tb.build import simulate
from tb.wire_cases import put
from tests.golden_replay import SHARED
from tests.test_icrc import UNITS

VECTORS = SHARED / "public" / "vectors.json"
LONGEST = 4096
# Of docs and upstream tests: UC SEND ONLY, CNP of a ConnectX-4 Lx, UC SEND ONLY over IPv6.
PUBLISHED = {"scapy_v2_ipv4_uc_send_only": "78f353f3",
             "scapy_cnp_connectx4lx_capture": "82fd002a",
             "scapy_v2_ipv6_uc_send_only": "3e5b743b"}


def cases(unit, width, name, **job):
    top = f"icrc_{unit}"

    def generate():
        return to_verilog(UNITS[unit](NicConfig(data_width=width)), top)

    return simulate(top, (width, ""), generate, "tb.icrc_lengths_tb", testcase=unit,
                    job={"width": width, "cases": name, **job})


def widths(*usual):
    """All widths, those that are not usual marked slow."""
    return [width if width in usual else pytest.param(width, marks=pytest.mark.slow)
            for width in DATA_WIDTHS]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("width", widths(512))
def test_every_length_of_payload(width, unit):
    result = cases(unit, width, "lengths", sizes=[0, LONGEST + 1])
    assert result["cases"] == LONGEST + 1 + LONGEST // 8 + 1  # one in eight has a wrong twin
    if unit == "check":  # a few of these are wrong where the ICRC does not look
        assert LONGEST < result["good"] < LONGEST + 50


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("width", widths(64, 512, 2048))
def test_every_byte_and_masked_field(width, unit):
    """Frames of more than a beat and less than two."""
    assert cases(unit, width, "bytes", size=width // 8 + 45)["cases"] > 1500


def published():
    found = {vector["name"]: vector for vector in json.loads(VECTORS.read_text())}
    return [(bytes.fromhex(found[name]["hex"]), bytes.fromhex(crc))
            for name, crc in PUBLISHED.items()]


def as_job(frame, good=True):
    version = frame[14] >> 4
    bth = 14 + {4: 28, 6: 48}[version]
    payload = parse(frame)["payload"] if good else b""
    return {"frame": frame.hex(), "l3": 14, "bth": bth, "version": version, "roce1": False,
            "payload": payload.hex(), "good": good}


@pytest.mark.skipif(not VECTORS.exists(), reason="the published frames are not here")
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("width", widths(64, 512, 2048))
def test_published_frames(width, unit):
    frames = []
    for frame, crc in published():
        assert frame[-ICRC_BYTES:] == crc == icrc(frame[14:-ICRC_BYTES])
        frames += [as_job(frame), as_job(put(frame, len(frame) - 1, bytes([frame[-1] ^ 1])), False)]
    assert cases(unit, width, "given", frames=frames)["cases"] == 6


@pytest.mark.parametrize("unit", UNITS)
def test_a_wrong_verdict_is_seen(unit):
    """The bench itself: a bad frame that is called good makes it fail."""
    frame = build(Packet(bth={"opcode": 0x04}, payload=b"abcd"))
    bad = as_job(frame) | {"frame": put(frame, 30, b"\xff").hex()}
    with pytest.raises(AssertionError, match="1 of 1 tests failed"):
        cases(unit, 64, "given", frames=[as_job(frame), bad])
