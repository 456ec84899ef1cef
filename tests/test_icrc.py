"""ICRC: insertion and check against the model, scapy and deliberate faults."""

import pytest
from amaranth.utils import exact_log2
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6

import rtl.icrc.check as check_module
import rtl.icrc.crc as crc_module
import rtl.icrc.engine as engine_module
from rtl.config import DATA_WIDTHS, NicConfig
from rtl.icrc import IcrcCheck, IcrcInsert
from rtl.verilog import to_verilog
from tb.build import simulate

UNITS = {"insert": IcrcInsert, "check": IcrcCheck}
STALLS = {"none": (0, 0), "input": (0.4, 0), "output": (0, 0.4), "both": (0.4, 0.4)}
INPUTS = ("i_info", "i_frame", "i_headers", "i_payload")
OUTPUTS = ("o_headers", "o_payload")


def run(unit, width, test=None, simulator="verilator", key="", **job):
    top = f"icrc_{unit}"

    def generate():
        return to_verilog(UNITS[unit](NicConfig(data_width=width)), top)

    return simulate(top, (width, key), generate, "tb.icrc_tb", simulator,
                    testcase=test or unit, job={"width": width, "idle": 0, "stall": 0, **job})


def scapy_icrc(frame, l3):
    """The ICRC bytes by scapy; it takes IPv4 and IPv6 only, and frames without IPv4 options."""
    version = frame[l3] >> 4
    network = (IP if version == 4 else IPv6)(frame[l3:])
    bth = network[UDP].payload
    return BTH.compute_icrc(bth, bytes(bth)[:-4])


def frames(width):
    """Frames a run: about the same time at every width."""
    return {64: 60, 128: 120}.get(width, 300)


@pytest.mark.parametrize("width", DATA_WIDTHS)
def test_insert_writes_the_right_icrc_at_a_beat_a_cycle(width):
    result = run("insert", width, count=frames(width))
    assert result["in_cycles"] == result["beats"]
    assert result["latency"] == 7 + exact_log2(width // 32) + exact_log2(width // 8)


@pytest.mark.parametrize("stalls", list(STALLS)[1:])
@pytest.mark.parametrize("width", (64, 512))
def test_insert_under_stalls(width, stalls):
    idle, stall = STALLS[stalls]
    run("insert", width, count=frames(width), idle=idle, stall=stall)


def test_insert_on_icarus():
    run("insert", 64, simulator="icarus", count=20, idle=0.3, stall=0.3)


def test_inserted_icrc_is_that_of_scapy():
    compared = 0
    for l3, text in run("insert", 512, count=300)["frames"]:
        frame = bytes.fromhex(text)
        plain = frame[12:14] != b"\x89\x15" and frame[l3] in (0x45, *range(0x60, 0x70))
        if plain and frame[l3 + 6] != 0x1B:
            assert scapy_icrc(frame, l3) == frame[-4:]
            compared += 1
    assert compared >= 15


@pytest.mark.parametrize("width", (64, 512, 2048))
def test_check_passes_good_frames_at_a_beat_a_cycle(width):
    result = run("check", width, cases="good", count=frames(width))
    assert result["cycles"] == result["beats"]
    assert result["latencies"] == [4 + exact_log2(width // 32)]
    assert result["header_latency"] == 6 + exact_log2(width // 32)


@pytest.mark.parametrize("width", (64, 512, 2048))
def test_check_drops_damaged_frames(width):
    result = run("check", width, cases="damaged", count=frames(width))
    assert result["bad"] >= frames(width) // 8


@pytest.mark.parametrize("network_bits", (64, 512))
def test_check_sees_every_bit_that_is_covered_and_no_other(network_bits):
    run("check", network_bits, cases="bits")


@pytest.mark.parametrize("port", INPUTS + OUTPUTS)
def test_check_under_stalls_of_one_port(port):
    run("check", 512, cases="damaged", count=200, stalls={port: 0.7})


@pytest.mark.parametrize("width", (64, 512))
@pytest.mark.parametrize("ports", (INPUTS, OUTPUTS, INPUTS + OUTPUTS))
def test_check_under_stalls(width, ports):
    run("check", width, cases="damaged", count=frames(width) // 2, stalls=dict.fromkeys(ports, 0.4))


def test_check_on_icarus():
    run("check", 64, simulator="icarus", cases="damaged", count=20,
        stalls=dict.fromkeys(INPUTS + OUTPUTS, 0.3))


@pytest.mark.parametrize("long", (True, False))
@pytest.mark.parametrize("width", (64, 512, 2048))
def test_headers_and_payload_may_come_before_the_frames(width, long):
    run("check", width, "headers_wait", long=long)


@pytest.mark.parametrize("width", (64, 512, 2048))
def test_frames_may_come_before_their_headers(width):
    run("check", width, "verdicts_wait")


# Deliberate faults: the bench must see each.

def _caught(unit, key, **job):
    with pytest.raises(AssertionError, match="1 of 1 tests failed"):
        run(unit, 64, simulator="icarus", key=key, **job)


def test_a_wrong_residue_is_caught(monkeypatch):
    monkeypatch.setattr(check_module, "RESIDUE", crc_module.RESIDUE ^ 1)
    _caught("check", "residue", cases="good", count=10)


def test_a_wrong_seed_is_caught(monkeypatch):
    monkeypatch.setattr(engine_module, "SEED", engine_module.SEED ^ 0x80)
    _caught("insert", "seed", count=10)


def test_a_mask_bit_too_few_is_caught(monkeypatch):
    monkeypatch.setitem(engine_module.VARIANT[4], 8, 0xFE)
    _caught("insert", "ttl", count=20)


def test_a_mask_bit_too_many_is_caught(monkeypatch):
    monkeypatch.setitem(engine_module.VARIANT[6], 0, 0x1F)
    _caught("check", "version", cases="bits")
