"""Bench of the context cache with flipped bits in its memories (tb/context_upset_top.py)."""

import cocotb

from rtl.context.arrays import WORD_BYTES
from rtl.context.interface import CacheStatus, Operation
from rtl.context.secded import WORD_BITS, Secded
from tb.bits import number, pack
from tb.build import write_result
from tb.context_cache_agents import Request
from tb.context_cache_races import LATENCY, WRITE, fetches, play
from tb.context_cache_tb import finish, start, traffic
from tb.context_upset_top import UPSET, Place

LOOKUP, ACQUIRE, COMMIT, PREFETCH, FLUSH, INVALIDATE, FLUSH_ALL = Operation
OK, CORRUPT, FETCH_FAILED = (
    status.value for status in (CacheStatus.OK, CacheStatus.CORRUPT, CacheStatus.FETCH_FAILED))
CODE = Secded(WORD_BITS).bits


A, B, OTHER = 2, 4, 3  # two keys of one set of two, one of the other


class Striker:
    """Strikes a `share` of the cycles in which something is written, `flips` bits at a time."""

    def __init__(self, bench, places, flips, share):
        self.bench, self.places, self.flips, self.share = bench, places, flips, share
        self.struck = dict.fromkeys(Place, 0)
        self.place = Place.NONE
        drive, sample = bench.host.drive, bench.host.sample

        def with_upset():
            drive()
            self.draw()

        def with_count():
            sample()
            if self.place != Place.NONE:
                self.struck[self.place] += number(bench.dut.struck.value)

        bench.host.drive, bench.host.sample = with_upset, with_count

    def draw(self):
        rng = self.bench.rng
        self.place = rng.choice(self.places) if rng.random() < self.share else Place.NONE
        words, bits = self.bench.shapes[self.place.name]
        word = rng.randrange(words)
        self.apply(self.place, word, sum(1 << b for b in rng.sample(range(bits), self.flips)))

    def apply(self, place, word, bits):
        self.bench.dut.upset.value = pack(UPSET, {"place": place, "word": word, "bits": bits})


async def begin(dut):
    bench, job = await start(dut)
    words = bench.entry_bytes // WORD_BYTES
    bench.shapes = {"NONE": (1, CODE), "ENTRY": (words, CODE), "LINES": (job["ways"], job["line"]),
                    "ARRIVED": (job["ways"], 6), "AGE": (1, job["age"])}
    return bench, job


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def single_upsets(dut):
    """One flipped bit a word, anywhere: nobody sees it."""
    bench, job = await begin(dut)
    places = [Place.ENTRY, Place.LINES, Place.ARRIVED] + [Place.AGE] * (job["age"] > 0)
    striker = Striker(bench, places, 1, 0.5)
    counters = await traffic(bench, job)
    assert all(striker.struck[place] for place in places)
    write_result({"counters": counters, "struck": sum(striker.struck.values())})


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def double_upsets(dut):
    """Two in a word of an entry: who asks has it from the host, or is told that it is lost."""
    bench, job = await begin(dut)
    bench.judge.upsets = True
    striker = Striker(bench, [Place.ENTRY], 2, 0.2)
    counters = await traffic(bench, job)
    assert striker.struck[Place.ENTRY]
    write_result({"counters": counters, "answers": bench.judge.answers})


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def lost_ages(dut):
    """An age is a hint: one that is lost does no harm."""
    bench, job = await begin(dut)
    bench.judge.upsets = True
    Striker(bench, [Place.AGE], 2, 0.5)
    counters = await traffic(bench, job)
    assert counters["corrected"] and not counters["uncorrectable"]
    write_result({"counters": counters})


async def directed(dut):
    bench, _ = await begin(dut)
    bench.judge.upsets = True
    bench.host.latency, bench.host.write_latency = lambda: LATENCY, lambda: WRITE
    bench.host.fail = 0
    for port in bench.ports:
        port.hold = lambda: 2
    bench.striker = Striker(bench, [Place.NONE], 0, 0)
    return bench


async def struck(bench, place, word, *requests):
    """Until something that these requests of port 0 write has two flipped bits."""
    striker = bench.striker
    striker.struck[place] = 0
    striker.draw = lambda: None
    striker.place = place
    striker.apply(place, word, 0b11)
    for op, key in requests * 20:
        await bench.call(0, op, key)
        if striker.struck[place]:
            break
    assert striker.struck[place]
    striker.place = Place.NONE
    striker.apply(Place.NONE, 0, 0)
    await bench.settle()


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def clean_entry_is_refetched(dut):
    """Whatever else comes for it, in whichever cycle, and from whom."""
    bench = await directed(dut)
    rounds = 0
    for first in (LOOKUP, ACQUIRE):
        for second in (LOOKUP, ACQUIRE, FLUSH, INVALIDATE, PREFETCH):
            for port in (0, 1):
                for distance in range(1, 6):
                    await bench.call(0, INVALIDATE, A)
                    await struck(bench, Place.ENTRY, 3, (LOOKUP, A), (INVALIDATE, A))
                    if bench.ports[0].done[-1].op != LOOKUP:
                        continue
                    before = fetches(bench, A)
                    scene = [(0, 0, Request(first, A)), (distance, port, Request(second, A)),
                             (distance + 1, 0, Request(LOOKUP, A)),
                             (distance + 2, 1, Request(LOOKUP, B))]
                    await play(bench, *scene)
                    assert {r.answer["status"] for *_, r in scene} == {OK}
                    assert fetches(bench, A) > before
                    rounds += 1
    counters = await finish(bench)
    assert counters["refetches"] >= rounds and not counters["spoiled_writebacks"]
    write_result({"rounds": rounds})


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def those_who_wait_for_a_struck_entry(dut):
    """The fill is struck; its first request has the data from the host, the others read it."""
    bench = await directed(dut)
    for ops in ((LOOKUP, LOOKUP, LOOKUP), (LOOKUP, ACQUIRE, LOOKUP), (ACQUIRE, LOOKUP, LOOKUP),
                (LOOKUP, LOOKUP, ACQUIRE), (LOOKUP, LOOKUP, INVALIDATE), (ACQUIRE, ACQUIRE, FLUSH)):
        for fail in (0, 1):
            await bench.call(0, INVALIDATE, A)
            striker = bench.striker
            striker.draw, striker.place = lambda: None, Place.ENTRY
            striker.apply(Place.ENTRY, 0, 0b101)
            bench.host.fail = 0
            requests = [Request(op, A) for op in ops]
            later = [Request(LOOKUP, key) for key in (B, A)]
            for port in bench.ports:
                port.next_request = lambda: None
            for index, request in enumerate(requests):
                bench.ports[index % 2].script.append(request)
            await bench.cycles(LATENCY + 2)  # the fetch was answered as it should be
            bench.host.fail = fail
            bench.ports[1].script.extend(later)
            await bench.cycles(30)
            striker.place = Place.NONE
            striker.apply(Place.NONE, 0, 0)
            await bench.settle()
            bench.host.fail = 0
            assert all(r.answer["status"] in (OK, FETCH_FAILED, CORRUPT) for r in requests)
    counters = await finish(bench)
    assert counters["refetches"]
    write_result({"counters": counters})


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def changed_entry_is_lost(dut):
    """CORRUPT to all who ask, and poisoned in the host when it is put out, until that is mended."""
    bench = await directed(dut)
    for leave in (INVALIDATE, FLUSH, FLUSH_ALL):
        await bench.call(0, LOOKUP, A)
        await struck(bench, Place.ENTRY, 5, (ACQUIRE, A))
        for op in (LOOKUP, ACQUIRE, LOOKUP):
            assert (await bench.call(0, op, A)).answer["status"] == CORRUPT
        assert (await bench.call(1, leave, A)).answer["status"] == CORRUPT
        assert A in bench.judge.poisoned
        assert (await bench.call(1, LOOKUP, A)).answer["status"] == FETCH_FAILED
        while A in bench.judge.poisoned:
            await bench.call(1, LOOKUP, A)
            await bench.cycles(20)
        assert (await bench.call(1, LOOKUP, A)).answer["status"] == OK
    counters = await finish(bench)
    assert counters["spoiled_writebacks"] == 3
    write_result({"counters": counters})


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def lost_line(dut):
    """What is known of an entry is lost: keys of its set that are not seen elsewhere are CORRUPT,
    other sets do not feel it, nobody waits for ever, and a reset makes it whole."""
    bench = await directed(dut)
    bench.judge.lines_lost = True
    for place, ops in ((Place.LINES, ((LOOKUP, A),)),
                       (Place.ARRIVED, ((INVALIDATE, A), (LOOKUP, A)))):
        await bench.call(0, LOOKUP, A)
        await struck(bench, place, 0, *ops)
        waiting = [Request(op, A) for op in (LOOKUP, ACQUIRE, LOOKUP)]
        for request in waiting:
            bench.ports[1].script.append(request)
        await bench.settle()
        assert [r.answer["status"] for r in waiting] == [CORRUPT] * 3
        for op in (LOOKUP, ACQUIRE, FLUSH, INVALIDATE):
            assert (await bench.call(0, op, B)).answer["status"] == CORRUPT
        before = fetches(bench, B)
        assert (await bench.call(0, PREFETCH, B)).answer["status"] == OK
        assert fetches(bench, B) == before
        assert (await bench.call(0, LOOKUP, OTHER)).answer["status"] == OK
        assert (await bench.call(0, FLUSH_ALL, 0)).answer["status"] == CORRUPT
        await bench.settle()
        await bench.reset()
        await bench.cycles(4)
        assert (await bench.call(0, LOOKUP, A)).answer["status"] == OK
        assert (await bench.call(0, FLUSH_ALL, 0)).answer["status"] == OK
    write_result({"answers": bench.judge.answers})


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def lost_line_of_a_locked_entry(dut):
    """Its owner's commit and those who wait for that are told."""
    bench = await directed(dut)
    bench.judge.lines_lost = True
    owner, striker = bench.ports[0], bench.striker
    owner.hold = lambda: 40
    await bench.call(0, LOOKUP, A)
    acquired = await bench.call(0, ACQUIRE, A)
    striker.draw, striker.place = lambda: None, Place.LINES
    striker.apply(Place.LINES, 0, 0b11)
    waiting = Request(LOOKUP, A)
    bench.ports[1].script.append(waiting)
    await bench.cycles(8)
    striker.place = Place.NONE
    striker.apply(Place.NONE, 0, 0)
    assert (await bench.call(0, LOOKUP, A)).answer["status"] == CORRUPT
    await bench.settle()
    assert acquired.answer["status"] == OK
    assert [r.answer["status"] for r in owner.done if r.op == COMMIT] == [CORRUPT]
    assert waiting.answer["status"] == CORRUPT
    write_result({"answers": bench.judge.answers})
