"""Bench of the ICRC blocks: every length of payload, every byte changed, and frames as given.

What is right comes from `sim.wire` (zlib); `job` names the case, see tests/test_icrc_lengths.py.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import cocotb

from tb.build import read_job, write_result
from tb.icrc_tb import Case, CheckBench, bench, flip, kinds, make, start
from tb.ports import Sink, Source, beats, is_last, packets, reset, run
from tb.wire_cases import put

ALL = 0xFF
SPOILT = 8  # one length in so many has a wrong frame too


def lengths(rng: random.Random, sizes: list[int]) -> Iterator[Case]:
    """A frame for each size, the stacks in turn, and behind some of them one with a bit wrong."""
    stacks = kinds()
    for size in range(*sizes):
        case = make(rng, size, **stacks[size * 7 % len(stacks)])
        yield case
        if size % SPOILT == 0:
            yield flip(case, rng.randrange(8 * case.l3, 8 * len(case.frame)))


def ignored(case: Case, position: int) -> int:
    """The bits of a byte that the ICRC does not cover (IBTA A17.3.3; 7.8.1 for a GRH)."""
    at, transport = position - case.l3, position - case.bth
    if at < 0 or transport == 4 or (transport in (-2, -1) and not case.roce1):
        return ALL  # Ethernet; FECN, BECN and reserved; UDP checksum
    if case.version == 4:
        return ALL if at in (1, 8, 10, 11) else 0
    return 0x0F if at == 0 else ALL if at in (1, 2, 3, 7) else 0


def changed(case: Case, position: int, bits: int) -> Case:
    frame = put(case.frame, position, bytes([case.frame[position] ^ bits]))
    return replace(case, frame=frame, good=not bits & ~ignored(case, position))


def every_byte(rng: random.Random, size: int) -> Iterator[Case]:
    """One frame of each stack as it is, then with each of its bytes changed in turn."""
    for stack in kinds():
        case = make(rng, size, **stack)
        yield case
        for position in range(len(case.frame)):
            yield changed(case, position, rng.randrange(1, 256))
            for bits in (ignored(case, position), ~ignored(case, position) & ALL):
                if 0 < bits < ALL:  # covered in part
                    yield changed(case, position, bits)


def given(job: dict[str, Any]) -> Iterator[Case]:
    for item in job["frames"]:
        yield Case(bytes.fromhex(item["frame"]), item["l3"], item["bth"], item["version"],
                   item["roce1"], bytes.fromhex(item["payload"]), item["good"])


def chosen(job: dict[str, Any], rng: random.Random) -> list[Case]:
    return list({"lengths": lambda: lengths(rng, job["sizes"]),
                 "bytes": lambda: every_byte(rng, job["size"]),
                 "given": lambda: given(job)}[job["cases"]]())


def finished(it: CheckBench) -> Callable[[], bool]:
    """Whether all has come out that must; looks at each beat once."""
    good = [case for case in it.cases if case.good]
    heads, payload = it.sinks["o_headers"].items, it.sinks["o_payload"].items
    left = sum(bool(case.payload) for case in good)
    looked = 0

    def done() -> bool:
        nonlocal left, looked
        left -= sum(is_last(word, it.width) for _, word in payload[looked:])
        looked = len(payload)
        return not left and len(heads) == len(good) and len(it.reports.items) == len(it.cases)

    return done


@cocotb.test()
async def check(dut):
    """Good frames pass with headers and payload, those with a covered byte wrong vanish."""
    job = read_job()
    it, rng = await bench(dut, {})
    cases = chosen(job, rng)
    it.offer(cases)
    agents = [*it.sources.values(), *it.sinks.values(), it.reports]
    beats_in = len(it.sources["i_frame"].queue)
    await run(dut, agents, finished(it), limit=200 + 4 * beats_in, quiet=20)
    it.judge()
    write_result({"good": sum(case.good for case in cases), "cases": len(cases)})


@cocotb.test()
async def insert(dut):
    """The frame's own ICRC comes out again, unless a byte that it covers was changed."""
    job = read_job()
    rng = random.Random(cocotb.RANDOM_SEED)
    width = job["width"]
    await start(dut)
    frames, infos, out = Source(dut, "i", rng), Source(dut, "info", rng), Sink(dut, "o", rng)
    await reset(dut)
    cases = chosen(job, rng)
    for number, case in enumerate(cases):
        frames.queue += beats(case.frame[:-4] + rng.randbytes(4), width)
        infos.queue.append(case.info(number))
    total = len(frames.queue)
    await run(dut, [frames, infos, out], lambda: len(out.items) == total, limit=200 + 4 * total,
              quiet=10)
    got = packets([word for _, word in out.items], width)
    for case, frame in zip(cases, got, strict=True):
        assert frame[:-4] == case.frame[:-4], "a byte before the ICRC changed"
        assert (frame[-4:] == case.frame[-4:]) == case.good, case
    write_result({"cases": len(cases)})
