"""The classic races of a cache: each at every distance of the two events around their meeting."""

import cocotb

from rtl.context.interface import CacheStatus, Operation
from tb.build import write_result
from tb.context_cache_agents import Request
from tb.context_cache_tb import finish, random_client, start

A, B = 2, 3  # two keys of one set
LATENCY = 12  # of fetches; a fill comes about 5 cycles after that
WRITE = 8  # of write-backs
LOOKUP, ACQUIRE, INVALIDATE = Operation.LOOKUP, Operation.ACQUIRE, Operation.INVALIDATE


async def play(bench, *scene):
    """Requests at their cycles from now, as (cycle, port, request), until all is answered."""
    begin = bench.now
    for number, port in enumerate(bench.ports):
        mine = sorted((begin + at, index, request) for index, (at, owner, request)
                      in enumerate(scene) if owner == number)

        def next_request(mine=mine):
            return mine.pop(0)[2] if mine and mine[0][0] <= bench.now else None
        port.next_request = next_request
    await bench.cycles(max(at for at, *_ in scene) + 1)
    await bench.settle()


async def prepare(dut, hold=2):
    bench, _ = await start(dut)
    bench.host.latency, bench.host.write_latency = lambda: LATENCY, lambda: WRITE
    for port in bench.ports:
        port.hold = lambda: hold
    return bench


async def modify(bench, key):
    """The entry is here, changed."""
    await bench.call(0, ACQUIRE, key)
    await bench.settle()


def fetches(bench, key):
    return sum(1 for _, kind, which in bench.host.log if (kind, which) == ("fetch", key))


def last_commit(port):
    return next(request for request in reversed(port.done) if request.op == Operation.COMMIT)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def fill_against_eviction(dut):
    """B wants the way of A around A's fill; who waits for A still gets A."""
    bench = await prepare(dut)
    for distance in range(LATENCY - 4, LATENCY + 10):
        await bench.call(0, INVALIDATE, A)
        a, a_too, b = (Request(LOOKUP, key) for key in (A, A, B))
        await play(bench, (0, 0, a), (distance - 1, 0, a_too), (distance, 1, b))
        assert a.answer["status"] == b.answer["status"] == CacheStatus.OK.value
        assert b.answered > a.answered
    await finish(bench)
    write_result({"rounds": bench.now})


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def writeback_against_refetch(dut):
    """A, changed, is pushed out by B and wanted again while it is on its way to the host."""
    bench = await prepare(dut)
    bench.host.write_latency = lambda: 5 * WRITE
    for distance in range(1, 60, 2):
        await modify(bench, A)
        wanted = bench.judge.history(A)[-1][1]
        again = Request(LOOKUP, A)
        await play(bench, (0, 0, Request(LOOKUP, B)), (distance, 1, again))
        assert again.answer["data"] == wanted
    counters = await finish(bench)
    assert counters["forwards"], "never served from the write buffer"
    write_result({"forwards": counters["forwards"]})


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def invalidate_against_fill(dut):
    """INVALIDATE around the fill: the entry is gone afterwards, and fetched again."""
    bench = await prepare(dut)
    for distance in range(1, LATENCY + 10):
        await bench.call(0, INVALIDATE, A)
        before = fetches(bench, A)
        await play(bench, (0, 0, Request(LOOKUP, A)), (distance, 1, Request(INVALIDATE, A)))
        assert fetches(bench, A) == before + 1
        again = await bench.call(0, LOOKUP, A)
        assert not again.answer["hit"] and fetches(bench, A) == before + 2
    await finish(bench)
    write_result({"rounds": bench.now})


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def commit_against_eviction(dut):
    """B wants the way of A around A's commit: A stays until then, and nothing of it is lost."""
    for hold in (0, 1, 5):
        bench = await prepare(dut, hold)
        for distance in range(1, LATENCY + 14):
            a, b = Request(ACQUIRE, A), Request(LOOKUP, B)
            await play(bench, (0, 0, a), (distance, 1, b))
            commit = last_commit(bench.ports[0])
            assert commit.answer["status"] == CacheStatus.OK.value
            assert b.answered > commit.sent or b.answered < a.answered
        await finish(bench)
    write_result({"rounds": bench.now})


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def two_ports_acquire(dut):
    """The judge knows who holds the lock; each gets what the other committed."""
    bench = await prepare(dut)
    for distance in range(-6, 7):
        for miss in (True, False):
            if miss:
                await bench.call(0, INVALIDATE, A)
            before = fetches(bench, A)
            one, other = Request(ACQUIRE, A), Request(ACQUIRE, A)
            await play(bench, (max(-distance, 0), 0, one), (max(distance, 0), 1, other))
            assert fetches(bench, A) == before + miss
            assert abs(one.answered - other.answered) > 2
    await finish(bench)
    write_result({"rounds": bench.now})


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def flush_all_under_load(dut):
    bench = await prepare(dut)
    flushes = []
    for number, port in enumerate(bench.ports):
        port.window = 6
        random_client(port, bench.rng, range(4), 64, {LOOKUP: 1, ACQUIRE: 1})
        port.script.append(Request(LOOKUP, number))
    for _ in range(8):
        await bench.cycles(bench.rng.randrange(1, 60))
        flushes.append(Request(Operation.FLUSH_ALL, 0))
        bench.ports[len(flushes) % 2].script.append(flushes[-1])
        limit = bench.now + 3000
        while flushes[-1].answered < 0:
            await bench.cycle()
            assert bench.now < limit, "FLUSH_ALL does not end"
    await finish(bench)
    write_result({"flushes": len(flushes)})


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def late_answer(dut):
    """A fetch times out; its answer comes late and is dropped; the entry is fetched again."""
    bench = await prepare(dut)
    bench.host.latency = lambda: 10**6
    lost = Request(LOOKUP, A)
    bench.judge.failures[A].append((1024, 3000))
    bench.ports[0].script.append(lost)
    while lost.answered < 0:
        await bench.cycle()
    assert lost.answer["status"] == CacheStatus.FETCH_FAILED.value
    assert 1024 <= lost.answered - lost.sent <= 2 * 1024 + 20
    (_, tag, key), = bench.host.due
    bench.host.due.clear()
    del bench.host.fetches[tag]
    bench.host.latency = lambda: LATENCY
    again = await bench.call(0, LOOKUP, A)
    assert again.answer["status"] == CacheStatus.OK.value and not again.answer["hit"]
    bench.host.fetches[tag] = key
    bench.host.due.append((bench.now, tag, key))
    await bench.settle()
    assert (await bench.call(0, LOOKUP, A)).answer["hit"]
    assert bench.counters()["stray_answers"] == bench.counters()["timeouts"] == 1
    write_result({"rounds": bench.now})


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def reset_with_misses_in_flight(dut):
    """What was asked for before is dropped when it comes, and fetched again when it is wanted."""
    bench = await prepare(dut)
    bench.ports[0].script += [Request(LOOKUP, key) for key in (A, B)]
    while len(bench.host.fetches) < 2:
        await bench.cycle()
    await bench.reset()
    for port in bench.ports:
        port.forget()
    await bench.settle()
    await bench.cycles(10)
    counters = bench.counters()
    assert counters["stray_answers"] == 2
    assert not any(counters[name] for name in ("lookups", "fills", "fetch_errors", "timeouts"))
    for key in (A, B):
        again = await bench.call(1, LOOKUP, key)
        assert again.answer["status"] == CacheStatus.OK.value and not again.answer["hit"]
    write_result({"rounds": bench.now})
