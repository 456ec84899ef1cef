"""Faults of the host with traffic on every port: who is hit gets the error, nobody else."""

import random
from typing import Any

import cocotb

from tb.build import read_job, write_result
from tb.dma_tb import (
    OK,
    POISONED,
    REFUSED,
    REGION,
    SOURCE,
    TIMEOUT,
    Bench,
    Job,
    random_length,
    read_jobs,
    write_jobs,
)
from tb.host import Completion, Request

HIT = SOURCE + (1 << 18)  # reads of this block are the ones that may fail
STATUS = {"ur": REFUSED, "ca": REFUSED, "crs": REFUSED, "drop": TIMEOUT, "late": TIMEOUT}


def _forge(index: int, **fields: Any):
    return lambda answer: [c.changed(**fields) if i == index % len(answer) else c
                           for i, c in enumerate(answer)]


def _short(answer: list[Completion]) -> list[Completion]:
    """The last completion says one DW more than it has."""
    return [*answer[:-1], answer[-1].changed(length=answer[-1].length - 1)]


FORGERIES = {
    "byte_count_low": _forge(0, byte_count=64),
    "byte_count_high": _forge(-1, byte_count=4096),
    "lower_address": _forge(-1, lower_address=0x44),
    "beats": _short,
}


class Late:
    """Holds completions back for `wait` cycles."""

    def __init__(self, bench: Bench, wait: int):
        self.bench, self.wait = bench, wait
        self.cycle = 0
        self.held: list[tuple[int, list[Completion]]] = []

    def hold(self, answer: list[Completion]) -> list[Completion]:
        self.held.append((self.cycle + self.wait, answer))
        return []

    def drive(self) -> None:
        while self.held and self.held[0][0] <= self.cycle:
            self.bench.host.send(*self.held.pop(0)[1])

    def sample(self, cycle: int) -> None:
        self.cycle = cycle


def hit_some(jobs: list[Job], rng: random.Random, status: int) -> None:
    """Three in ten become reads of one TLP in the block that is hit."""
    for read in jobs:
        if rng.random() < 0.3:
            read.address = HIT + rng.randrange(0, 16) * 256
            read.length, read.allowed = 256, (OK, status)


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def faults(dut):
    """`kind` is a fault of the host agent, "late", "unknown" or one of `FORGERIES`."""
    job = read_job()
    kind = job["kind"]
    bench = Bench(dut, job)
    rng, timeout = bench.rng, bench.config.dma.timeout_cycles
    bench.fill(SOURCE, (1 << 16) + 16384)
    bench.fill(HIT, 1 << 14)
    status = STATUS.get(kind, POISONED)
    late = Late(bench, timeout + timeout // 4)
    struck: list[Request] = []
    strikes = {**FORGERIES, "late": late.hold}

    def strike(request: Request) -> Any:
        if request.address < HIT or rng.random() < 0.5 or kind == "unknown":
            return None
        struck.append(request)
        if kind == "drop":
            bench.host.forget(request.tag)  # nothing will come: the tag is the NIC's again
        return strikes.get(kind, kind)

    for i in range(job["writers"]):
        bench.add_writer(write_jobs(bench, i, job["count"], 2000))
    for i in range(job["readers"]):
        jobs = read_jobs(bench, job["count"], 1500, bench.ordered[i])
        hit_some(jobs, rng, status)
        bench.add_reader(jobs)
    host = await bench.start(latency=(10, 200), out_of_order=True, split=False, faults=strike)
    if kind == "late":
        bench.more_agents.append(late)
    if kind == "unknown":
        for tag in (bench.config.dma.tags, 1023):
            host.send(Completion(tag, bench.requester, 0, 4, 0, 0, 1, b"evil"))
        host.send(Completion(0, bench.requester ^ 1, 0, 4, 0, 0, 1, b"evil"))
    result = bench.result(await bench.finish(quiet=3 * timeout))
    _account(kind, status, struck, result, bench)
    write_result(result)


def _account(kind: str, status: int, struck: list[Request], result: dict[str, Any],
             bench: Bench) -> None:
    """Each strike was answered with its error once, and counted."""
    counters = result["counters"]
    failed = [sum(column) for column in zip(*result["statuses"], strict=True)]
    if kind == "unknown":
        assert counters["unexpected"] == 3
        assert failed[OK] == sum(failed)
        return
    names = ("ok", "refused", "poisoned", "timeout")
    hit = [reader for reader in result["statuses"] if reader[status]]
    assert len(hit) == len(result["statuses"]), "not every reader was hit"
    assert failed[status] == len(struck) == sum(failed) - failed[OK], (failed, len(struck))
    # a completion that goes on after a bad one may be bad again
    assert counters[names[status]] >= len(struck)
    # where DWs are missing at the end, the read is bad, and given up when its time is over
    mine = {names[status], "timeout"} if kind == "beats" else {names[status]}
    others = [name for name in names[1:] if name not in mine]
    assert not any(counters[name] for name in others), counters
    pieces = sum(-(-request.bytes // bench.config.dma.mps) for request in struck)
    assert counters["unexpected"] == (pieces if kind == "late" else 0), counters


class BusMaster:
    """Takes bus mastering away now and then; no TLP may appear meanwhile."""

    def __init__(self, bench: Bench):
        self.bench, self.rng = bench, bench.rng
        self.allowed = True
        self.inside = self.shown = False  # a TLP is under way; its beat was shown before
        dut = bench.dut
        self._valid, self._ready, self._payload = dut.rq__valid, dut.rq__ready, dut.rq__payload
        self._last = bench.host._fields.last

    def drive(self) -> None:
        if self.rng.random() < (0.004 if self.allowed else 0.02):
            self.allowed = not self.allowed
            self.bench.dut.bus_master.value = int(self.allowed)

    def sample(self, cycle: int) -> None:
        valid = self._valid.value == 1
        if valid and not self.allowed:
            assert self.inside or self.shown, "a TLP starts without bus mastering"
        moved = valid and self._ready.value == 1
        self.shown = valid and not moved
        if moved:
            self.inside = not self._payload.value.to_unsigned() >> self._last & 1


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def bus_master(dut):
    """Requests end REFUSED while the host forbids bus mastering, and work again afterwards."""
    job = read_job()
    bench = Bench(dut, job)
    rng = bench.rng
    bench.fill(SOURCE, (1 << 16) + 16384)
    for i in range(job["writers"]):
        jobs = []
        for n in range(job["count"]):  # places of their own, so that each can be judged alone
            length = random_length(rng, 2000)
            jobs.append(Job((i + 1) * REGION + n * 4096 + rng.randrange(2000), length, n % 1024,
                            rng.randbytes(length), (OK, REFUSED)))
        bench.add_writer(jobs)
    for i in range(job["readers"]):
        jobs = read_jobs(bench, job["count"], 1500, bench.ordered[i])
        for read in jobs:
            read.allowed = (OK, REFUSED)
        bench.add_reader(jobs)
    await bench.start(latency=(10, 200), out_of_order=True, split=True, stalls=0.2)
    bench.more_agents.append(BusMaster(bench))
    result = bench.result(await bench.finish(quiet=100))
    counters = result["counters"]
    met = [client.statuses for client in bench.writers] \
        + [client.statuses for client in bench.readers]
    assert all(each[OK] and each[REFUSED] for each in met), "each must meet both"
    assert counters["blocked"] > 0
    assert counters["refused"] > 0
    assert not counters["timeout"] and not counters["unexpected"] and not counters["poisoned"]
    write_result(result)
