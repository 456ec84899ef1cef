"""The whole NIC against the golden model: a real capture, seeded traffic, faults on purpose."""

import dataclasses
from pathlib import Path

import pytest

from rtl.config import load
from sim.workload.random_rc import generate
from sim.workload.replay import from_truth
from sim.workload.scenario import Frame, Scenario
from tb.nic_run import simulate_scenario
from tests.golden_replay import capture

CAPTURE = Path(__file__).parent.parent / "captures" / "first.pcap"
REQUESTS, ACKS = 240, 156


@pytest.fixture(scope="module")
def first() -> Scenario:
    return from_truth(CAPTURE)


def check_passed(result):
    assert result["mismatches"] == [] and result["verdict"] == "pass"
    assert result["frames_in"] == REQUESTS
    assert result["frames_out"] == ACKS
    assert len(result["memory_regions"]) == 6
    assert all(region["ok"] for region in result["memory_regions"])
    accounted = (result["frames_host_queue"] + sum(result["dropped"].values())
                 + sum(result["packets_by_opcode"].values()))
    assert accounted == result["frames_total"]


@pytest.mark.parametrize("preset", ["asic400g", "tiny"])
def test_first_capture(first, preset):
    check_passed(simulate_scenario(first, load(preset)))


@pytest.mark.parametrize("suite", ["rnr", "verbs_rc", "psnwrap", "naks", "multiqp", "loss",
                                   "vlan", "ipv6", "ecn", "crafted", "uc", "ud"])
def test_every_suite_of_linux(suite):
    path = capture(suite)
    if not path.exists():
        pytest.skip("this capture is not bundled")
    result = simulate_scenario(from_truth(path), load("asic400g"))
    assert result["mismatches"] == [] and result["verdict"] == "pass"


@pytest.mark.slow(reason="minutes in Icarus")
@pytest.mark.parametrize("preset", ["tiny", "asic400g"])
def test_first_capture_on_icarus(first, preset):
    check_passed(simulate_scenario(first, load(preset), "icarus"))


def test_first_frames_on_icarus(first):
    result = simulate_scenario(_beginning(first, 60), load("tiny"), "icarus")
    assert result["mismatches"] == [] and result["verdict"] == "pass"
    assert result["frames_out"] > 10


@pytest.mark.parametrize("preset", ["asic400g", "tiny"])
def test_stalls_everywhere(first, preset):
    check_passed(simulate_scenario(first, load(preset), stalls=0.4, latency=50, seed=2))


@pytest.mark.parametrize("latency", [0, 1, 1000])
def test_host_latency_changes_no_answer(first, latency):
    check_passed(simulate_scenario(first, load("asic400g"), latency=latency))


@pytest.mark.parametrize(("preset", "seed"), [("asic400g", 1), ("asic400g", 2), ("tiny", 3)])
def test_random_traffic(preset, seed):
    scenario = generate(seed=seed, frames=300, qps=12)
    result = simulate_scenario(scenario, load(preset), seed=seed, stalls=0.2, latency=40)
    assert result["mismatches"] == []


def _change(scenario: Scenario, index: int, data: bytes | None) -> Scenario:
    """Frame `index` replaced, or left out."""
    frames = list(scenario.frames)
    frames[index:index + 1] = [] if data is None else [Frame(frames[index].number, data)]
    return dataclasses.replace(scenario, frames=frames, answers=[], regions=[])


def _single_send(scenario: Scenario) -> int:
    """Index of a frame with payload, whose QP gets more frames later."""
    return next(index for index, frame in enumerate(scenario.frames)
                if frame.data[42:43] == b"\x04" and len(frame.data) > 80)


def test_a_flipped_payload_bit_is_dropped_and_the_next_packet_gets_a_nak(first):
    index = _single_send(first)
    data = bytearray(first.frames[index].data)
    data[-10] ^= 0x20
    result = simulate_scenario(_change(first, index, bytes(data)), load("asic400g"))
    assert result["mismatches"] == []  # the model sees the same
    assert result["dropped"]["icrc"] == 1
    assert result["naks"]["psn_sequence"] == 1


def test_a_skipped_psn_gets_one_nak(first):
    result = simulate_scenario(_change(first, _single_send(first), None), load("asic400g"))
    assert result["mismatches"] == []
    assert result["naks"]["psn_sequence"] == 1


def test_a_changed_byte_of_the_final_memory_is_reported(first):
    region = first.regions[0]
    final = bytearray(region.final)
    final[len(final) // 2] ^= 1
    regions = [region._replace(final=bytes(final)), *first.regions[1:]]
    result = simulate_scenario(dataclasses.replace(first, regions=regions), load("asic400g"))
    assert result["verdict"] == "fail"
    assert [item["field"] for item in result["mismatches"]] == [f"memory region {region.id}"]


def _beginning(scenario: Scenario, frames: int) -> Scenario:
    return dataclasses.replace(scenario, frames=scenario.frames[:frames], answers=[], regions=[])


@pytest.mark.parametrize(("field", "mismatch"), [
    ("msn", "answer"), ("epsn", "context.epsn"), ("byte_len", "completion")])
def test_a_wrong_field_in_the_rtl_is_reported(first, monkeypatch, field, mismatch):
    from rtl.responder.answer import AnswerHeaders
    from rtl.responder.responder import Responder

    def break_acknowledge(self, platform, right=AnswerHeaders.elaborate):
        m = right(self, platform)
        m.d.comb += self.headers.aeth.msn.eq(self.msn + 1)
        return m

    def break_context(self, m, headers, qpc, after, *others, right=Responder._context_after):
        right(self, m, headers, qpc, after, *others)
        m.d.comb += after.epsn.eq(qpc.epsn + 2)

    def break_completion(self, m, *others, right=Responder._completion):
        right(self, m, *others)
        m.d.comb += self.completion.p.cqe.byte_len.eq(0)

    if field == "msn":
        monkeypatch.setattr(AnswerHeaders, "elaborate", break_acknowledge)
    elif field == "epsn":
        monkeypatch.setattr(Responder, "_context_after", break_context)
    else:
        monkeypatch.setattr(Responder, "_completion", break_completion)
    result = simulate_scenario(_beginning(first, _single_send(first) + 1), load("tiny"), "icarus",
                               variant=f"wrong {field}")
    assert result["verdict"] == "fail"
    assert mismatch in {item["field"] for item in result["mismatches"]}
    assert all(item["cycle"] for item in result["mismatches"] if item["frame"])
