"""One requester and its queue pair, for seeded traffic: messages cut into packets."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from sim.golden.answer import PSN_SPACE
from sim.golden.layout import Kind, MrAccess, QpAccess, QpContext, QpFlags, Service, State
from sim.wire import opcodes
from sim.wire.build import Packet
from sim.wire.headers import Values
from sim.workload.host_setup import HostSetup, Receive

OUR_MAC = bytes.fromhex("020000000001")
REGION_BYTES = 16384
WORD = 1 << 32
MAX_PAYLOAD = 4096
LIMITED = 0x7FFF  # the default partition, limited member


class Memory(NamedTuple):
    """A registered region as its user sees it."""

    key: int
    va: int
    length: int


@dataclass
class Planned:
    """A packet of the message in progress, without its PSN."""

    opcode: int
    payload: bytes
    extensions: dict[str, Values] = field(default_factory=dict)
    takes_wqe: bool = False
    psns: int = 1  # that it takes
    tried: bool = False  # it was sent while no receive was posted


@dataclass
class RandomQp:
    """The responder's context and what the requester knows of it."""

    rng: random.Random
    qpn: int
    context: QpContext
    target: Memory  # for RDMA WRITE, READ and atomics
    buffers: Memory  # for receives
    windows: list[int]  # keys that a SEND may invalidate
    peer_mac: bytes
    network: Literal["ipv4", "ipv6"]
    psn: int = 0  # next one; with no fault it is the responder's ePSN
    queue: list[Planned] = field(default_factory=list)  # rest of the message
    receives: list[Receive] = field(default_factory=list)
    sent: list[Packet] = field(default_factory=list)  # executed: may be repeated
    started: bool = False  # a message is in progress at the responder
    dead: bool = False  # in the error state
    afterlife: int = 0  # packets sent since

    @property
    def mtu(self) -> int:
        return self.context.mtu_bytes

    def plan(self, write: bool | None = None, imm: bool | None = None,
             length: int | None = None) -> None:
        """Queue the packets of a new message."""
        if write is None and imm is None and length is None and self._plan_whole():
            return
        if write is None:
            write = bool(self.context.access & QpAccess.WRITE) and self.rng.random() < 0.5
        imm = self.rng.random() < 0.3 if imm is None else imm
        length = self.length() if length is None else length
        payload = self.rng.randbytes(length)
        immdt = {"immdt": {"imm": self.rng.getrandbits(32)}} if imm else {}
        reth = self._reth(length) if write else {}
        pieces = [payload[start:start + self.mtu] for start in range(0, length, self.mtu)] or [b""]
        self.queue = [self._piece(pieces, index, write, reth, immdt)
                      for index in range(len(pieces))]

    def _plan_whole(self) -> bool:
        """Now and then a READ, an atomic, or a SEND that invalidates a window."""
        rng = self.rng
        whole = [opcode for opcode, access in (
            (opcodes.READ_REQUEST, QpAccess.READ), (opcodes.CMP_SWAP, QpAccess.ATOMIC),
            (opcodes.FETCH_ADD, QpAccess.ATOMIC)) if self.context.access & access]
        if rng.random() < 0.1 and self.windows:
            invalidate = {"ieth": {"rkey": self.windows.pop()}}
            self.queue = [Planned(opcodes.SEND_ONLY_INV, rng.randbytes(rng.randint(0, 99)),
                                  invalidate, takes_wqe=True)]
            return True
        if not whole or rng.random() < 0.6:
            return False
        self.queue = [self.read_or_atomic(rng.choice(whole))]
        return True

    def read_or_atomic(self, opcode: int) -> Planned:
        rng, target = self.rng, self.target
        if opcode == opcodes.READ_REQUEST:
            reth = self._reth(self.length())
            return Planned(opcode, b"", reth, psns=max(1, -(-reth["reth"]["length"] // self.mtu)))
        old = rng.getrandbits(64)
        va = -(-target.va // 8) * 8 + 8 * rng.randrange(3)
        return Planned(opcode, b"", {"atomiceth": {
            "va": va, "rkey": target.key, "swap": rng.getrandbits(64), "compare": old}})

    def length(self) -> int:
        """Any length that says something: borders of words, beats and packets."""
        mtu, rng = self.mtu, self.rng
        small = rng.choice((0, 1, 2, 3, 4, 5, 8, 15, 31, 32, 60, 63, 64, 65, 127, 200))
        border = rng.randint(1, 3) * mtu + rng.choice((-1, 0, 1, 4))
        return rng.choice((small, small, min(border, 2 * MAX_PAYLOAD), rng.randint(0, 3 * 1024)))

    def receive_length(self) -> int:
        """Bytes of the message in progress, which its receive must hold."""
        return sum(len(planned.payload) for planned in self.queue)

    def post(self, length: int, before_frame: int = 0, lkey: int | None = None,
             sge_count: int = 1, va: int | None = None) -> None:
        """A receive WQE; its buffer lies anywhere in the buffers' region."""
        start = self.buffers.va + self.rng.randint(0, self.buffers.length - length) \
            if va is None else va
        self.receives.append(Receive(self.rng.getrandbits(64), start, length,
                                     self.buffers.key if lkey is None else lkey, before_frame,
                                     sge_count))

    def pkey(self) -> int:
        """One that the context accepts: one side must be a full member."""
        return 0xFFFF if self.context.pkey == LIMITED else self.rng.choice((0xFFFF, LIMITED))

    def packet(self, planned: Planned, psn: int | None = None) -> Packet:
        rng = self.rng
        ends = planned.opcode not in (opcodes.SEND_FIRST, opcodes.SEND_MIDDLE, opcodes.WRITE_FIRST,
                                      opcodes.WRITE_MIDDLE)
        return Packet(
            dst=OUR_MAC, src=self.peer_mac, network=self.network,
            vlan=(self.context.vlan_tci,) if self.context.flags & QpFlags.VLAN else (),
            sgid=self.context.dip, dgid=self.context.sip, tclass=rng.getrandbits(8),
            flow_label=rng.getrandbits(20), hop_limit=rng.randint(1, 255),
            identification=rng.getrandbits(16), sport=rng.randint(0xC000, 0xFFFF),
            bth={"opcode": planned.opcode, "dqpn": self.qpn, "pkey": self.pkey(),
                 "psn": self.psn if psn is None else psn, "m": rng.getrandbits(1),
                 "se": ends and rng.getrandbits(1),
                 "ackreq": rng.random() < (0.8 if ends else 0.2)},
            extensions=planned.extensions, payload=planned.payload)

    def took(self, packet: Packet) -> None:
        """The packet at the head of the queue was executed."""
        planned = self.queue.pop(0)
        self.started = bool(self.queue)
        self.psn = (self.psn + planned.psns) % PSN_SPACE
        self.sent.append(packet)

    def _reth(self, length: int) -> dict[str, Values]:
        if length == 0 and self.rng.random() < 0.5:  # a key that is not used need not be good
            return {"reth": {"va": self.rng.getrandbits(64), "rkey": self.rng.getrandbits(32),
                             "length": 0}}
        start = self.target.va + self.rng.randint(0, self.target.length - length)
        return {"reth": {"va": start, "rkey": self.target.key, "length": length}}

    @staticmethod
    def _piece(pieces: list[bytes], index: int, write: bool, reth: dict[str, Values],
               immdt: dict[str, Values]) -> Planned:
        first, last = index == 0, index == len(pieces) - 1
        if first and last:
            step = opcodes.SEND_ONLY_IMM if immdt else opcodes.SEND_ONLY
        elif last:
            step = opcodes.SEND_LAST_IMM if immdt else opcodes.SEND_LAST
        else:
            step = opcodes.SEND_FIRST if first else opcodes.SEND_MIDDLE
        opcode = step + (opcodes.WRITE_FIRST if write else 0)  # the two run in parallel
        extensions = (reth if first else {}) | (immdt if last else {})
        takes = (last and bool(immdt)) if write else first
        return Planned(opcode, pieces[index], extensions, takes)


def random_qps(rng: random.Random, setup: HostSetup, ipv6_share: float,
               vlan_share: float) -> Iterator[RandomQp]:
    """New queue pairs for as long as they are asked for."""
    qpns = rng.sample(range(1, 1 << 12), 1024)
    keys = rng.sample(range(1, 1 << 12), (1 << 12) - 1)
    for qpn in qpns:
        pd = rng.randint(1, 5)
        target = region(rng, setup, keys.pop(), pd, MrAccess.REMOTE_WRITE | MrAccess.REMOTE_READ
                        | MrAccess.REMOTE_ATOMIC)
        buffers = region(rng, setup, keys.pop(), pd, MrAccess.LOCAL_WRITE)
        ipv6 = rng.random() < ipv6_share
        flags = (QpFlags.IPV6 if ipv6 else 0) | (QpFlags.VLAN if rng.random() < vlan_share else 0)
        context = _context(rng, pd, flags)
        psn = context.epsn
        windows = [_window(rng, setup, keys.pop(), pd, qpn) for _ in range(rng.randint(0, 2))]
        yield RandomQp(rng, qpn, context, target, buffers, windows, bytes(context.dmac),
                       "ipv6" if ipv6 else "ipv4", psn)


def region(rng: random.Random, setup: HostSetup, index: int, pd: int,
           access: MrAccess) -> Memory:
    """A region whose virtual and bus addresses have nothing to do with each other."""
    memory = Memory(index << 8 | rng.getrandbits(8), rng.getrandbits(47) + 4096, REGION_BYTES)
    base = setup.allocate(memory.length + 64) + rng.randrange(64)
    assert setup.add_region(memory.key, memory.va, memory.length, access, base, pd)
    setup.memory.write(base, rng.randbytes(memory.length))
    return memory


def _window(rng: random.Random, setup: HostSetup, index: int, pd: int, qpn: int) -> int:
    """The key of a window or of a region that may be invalidated."""
    key = index << 8 | rng.getrandbits(8)
    kind = rng.choice((Kind.FAST_REGION, Kind.WINDOW))
    assert setup.add_region(key, rng.getrandbits(47), 64, MrAccess.REMOTE_WRITE,
                            setup.allocate(64), pd, kind, qpn)
    return key


def _context(rng: random.Random, pd: int, flags: int) -> QpContext:
    def gid() -> bytes:
        if flags & QpFlags.IPV6:
            return b"\xfd" + rng.randbytes(15)
        return bytes(10) + b"\xff\xff" + bytes([10]) + rng.randbytes(3)

    def counter(space: int) -> int:
        """Anywhere, or just before it wraps."""
        return rng.choice((0, rng.randrange(space), space - rng.randint(1, 20)))

    return QpContext(
        state=rng.choice((State.RTR, State.RTS, State.RTS, State.SQD, State.SQE)),
        service=Service.RC, mtu=rng.choice((1, 1, 2, 3, 3, 4, 5)), flags=flags,
        pkey=rng.choice((0xFFFF, 0xFFFF, LIMITED)),
        access=sum(access for access in QpAccess if rng.random() < 0.85),
        max_dest_rd_atomic=rng.randint(1, 5),
        min_rnr_timer=rng.randrange(32), dest_qpn=rng.getrandbits(24), pd=pd,
        udp_sport=rng.choice((0, rng.randint(0xC000, 0xFFFF))), vlan_tci=rng.getrandbits(16),
        dmac=b"\x02" + rng.randbytes(5), smac=OUR_MAC, tclass=rng.getrandbits(8),
        hop_limit=rng.randint(1, 255), flow_label=rng.getrandbits(20), dip=gid(), sip=gid(),
        epsn=counter(PSN_SPACE), msn=counter(PSN_SPACE), rq_consume=counter(WORD))

