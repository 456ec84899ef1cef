"""Deparser: frames of the model's builder, byte for byte, and parsed frames put together again."""

import random
import shutil

import pytest
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6

from rtl.config import DATA_WIDTHS, NicConfig
from rtl.headers import Headers
from rtl.icrc import IcrcInfo
from sim.wire.build import build
from tb.bits import pack, unpack
from tb.deparser_run import deparse, fields
from tb.parser_run import run_frames
from tb.wire_cases import every_opcode, every_size, packet

WIDTHS = (64, 512)  # built with Verilator; the others with Icarus, which builds in a moment
ICARUS = "icarus" if shutil.which("iverilog") else "verilator"
STALLS = {"none": (0, 0), "input": (0.4, 0), "output": (0, 0.4), "both": (0.4, 0.4)}


def check(packets, width, **options):
    items = [pack(Headers, fields(p, n)) for n, p in enumerate(packets)]
    result = deparse(items, [p.payload for p in packets], width, **options)
    for n, (p, frame) in enumerate(zip(packets, result["frames"], strict=True)):
        assert frame.hex() == build(p).hex(), f"frame {n}: {p}"
    return result


@pytest.mark.parametrize("width", DATA_WIDTHS)
def test_every_opcode_and_size(width):
    rng = random.Random(width)
    packets = every_opcode(rng) + every_size(rng)
    if width in WIDTHS:
        check(packets, width)
    else:
        check(packets[::4], width, simulator=ICARUS)


@pytest.mark.parametrize("stalls", list(STALLS)[1:])
@pytest.mark.parametrize("width", WIDTHS)
def test_stalls(width, stalls):
    idle, stall = STALLS[stalls]
    rng = random.Random(9)
    packets = every_opcode(rng) + every_size(rng)
    rng.shuffle(packets)
    check(packets[::4], width, idle=idle, stall=stall)


def test_icarus():
    rng = random.Random(3)
    check(every_opcode(rng)[::12], 64, simulator=ICARUS, idle=0.2, stall=0.2)


@pytest.mark.parametrize("width", WIDTHS)
def test_alone_it_leaves_zeros_and_says_where(width):
    rng = random.Random(5)
    packets = every_opcode(rng)[::2] + every_size(rng)[::3]
    items = [pack(Headers, fields(p, n + 7)) for n, p in enumerate(packets)]
    result = deparse(items, [p.payload for p in packets], width, icrc=False,
                     simulator=ICARUS)
    for n, p in enumerate(packets):
        frame = build(p)
        assert result["frames"][n] == frame[:-4] + bytes(4)
        l3 = 14 + 4 * len(p.vlan)
        bth = l3 + {"ipv4": 28, "ipv6": 48, "roce1": 40}[p.network]
        assert unpack(IcrcInfo, int(result["infos"][n], 16)) == {
            "l3_offset": l3, "bth_offset": bth, "ip_version": 4 if p.network == "ipv4" else 6,
            "roce1": p.network == "roce1", "end": len(frame), "payload": 0,
            "sequence": n + 7}


@pytest.mark.parametrize("width", DATA_WIDTHS)
def test_one_beat_a_cycle_back_to_back(width):
    rng = random.Random(1)
    packets = [packet(rng, 0x11, 0) for _ in range(40)] \
        + [packet(rng, 0x04, rng.randrange(1500)) for _ in range(30)]
    result = deparse([pack(Headers, fields(p)) for p in packets], [p.payload for p in packets],
                     width, icrc=False, simulator=ICARUS)
    assert result["out_cycles"] == result["beats"]
    assert result["latency"] == 9


def test_an_error_in_the_payload_marks_the_frame():
    rng = random.Random(2)
    packets = [packet(rng, 0x04, size) for size in (100, 37, 600, 5)]
    items = [pack(Headers, fields(p)) for p in packets]
    result = deparse(items, [p.payload for p in packets], 64, errors=[0, 1, 0, 1])
    assert result["errors"] == [0, 1, 0, 1]


@pytest.mark.parametrize("width", WIDTHS)
def test_what_the_parser_took_apart_becomes_the_same_frame(width):
    rng = random.Random(4)
    frames = [build(p) for p in every_opcode(rng)[::2] + every_size(rng)]
    parsed = run_frames(frames, NicConfig(data_width=width))
    items = [int(word, 16) for word in parsed.raw["headers"]]
    assert len(items) == len(frames)
    assert deparse(items, parsed.payload, width)["frames"] == frames


def test_scapy_agrees_on_icrc_and_checksum():
    rng = random.Random(6)
    packets = [packet(rng, opcode, 33, network) for opcode in (0x04, 0x11, 0x64)
               for network in ("ipv4", "ipv6")]
    items = [pack(Headers, fields(p)) for p in packets]
    for frame in deparse(items, [p.payload for p in packets], 512)["frames"]:
        version = frame[14] >> 4
        network = (IP if version == 4 else IPv6)(frame[14:])
        bth = network[UDP].payload
        assert BTH.compute_icrc(bth, bytes(bth)[:-4]) == frame[-4:]
        if version == 4:
            fresh = network.copy()
            del fresh.chksum
            assert IP(bytes(fresh)).chksum == network.chksum


FAULTS = {
    "pad count": ("assemble", "ICRC_BYTES", 5),
    "customer tag": ("assemble", "TPID_CUSTOMER", 0x9100),
    "EtherType of IPv6": ("assemble", "TYPE_IPV6", 0x86DC),
    "next header of a GRH": ("assemble", "GRH_NEXT_HEADER", 0x1C),
    "protocol": ("assemble", "UDP", 16),
    "reserved bytes of a CNP": ("assemble", "CNP_BYTES", 12),
}


@pytest.mark.parametrize("name", [None, *FAULTS])
def test_a_wrong_deparser_is_caught(name, monkeypatch):
    rng = random.Random(3)
    packets = every_opcode(rng)[::5] + [packet(rng, 0x81, 0)]
    if name is None:  # the right one passes
        check(packets, 64, simulator=ICARUS)
        return
    module, constant, value = FAULTS[name]
    monkeypatch.setattr(f"rtl.deparser.{module}.{constant}", value)
    with pytest.raises(AssertionError):
        check(packets, 64, simulator=ICARUS, key=FAULTS[name])
