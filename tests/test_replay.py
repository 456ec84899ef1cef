"""Captures as scenarios: with truth files good and bad, without one, and files that are none."""

import gzip
import json
import random
import shutil
import struct

import pytest

from sim.golden.layout import QpContext
from sim.wire.build import reseal
from sim.wire.capture import CapturedFrame, CaptureError, read_capture, write_capture
from sim.workload import replay
from sim.workload.random_rc import generate
from sim.workload.replay import TruthError
from tests.golden_replay import CAPTURES, run

FIRST = CAPTURES / "first.pcap"


def context(scenario, qpn):
    address = scenario.settings.qpc.address(qpn, scenario.entry_bytes)
    return QpContext(scenario.memory.read(address, QpContext.SIZE))


# With a truth file


def test_contexts_are_those_of_the_truth_file():
    scenario = replay.from_truth(FIRST)
    assert scenario.source == "truth" and scenario.notes == []
    assert scenario.qpns == [25, 26, 27, 28, 29, 30]
    held = context(scenario, 25)
    assert (held.epsn, held.dest_qpn, held.mtu_bytes, held.pkey) == (424434, 46, 256, 0xFFFF)
    assert held.dip[-4:] == bytes([10, 0, 0, 2]) and held.sip[-4:] == bytes([10, 0, 0, 1])
    assert (held.hop_limit, held.udp_sport) == (64, 0xC47E)


def test_every_frame_for_the_nic_is_in_with_its_number():
    scenario = replay.from_truth(FIRST)
    frames = read_capture(FIRST)
    ours = bytes.fromhex("525400000001")
    expected = [(number, frame.data) for number, frame in enumerate(frames, 1)
                if frame.data[6:12] != ours and (frame.data[:6] == ours or frame.data[0] & 1)]
    assert [tuple(frame) for frame in scenario.frames] == expected
    assert len(expected) == 284


def test_larger_context_slots():
    scenario = replay.from_truth(FIRST, entry_bytes=512)
    outcomes, memory = run(scenario)
    assert replay.check_answers(scenario, outcomes)[0] == []
    assert all(region["ok"] for region in replay.check_memory(scenario, memory))


@pytest.fixture
def copy(tmp_path):
    """A copy of the capture whose truth file may be spoilt: `copy(change)` gives its path."""
    shutil.copytree(CAPTURES / "first.mem", tmp_path / "first.mem")
    shutil.copy(FIRST, tmp_path)

    def spoil(change=None, text=None):
        truth = json.loads((CAPTURES / "first.json").read_text())
        if change:
            change(truth)
        (tmp_path / "first.json").write_text(json.dumps(truth) if text is None else text)
        return tmp_path / "first.pcap"
    return spoil


def refused(path):
    with pytest.raises(TruthError) as caught:
        replay.from_truth(path)
    text = str(caught.value)
    assert "\n" not in text and "first.json" in text
    return text


def test_truth_file_missing(copy):
    path = copy()
    path.with_suffix(".json").unlink()
    assert "no such truth file" in refused(path)


@pytest.mark.parametrize(("text", "message"), [
    ("{", "no JSON"), ("", "no JSON"), ("[]", "no truth file"), ("{}", "no truth file"),
    ('{"format": "other-2"}', "this program reads rxe-truth-1"),
    ('{"format": "rxe-truth-1"}', "'hosts' is missing")])
def test_truth_file_is_none(copy, text, message):
    assert message in refused(copy(text=text))


@pytest.mark.parametrize(("change", "message"), [
    (lambda truth: truth["capture"].update(frames=473), "tells of 473 frames, the capture has 474"),
    (lambda truth: truth["hosts"]["A"].update(mac="02:00:00:00:00:99"), "addressed to host A"),
    (lambda truth: truth["hosts"]["A"].update(mac="nonsense"), "damaged"),
    (lambda truth: truth["connections"][0]["A"].pop("qpn"), "'qpn' is missing"),
    (lambda truth: truth["connections"][0].update(path_mtu=300), "300 is missing"),
    (lambda truth: truth["connections"][0].update(type="XX"), "'XX' is missing"),
    (lambda truth: truth["connections"][0]["ip"].update(A="10.0.0"), "damaged"),
    (lambda truth: truth["connections"][0]["A"].update(rq_psn="many"), "damaged"),
    (lambda truth: truth["memory_regions"][0].update(length=5567), "has 5568 bytes"),
    (lambda truth: truth["memory_regions"][0].update(final_sha256="0" * 64), "SHA-256"),
    (lambda truth: truth["memory_regions"][0].update(initial_bin="none.bin"), "cannot be read"),
    (lambda truth: truth["memory_regions"][2].update(lkey=1515), "shares index 5 of the MPT"),
    (lambda truth: truth.pop("memory_regions"), "'memory_regions' is missing"),
])
def test_truth_file_that_does_not_fit(copy, change, message):
    assert message in refused(copy(change))


def test_memory_file_changed(copy):
    path = copy()
    image = path.parent / "first.mem" / "mr0.final.bin"
    data = bytearray(image.read_bytes())
    data[7] ^= 1
    image.write_bytes(data)
    assert "mr0.final.bin has not the SHA-256" in refused(path)


def test_truth_file_of_another_capture():
    with pytest.raises(TruthError, match="give the truth file that was made with this capture"):
        replay.from_truth(FIRST, CAPTURES / "rnr.json")


# Without one


@pytest.mark.parametrize("suite", ["first", "rnr"])
def test_a_capture_alone_gives_the_same_answers(suite):
    scenario = replay.load(CAPTURES / f"{suite}.pcap", truth=None)
    assert scenario.source == "inferred"
    outcomes, memory = run(scenario)
    assert replay.check_answers(scenario, outcomes)[0] == []
    assert replay.check_memory(scenario, memory) == []


def test_what_is_inferred_is_told():
    notes = replay.inferred(FIRST).notes
    assert "the NIC is 52:54:00:00:00:01: 240 of 240 RC requests are addressed to it" in notes
    assert "QP 25: expects PSN 424434 first, has MTU 256 and allows all remote access" in notes
    assert sum("its peer is QP" in note for note in notes) == 6


def test_load_finds_the_truth_file(tmp_path):
    assert replay.load(FIRST).source == "truth"
    shutil.copy(FIRST, tmp_path / "alone.pcap")
    assert replay.load(tmp_path / "alone.pcap").source == "inferred"
    with pytest.raises(TruthError, match="no such truth file"):
        replay.load(FIRST, truth=tmp_path / "none.json")


def test_requests_without_any_answer(tmp_path):
    ours = bytes.fromhex("525400000001")
    write_capture(tmp_path / "in.pcap",
                  [frame for frame in read_capture(FIRST) if frame.data[6:12] != ours])
    scenario = replay.inferred(tmp_path / "in.pcap")
    outcomes, _ = run(scenario)
    assert scenario.answers == []
    assert sum(len(outcome.frames) for outcome in outcomes) == 156
    assert any("the peer's QPN is taken as 0" in note for note in scenario.notes)


def test_capture_that_begins_inside_messages(tmp_path):
    """Cut anywhere, what is left is answered as it was."""
    frames = read_capture(FIRST)
    for cut in range(95, 125):
        write_capture(tmp_path / "late.pcap", frames[cut:])
        scenario = replay.inferred(tmp_path / "late.pcap")
        outcomes, _ = run(scenario)
        mismatches, _ = replay.check_answers(scenario, outcomes)
        assert mismatches == [], cut


def test_the_other_host_as_nic():
    scenario = replay.inferred(FIRST, nic="52:54:00:00:00:02")
    outcomes, _ = run(scenario)
    assert {outcome.reason for outcome in outcomes} == {None, "no_requester"}
    with pytest.raises(ValueError, match="no frame of the capture is addressed to 02:00"):
        replay.inferred(FIRST, nic="02:00:00:00:00:00")


def test_capture_without_rdma(tmp_path):
    frame = bytes.fromhex("020000000001" "020000000002" "0806") + bytes(46)
    write_capture(tmp_path / "arp.pcap", [CapturedFrame(frame, 0)])
    scenario = replay.load(tmp_path / "arp.pcap")
    outcomes, _ = run(scenario)
    assert [outcome.action for outcome in outcomes] == ["host_queue"]
    assert scenario.notes == ["the capture holds no RoCEv2 RC request; nothing is answered"]


@pytest.mark.parametrize("seed", range(4))
def test_no_packets_upset_the_inference(tmp_path, seed):
    """Frames mixed, spoilt and sealed again: any outcome, no exception."""
    rng = random.Random(seed)
    pool = [frame.data for name in ("first", "rnr")
            for frame in read_capture(CAPTURES / f"{name}.pcap")]
    pool += [frame.data for frame in generate(seed=seed, frames=200).frames]
    for _ in range(20):
        frames = []
        for _ in range(40):
            data = bytearray(rng.choice(pool))
            for _ in range(rng.choice((0, 0, 1, 2, 5))):
                data[rng.randrange(14, len(data))] = rng.getrandbits(8)
            if len(data) > 60 and data[14] == 0x45:
                data = bytearray(reseal(bytes(data)))
            frames.append(CapturedFrame(bytes(data), 0))
        write_capture(tmp_path / "spoilt.pcap", frames)
        scenario = replay.inferred(tmp_path / "spoilt.pcap")
        outcomes, _ = run(scenario)
        replay.check_answers(scenario, outcomes)


# Files


@pytest.mark.parametrize(("spoil", "message"), [
    (lambda data: data[:-1], "truncated in frame 474"), (lambda data: data[:30], "truncated"),
    (lambda data: b"", "is empty"), (lambda data: data[:24], "holds no frames"),
    (lambda data: b"#!/bin/sh\nexit 0\n", "no capture"),
    (lambda data: gzip.compress(data)[:-9], "gzip file ends too early"),
])
def test_bad_captures(tmp_path, spoil, message):
    path = tmp_path / "bad.pcap"
    path.write_bytes(spoil(FIRST.read_bytes()))
    with pytest.raises(CaptureError, match=message) as caught:
        replay.load(path)
    assert "\n" not in str(caught.value) and "bad.pcap" in str(caught.value)


def test_no_such_capture(tmp_path):
    with pytest.raises(CaptureError, match="no such file"):
        replay.load(tmp_path / "none.pcap")


def pcapng(frames):
    def block(kind, body):
        length = len(body) + 12
        return struct.pack("<2I", kind, length) + body + struct.pack("<I", length)

    data = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    data += block(1, struct.pack("<HHI", 1, 0, 0))
    for frame in frames:
        body = struct.pack("<5I", 0, 0, 0, len(frame.data), len(frame.data)) + frame.data
        data += block(6, body + bytes(-len(body) % 4))
    return data


@pytest.mark.parametrize("pack", [pcapng, lambda frames: gzip.compress(FIRST.read_bytes()),
                                  lambda frames: gzip.compress(pcapng(frames))])
def test_other_forms_of_captures(tmp_path, pack):
    frames = read_capture(FIRST)
    path = tmp_path / "other"
    path.write_bytes(pack(frames))
    assert [frame.data for frame in read_capture(path)] == [frame.data for frame in frames]
    assert len(replay.load(path).answers) == 156
