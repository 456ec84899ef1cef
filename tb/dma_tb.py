"""Bench of the DMA engine: random requests against a host; every byte of memory compared."""

import hashlib
import random
from collections import deque
from dataclasses import dataclass
from typing import Any

import cocotb
from cocotb.clock import Clock

from rtl.config import load, override
from rtl.dma import DmaCounters, Done, ReadBeat, ReadRequest, WriteRequest
from sim.golden.memory import HostMemory
from tb.bits import pack, unpack
from tb.build import read_job, write_result
from tb.host import HostAgent
from tb.pcie_host import PcieHost
from tb.ports import Sink, Source, beats, reset, run

OK, REFUSED, POISONED, TIMEOUT = range(4)
REQUESTER = 0x0107
REGION = 1 << 22  # bytes of host memory that one writer may touch
SOURCE = 1 << 40  # where the readers read


@dataclass
class Job:
    address: int
    length: int
    tag: int
    data: bytes = b""  # written, or to be read
    allowed: tuple[int, ...] = (OK,)
    status: int | None = None  # of a write, once it is done


class Writer:
    """A client of write port `index`: offers requests and packets, checks `done`."""

    def __init__(self, bench: "Bench", index: int, jobs: list[Job], idle: float, stall: float):
        dut, rng, width = bench.dut, bench.rng, bench.width
        name = f"writer__{index}"
        self.bench, self.jobs = bench, jobs
        self.request = Source(dut, f"{name}__request", rng, idle)
        self.data = Source(dut, f"{name}__data", rng, idle)
        self.done = Sink(dut, f"{name}__done", rng, stall)
        self.agents = [self.request, self.data, self.done]
        self.bytes_due = 0
        for job in jobs:
            self.request.queue.append(pack(WriteRequest, {
                "address": job.address, "length": job.length, "tag": job.tag}))
            if job.data:
                self.data.queue.extend(beats(job.data, width, garbage=rng.getrandbits(width)))
        self.checked = 0
        self.written = 0
        self.statuses = [0, 0, 0, 0]

    def on_write(self, address: int, data: bytes, cycle: int) -> None:
        self.written += len(data)

    def check(self) -> None:
        """`done` comes in order, and not before the bytes are in memory."""
        while self.checked < len(self.done.items):
            fields = unpack(Done, self.done.items[self.checked][1])
            job = self.jobs[self.checked]
            assert fields["tag"] == job.tag, (fields, job.tag)
            assert fields["status"] in job.allowed, (fields, job.allowed)
            self.statuses[fields["status"]] += 1
            job.status = fields["status"]
            if job.status == OK:
                self.bytes_due += job.length
            assert self.written >= self.bytes_due, "done before the last byte was sent"
            self.checked += 1

    @property
    def finished(self) -> bool:
        return self.checked == len(self.jobs)


class Reader:
    """A client of read port `index`: offers requests, checks the answers."""

    def __init__(self, bench: "Bench", index: int, jobs: list[Job], ordered: bool, idle: float,
                 stall: float):
        dut, rng = bench.dut, bench.rng
        name = f"reader__{index}"
        self.jobs, self.ordered, self.width = jobs, ordered, bench.width
        self.layout = ReadBeat(bench.width)
        self.open: deque[Job] = deque(jobs)
        self.request = Source(dut, f"{name}__request", rng, idle)
        self.response = Sink(dut, f"{name}__response", rng, stall)
        self.agents = [self.request, self.response]
        for job in jobs:
            self.request.queue.append(pack(ReadRequest, {
                "address": job.address, "length": job.length, "tag": job.tag}))
        self.current = bytearray()
        self.checked = 0
        self.statuses = [0, 0, 0, 0]
        self.order: list[int] = []

    def check(self) -> None:
        size = self.width // 8
        for _, word in self.response.items[self.checked:]:
            self.checked += 1
            beat = unpack(self.layout, word)
            assert not (beat["empty"] and not beat["last"])
            if not beat["none"]:
                self.current += beat["data"].to_bytes(size, "little")[:size - beat["empty"]]
            else:
                assert beat["last"]
            if beat["last"]:
                self._finish(beat)

    def _finish(self, beat: dict[str, int]) -> None:
        job = self.open[0] if self.ordered else next(
            job for job in self.open if job.tag == beat["tag"])
        self.open.remove(job)
        assert beat["tag"] == job.tag
        assert beat["status"] in job.allowed, (beat["status"], job.allowed)
        assert beat["none"] == (beat["status"] != OK or job.length == 0)
        got = bytes(self.current)
        if beat["status"] == OK:
            assert got == job.data, f"read of {job.length} at {job.address:#x}"
        else:
            assert job.data.startswith(got)
        self.statuses[beat["status"]] += 1
        self.order.append(job.tag)
        self.current.clear()

    @property
    def finished(self) -> bool:
        return not self.open


class Bench:
    """The engine, its host, the golden memory."""

    def __init__(self, dut: Any, job: dict[str, Any]):
        self.dut, self.job = dut, job
        self.rng = random.Random(cocotb.RANDOM_SEED)
        self.config = override(load(job["preset"]), job.get("settings", []))
        self.width = self.config.data_width
        self.memory = HostMemory()
        self.expected = HostMemory()
        self.writers: list[Writer] = []
        self.readers: list[Reader] = []
        self.ordered = job["ordered"]
        self.requester = REQUESTER
        self.more_agents: list[Any] = []
        self.regions: list[tuple[int, int]] = []  # compared between hosts

    async def start(self, **options: Any) -> HostAgent:
        Clock(self.dut.clk, 10, unit="ns").start(start_high=False)
        kind = PcieHost if self.job.get("host") == "pcie" else HostAgent
        self.host = kind(self.dut, self.memory, limits=self.config.dma, width=self.width,
                         rng=self.rng, **options)
        if isinstance(self.host, PcieHost):
            await self.host.start()
            self.requester = self.host.requester_id
        self.dut.requester_id.value = self.requester
        self.dut.bus_master.value = 1
        if self.writers:
            self.host.on_write.append(self._route)
        await reset(self.dut)
        return self.host

    def _route(self, address: int, data: bytes, cycle: int) -> None:
        index = address // REGION - 1
        assert 0 <= index < len(self.writers), f"write outside every region: {address:#x}"
        self.writers[index].on_write(address, data, cycle)

    def fill(self, address: int, length: int) -> None:
        data = self.rng.randbytes(length)
        self.memory.write(address, data)
        self.expected.write(address, data)
        self.regions.append((address, length))

    def add_writer(self, jobs: list[Job], idle: float = 0.0, stall: float = 0.0) -> Writer:
        if not self.writers:
            self.before = self.expected.copy()
        for job in jobs:
            self.expected.write(job.address, job.data)
        self.regions.append(((len(self.writers) + 1) * REGION, REGION))
        writer = Writer(self, len(self.writers), jobs, idle, stall)
        self.writers.append(writer)
        return writer

    def add_reader(self, jobs: list[Job], idle: float = 0.0, stall: float = 0.0) -> Reader:
        for job in jobs:
            job.data = self.expected.read(job.address, job.length)
        reader = Reader(self, len(self.readers), jobs, bool(self.ordered[len(self.readers)]),
                        idle, stall)
        self.readers.append(reader)
        return reader

    async def finish(self, limit: int = 200_000, quiet: int = 20) -> int:
        clients: list[Writer | Reader] = [*self.writers, *self.readers]

        def done() -> bool:
            for client in clients:
                client.check()
            return all(client.finished for client in clients) and self.host.idle

        agents = [self.host] + [agent for client in clients for agent in client.agents]
        cycles = await run(self.dut, agents + self.more_agents, done, limit, quiet)
        assert not self.host.violations, self.host.violations[:5]
        assert self.counters()["tags_used"] == 0, "a tag is not free at the end"
        for writer in self.writers:
            for job in writer.jobs:
                if job.status != OK:  # what a refused write has sent is up to it
                    self._settle(job)
        wrong = self.memory.differences(self.expected)
        assert not wrong, f"{len(wrong)} bytes differ, first at {wrong[0]:#x}"
        return cycles

    def _settle(self, job: Job) -> None:
        """Each byte of a refused write is the old one or the new one."""
        got = self.memory.read(job.address, job.length)
        old = self.before.read(job.address, job.length)
        assert all(g in pair for g, *pair in zip(got, old, job.data, strict=True))
        self.expected.write(job.address, got)

    def counters(self) -> dict[str, int]:
        return unpack(DmaCounters, self.dut.counters.value.to_unsigned())

    def result(self, cycles: int) -> dict[str, Any]:
        host = self.host
        digest = hashlib.sha256(b"".join(
            self.memory.read(base, size) for base, size in self.regions)).hexdigest()
        return {"cycles": cycles, "memory": digest,
                "read_tlps": host.read_tlps, "write_tlps": host.write_tlps,
                "read_bytes": host.read_bytes, "write_bytes": host.write_bytes,
                "rq_beats": host.rq_beats, "rc_beats": host.rc_beats,
                "counters": self.counters(),
                "statuses": [reader.statuses for reader in self.readers]}


def random_length(rng: random.Random, longest: int) -> int:
    kind = rng.random()
    if kind < 0.05:
        return 0
    if kind < 0.35:
        return rng.randint(1, 16)
    if kind < 0.6:
        return rng.randint(1, 300)
    if kind < 0.8:
        return max(1, min(longest, rng.choice((64, 128, 256, 512, 1024, 4096, 8192))
                          + rng.randint(-3, 3)))
    return rng.randint(1, longest)


def random_address(rng: random.Random, base: int, room: int) -> int:
    """Anywhere, or just below a 4 KB boundary, or aligned."""
    kind = rng.random()
    if kind < 0.3:
        return base + rng.randrange(room)
    if kind < 0.6:
        return base + rng.randrange(0, room // 4096) * 4096 + 4096 - rng.randint(0, 130)
    return base + rng.randrange(room // 64) * 64 + rng.choice((0, 0, 0, 1, 2, 3, 4))


def write_jobs(bench: Bench, index: int, count: int, longest: int) -> list[Job]:
    rng = bench.rng
    base = (index + 1) * REGION
    jobs = []
    for i in range(count):
        length = random_length(rng, longest)
        address = random_address(rng, base, REGION // 8)
        jobs.append(Job(address, length, i % 1024, rng.randbytes(length)))
    return jobs


def read_jobs(bench: Bench, count: int, longest: int, ordered: bool) -> list[Job]:
    """Requests of an ordered reader are any; else they fit one TLP and have tags of their own."""
    rng = bench.rng
    mrrs = bench.config.dma.mrrs
    jobs = []
    for i in range(count):
        address = random_address(rng, SOURCE, 1 << 16)
        length = random_length(rng, longest)
        if not ordered:
            length = min(length, mrrs - (address & 3), 4096 - address % 4096)
        jobs.append(Job(address, length, i % 1024))
    return jobs


@cocotb.test(timeout_time=2000, timeout_unit="ms")
async def random_traffic(dut):
    """Random requests on every port at once; the memory is right, and every answer."""
    job = read_job()
    bench = Bench(dut, job)
    bench.fill(SOURCE, (1 << 16) + 16384)
    idle, stall = job.get("idle", 0.0), job.get("stall", 0.0)
    for i in range(job["writers"]):
        jobs = write_jobs(bench, i, job["count"], job.get("longest", 10240))
        bench.add_writer(jobs, idle, stall)
    for i in range(job["readers"]):
        jobs = read_jobs(bench, job["count"], job.get("longest", 10240), bench.ordered[i])
        bench.add_reader(jobs, idle, stall)
    await bench.start(latency=tuple(job.get("latency", (1, 300))),
                      out_of_order=job.get("out_of_order", True), split=job.get("split", True),
                      stalls=stall)
    cycles = await bench.finish(limit=20_000_000)
    result = bench.result(cycles)
    counters = result["counters"]
    for name in ("read_tlps", "write_tlps", "read_bytes", "write_bytes"):
        assert counters[name] == result[name], name
    for name in ("unexpected", "refused", "poisoned", "timeout"):
        assert counters[name] == 0, name
    write_result(result)


@cocotb.test(timeout_time=200, timeout_unit="ms")
async def places(dut):
    """Writes and reads at chosen places: `places` of the job are (offset, length).

    Each goes to a page pair of its own (of a few, so earlier bytes must survive), the reads after.
    """
    job = read_job()
    bench = Bench(dut, job)
    spots = job["places"]
    pages = 16
    bench.fill(REGION, (pages + 1) * 8192)
    bench.fill(SOURCE, (pages + 1) * 8192)

    def jobs(base: int) -> list[Job]:
        return [Job(base + i % pages * 8192 + offset, length, i % 1024)
                for i, (offset, length) in enumerate(spots)]

    writes = jobs(REGION)
    for write in writes:
        write.data = bench.rng.randbytes(write.length)
    bench.add_writer(writes)
    bench.add_reader(jobs(SOURCE))
    await bench.start(latency=(1, 60), out_of_order=True, split=True)
    write_result(bench.result(await bench.finish(limit=4_000_000)))
