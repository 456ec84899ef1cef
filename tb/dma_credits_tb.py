"""The DMA engine on a link that grants few credits; the attributes of its TLPs."""

from collections import deque
from typing import Any

import cocotb

from rtl.dma.arbiter import Credits
from tb.bits import pack
from tb.build import read_job, write_result
from tb.dma_tb import REGION, SOURCE, Bench, page_jobs
from tb.host import Request

SIZES = {"posted_header": 12, "posted_data": 16, "nonposted_header": 12}  # bits, PCIe 2.6.1


class Receiver:
    """The link's receiver: grants `start` credits, and each used one again after a while.

    Every second of its cycles of thirst it returns nothing for a long time, so credits run dry.
    """

    def __init__(self, bench: Bench, start: dict[str, int]):
        self.bench, self.rng = bench, bench.rng
        self.limit, self.used = dict(start), dict.fromkeys(start, 0)
        self.due: deque[tuple[int, dict[str, int]]] = deque()
        self.dry = dict.fromkeys(start, 0)  # TLPs after which none was left
        self.cycle = 0
        self.seen: list[Request] = []

    def fields(self) -> dict[str, int]:
        return {"infinite": 0, **{name: value & ((1 << SIZES[name]) - 1)
                                  for name, value in self.limit.items()}}

    def drive(self) -> None:
        changed = False
        while self.due and self.due[0][0] <= self.cycle:
            for name, count in self.due.popleft()[1].items():
                self.limit[name] += count
                changed = True
        if changed:
            self.bench.dut.credits.value = pack(Credits, self.fields())

    def sample(self, cycle: int) -> None:
        self.cycle = cycle
        requests = self.bench.host.requests
        while requests:
            self._take(requests.popleft())

    def _take(self, request: Request) -> None:
        self.seen.append(request)
        need = {"posted_header": 1, "posted_data": -(-request.length // 4)} if request.write \
            else {"nonposted_header": 1}
        for name, count in need.items():
            self.used[name] += count
            assert self.used[name] <= self.limit[name], f"{name}: more than granted"
            self.dry[name] += self.used[name] == self.limit[name]
        wait = self.rng.choice((5, 20, 20, 300))
        last = self.due[-1][0] if self.due else 0
        self.due.append((max(self.cycle + wait, last), need))


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def credits(dut):
    """Random requests; no TLP goes without credits, all go in the end, with their attributes."""
    job = read_job()
    bench = Bench(dut, job)
    pages: dict[int, int] = {}
    for i in range(job["readers"]):
        bench.fill(SOURCE + i * REGION, job["count"] * 4096)
    for i in range(job["writers"]):
        jobs = page_jobs(bench, (i + 1) * REGION, job["count"], write=True)
        pages |= {write.address // 4096: write.attributes for write in jobs}
        bench.add_writer(jobs)
    for i in range(job["readers"]):
        jobs = page_jobs(bench, SOURCE + i * REGION, job["count"], write=False)
        for read in jobs:  # within one TLP, as readers that are not ordered must be
            read.length = min(read.length, bench.config.dma.mrrs - (read.address & 3))
        pages |= {read.address // 4096: read.attributes for read in jobs}
        bench.add_reader(jobs)
    start: dict[str, Any] = {"posted_header": 3, "posted_data": bench.config.dma.mps // 16 + 3,
                             "nonposted_header": 2}
    receiver = Receiver(bench, start)
    bench.credits = receiver.fields()
    host = await bench.start(latency=(10, 100), out_of_order=True, split=True)
    host.requests = deque()
    bench.more_agents.append(receiver)
    result = bench.result(await bench.finish())
    for request in receiver.seen:
        assert request.attributes == pages[request.address // 4096]
    assert all(receiver.dry.values()), f"credits never ran out: {receiver.dry}"
    write_result({**result, "dry": receiver.dry})
