"""Seeded RC traffic with faults: every row of docs/responder.md that is implemented."""

import random

from sim.golden.layout import MrAccess
from sim.wire import opcodes
from sim.wire.build import Packet, build
from sim.workload.host_setup import HostSetup
from sim.workload.random_faults import FATAL, HARMLESS
from sim.workload.random_qp import Memory, Planned, RandomQp, random_qps, region
from sim.workload.scenario import Frame, Scenario

MIN_FRAME = 60  # of Ethernet, without FCS
STRANGE_INDEX, STRANGE_PD = 1 << 12, 99
FATAL_SHARE = 0.25  # of the faults
RNR_SHARE = 0.5  # times the share of faults: packets that find no receive at first
AFTERLIFE = 2  # packets that a queue pair in the error state still gets


class Traffic:
    """Frames in the making, and the region of another protection domain."""

    def __init__(self, rng: random.Random, strange: Memory) -> None:
        self.rng = rng
        self.strange = strange
        self.frames: list[Frame] = []

    @property
    def next_number(self) -> int:
        return len(self.frames) + 1

    def add(self, data: bytes) -> None:
        self.frames.append(Frame(self.next_number, data))

    def send(self, packet: Packet) -> None:
        """The packet, with Ethernet padding if it is short, and sometimes with more."""
        data = build(packet)
        if len(data) < MIN_FRAME or self.rng.random() < 0.05:
            data += self.rng.randbytes(max(MIN_FRAME - len(data), self.rng.randint(0, 9)))
        self.add(data)


def generate(seed: int = 1, frames: int = 300, qps: int = 8, fault_share: float = 0.2,
             ipv6_share: float = 0.3, vlan_share: float = 0.3,
             entry_bytes: int = 256) -> Scenario:
    """`frames` frames over `qps` queue pairs at a time; the same arguments give the same traffic.

    SEND and RDMA WRITE, with immediate or without, of all lengths and MTUs, from requesters that
    take turns at random. `fault_share` of the turns are faults (sim/workload/random_faults.py); a
    queue pair that a fault put into the error state is replaced by a new one soon after.
    """
    rng = random.Random(seed)
    setup = HostSetup(entry_bytes)
    traffic = Traffic(rng, region(rng, setup, STRANGE_INDEX, STRANGE_PD, MrAccess.REMOTE_WRITE))
    supply = random_qps(rng, setup, ipv6_share, vlan_share)
    used = [next(supply) for _ in range(qps)]
    active = list(used)
    while len(traffic.frames) < frames:
        qp = rng.choice(active)
        _take_turn(traffic, qp, fault_share)
        if qp.afterlife > AFTERLIFE:
            active.remove(qp)
            active.append(next(supply))
            used.append(active[-1])
    for qp in used:
        room = rng.choice((len(qp.receives) + 1, 1 + len(qp.receives) // 2))
        setup.add_qp(qp.qpn, qp.context, qp.receives, room, spare=rng.randint(0, 3))
    settings = setup.finish()
    return Scenario(
        name=f"random-{seed}", source="random", frames=traffic.frames[:frames],
        notes=[f"seeded random RC traffic, seed {seed}: {len(used)} queue pairs"],
        memory=setup.memory, settings=settings, posts=setup.posts, regions=[],
        qpns=sorted(qp.qpn for qp in used), entry_bytes=entry_bytes)


def _take_turn(traffic: Traffic, qp: RandomQp, fault_share: float) -> None:
    rng = traffic.rng
    if qp.dead:
        traffic.send(qp.packet(Planned(opcodes.SEND_ONLY, b"is anybody there?")))
        qp.afterlife += 1
        return
    waits = bool(qp.queue) and qp.queue[0].tried
    if rng.random() < fault_share:
        harmless = waits or rng.random() >= FATAL_SHARE
        if rng.choice(HARMLESS if harmless else FATAL)(traffic, qp):
            return
    _send_next(traffic, qp, RNR_SHARE * fault_share)


def _send_next(traffic: Traffic, qp: RandomQp, rnr_share: float) -> None:
    """The next packet of the message in progress or of a new one."""
    rng = traffic.rng
    if not qp.queue:
        qp.plan()
    planned = qp.queue[0]
    packet = qp.packet(planned)
    if planned.takes_wqe and not planned.tried and rng.random() < rnr_share:
        planned.tried = True
        traffic.send(packet)
        return
    if planned.takes_wqe:
        qp.post(qp.receive_length() + rng.choice((0, 0, 1, 100)),
                traffic.next_number if planned.tried else 0)
    traffic.send(packet)
    qp.took(packet)
