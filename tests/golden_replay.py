"""What the tests of the model share: scenarios fed to it."""

from pathlib import Path

from sim.golden.layout import QpContext
from sim.golden.memory import HostMemory
from sim.golden.nic import GoldenNic
from sim.golden.outcome import Outcome
from sim.wire.codec import parse
from sim.workload.limits import NOT_CARRIED_OUT
from sim.workload.scenario import Scenario

ROOT = Path(__file__).parents[1]
CAPTURES = ROOT / "captures"
SHARED = ROOT.parent / "shared"  # more captures and frames, where they are


def run(scenario: Scenario) -> tuple[list[Outcome], HostMemory]:
    """Outcomes and the memory afterwards."""
    memory = scenario.memory.copy()
    nic = GoldenNic(memory, scenario.settings, scenario.entry_bytes)
    posts = list(scenario.posts)
    outcomes = []
    for frame in scenario.frames:
        while posts and posts[0].frame_number <= frame.number:
            post = posts.pop(0)
            memory.write(post.address, post.data)
        outcomes.append(nic.receive(frame.data))
    return outcomes, memory


def carried_out(scenario: Scenario) -> Scenario:
    """Each queue pair up to its first request that the responder does not carry out yet."""
    stops: dict[int, tuple[int, int]] = {}  # QPN: frame number, PSN
    frames = []
    for frame in scenario.frames:
        report = parse(frame.data)
        bth = report.get("bth")
        if report["kind"] == "roce2" and report["error"] is None:
            if bth["opcode"] in NOT_CARRIED_OUT:
                stops.setdefault(bth["dqpn"], (frame.number, bth["psn"]))
            if bth["dqpn"] in stops:
                continue
        frames.append(frame)
    by_peer = {_peer(scenario, qpn): stop for qpn, stop in stops.items()}
    answers = []
    for answer in scenario.answers:
        bth = parse(answer.data)["bth"]
        number, psn = by_peer.get(bth["dqpn"], (1 << 62, 0))
        if answer.number < number or 0 < (psn - bth["psn"]) % (1 << 24) <= len(scenario.frames):
            answers.append(answer)
    scenario.frames, scenario.answers = frames, answers
    return scenario


def _peer(scenario: Scenario, qpn: int) -> int:
    address = scenario.settings.qpc.address(qpn, scenario.entry_bytes)
    assert address is not None
    return QpContext(scenario.memory.read(address, QpContext.SIZE)).dest_qpn
