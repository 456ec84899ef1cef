"""The golden model replays real traffic and gives the answers of Linux's software NIC."""

from collections import Counter
from pathlib import Path

from sim.golden.nic import GoldenNic
from sim.workload import replay

CAPTURES = Path(__file__).parents[1] / "captures"


def run(scenario):
    """Outcomes and the memory afterwards."""
    memory = scenario.memory.copy()
    nic = GoldenNic(memory, scenario.settings, scenario.entry_bytes)
    return [nic.receive(frame.data) for frame in scenario.frames], memory


def test_first_is_answered_as_linux_did():
    scenario = replay.from_truth(CAPTURES / "first.pcap")
    outcomes, memory = run(scenario)
    assert Counter(outcome.action for outcome in outcomes) == {
        "answered": 156, "accepted": 84, "host_queue": 44}
    mismatches, allowed = replay.check_answers(scenario, outcomes)
    assert mismatches == []
    assert allowed == {"ip_identification": 156}
    assert [region["ok"] for region in replay.check_memory(scenario, memory)] == [True] * 6
