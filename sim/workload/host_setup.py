"""The host's part before traffic: tables, queues and regions laid into memory, none overlapping."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from sim.golden.layout import (
    CompletionQueue,
    Kind,
    MemoryRegion,
    MrAccess,
    QpContext,
    ReceiveWqe,
    SavedAtomic,
    Settings,
    Table,
    owner_bit,
)
from sim.golden.memory import HostMemory
from sim.workload.scenario import Post

PAGE = 4096
FIRST_FREE = 0x1_0000_0000  # addresses below 4 GiB stay unused
PD = 1


class Receive(NamedTuple):
    wr_id: int
    va: int
    length: int
    lkey: int
    before_frame: int = 0  # posted just before that frame; 0: before all traffic
    sge_count: int = 1


@dataclass
class _QueuePair:
    context: QpContext
    receives: list[Receive]
    spare: int  # receives that the ring has room for beyond those posted
    completions: int


class HostSetup:
    """Collects regions and queue pairs; `finish` writes them all."""

    def __init__(self, entry_bytes: int = 256) -> None:
        self.entry_bytes = entry_bytes
        self.memory = HostMemory()
        self.posts: list[Post] = []  # receives posted later, filled in by `finish`
        self._regions: dict[int, MemoryRegion] = {}  # by MPT index
        self._qps: dict[int, _QueuePair] = {}
        self._taken: list[tuple[int, int]] = []  # [start, end)
        self._next = FIRST_FREE

    def add_region(self, key: int, va: int, length: int, access: MrAccess,
                   base: int | None = None, pd: int = PD, kind: Kind = Kind.REGION,
                   qpn: int = 0) -> bool:
        """A region at bus address `base` (default `va`); False when its MPT entry is taken."""
        index = key >> 8
        if index in self._regions:
            return False
        base = va if base is None else base
        self._regions[index] = MemoryRegion(key=key, pd=pd, access=access, state=1, va=va,
                                            length=length, base=base, kind=kind, qpn=qpn)
        self._taken.append((base, base + length))
        return True

    def free_key(self) -> int:
        """A key whose MPT entry is free."""
        index = 1
        while index in self._regions:
            index += 1
        return index << 8

    def allocate(self, length: int, align: int = PAGE) -> int:
        """Bus addresses that nothing else has."""
        start = -(-self._next // align) * align
        clash = True
        while clash:
            clash = False
            for low, high in self._taken:
                if start < high and low < start + length:
                    start, clash = -(-high // align) * align, True
        self._next = start + length
        self._taken.append((start, start + length))
        return start

    def add_qp(self, qpn: int, context: QpContext, receives: list[Receive],
               completions: int | None = None, spare: int = 0) -> None:
        """`completions` is what its completion queue must hold (default: all and one more)."""
        room = len(receives) + 1 if completions is None else completions
        self._qps[qpn] = _QueuePair(context, receives, spare, room)

    def contexts(self) -> Iterator[tuple[int, QpContext]]:
        """Each queue pair's number and context."""
        return ((qpn, qp.context) for qpn, qp in self._qps.items())

    def finish(self) -> Settings:
        """Write everything; the caller goes on with `memory` and `posts`."""
        settings = Settings(
            qpc=self._table(max(self._qps, default=0) + 1, self.entry_bytes),
            mpt=self._table(max(self._regions, default=0) + 1, MemoryRegion.SIZE),
            cqc=self._table(len(self._qps), CompletionQueue.SIZE))
        for index, region in self._regions.items():
            self.memory.write(settings.mpt.base + index * region.SIZE, bytes(region))
        for cqn, (qpn, qp) in enumerate(sorted(self._qps.items())):
            self._write_completion_queue(settings.cqc.base + cqn * CompletionQueue.SIZE, qp)
            self._write_receive_queue(qpn, qp)
            results = SavedAtomic.SIZE * qp.context.max_dest_rd_atomic
            qp.context.atomic_base = self.allocate(results) if results else 0
            qp.context.recv_cqn = cqn
            slot = bytes(qp.context).ljust(self.entry_bytes, b"\0")
            self.memory.write(settings.qpc.base + qpn * self.entry_bytes, slot)
        self.posts.sort()
        return settings

    def _table(self, entries: int, entry_bytes: int) -> Table:
        log_entries = log2_up(entries)
        return Table(base=self.allocate(entry_bytes << log_entries), log_entries=log_entries)

    def _write_completion_queue(self, address: int, qp: _QueuePair) -> None:
        log_size = log2_up(qp.completions)
        base = self.allocate(64 << log_size)
        self.memory.write(address, bytes(CompletionQueue(base=base, log_size=log_size)))

    def _write_receive_queue(self, qpn: int, qp: _QueuePair) -> None:
        context = qp.context
        context.rq_log_size = log2_up(len(qp.receives) + qp.spare)
        context.rq_base = self.allocate(ReceiveWqe.SIZE << context.rq_log_size)
        first = context.rq_consume
        for index in range(first, first + (1 << context.rq_log_size)):
            slot = index % (1 << context.rq_log_size)
            address = context.rq_base + ReceiveWqe.SIZE * slot
            owner = owner_bit(index, context.rq_log_size)
            receive = qp.receives[index - first] if index - first < len(qp.receives) else None
            if receive is None or receive.before_frame:
                self.memory.write(address, bytes(ReceiveWqe(owner=1 - owner)))
            if receive is None:
                continue
            wqe = bytes(ReceiveWqe(owner=owner, sge_count=receive.sge_count, wr_id=receive.wr_id,
                                   va=receive.va, length=receive.length, lkey=receive.lkey))
            if receive.before_frame:
                self.posts.append(Post(receive.before_frame, qpn, address, wqe))
            else:
                self.memory.write(address, wqe)


def log2_up(count: int) -> int:
    """log2 of the smallest power of two that holds `count`."""
    return max(count - 1, 0).bit_length()
