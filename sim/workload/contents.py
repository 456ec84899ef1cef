"""What host memory held before the traffic, as far as READs and atomics of the capture show it."""

from collections import defaultdict

from sim.golden.answer import PSN_SPACE
from sim.golden.memory import PAGE, HostMemory
from sim.golden.request import ATOMIC_BYTES
from sim.wire import opcodes
from sim.workload.traffic import Seen

WRITES = range(opcodes.WRITE_FIRST, opcodes.WRITE_ONLY_IMM + 1)


class Contents:
    """Fills `memory` with the first value seen of each byte that nothing had written before.

    Keys are mapped to bus addresses equal to the virtual ones (sim/workload/ranges.py).
    """

    def __init__(self, memory: HostMemory) -> None:
        self.memory = memory
        self.bytes = 0  # found
        self._touched: dict[int, bytearray] = defaultdict(lambda: bytearray(PAGE))
        self._next: dict[int, int] = {}  # QPN: address of the next WRITE packet

    def add(self, requests: dict[int, list[Seen]], answers: dict[int, list[Seen]],
            mtus: dict[int, int]) -> None:
        """`requests` and the answers to them, by our QPN; in the order of the requests."""
        by_psn = {qpn: {seen.psn: seen for seen in reversed(held)} for qpn, held in answers.items()}
        for seen in sorted((seen for qpn in mtus for seen in requests[qpn]),
                           key=lambda seen: seen.number):
            self._add(seen, by_psn.get(seen.dqpn, {}), mtus[seen.dqpn])

    def _add(self, seen: Seen, answers: dict[int, Seen], mtu: int) -> None:
        report = seen.report
        if seen.opcode in WRITES:
            start = report["reth"]["va"] if "reth" in report else self._next.get(seen.dqpn)
            if start is not None:
                self._touch(start, len(report["payload"]))
                self._next[seen.dqpn] = start + len(report["payload"])
        elif seen.opcode == opcodes.READ_REQUEST:
            reth = report["reth"]
            for index in range(-(-reth["length"] // mtu)):
                answer = answers.get((seen.psn + index) % PSN_SPACE)
                if answer is None or answer.opcode not in opcodes.RESPONSES:
                    break
                self._show(reth["va"] + index * mtu, answer.report["payload"])
        elif "atomiceth" in report:
            answer = answers.get(seen.psn)
            if answer is not None and "atomicacketh" in answer.report:
                original = answer.report["atomicacketh"]["original"]
                self._show(report["atomiceth"]["va"], original.to_bytes(ATOMIC_BYTES, "little"))

    def _show(self, start: int, data: bytes) -> None:
        for offset, value in enumerate(data):
            page, place = divmod(start + offset, PAGE)
            if not self._touched[page][place]:
                self.memory.write(start + offset, bytes([value]))
                self.bytes += 1
        self._touch(start, len(data))

    def _touch(self, start: int, length: int) -> None:
        while length > 0:
            page, place = divmod(start, PAGE)
            size = min(length, PAGE - place)
            self._touched[page][place:place + size] = b"\1" * size
            start, length = start + size, length - size
