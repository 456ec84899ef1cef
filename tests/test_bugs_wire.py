"""Faults that designs like this one have had on the wire side, each by its condition.

A01 to A17 are about parser and ICRC, C01 about flow control. C01's second half (no class is paused,
no counter moves) is for the block that obeys pause frames, which the NIC has not yet: until then
they are taken apart, counted and consumed. Checks that need the published frames are skipped
without them; most have a frame of the model's own beside them.
"""

import dataclasses
import json
import os
import random
import struct
from pathlib import Path

import pytest

from rtl.config import NicConfig, load
from rtl.headers import Headers
from sim.golden.layout import Completion
from sim.golden.nic import GoldenNic
from sim.wire.build import Packet, build, reseal
from sim.wire.capture import read_capture
from sim.wire.codec import RDMA_KINDS, json_form, parse
from sim.wire.icrc import icrc
from sim.workload.random_rc import generate
from tb.bits import pack
from tb.nic_run import simulate_scenario
from tb.parser_run import parse_frames, report_of, reports_of, run_frames
from tb.wire_cases import NETWORKS, packet, put
from tests.golden_replay import CAPTURES, SHARED
from tests.test_deparser import deparse, fields
from tests.test_parser import known

WIDTHS = (64, 512)
VECTORS = SHARED / "public" / "vectors.json"
published = pytest.mark.skipif(not VECTORS.exists(), reason="the published frames are not here")
SEND_ONLY, SEND_ONLY_IMM, WRITE_ONLY, WRITE_LAST_IMM, WRITE_ONLY_IMM, ACK = \
    0x04, 0x05, 0x0A, 0x09, 0x0B, 0x11
GSI_QPN = 1
L3 = 14  # of a frame without tags
BTH = {"ipv4": 42, "ipv6": 62, "roce1": 54}
FCS = b"\xde\xad\xbe\xef"


def config(width=512):
    return NicConfig(data_width=width)


def vector(name):
    found = [item for item in json.loads(VECTORS.read_text()) if item["name"] == name]
    return bytes.fromhex(found[0]["hex"])


def parsed(frames, width=512):
    """The RTL's reports, which must be the codec's."""
    reports = parse_frames(frames, config(width))
    assert [known(report) for report in reports] == \
        [known(json_form(parse(frame, n))) for n, frame in enumerate(frames)]
    return reports


def deparsed(packets, width=512):
    items = [pack(Headers, fields(item, n)) for n, item in enumerate(packets)]
    return deparse(items, [item.payload for item in packets], width)["frames"]


@pytest.mark.parametrize("width", WIDTHS)
def test_a01_icrc_behind_the_pad(width):
    rng = random.Random(1)
    sizes = (1, 2, 3, 5, 7, 1023)
    packets = [packet(rng, opcode, size, network) for size in sizes
               for opcode in (SEND_ONLY, WRITE_ONLY) for network in ("ipv4", "ipv6")]
    frames = deparsed(packets, width)
    observed = run_frames(frames, config(width))
    assert observed.payload == [item.payload for item in packets]  # without pad
    for item, frame, report in zip(packets, frames, reports_of(observed), strict=True):
        pad = -len(item.payload) % 4
        assert report["bth"]["pad"] == pad and report["icrc_ok"]
        assert frame[-4:] == icrc(frame[L3:-4])
        assert frame[:-4].endswith(item.payload + bytes(pad))
    spoilt = [put(frame, len(frame) - 5, b"\x01") for frame in frames]  # the last pad byte
    assert {report["error"] for report in parsed(spoilt, width)} == {"icrc"}


@published
@pytest.mark.parametrize("width", WIDTHS)
def test_a03_icrc_over_ipv6(width):
    frame = vector("scapy_v2_ipv6_uc_send_only")
    first = int.from_bytes(frame[L3:L3 + 4], "big")
    assert (first >> 20 & 0xFF, first & 0xFFFFF, frame[L3 + 7]) == (226, 0x1FACE, 255)
    changed = [put(frame, L3, (6 << 28 | tclass << 20 | label).to_bytes(4, "big"))
               for tclass, label in ((0, 0x1FACE), (226, 0), (255, 0xFFFFF))]
    changed += [put(frame, L3 + 7, bytes([hops])) for hops in (0, 1, 64, 254)]
    observed = run_frames([frame, *changed], config(width))
    assert all(report["icrc_ok"] for report in reports_of(observed))
    # put together again, with no UDP checksum, which the ICRC does not cover
    items = [pack(Headers, item) for item in observed.headers]
    for made in deparse(items, observed.payload, width)["frames"]:
        assert made[-4:].hex() == "3e5b743b"


@pytest.mark.parametrize("width", WIDTHS)
def test_a05_packet_by_packet_and_not_by_queue_pair(width):
    """QP1 sends and receives in RoCEv1 and RoCEv2 by turns."""
    rng = random.Random(5)
    turns = [rng.choice(NETWORKS) if n % 3 else NETWORKS[n // 3 % 3] for n in range(60)]
    packets = [packet(rng, 0x64, n, network) for n, network in enumerate(turns)]
    for item in packets:
        item.bth["dqpn"] = item.extensions["deth"]["sqpn"] = GSI_QPN
    frames = deparsed(packets, width)
    assert frames == [build(item) for item in packets]
    for network, report in zip(turns, parsed(frames, width), strict=True):
        assert report["kind"] == ("roce1" if network == "roce1" else "roce2")
        assert report["icrc_ok"] and report["bth"]["dqpn"] == GSI_QPN


def plain_udp(rng, size):
    frame = build(packet(rng, SEND_ONLY, size))
    return put(frame, 36, rng.choice((b"\x12\xb6", b"\x00\x35", b"\xb7\x12")))


@pytest.mark.parametrize("width", WIDTHS)
def test_a07_icrc_is_no_payload(width):
    """RoCE and plain UDP back to back."""
    rng = random.Random(7)
    frames, extensions = [], {SEND_ONLY: 0, WRITE_ONLY: 16, SEND_ONLY_IMM: 4, ACK: 4}
    for size in (*range(20), 63, 64, 65, 1000):
        frames += [build(packet(rng, rng.choice(list(extensions)), size)), plain_udp(rng, size)]
    observed = run_frames(frames, config(width))
    reports = reports_of(observed)
    assert reports == [json_form(parse(frame, n)) for n, frame in enumerate(frames)]
    for frame, report in zip(frames[::2], reports[::2], strict=True):
        udp_length = int.from_bytes(frame[38:40], "big")
        bth = report["bth"]
        assert report["payload_length"] == \
            udp_length - 8 - 12 - extensions[bth["opcode"]] - bth["pad"] - 4
    assert observed.host == frames[1::2]


@pytest.mark.parametrize("width", WIDTHS)
def test_a09_fcs_is_no_payload(width):
    """A MAC that leaves the FCS on: it lies behind the packet's end and changes nothing."""
    rng = random.Random(9)
    packets = [packet(rng, opcode, size, network, tpids) for opcode in (SEND_ONLY, ACK, 0x81)
               for size in (0, 1, 18, 300) for network in NETWORKS
               for tpids in ((), (0x8100,), (0x88A8, 0x8100))]
    bare = [build(item) for item in packets]
    pause = bytes.fromhex("0180c2000001020000000001" "8808" "0001" "00ff") + bytes(42)
    assert len(pause) == 60
    reports = parsed(bare + [pause], width)
    with_fcs = [frame + FCS for frame in [*bare, pause]]
    assert len(with_fcs[-1]) == 64
    assert parsed(with_fcs, width) == reports
    assert reports[-1]["pause"] == {"time": 255}
    assert all(report["icrc_ok"] for report in reports[:-1])


def reserved_bits_set(rng, network):
    """A frame of the model's own, its reserved bits and FECN set, with a trailer."""
    frame, bth = build(packet(rng, SEND_ONLY, 64, network)), BTH[network]
    frame = put(frame, bth + 4, bytes([frame[bth + 4] | 0xBF]))
    frame = put(frame, bth + 8, bytes([frame[bth + 8] | 0x7F]))
    return reseal(frame, L3) + rng.randbytes(29)


@pytest.mark.parametrize("width", WIDTHS)
def test_a11_reserved_bits_and_trailer(width):
    rng = random.Random(11)
    good = [reserved_bits_set(rng, network) for network in NETWORKS]
    assert {reserved for frame, network in zip(good, NETWORKS, strict=True)
            for reserved in (frame[BTH[network] + 4] & 0x3F, frame[BTH[network] + 8] & 0x7F)} \
        == {0x3F, 0x7F}
    reports = parsed(good, width)
    for report in reports:
        assert report["error"] is None and report["bth"]["fecn"] == 1
        assert report["payload_length"] == 64
    zero = [put(frame, len(frame) - 29 - 4, bytes(4)) for frame in good]
    assert {report["error"] for report in parsed(zero, width)} == {"icrc"}


@published
@pytest.mark.parametrize("name", ["libtins_send_only_trailer29_resv_bits",
                                  "libtins_ack_trailer19_credit27"])
def test_a11_published_frames(name):
    given = vector(name)
    end = L3 + int.from_bytes(given[L3 + 2:L3 + 4], "big")  # the trailer is behind it
    sealed = reseal(given[:end], L3) + given[end:]
    wrong, right = parsed([given, sealed])
    assert wrong["error"] == "icrc" and right["error"] is None
    assert right["bth"]["fecn"] == 1
    assert right["payload_length"] == (64 if "send" in name else 0)


def captured():
    folders = [Path(os.environ.get("RNIC_CAPTURES", CAPTURES)), SHARED / "captures"]
    files = {path.name: path for folder in reversed(folders) for path in folder.glob("*.pcap")}
    assert files
    return [frame.data for name in sorted(files) for frame in read_capture(files[name])[20:120]
            if frame.data[12:14] not in (b"\x81\x00", b"\x88\xa8")]


@pytest.mark.parametrize("tags", [(0x8100,), (0x88A8, 0x8100), (0x8100, 0x8100, 0x8100),
                                  (0x88A8, 0x8100, 0x8100)])
def test_a13_tags_move_what_follows(tags):
    rng = random.Random(13)
    plain = captured()
    inserted = b"".join(struct.pack(">HH", tpid, rng.getrandbits(16)) for tpid in tags)
    frames = [frame[:12] + inserted + frame[12:] for frame in plain]
    observed = run_frames(frames, config())
    got = reports_of(observed)
    assert got == [json_form(parse(frame, n)) for n, frame in enumerate(frames)]
    rdma = 0
    for frame, report, headers in zip(plain, got, observed.reports, strict=True):
        before = parse(frame)
        if len(tags) > 2:
            assert (report["kind"], report["error"]) == ("other", None)
            continue
        assert headers["l3_offset"] == L3 + 4 * len(tags)
        for name in ("kind", "error", "icrc_ok", "bth", "payload_sha256"):
            assert report.get(name) == before.get(name)
        rdma += before["kind"] in RDMA_KINDS
    assert len(tags) > 2 or rdma > 100
    if len(tags) > 2:
        assert observed.host == frames


@pytest.mark.parametrize("width", WIDTHS)
def test_a15_grh_is_no_ipv6(width):
    """With a GRH that names UDP, and what could be a UDP header to port 4791, still RoCEv1."""
    rng = random.Random(15)
    frame = build(packet(rng, SEND_ONLY, 40, "roce1"))
    names_udp = put(put(frame, L3 + 6, b"\x11"), L3 + 42, b"\x12\xb7")
    good = build(packet(rng, ACK, 0, "roce1"))
    wrong, right = parsed([names_udp, good], width)
    assert (wrong["kind"], wrong["error"]) == ("roce1", "grh")
    assert "udp" not in wrong and "ip" not in wrong
    assert (right["kind"], right["error"], right["icrc_ok"]) == ("roce1", None, True)


@published
def test_a15_roce1_of_hardware():
    write, ack = parsed([vector("scapy_v1_rc_write_only_hw"), vector("scapy_v1_rc_ack_hw")])
    for report in (write, ack):
        assert report["kind"] == "roce1" and report["icrc_ok"] and "udp" not in report
    assert write["reth"] == {"va": 0x000055D4C0726000, "rkey": 0x47B3, "length": 5}
    assert (write["payload_length"], write["bth"]["pad"]) == (5, 3)
    assert ack["aeth"] == {"syndrome": 0, "msn": 5}


IMMEDIATE = bytes([1, 2, 3, 4])


@pytest.mark.parametrize("opcode", [SEND_ONLY_IMM, WRITE_ONLY_IMM, WRITE_LAST_IMM])
def test_a17_immediate_on_the_wire(opcode):
    item = packet(random.Random(17), opcode, 9)
    item.extensions["immdt"] = {"imm": 0x01020304}
    frame, = deparsed([item])
    at = BTH["ipv4"] + 12 + (16 if opcode == WRITE_ONLY_IMM else 0)
    assert frame[at:at + 4] == IMMEDIATE
    observed = run_frames([frame], config())
    assert observed.headers[0]["immdt"].to_bytes(4, "little") == IMMEDIATE
    assert report_of(observed.headers[0])["immdt"] == {"imm": 0x01020304}


def test_a17_immediate_in_the_completion():
    """The CQE holds the bytes of the wire, in the model and in the hardware."""
    scenario = generate(seed=17, frames=120, fault_share=0)
    frames = []
    for frame in scenario.frames:
        report = parse(frame.data)
        if "immdt" in report:
            frame = frame._replace(data=with_immediate(frame.data, report))
        frames.append(frame)
    changed = dataclasses.replace(scenario, frames=frames)
    nic = GoldenNic(scenario.memory.copy(), scenario.settings, scenario.entry_bytes)
    completions = [Completion(cqe) for frame in frames
                   for cqe in nic.receive(frame.data).completions]
    held = [completion.imm for completion in completions if completion.flags & 1]
    assert held == [IMMEDIATE] * len(held)
    assert len(held) >= 5
    result = simulate_scenario(changed, load("tiny"))
    assert result["mismatches"] == []


def with_immediate(frame, report):
    """The frame with 0x01020304 as its immediate, sealed again; Ethernet padding stays."""
    start = L3 + 4 * len(report["eth"]["vlan"])
    bth = start + (28 if report["ip"]["version"] == 4 else 48)
    end = bth + 12 + sum({"reth": 16, "deth": 8}.get(name, 0) for name in report) + 4
    sealed = end + report["payload_length"] + report["bth"]["pad"] + 4
    whole = reseal(put(frame, end - 4, IMMEDIATE)[:sealed], start)
    return whole + frame[sealed:]


@pytest.mark.parametrize("width", WIDTHS)
def test_c01_pfc_that_enables_no_class(width):
    """It is known as what it is, so that whoever obeys it can see that no class is meant."""
    frame = bytes.fromhex("0180c2000001020000000001" "8808" "0101" "0000") + b"\xff" * 16
    frame += bytes(60 - len(frame))
    observed = run_frames([frame], config(width))
    report, = reports_of(observed)
    assert report == json_form(parse(frame))
    assert report["pfc"] == {"enable": 0, "times": [0xFFFF] * 8}
    assert observed.counters["mac_control"] == 1
    assert observed.host == []


def test_packets_are_those_of_the_builder():
    """What the tests above rely on: the BTH lies where `BTH` says."""
    for network in NETWORKS:
        frame = build(Packet(network=network, bth={"opcode": SEND_ONLY, "dqpn": 0xABCDEF}))
        assert frame[BTH[network] + 5:BTH[network] + 8] == b"\xab\xcd\xef"
