"""Faults that other caches have had, each by its condition: nothing of the kind may be here."""

import cocotb

from rtl.context.interface import CacheStatus, Operation
from tb.build import write_result
from tb.context_cache_agents import Request
from tb.context_cache_races import (
    LATENCY,
    A,
    B,
    fetches,
    finish,
    last_commit,
    modify,
    play,
    prepare,
)

LOOKUP, ACQUIRE, FLUSH, INVALIDATE = (
    Operation.LOOKUP, Operation.ACQUIRE, Operation.FLUSH, Operation.INVALIDATE)


def last(bench, key):
    """What was committed last."""
    return bench.judge.history(key)[-1][1]


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def dirty_bit_seen_by_next_access(dut):
    """E01: A is hit and written, and B takes its way around that cycle."""
    bench = await prepare(dut, hold=0)
    for distance in range(8):
        await bench.call(0, INVALIDATE, A)
        await bench.call(0, LOOKUP, A)
        await play(bench, (0, 0, Request(ACQUIRE, A)), (distance, 1, Request(ACQUIRE, B)))
        again = await bench.call(1, LOOKUP, A)
        assert again.answer["data"] == last(bench, A)
    await finish(bench)
    write_result({"rounds": bench.now})


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def dirty_way_alone_is_written_back(dut):
    """E03: of the ways of a set one is dirty; new entries take them all."""
    bench = await prepare(dut)
    ways = 4
    for dirty in range(ways):
        await bench.call(0, Operation.FLUSH_ALL, 0)
        for key in range(ways):
            await bench.call(0, ACQUIRE if key == dirty else LOOKUP, key)
            await bench.settle()
        before = len(bench.host.log)
        for key in range(ways, 2 * ways):
            await bench.call(1, LOOKUP, key)
        await bench.settle()
        written = [key for _, kind, key in bench.host.log[before:] if kind == "write"]
        assert written == [dirty] * (last(bench, dirty) != bench.judge.initial(dirty))
    await finish(bench)
    write_result({"rounds": bench.now})


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def read_after_granted_write(dut):
    """E05: A is being fetched for a write; another port reads it around the fill and the write."""
    bench = await prepare(dut, hold=1)
    for distance in range(LATENCY + 14):
        await bench.call(0, INVALIDATE, A)
        before = last(bench, A)
        read = Request(LOOKUP, A)
        await play(bench, (0, 0, Request(ACQUIRE, A)), (distance, 1, read))
        assert read.answer["data"] in ((last(bench, A),) if distance else (before, last(bench, A)))
    await finish(bench)
    write_result({"rounds": bench.now})


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def flush_sees_the_write_before(dut):
    """E07: A is hit and written, and flushed around that cycle."""
    bench = await prepare(dut, hold=0)
    for distance in range(10):
        await bench.call(0, LOOKUP, A)
        acquired, flush = Request(ACQUIRE, A), Request(FLUSH, A)
        await play(bench, (0, 0, acquired), (distance, 1, flush))
        commit = last_commit(bench.ports[0])
        if commit.answered < flush.sent:
            assert bench.judge.host(A) == last(bench, A)
        await bench.call(1, FLUSH, A)
        assert bench.judge.host(A) == last(bench, A)
    await finish(bench)
    write_result({"rounds": bench.now})


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def refill_in_the_cycle_of_an_invalidate(dut):
    """E09: INVALIDATE in every cycle around A's fill, each alone and with B wanting the way."""
    bench = await prepare(dut)
    for distance in range(LATENCY - 4, LATENCY + 10):
        for rival in (False, True):
            await bench.call(0, INVALIDATE, A)
            scene = [(0, 0, Request(LOOKUP, A)), (distance, 1, Request(INVALIDATE, A))]
            await play(bench, *scene, *[(distance, 0, Request(LOOKUP, B))] * rival)
            before = fetches(bench, A)
            assert not (await bench.call(0, LOOKUP, A)).answer["hit"]
            assert fetches(bench, A) == before + 1
    await finish(bench)
    write_result({"rounds": bench.now})


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def write_behind_a_pending_flush(dut):
    """E11: A is on its way to the host when it is written again: the host gets the old value of
    the flush, and A is dirty with the new one.
    """
    bench = await prepare(dut, hold=0)
    bench.host.write_latency = lambda: 40
    for distance in range(1, 40, 3):
        await modify(bench, A)
        flushed, old = Request(FLUSH, A), last(bench, A)
        await play(bench, (0, 0, flushed), (distance, 1, Request(ACQUIRE, A)))
        assert flushed.answer["status"] == CacheStatus.OK.value
        assert bench.judge.host(A) in (old, last(bench, A))
        read = await bench.call(1, LOOKUP, A)
        assert read.answer["hit"] and read.answer["data"] == last(bench, A)
        await bench.call(1, FLUSH, A)
        assert bench.judge.host(A) == last(bench, A)
    await finish(bench)
    write_result({"rounds": bench.now})


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def retried_writeback_leaves_the_line_alone(dut):
    """E15: A's write-back is refused for a while, in which its way is filled with B."""
    bench = await prepare(dut, hold=0)
    for refused in (0, 3, 10, 30, 60):
        await modify(bench, A)
        wanted = last(bench, A)
        bench.host.refuses = True
        bench.ports[1].script.append(Request(ACQUIRE, B))
        await bench.cycles(refused)
        bench.host.refuses = False
        await bench.cycles(30)  # for the write-back to begin
        await bench.settle()
        assert bench.judge.host(A) == wanted
        read = await bench.call(0, LOOKUP, B)
        assert read.answer["hit"] and read.answer["data"] == last(bench, B)
        await bench.call(0, INVALIDATE, B)
    await finish(bench)
    write_result({"rounds": bench.now})

