"""The model's way to the structures in host memory: contexts, keys, receive WQEs, completions."""

from sim.golden.layout import (
    Completion,
    CompletionQueue,
    Kind,
    MemoryRegion,
    MrAccess,
    QpContext,
    ReceiveWqe,
    SavedAtomic,
    Settings,
    owner_bit,
)
from sim.golden.memory import ADDRESS_SPACE, HostMemory

WORD = 1 << 32


class Tables:
    def __init__(self, memory: HostMemory, settings: Settings, entry_bytes: int) -> None:
        self.memory = memory
        self.settings = settings
        self.entry_bytes = entry_bytes  # of a QPC slot; the other tables have 64-byte slots

    def context(self, qpn: int) -> QpContext | None:
        """The context with the reserved bytes of its whole slot; None outside the table."""
        address = self.settings.qpc.address(qpn, self.entry_bytes)
        return None if address is None else QpContext(self.memory.read(address, self.entry_bytes))

    def store_context(self, qpn: int, context: QpContext) -> None:
        address = self.settings.qpc.address(qpn, self.entry_bytes)
        assert address is not None
        self.memory.write(address, bytes(context))

    def translate(self, key: int, qpn: int, pd: int, right: MrAccess, va: int, length: int,
                  ) -> int | None:
        """Bus address of `length` > 0 bytes at `va` under `key`, or None when refused."""
        region = self._region(key, qpn, pd)
        if region is None:
            return None
        end = min(region.va + region.length, ADDRESS_SPACE)
        granted = region.access & right and region.va <= va and va + length <= end
        return (region.base + va - region.va) % ADDRESS_SPACE if granted else None

    def invalidate(self, key: int, qpn: int, pd: int) -> bool:
        """Whether a SEND may end the region or window of this key; if so it is done."""
        region = self._region(key, qpn, pd)
        if region is None or region.kind == Kind.REGION:
            return False
        region.state = 0
        address = self.settings.mpt.address(key >> 8, MemoryRegion.SIZE)
        assert address is not None
        self.memory.write(address, bytes(region))
        return True

    def _region(self, key: int, qpn: int, pd: int) -> MemoryRegion | None:
        """What the key stands for, if a QP of that protection domain may use it."""
        address = self.settings.mpt.address(key >> 8, MemoryRegion.SIZE)
        if address is None:
            return None
        region = MemoryRegion(self.memory.read(address, MemoryRegion.SIZE))
        bound = region.kind != Kind.WINDOW or region.qpn == qpn
        return region if region.state == 1 and region.key == key and region.pd == pd and bound \
            else None

    def receive_wqe(self, context: QpContext) -> ReceiveWqe | None:
        """The next WQE of the receive queue, or None when the host has not posted it."""
        index = context.rq_consume
        slot = index % (1 << context.rq_log_size)
        wqe = ReceiveWqe(self.memory.read(context.rq_base + ReceiveWqe.SIZE * slot,
                                          ReceiveWqe.SIZE))
        return wqe if wqe.owner & 1 == owner_bit(index, context.rq_log_size) else None

    def save_atomic(self, context: QpContext, psn: int, original: int) -> None:
        """Into the next place of the QP's ring of results."""
        saved = SavedAtomic(psn=psn, valid=1, original=original)
        self.memory.write(context.atomic_base + SavedAtomic.SIZE * context.r_atomic, bytes(saved))
        after = context.r_atomic + 1
        context.r_atomic = 0 if after == context.max_dest_rd_atomic else after

    def saved_atomic(self, context: QpContext, psn: int) -> int | None:
        """The original value that the atomic of this PSN found, if it is still kept."""
        for place in range(context.max_dest_rd_atomic):
            saved = SavedAtomic(self.memory.read(context.atomic_base + SavedAtomic.SIZE * place,
                                                 SavedAtomic.SIZE))
            if saved.valid & 1 and saved.psn == psn:
                original: int = saved.original
                return original
        return None

    def complete(self, cqn: int, completion: Completion) -> bytes | None:
        """Append to the completion queue; None when there is no such queue."""
        address = self.settings.cqc.address(cqn, CompletionQueue.SIZE)
        if address is None:
            return None
        queue = CompletionQueue(self.memory.read(address, CompletionQueue.SIZE))
        index = queue.produce
        completion.owner = owner_bit(index, queue.log_size)
        slot = index % (1 << queue.log_size)
        self.memory.write(queue.base + Completion.SIZE * slot, bytes(completion))
        queue.produce = (index + 1) % WORD
        self.memory.write(address, bytes(queue))
        return bytes(completion)
