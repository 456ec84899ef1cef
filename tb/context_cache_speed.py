"""Throughput of the context cache: what the benchmark asks for, measured at its ports."""

import itertools

import cocotb

from rtl.context.interface import Operation
from tb.build import write_result
from tb.context_cache_agents import Request
from tb.context_cache_tb import finish, start

CLIENTS = 2


def offer(port, keys, op=Operation.LOOKUP):
    port.next_request = lambda: Request(op, next(keys))


def answered(bench):
    return sum(len(port.done) for port in bench.ports)


async def rate(bench, warm, cycles):
    """Answers a cycle in the steady state."""
    await bench.cycles(warm)
    before = answered(bench)
    await bench.cycles(cycles)
    return (answered(bench) - before) / cycles


@cocotb.test(timeout_time=200, timeout_unit="ms")
async def misses(dut):
    """Every lookup of all ports misses; the host answers after exactly `latency` cycles."""
    bench, job = await start(dut)
    bench.shuffle, bench.watch = False, None
    latency = job["latency"]
    bench.host.latency = lambda: latency
    keys = itertools.count()
    for port in bench.ports:
        port.window = 256
        offer(port, keys)
    # The bound counts from the cycle a fetch is taken to the cycle of its answer. Answers come in
    # bursts of up to M every L cycles, so whole bursts are measured.
    await bench.cycles(2 * latency + 300)
    for port in bench.ports:
        port.done.clear()
    await bench.cycles(max(3000, 6 * latency))
    times = sorted(request.answered for port in bench.ports for request in port.done)
    count = (len(times) - 1) // job["misses"] * job["misses"]
    write_result({"rate": count / (times[count] - times[0]), "peak": bench.host.peak})


@cocotb.test(timeout_time=200, timeout_unit="ms")
async def hits(dut):
    """One port's hits, first alone, then with every miss outstanding and none coming back."""
    bench, job = await start(dut)
    one, other = bench.ports[:2]
    keys = [2 * i for i in range(8)]
    for key in keys:
        await bench.call(0, Operation.LOOKUP, key)
    one.window = 16
    await bench.settle()
    one.done.clear()
    offer(one, itertools.cycle(keys))
    alone = await rate(bench, 50, 1000)
    latency = max(r.answered - r.sent for r in one.done)
    bench.host.hold_fetch = True
    other.script.extend(Request(Operation.LOOKUP, 1000 + i) for i in range(job["misses"]))
    while bench.host.peak < job["misses"]:
        await bench.cycle()
    loaded = await rate(bench, 50, 1000)
    bench.host.hold_fetch = False
    write_result({"alone": alone, "loaded": loaded, "latency": latency})


async def round_time(bench, port):
    """Cycles from an ACQUIRE's answer to the next one's, the client committing one cycle later."""
    port.done.clear()
    await bench.cycles(600)
    answered = [r.answered for r in port.done if r.op == Operation.ACQUIRE][20:]
    return (answered[-1] - answered[0]) / (len(answered) - 1)


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def one_key(dut):
    """Merging, and read-modify-writes of one entry."""
    bench, job = await start(dut)
    port = bench.ports[0]
    port.script.extend(Request(Operation.LOOKUP, 5) for _ in range(job["merge"]))
    await bench.settle()
    fetches = bench.host.count["fetches"]
    port.hold = lambda: 0
    offer(port, itertools.repeat(5), Operation.ACQUIRE)
    port.window = 1  # the next ACQUIRE follows the COMMIT
    after = await round_time(bench, port)
    port.window = 4  # it waits for the COMMIT in the entry's list
    waiting = await round_time(bench, port)
    await finish(bench)
    write_result({"fetches": fetches, "after": after, "waiting": waiting})
