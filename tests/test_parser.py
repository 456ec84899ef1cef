"""Parser and ICRC check against the model's codec: captures, every opcode, every fault, fuzz."""

import os
import random
import shutil
from pathlib import Path

import pytest
from amaranth.hdl import Mux

from rtl.config import DATA_WIDTHS, NicConfig
from rtl.headers import Reason
from rtl.headers.names import Kind
from rtl.icrc.crc import RESIDUE, power
from rtl.icrc.engine import SEED, VARIANT
from rtl.parser.bytes import number as right_number
from sim.wire.build import build
from sim.wire.capture import read_capture
from sim.wire.codec import RDMA_KINDS, json_form, parse
from tb.parser_run import parse_frames, reports_of, run_frames
from tb.wire_cases import (
    NETWORKS,
    TAGS,
    every_opcode,
    every_size,
    faulty,
    mutant,
    not_rdma,
    packet,
    with_options,
)

CAPTURES = Path(os.environ.get("RNIC_CAPTURES", Path(__file__).parent.parent / "captures"))
WIDTHS = (64, 512)  # built with Verilator; the others with Icarus, which builds in a moment
OTHER_WIDTHS = tuple(width for width in DATA_WIDTHS if width not in WIDTHS)
ICARUS = "icarus" if shutil.which("iverilog") else "verilator"
STALLS = {"none": (0, 0), "input": (0.4, 0), "output": (0, 0.4), "both": (0.4, 0.4)}
MAC_CONTROL = ("pause", "pfc")
REPORT, HOST = 6, 10  # cycles from the last beat of a frame


def config(width):
    return NicConfig(data_width=width)


def known(report):
    """Without what the hardware does not keep of a GRH that is wrong."""
    if report["error"] not in (None, "icrc") and "grh" in report:
        kept = {name: value for name, value in report["grh"].items()
                if name not in ("version", "length")}
        return report | {"grh": kept}
    return report


def check(frames, width, errors=None, **options):
    """All that came out is what the codec says, and nothing is missing."""
    observed = run_frames(frames, config(width), errors=errors, **options)
    errors = errors or [False] * len(frames)
    wanted = [parse(frame, n, mac_error=error)
              for n, (frame, error) in enumerate(zip(frames, errors, strict=True))]
    got = reports_of(observed)
    for want, report in zip(wanted, got, strict=True):
        assert known(report) == known(json_form(want)), frames[want["frame"]].hex()

    good = [want for want in wanted if want["kind"] in RDMA_KINDS and not want["error"]]
    host = [want["frame"] for want in wanted
            if want["kind"] not in (*RDMA_KINDS, *MAC_CONTROL) and not want["error"]]
    assert [item["sequence"] for item in observed.headers] == [want["frame"] for want in good]
    assert observed.payload == [want["payload"] for want in good if want["payload"]]
    assert observed.host == [frames[n] for n in host]
    assert [item["sequence"] for item in observed.host_info] == host
    assert [item["length"] for item in observed.host_info] == [len(frames[n]) for n in host]
    check_early_headers(observed)
    counters = observed.counters
    dropped = {reason.name.lower(): counters["dropped"][reason.value] for reason in Reason}
    for name in dropped:
        expected = 0 if name == "icrc" else sum(want["error"] == name for want in wanted)
        assert dropped[name] == expected, name
    bad = sum(want["error"] == "icrc" for want in wanted)
    flagged = observed.icrc_counters["flagged"]  # their headers came before their fault was known
    assert observed.icrc_counters == {"checked": len(good) + bad, "bad": bad, "flagged": flagged}
    assert len(observed.raw["early"]) == len(good) + bad + flagged
    assert counters["frames"] == len(frames) == counters["roce"] + counters["host"] \
        + counters["mac_control"] + sum(dropped.values())
    return observed


def check_early_headers(observed):
    """A header item says what the report says at the frame's end, but for its length so far."""
    reports = {report["sequence"]: report for report in observed.reports}

    def meant(item):
        left_out = {name for name, present in item["present"].items() if not present}
        left_out.add("frame_length")
        return {name: value for name, value in item.items() if name not in left_out}

    for item in observed.headers:
        assert meant(item) == meant(reports[item["sequence"]])


def captured(limit):
    files = sorted(CAPTURES.glob("*.pcap"))
    assert files, f"no captures in {CAPTURES}"
    return [frame.data for file in files for frame in read_capture(file)[:limit]]


def test_captures():
    check(captured(200), 512)


@pytest.mark.slow
@pytest.mark.parametrize("width", DATA_WIDTHS)
def test_whole_captures(width):
    check(captured(None), width)


@pytest.mark.parametrize("width", WIDTHS)
def test_every_opcode_and_size(width):
    rng = random.Random(width)
    check([build(p) for p in every_opcode(rng) + every_size(rng)], width, garbage=True)


@pytest.mark.parametrize("stalls", list(STALLS)[1:])
@pytest.mark.parametrize("width", WIDTHS)
def test_stalls(width, stalls):
    idle, stall = STALLS[stalls]
    rng = random.Random(9)
    frames = [build(p) for p in every_opcode(rng) + every_size(rng)] + not_rdma(rng) * 3
    frames += [frame for _, frame in faulty(rng)]
    rng.shuffle(frames)
    check(frames[::3], width, idle=idle, stall=stall, garbage=True)


@pytest.mark.parametrize("width", OTHER_WIDTHS)
def test_other_widths(width):
    rng = random.Random(width)
    frames = [build(p) for p in (every_opcode(rng) + every_size(rng))[::5]] + not_rdma(rng)
    frames += [frame for _, frame in faulty(rng)[::3]] + [mutant(rng) for _ in range(30)]
    check(frames, width, simulator=ICARUS, garbage=True, idle=0.1, stall=0.1)


def test_icarus():
    rng = random.Random(4)
    frames = [build(p) for p in every_opcode(rng)[::15]] + not_rdma(rng)
    frames += [frame for _, frame in faulty(rng)[:30]]
    check(frames, 64, simulator=ICARUS, idle=0.2, stall=0.2)


@pytest.mark.parametrize("width", WIDTHS)
def test_every_fault(width):
    cases = faulty(random.Random(1))
    frames = [frame for _, frame in cases]
    for reason, frame in cases:
        assert parse(frame)["error"] == reason
    observed = check(frames, width, garbage=True)
    reasons = {reason.name.lower() for reason in Reason}
    assert {reason for reason, _ in cases if reason} == \
        reasons - {"none", "mac_error", "mac_control"}
    assert {Kind(item["kind"]).name for item in observed.headers} == {"ROCE1", "ROCE2"}


def test_mac_errors_are_dropped_whatever_they_hit():
    rng = random.Random(2)
    frames = [build(p) for p in every_opcode(rng)[::9]] + not_rdma(rng) + [b"runt", bytes(9300)]
    observed = check(frames, 512, errors=[n % 3 != 0 for n in range(len(frames))])
    assert observed.counters["dropped"][Reason.MAC_ERROR.value] == sum(
        n % 3 != 0 for n in range(len(frames)))


@pytest.mark.parametrize("width", WIDTHS)
def test_what_is_not_rdma_goes_to_the_host_unchanged(width):
    rng = random.Random(3)
    frames = not_rdma(rng) * 2 + [rng.randbytes(n) for n in range(14, 200, 7)]
    check(frames, width, garbage=True)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("network", NETWORKS)
def test_truncation_at_every_byte(width, network):
    rng = random.Random(6)
    whole = build(packet(rng, 0x53, 0, network, TAGS[3]))  # RD compare and swap: all long headers
    if network == "ipv4":
        whole = with_options(whole, 22, rng.randbytes(40))
    check([whole[:n] for n in range(1, len(whole) + 1)], width, garbage=True)


@pytest.mark.parametrize("width", WIDTHS)
def test_ipv4_options(width):
    rng = random.Random(7)
    frames = []
    for words in range(11):
        for tpids in TAGS:
            opcode = rng.choice((0x04, 0x0B, 0x11, 0x53, 0x81, 0x1C))
            frame = build(packet(rng, opcode, rng.randrange(90), tpids=tpids))
            frames.append(with_options(frame, 14 + 4 * len(tpids), rng.randbytes(4 * words)))
    check(frames, width)


def test_ethernet_padding_is_no_payload():
    rng = random.Random(8)
    frames = [build(packet(rng, opcode, size, network)) + rng.randbytes(rng.randrange(1, 70))
              for opcode in (0x04, 0x11, 0x81) for size in (0, 1, 6) for network in NETWORKS]
    check(frames, 512)


def mixed(rng, count):
    """Frames of 62 to 9216 bytes, short ones behind long ones."""
    frames = []
    for _ in range(count):
        kind = rng.randrange(4)
        if kind == 0:
            frames.append(rng.randbytes(12) + b"\x08\x06" + bytes(rng.choice((50, 1500, 9202))))
        elif kind == 1:
            frames.append(build(packet(rng, 0x04, rng.choice((4096, rng.randrange(1, 4096))))))
        else:
            frames += [build(packet(rng, 0x11, 0)) for _ in range(rng.randrange(20))]
    return frames


def simulator_for(width):
    return "verilator" if width in WIDTHS else ICARUS


@pytest.mark.parametrize("width", DATA_WIDTHS)
def test_one_beat_a_cycle_back_to_back(width):
    rng = random.Random(1)
    frames = [build(packet(rng, 0x11, 0)) for _ in range(100)]  # 62 bytes: a beat at 512 bits
    frames += mixed(rng, 60 if width == 512 else 12)
    observed = check(frames, width, simulator=simulator_for(width))
    assert observed.raw["in_cycles"] == observed.raw["beats"]


@pytest.mark.parametrize("width", DATA_WIDTHS)
def test_latency(width):
    """Of frames one by one: docs/parser.md has the figures."""
    rng = random.Random(1)
    ack, arp = build(packet(rng, 0x11, 0)), rng.randbytes(12) + b"\x08\x06" + bytes(46)
    seen = run_frames([arp], config(width), simulator_for(width)).raw
    last = seen["taken"][-1]
    assert seen["report_cycles"] == [last + REPORT]
    # at 64 bits the frame is still leaving the store when its end is known
    assert seen["cycles"]["host"][0] == last + HOST + (width == 64)
    seen = run_frames([ack], config(width), simulator_for(width)).raw
    assert seen["report_cycles"] == [seen["taken"][-1] + REPORT]


STACKS = {  # bytes up to the end of the headers
    "ACK": (0x11, "ipv4", (), 58), "WRITE over IPv4": (0x0A, "ipv4", (), 70),
    "WRITE over IPv6, two tags": (0x0A, "ipv6", TAGS[3], 98),
    "WRITE over GRH": (0x0A, "roce1", (), 82), "RD COMPARE_SWAP": (0x53, "ipv4", (), 94),
}


@pytest.mark.parametrize("width", DATA_WIDTHS)
def test_headers_leave_before_the_frame_has_ended(width):
    """At most ceil(header bytes / beat bytes) + 3 cycles from the first beat to the headers."""
    rng = random.Random(1)
    for opcode, network, tpids, size in STACKS.values():
        frame = build(packet(rng, opcode, 4000, network, tpids))
        seen = run_frames([frame], config(width), simulator_for(width)).raw
        assert seen["header_cycles"] == [seen["taken"][0] + -(-size * 8 // width) + 3]


BLOCKED = {"headers": ("headers",), "payload": ("payload",), "host": ("host",),
           "host info": ("host_info",), "RDMA": ("headers", "payload"),
           "all": ("headers", "payload", "host", "host_info")}


@pytest.mark.parametrize("ports", BLOCKED)
@pytest.mark.parametrize("width", WIDTHS)
def test_a_port_that_is_long_blocked_loses_nothing(width, ports):
    rng = random.Random(11)
    frames = mixed(rng, 30) + [build(packet(rng, 0x04, 4096)) for _ in range(12)]
    frames += [build(packet(rng, 0x04, 1)) for _ in range(150)] + not_rdma(rng)
    rng.shuffle(frames)
    frames, cycles = (frames[:30], 2000) if width == 64 else (frames, 4000)
    check(frames, width, blocked=dict.fromkeys(BLOCKED[ports], cycles))


def test_parse_frames_reports_progress():
    frames = [build(packet(random.Random(1), 0x04, 10))]
    seen = []
    reports = parse_frames(frames, config(512), progress=lambda *counts: seen.append(counts))
    assert reports == [json_form(parse(frames[0]))]
    assert seen[0] == (0, 1)
    assert seen[-1] == (1, 1)
    assert parse_frames([], config(512)) == []


def shifted(at, count):
    """`number` of rtl/parser/bytes.py with one field a byte too far."""
    def number(window, where, size):
        return right_number(window, where + ((where, size) == (at, count)), size)
    return number


def without(version, *offsets):
    """The table of ICRC variant fields without these bytes."""
    return VARIANT | {version: {at: mask for at, mask in VARIANT[version].items()
                                if at not in offsets}}


FAULTS = {
    "RoCE port": ("parser.transport.ROCE_PORT", 4790),
    "longest payload": ("parser.judge.MAX_PAYLOAD", 4097),
    "ICRC in the payload": ("parser.transport.ICRC_BYTES", 0),
    "BTH size": ("parser.transport.BTH_BYTES", 16),
    "service tag": ("parser.network.TPID_SERVICE", 0x9100),
    "customer tag": ("parser.network.TPID_CUSTOMER", 0x9100),
    "protocol": ("parser.network.UDP", 16),
    "RoCEv1 EtherType": ("parser.network.TYPE_ROCE1", 0x8914),
    "next header of a GRH": ("parser.network.GRH_NEXT_HEADER", 0x1C),
    "PFC opcode": ("parser.network.PFC", 0x0100),
    "size of PFC": ("parser.network.PFC_BYTES", 18),
    "size of PAUSE": ("parser.network.PAUSE_BYTES", 3),
    "shortest frame": ("parser.network.MIN_FRAME", 13),
    "shortest IPv4 header": ("parser.network.IPV4_WORDS", 4),
    "rotation": ("parser.align._OFFSET_PHASE", 1),
    "RD responses": ("parser.opcodes._RESPONSES", range(0x0D, 0x12)),
    "reserved bytes of a CNP": ("parser.opcodes.CNP_WORDS", 3),
    "cut window": ("parser.collect.WINDOW", 130),
    "offset of the PSN": ("parser.transport.number", shifted(9, 3)),
    "offset of the R_Key": ("parser.transport.number", shifted(8, 4)),
    "offset of the IP length": ("parser.network.number", shifted(2, 2)),
    "offset of a PFC time": ("parser.network.number", shifted(8, 2)),
    "keep mask": ("parser.collect.Mux", lambda test, yes, no: yes if isinstance(no, int)
                  else Mux(test, yes, no)),
    "end of the payload": ("parser.align.Mux", lambda test, yes, no: 0 if isinstance(no, int)
                           else Mux(test, yes, no)),
    "TTL in the ICRC": ("icrc.engine.VARIANT", without(4, 8)),
    "flow label in the ICRC": ("icrc.engine.VARIANT", without(6, 2)),
    "ICRC seed": ("icrc.engine.SEED", SEED ^ 1),
    "ICRC residue": ("icrc.check.RESIDUE", RESIDUE ^ 0x80000000),
    "ICRC tap": ("icrc.engine.power", lambda bits: (power(bits)[0] ^ 1, *power(bits)[1:])),
}


def frames_that_tell():
    """Few frames that every fault above shows in."""
    rng = random.Random(5)
    whole = build(packet(rng, 0x53, 0, "ipv4", TAGS[3]))
    macs = rng.randbytes(12)
    return [build(p) for p in every_opcode(rng)[::7]] + not_rdma(rng) + [
        with_options(whole, 22, rng.randbytes(40)), rng.randbytes(13),
        build(packet(rng, 0x52, 0)), build(packet(rng, 0x81, 0)),
        build(packet(rng, 0x04, 4097)), build(packet(rng, 0x04, 50, "ipv4", TAGS[2])),
        build(packet(rng, 0x0A, 50)), build(packet(rng, 0x04, 51, "ipv6")),
        macs + b"\x88\x08\x00\x01" + b"\x12", macs + b"\x88\x08\x01\x01" + rng.randbytes(17)]


def test_the_right_parser_passes_where_wrong_ones_are_caught():
    check(frames_that_tell(), 64, simulator=ICARUS, garbage=True)


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_parser_is_caught(name, monkeypatch):
    place, value = FAULTS[name]
    monkeypatch.setattr(f"rtl.{place}", value)
    with pytest.raises((AssertionError, ValueError)):
        check(frames_that_tell(), 64, simulator=ICARUS, key=name, garbage=True)
