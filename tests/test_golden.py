"""The golden model replays real traffic and gives the answers of Linux's software NIC."""

import json
from collections import Counter

import pytest

from sim.golden.answer import source_port
from sim.golden.layout import Completion, QpContext, State, WcOpcode, WcStatus
from sim.wire import opcodes
from sim.wire.build import Packet, build
from sim.wire.codec import parse
from sim.workload import oddities, replay
from sim.workload.random_rc import generate
from sim.workload.scenario import Frame
from tests.golden_replay import CAPTURES, capture, run

# Suite: answers compared, and the oddities of rxe that are allowed for. UC and UD have
# no answers.
COVERED = {
    "verbs_rc": (144, {"ip_identification": 144}),
    "psnwrap": (144, {"ip_identification": 144}),
    "naks": (60, {"ip_identification": 52, "send_too_long": 2, "duplicate_ack_psn": 3,
                  "invalidate_refused_late": 2, "empty_read_checked_again": 1}),
    "multiqp": (240, {"ip_identification": 240}),
    "loss": (220, {"ip_identification": 220}),
    "vlan": (101, {"ip_identification": 96, "nak_after_rnr": 4, "send_too_long": 1}),
    "ipv6": (99, {"nak_after_rnr": 3, "send_too_long": 1}),
    "ecn": (119, {"ip_identification": 119, "ce_mark": 21}),
    "crafted": (73, {"ip_identification": 65, "send_length_unchecked": 3, "nak_after_rnr": 1,
                     "duplicate_ack_psn": 2, "read_from_the_middle": 1,
                     "invalidate_refused_late": 1}),
    "uc": (0, {"uc_after_loss": 2}),
    "ud": (0, {"ud_too_long": 1}),
}
DROPS = {"cnp", "no_qp", "service", "qp_state", "pkey", "address", "no_requester", "psn_gap",
         "duplicate", "icrc", "bth_tver", "bth_opcode", "truncated", "ip_length",
         "ip_checksum", "udp_length", "payload_missing", "mac_control"}


def test_first_is_answered_as_linux_did():
    scenario = replay.from_truth(CAPTURES / "first.pcap")
    outcomes, memory = run(scenario)
    assert Counter(outcome.action for outcome in outcomes) == {
        "answered": 156, "accepted": 84, "host_queue": 44}
    assert len(scenario.answers) == 156
    mismatches, allowed = replay.check_answers(scenario, outcomes)
    assert mismatches == []
    assert allowed == {"ip_identification": 156}
    assert [region["ok"] for region in replay.check_memory(scenario, memory)] == [True] * 6


def test_late_receives_and_rnr_naks():
    scenario = replay.from_truth(CAPTURES / "rnr.pcap")
    outcomes, memory = run(scenario)
    assert len(scenario.posts) == 30
    mismatches, allowed = replay.check_answers(scenario, outcomes)
    assert mismatches == []
    assert allowed == {"ip_identification": 146, "nak_after_rnr": 51}
    assert [region["ok"] for region in replay.check_memory(scenario, memory)] == [True] * 7


@pytest.mark.parametrize("suite", COVERED)
def test_other_suites_are_answered_as_linux_did(suite):
    path = capture(suite)
    if not path.exists():
        pytest.skip("this capture is not bundled")
    scenario = replay.from_truth(path)
    outcomes, memory = run(scenario)
    mismatches, allowed = replay.check_answers(scenario, outcomes)
    assert mismatches == []
    assert (len(scenario.answers), allowed) == COVERED[suite]
    wrong = [region["id"] for region in replay.check_memory(scenario, memory, outcomes)
             if not region["ok"]]
    assert wrong == []


@pytest.mark.parametrize("suite", ["first", "rnr"])
def test_completions_are_those_that_the_application_got(suite):
    truth = json.loads((CAPTURES / f"{suite}.json").read_text())
    outcomes, _ = run(replay.from_truth(CAPTURES / f"{suite}.pcap"))
    completions: dict[int, list[tuple]] = {}
    for outcome in outcomes:
        for cqe in map(Completion, outcome.completions):
            imm = int.from_bytes(cqe.imm, "big") if cqe.flags & 1 else None
            completions.setdefault(cqe.qpn, []).append(
                (cqe.wr_id, WcStatus(cqe.status).name, WcOpcode(cqe.opcode).name, cqe.byte_len,
                 imm, cqe.src_qpn, cqe.wqe_index))
    compared = 0
    for connection in truth["connections"]:
        receives = [receive for receive in connection["receives"] if receive["host"] == "A"]
        expected = [
            (index, wc["status"], wc["opcode"], wc["byte_len"], wc.get("imm"),
             connection["B"]["qpn"], index)
            for index, receive in enumerate(receives) if (wc := receive["wc"])]
        assert completions.get(connection["A"]["qpn"], []) == expected
        compared += len(expected)
    assert compared == {"first": 102, "rnr": 30}[suite]


def test_contexts_end_where_linux_ended():
    truth = json.loads((CAPTURES / "first.json").read_text())
    outcomes, _ = run(replay.from_truth(CAPTURES / "first.pcap"))
    last = {outcome.qpn: QpContext(outcome.context) for outcome in outcomes if outcome.context}
    for connection in truth["connections"]:
        ours = connection["A"]
        assert last[ours["qpn"]].epsn == ours["end"]["rq_psn"]
        assert last[ours["qpn"]].state == State[ours["end"]["state"]]
        assert last[ours["qpn"]].r_op == 0


# Faults on purpose


def request_positions(scenario, *opcode_set):
    return [index for index, frame in enumerate(scenario.frames)
            if (report := parse(frame.data))["kind"] == "roce2"
            and report["bth"]["opcode"] in opcode_set]


def test_a_flipped_bit_is_dropped_and_the_next_packet_is_out_of_sequence():
    scenario = replay.from_truth(CAPTURES / "first.pcap")
    position = request_positions(scenario, opcodes.WRITE_FIRST)[0]
    frame = scenario.frames[position]
    spoilt = bytearray(frame.data)
    spoilt[100] ^= 0x10
    scenario.frames[position] = Frame(frame.number, bytes(spoilt))
    outcomes, memory = run(scenario)
    psn = parse(frame.data)["bth"]["psn"]
    assert (outcomes[position].action, outcomes[position].reason) == ("dropped", "icrc")
    assert outcomes[position].frames == []
    answer = parse(outcomes[position + 1].frames[0])
    assert (answer["bth"]["opcode"], answer["aeth"]["syndrome"]) == (opcodes.ACK, 0x60)
    assert answer["bth"]["psn"] == psn
    mismatches, _ = replay.check_answers(scenario, outcomes)
    assert {"syndrome", "answer"} <= {mismatch["field"] for mismatch in mismatches}
    assert mismatches[0]["frame"] == scenario.frames[position + 1].number
    assert [region["ok"] for region in replay.check_memory(scenario, memory)].count(False) == 1


def test_source_port_by_flow_entropy():
    """As Linux folds a flow label, where the context doesn't give the port."""
    assert source_port(QpContext(udp_sport=0, flow_label=0xABCDE)) == 0xFCF4
    assert source_port(QpContext(udp_sport=0xC123, flow_label=0xABCDE)) == 0xC123


def test_a_skipped_psn_is_told_once():
    scenario = replay.from_truth(CAPTURES / "first.pcap")
    position = request_positions(scenario, opcodes.SEND_FIRST)[0]
    qpn = parse(scenario.frames[position].data)["bth"]["dqpn"]
    del scenario.frames[position]
    outcomes, _ = run(scenario)
    rest = zip(scenario.frames[position:], outcomes[position:], strict=True)
    after = [outcome for frame, outcome in rest
             if parse(frame.data).get("bth", {}).get("dqpn") == qpn]
    assert parse(after[0].frames[0])["aeth"]["syndrome"] == 0x60
    assert {(outcome.action, outcome.reason) for outcome in after[1:]} == {("dropped", "psn_gap")}


def test_one_byte_of_the_final_memory_is_missed():
    scenario = replay.from_truth(CAPTURES / "first.pcap")
    region = scenario.regions[2]
    spoilt = bytearray(region.final)
    spoilt[-1] ^= 1
    scenario.regions[2] = region._replace(final=bytes(spoilt))
    _, memory = run(scenario)
    assert [found["id"] for found in replay.check_memory(scenario, memory) if not found["ok"]] == [
        region.id]


@pytest.mark.parametrize(("offset", "field"), [(-8, "syndrome"), (-5, "msn"), (-9, "psn"),
                                               (-1, "icrc"), (0, "bytes")])
def test_a_wrong_byte_of_an_answer_is_named(offset, field):
    scenario = replay.from_truth(CAPTURES / "first.pcap")
    outcomes, _ = run(scenario)
    position = next(index for index, outcome in enumerate(outcomes) if outcome.frames)
    spoilt = bytearray(outcomes[position].frames[0])
    spoilt[offset] ^= 1
    outcomes[position].frames[0] = bytes(spoilt)
    mismatches, _ = replay.check_answers(scenario, outcomes)
    assert field in {mismatch["field"] for mismatch in mismatches}
    assert {mismatch["frame"] for mismatch in mismatches} == {scenario.frames[position].number}


# Random traffic


def test_random_traffic_is_the_same_for_the_same_seed():
    one, other, third = (generate(seed=seed, frames=100) for seed in (4, 4, 5))
    assert one.frames == other.frames and one.posts == other.posts
    assert one.memory.differences(other.memory) == []
    assert one.frames != third.frames


def test_random_traffic_reaches_every_row():
    reasons, answers, naks, statuses = set(), set(), set(), set()
    for seed in range(30):
        scenario = generate(seed=seed, frames=300, qps=12)
        outcomes, _ = run(scenario)
        assert len(outcomes) == 300
        for outcome in outcomes:
            reasons.add(outcome.reason)
            for frame in outcome.frames:
                report = parse(frame)
                assert report["error"] is None
                answers.add(report["bth"]["opcode"])
                syndrome = report.get("aeth", {"syndrome": 0x1F})["syndrome"]
                naks.add(0x20 if syndrome >> 5 == 1 else syndrome)
            statuses |= {Completion(cqe).status for cqe in outcome.completions}
    assert reasons - {None} == DROPS
    assert answers == opcodes.RESPONSES
    assert naks == {0x1F, 0x20, 0x60, 0x61, 0x62, 0x63}
    assert statuses == {WcStatus.SUCCESS, WcStatus.LOC_LEN_ERR, WcStatus.LOC_PROT_ERR,
                        WcStatus.REM_INV_REQ_ERR}


def test_random_traffic_without_faults_is_never_refused():
    scenario = generate(seed=7, frames=300, fault_share=0)
    outcomes, _ = run(scenario)
    assert {outcome.action for outcome in outcomes} == {"answered", "accepted"}
    assert {aeth["syndrome"] for outcome in outcomes for frame in outcome.frames
            if (aeth := parse(frame).get("aeth"))} == {0x1F}


# Oddities that no bundled capture shows


@pytest.mark.parametrize("network", ["ipv4", "ipv6"])
def test_a_ce_mark_set_on_the_way_is_allowed_for(network):
    def answer(tclass):
        return oddities.Answer.of(1, build(Packet(
            network=network, tclass=tclass, bth={"opcode": opcodes.ACK}, vlan=(100,),
            extensions={"aeth": {"syndrome": 0x1F}})))

    for ecn in (1, 2):
        ours, theirs = answer(0x48 | ecn), answer(0x48 | 3)
        assert oddities.liken(ours, theirs) == (theirs.data, ["ce_mark"])
    ours, theirs = answer(0x48), answer(0x4B)  # not ECT: nobody may mark it
    assert oddities.liken(ours, theirs)[0] != theirs.data
