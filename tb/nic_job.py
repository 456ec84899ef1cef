"""What the NIC's bench is given and what it gives back; pickled between the two processes."""

import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rtl.config import NicConfig
from sim.golden.memory import HostMemory
from sim.workload.scenario import Scenario

WIRE_OVERHEAD = 24  # preamble, FCS and gap of a frame, bytes
WIRE_MINIMUM = 60  # shorter frames are padded by the MAC


def wire_cycles(frame: bytes, config: NicConfig) -> float:
    """Cycles that the frame takes on the wire."""
    bits = 8 * (max(len(frame), WIRE_MINIMUM) + WIRE_OVERHEAD)
    return bits / config.line_rate_gbps / 1e3 * config.clock_mhz


@dataclass(kw_only=True)
class Job:
    scenario: Scenario
    config: NicConfig
    latency: int  # cycles from a read TLP to its completion
    stalls: float = 0.0  # share of cycles in which a port of the bench is idle or not ready
    mac_errors: frozenset[int] = frozenset()  # frames that the MAC flags, by number


@dataclass(kw_only=True)
class Executed:
    """A packet that the responder is finished with."""

    cycle: int
    sequence: int
    qpn: int
    drop: str
    answered: bool
    context: bytes


@dataclass(kw_only=True)
class Observed:
    """Everything seen at the NIC's ports. Cycles count from the end of the reset."""

    cycles: int = 0  # until the last thing happened
    cycles_run: int = 0
    finished: bool = False  # every frame was accounted for
    flushed: bool = False
    first: list[int] = field(default_factory=list)  # by sequence: cycle of the first beat
    transmitted: list[tuple[int, bytes]] = field(default_factory=list)  # (cycle, frame)
    host_frames: list[tuple[int, bytes]] = field(default_factory=list)
    reports: list[dict[str, Any]] = field(default_factory=list)  # kind, error, opcode, cycle
    icrc: dict[int, bool] = field(default_factory=dict)  # by sequence
    executed: list[Executed] = field(default_factory=list)
    completions: list[tuple[int, bytes]] = field(default_factory=list)  # (cycle, CQE)
    counters: dict[str, Any] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)  # PCIe rules that the NIC broke
    memory: HostMemory = field(default_factory=HostMemory)
    run_seconds: float = 0.0


def save(path: Path, item: Job | Observed) -> None:
    path.write_bytes(pickle.dumps(item))


def load(path: Path) -> Any:
    return pickle.loads(path.read_bytes())
