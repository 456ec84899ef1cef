"""Memory that the responder is not judged by: what others write, or what differs by right."""

from collections.abc import Iterator
from typing import NamedTuple

from sim.golden.layout import QpContext, ReceiveWqe
from sim.golden.memory import HostMemory
from sim.golden.request import ATOMIC_BYTES
from sim.wire.codec import parse
from sim.workload.scenario import Range, Scenario


class Fork(NamedTuple):
    """From this frame on the QP of the capture's host and ours have parted by right."""

    qpn: int
    frame_number: int
    context: QpContext  # before that frame


def after_fork(scenario: Scenario, fork: Fork) -> Iterator[Range]:
    """All that this QP's requests from the fork on may write."""
    for frame in scenario.frames:
        if frame.number < fork.frame_number:
            continue
        report = parse(frame.data)
        if (report.get("bth") or {}).get("dqpn") != fork.qpn:
            continue
        for name in ("reth", "atomiceth"):
            if name in report:
                start = report[name]["va"]
                yield Range(start, start + report[name].get("length", ATOMIC_BYTES))
    yield from _buffers(scenario.memory, fork.context)
    for post in scenario.posts:
        if post.qpn == fork.qpn:
            yield _buffer(post.data)


def _buffers(memory: HostMemory, context: QpContext) -> Iterator[Range]:
    """Of the receive that may be in use, and of all behind it."""
    size = 1 << context.rq_log_size
    for index in range(context.rq_consume - 1, context.rq_consume + size):
        address = context.rq_base + ReceiveWqe.SIZE * (index % size)
        yield _buffer(memory.read(address, ReceiveWqe.SIZE))


def _buffer(raw: bytes) -> Range:
    wqe = ReceiveWqe(raw)
    return Range(wqe.va, wqe.va + wqe.length)


def without(data: bytes, start: int, ranges: list[Range]) -> bytes:
    """`data`, which lies at `start`, with the ranges blanked."""
    out = bytearray(data)
    for low, high in ranges:
        low, high = max(low - start, 0), min(high - start, len(out))
        if low < high:
            out[low:high] = bytes(high - low)
    return bytes(out)
