"""Bench of the context cache: random traffic against the judge, and the directed races."""

import cocotb
from cocotb.clock import Clock

from rtl.context.interface import Operation
from sim.timing.traffic import outside_key, some_keys
from tb.build import read_job, write_result
from tb.context_cache_agents import Bench, Request


async def start(dut):
    job = read_job()
    Clock(dut.clk, 10, unit="ns").start(start_high=False)
    bench = Bench(dut, job, cocotb.RANDOM_SEED)
    await bench.reset()
    return bench, job


async def finish(bench):
    """Flush everything; the host must then have the last version of each entry."""
    for port in bench.ports:
        port.next_request = lambda: None
    await bench.settle()
    bench.host.fail = 0
    await bench.call(0, Operation.FLUSH_ALL, 0)
    await bench.settle()
    bench.judge.same()
    counters = bench.counters()
    host = bench.host
    assert counters["hits"] + counters["misses"] + counters["merged"] == counters["lookups"]
    assert counters["misses"] + counters["prefetches"] + counters["refetches"] == (
        counters["fills"] + counters["fetch_errors"])
    assert (counters["uncorrectable"] == 0) or bench.judge.upsets
    if not bench.judge.upsets:
        assert counters["fills"] == host.count["fills"] + counters["forwards"]
        assert counters["fetch_errors"] == host.count["failed"] + host.count["lost"]
    assert counters["prefetches"] == sum(
        counters[f"prefetches_{fate}"] for fate in ("useful", "late", "useless"))
    assert counters["timeouts"] == host.count["lost"]
    assert counters["writebacks"] == host.count["writebacks"]
    assert counters["outstanding_max"] == host.peak or host.count["lost"]
    assert counters["bad_keys"] == bench.judge.answers["BAD_KEY"]
    assert counters["stray_answers"] == counters["writeback_errors"] == 0
    return counters


def random_client(port, rng, keys, entries, weights):
    """Requests over few keys; a client never locks an entry it has locked already."""
    ops = list(weights)

    def next_request():
        op = rng.choices(ops, weights.values())[0]
        key = rng.choice(keys)
        if rng.random() < 0.02:
            key = outside_key(rng, entries)
        if op == Operation.ACQUIRE and rng.random() < 0.3:
            key = keys[0]
        return Request(op, key)

    port.next_request = next_request


WEIGHTS = {Operation.LOOKUP: 40, Operation.ACQUIRE: 40, Operation.PREFETCH: 8,
           Operation.FLUSH: 5, Operation.INVALIDATE: 5, Operation.FLUSH_ALL: 0.3}


async def traffic(bench, job):
    """Every operation over few keys, with and without pauses; then `finish`."""
    rng = bench.rng
    entries = 1 << bench.log_entries
    keys = some_keys(rng, entries, min(job.get("keys", 8), entries))
    host = bench.host
    host.fail = job.get("fail", 0.1)
    host.lose, host.timeout = job.get("lose", 0), job.get("timeout", 0)
    host.latency = lambda: rng.randrange(2, 60)
    host.write_latency = lambda: rng.randrange(0, 40)
    for port in bench.ports:
        port.window = 8  # no more than the retry queue holds while locks are held
        port.hold = lambda: rng.choice((0, 0, 1, 5, 30))
        random_client(port, rng, keys, entries, WEIGHTS)
    for idle, stall in ((0, 0), (0.6, 0), (0, 0.6), (0.5, 0.5)):
        for agent in (*bench.ports, host):
            agent.idle, agent.stall = idle, stall
        await bench.cycles(job.get("cycles", 1500))
    failed = host.fail
    counters = await finish(bench)
    assert bench.judge.answers["FETCH_FAILED"] > 0 or not failed
    return counters


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def random_traffic(dut):
    bench, job = await start(dut)
    counters = await traffic(bench, job)
    write_result({"counters": counters, "cycles": bench.now, "peak": bench.host.peak,
                  "answers": bench.judge.answers})
