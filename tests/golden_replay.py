"""What the tests of the model share: scenarios fed to it."""

from pathlib import Path

from sim.golden.memory import HostMemory
from sim.golden.nic import GoldenNic
from sim.golden.outcome import Outcome
from sim.workload.scenario import Scenario

ROOT = Path(__file__).parents[1]
CAPTURES = ROOT / "captures"
SHARED = ROOT.parent / "shared"  # more captures and frames, where they are


def capture(suite: str) -> Path:
    """Linux's capture of that name, bundled or beside the project."""
    bundled = CAPTURES / f"{suite}.pcap"
    return bundled if bundled.exists() else SHARED / "captures" / f"{suite}.pcap"


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
