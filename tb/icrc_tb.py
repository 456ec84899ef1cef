"""Bench of the ICRC blocks: frames of the model against the RTL.

What is right comes from `sim.wire` (zlib); `job` names the case, see `tests/test_icrc.py`.
"""

import random
from dataclasses import dataclass, replace
from typing import Any

import cocotb
from cocotb.clock import Clock

from rtl.headers import Headers
from rtl.icrc import IcrcCounters, IcrcInfo, IcrcReport
from sim.wire.build import Packet, build
from tb.bits import pack, unpack
from tb.build import read_job, write_result
from tb.ports import Pulses, Sink, Source, beats, packets, reset, run
from tb.wire_cases import NETWORKS, with_options

HEADER_BITS = Headers.as_shape().size
SEND_ONLY = 0x04


@dataclass(frozen=True)
class Case:
    """A frame, where its parts lie, and what `IcrcCheck` must do with it."""

    frame: bytes  # to the end of the ICRC
    l3: int
    bth: int
    version: int
    roce1: bool
    payload: bytes
    good: bool = True
    error: bool = False  # the MAC's flag
    tail: bytes = b""  # Ethernet padding
    end: int | None = None  # what the headers announce, if not the frame's length
    lost: bytes = b""  # what was cut off the frame

    def info(self, sequence: int) -> int:
        return pack(IcrcInfo, {
            "l3_offset": self.l3, "bth_offset": self.bth, "ip_version": self.version,
            "roce1": self.roce1, "sequence": sequence, "payload": bool(self.payload),
            "end": len(self.frame) if self.end is None else self.end})


def make(rng: random.Random, size: int, network: Any = "ipv4", tags: int = 0,
         options: int = 0) -> Case:
    """A SEND ONLY of random fields; `options` counts words of IPv4 options."""
    payload = rng.randbytes(size)
    frame = build(Packet(
        dst=rng.randbytes(6), src=rng.randbytes(6), vlan=tuple(rng.getrandbits(16)
                                                               for _ in range(tags)),
        network=network, sgid=rng.randbytes(16), dgid=rng.randbytes(16),
        tclass=rng.getrandbits(8), flow_label=rng.getrandbits(20), hop_limit=rng.getrandbits(8),
        identification=rng.getrandbits(16), sport=rng.getrandbits(16),
        bth={"opcode": SEND_ONLY, "psn": rng.getrandbits(24), "dqpn": rng.getrandbits(24),
             "fecn": rng.getrandbits(1), "becn": rng.getrandbits(1), "se": rng.getrandbits(1),
             "pkey": rng.getrandbits(16), "ackreq": rng.getrandbits(1)},
        payload=payload, pad_byte=rng.getrandbits(8)))
    l3 = 14 + 4 * tags
    if options:
        frame = with_options(frame, l3, rng.randbytes(4 * options))
    bth = l3 + {"ipv4": 28 + 4 * options, "ipv6": 48, "roce1": 40}[network]
    return Case(frame, l3, bth, 4 if network == "ipv4" else 6, network == "roce1", payload)


def kinds() -> list[dict[str, Any]]:
    """Every stack that has an ICRC: network, VLAN tags, IPv4 options."""
    return [{"network": network, "tags": tags, "options": options}
            for network in NETWORKS for tags in (0, 1, 2)
            for options in ((0, 1, 10) if network == "ipv4" else (0,))]


def residues(rng: random.Random, count: int) -> list[Case]:
    """All stacks, payloads that end at every place of a beat, short ones next to long ones."""
    stacks = kinds()
    cases = []
    for number in range(count):
        size = rng.choice((number % 300, number % 300, rng.randrange(1200), 4096))
        cases.append(make(rng, size, **stacks[number * 7 % len(stacks)]))
    return cases


def small(rng: random.Random, count: int) -> list[Case]:
    """Frames of 62 bytes, and Ethernet padding to 64."""
    return [replace(make(rng, 4), tail=bytes(2)) for _ in range(count)]


def damaged(rng: random.Random, count: int) -> list[Case]:
    """Good frames mixed with every kind of damage."""
    cases = []
    for case in residues(rng, count):
        kind = rng.randrange(8)
        if kind == 0:
            case = flip(case, 8 * rng.randrange(case.l3, len(case.frame)) + rng.randrange(8))
        elif kind == 1:
            case = replace(case, error=True, good=False)
        elif kind == 2:
            case = short(case, rng.choice((1, 2, 3, 4, 5, 30)))
        elif kind == 3:
            case = replace(case, tail=rng.randbytes(rng.choice((1, 3, 20, 60, 200))))
        cases.append(case)
    return cases


def short(case: Case, missing: int) -> Case:
    """The frame ends `missing` bytes before the ICRC does."""
    return replace(case, frame=case.frame[:-missing], end=len(case.frame), good=False,
                   lost=case.frame[-missing:])


def flip(case: Case, bit: int) -> Case:
    """One bit of the frame inverted: harmless where the model masks it."""
    frame = bytearray(case.frame)
    frame[bit // 8] ^= 1 << bit % 8
    at = bit // 8 - case.l3
    offset = bit // 8 - case.bth
    if case.version == 4:
        masked = at in (1, 8, 10, 11)
    else:
        masked = at in (1, 2, 3, 7) or at == 0 and bit % 8 < 4
    masked |= offset == 4 or not case.roce1 and offset in (-2, -1)
    return replace(case, frame=bytes(frame), good=case.good and (masked or at < 0))


def every_bit(rng: random.Random) -> list[Case]:
    """Each bit of one frame of each network wrong, Ethernet header and ICRC included."""
    cases = []
    for network, tags, options in (("ipv4", 0, 0), ("ipv4", 1, 2), ("ipv6", 0, 0), ("roce1", 2, 0)):
        case = make(rng, 2, network, tags, options)
        cases += [flip(case, bit) for bit in range(8 * len(case.frame))]
    return cases


async def start(dut: Any) -> None:
    Clock(dut.clk, 10, unit="ns").start(start_high=False)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def insert(dut):
    """Frames with anything in place of the ICRC come out with the right one."""
    job = read_job()
    rng = random.Random(cocotb.RANDOM_SEED)
    width = job["width"]
    await start(dut)
    frames, infos = Source(dut, "i", rng, job["idle"]), Source(dut, "info", rng, job["idle"])
    out = Sink(dut, "o", rng, job["stall"])
    await reset(dut)
    cases = small(rng, job.get("small", 0)) + residues(rng, job["count"])
    for number, case in enumerate(cases):
        blank = case.frame[:-4] + (bytes(4) if number % 2 else rng.randbytes(4))
        frames.queue += beats(blank, width, number % 5 == 0, rng.getrandbits(width))
        infos.queue.append(case.info(number))
    total = len(frames.queue)
    await run(dut, [frames, infos, out], lambda: len(out.items) == total, quiet=10)
    got = [word for _, word in out.items]
    assert packets(got, width) == [case.frame for case in cases]
    errors = [word >> (width + (width // 8 - 1).bit_length() + 1) for word in got
              if word >> width & 1]
    assert errors == [number % 5 == 0 for number in range(len(cases))], "error flags"
    write_result({
        "beats": total, "in_cycles": frames.taken[-1] - frames.taken[0] + 1,
        "out_cycles": out.items[-1][0] - out.items[0][0] + 1,
        "latency": out.items[-1][0] - frames.taken[-1],
        "taken": frames.taken, "lengths": [len(case.frame) for case in cases],
        "frames": [(case.l3, frame.hex()) for case, frame
                   in list(zip(cases, packets(got, width), strict=True))[:50]]})


class CheckBench:
    """The four input streams of `IcrcCheck`, its outputs, and what must come of each case."""

    def __init__(self, dut: Any, rng: random.Random, width: int, stalls: dict[str, float]) -> None:
        self.dut, self.rng, self.width = dut, rng, width
        ports = ("i_info", "i_frame", "i_headers", "i_payload")
        self.sources = {name: Source(dut, name, rng, stalls.get(name, 0)) for name in ports}
        self.sinks = {name: Sink(dut, name, rng, stalls.get(name, 0))
                      for name in ("o_headers", "o_payload")}
        self.reports = Pulses(dut, "report", IcrcReport)
        self.cases: list[Case] = []
        self.words: list[int] = []
        self.cycle = 0

    def offer(self, cases: list[Case]) -> None:
        rng, width = self.rng, self.width
        for case in cases:
            sequence = len(self.cases)
            word = rng.getrandbits(HEADER_BITS)
            layout = Headers.as_shape()
            for name, value in (("payload_length", len(case.payload)), ("sequence", sequence)):
                field = layout[name]
                word &= ~(((1 << field.width) - 1) << field.offset)
                word |= value << field.offset
            # The bytes past a short frame's end are the right ones: only the length tells.
            garbage = int.from_bytes(case.lost, "little") if case.lost else rng.getrandbits(width)
            self.sources["i_frame"].queue += beats(
                case.frame + case.tail, width, case.error, garbage)
            self.sources["i_info"].queue.append(case.info(sequence))
            self.sources["i_headers"].queue.append(word)
            if case.payload:
                self.sources["i_payload"].queue += beats(case.payload, width)
            self.cases.append(case)
            self.words.append(word)

    async def run(self, until, quiet: int = 0) -> None:
        agents = [*self.sources.values(), *self.sinks.values(), self.reports]
        self.cycle = await run(self.dut, agents, until, quiet=quiet, first=self.cycle)

    def finished(self) -> bool:
        good = [case for case in self.cases if case.good]
        ends = sum(word >> self.width & 1 for _, word in self.sinks["o_payload"].items) \
            if len(self.sinks["o_headers"].items) >= len(good) else -1
        return (ends >= sum(bool(case.payload) for case in good)
                and len(self.reports.items) >= len(self.cases)
                and not any(source.queue for source in self.sources.values()))

    def judge(self) -> None:
        good = [number for number, case in enumerate(self.cases) if case.good]
        headers = self.sinks["o_headers"].items
        assert [word for _, word in headers] == [self.words[number] for number in good]
        payloads = packets((word for _, word in self.sinks["o_payload"].items), self.width)
        assert payloads == [self.cases[n].payload for n in good if self.cases[n].payload]
        assert [(report["sequence"], report["ok"]) for _, report in self.reports.items] == \
            [(number, case.good) for number, case in enumerate(self.cases)]
        flagged = sum(case.error for case in self.cases)
        assert unpack(IcrcCounters, self.dut.counters.value.to_unsigned()) == {
            "checked": len(self.cases) - flagged, "flagged": flagged,
            "bad": len(self.cases) - flagged - len(good)}
        self._judge_times(good)

    def _judge_times(self, good: list[int]) -> None:
        """Nothing shows before its verdict, no payload before its header item was taken."""
        times = iter([cycle for cycle, word in self.sinks["o_payload"].items
                      if word >> self.width & 1])
        for (cycle, _), number in zip(self.sinks["o_headers"].items, good, strict=True):
            assert cycle > self.reports.items[number][0]
            if self.cases[number].payload:
                assert next(times) > cycle

    def latencies(self) -> set[int]:
        """From a frame's last beat to its report."""
        lasts = []
        at = 0
        for case in self.cases:
            at += -(-len(case.frame + case.tail) * 8 // self.width)
            lasts.append(self.sources["i_frame"].taken[at - 1])
        return {report - last for last, (report, _) in zip(lasts, self.reports.items, strict=True)}


async def bench(dut, stalls: dict[str, float] | None = None) -> tuple[CheckBench, random.Random]:
    job = read_job()
    rng = random.Random(cocotb.RANDOM_SEED)
    await start(dut)
    chosen = job.get("stalls", {}) if stalls is None else stalls
    checked = CheckBench(dut, rng, job["width"], chosen)
    await reset(dut)
    return checked, rng


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def check(dut):
    """Good frames pass with their headers and payload, bad ones vanish and are counted."""
    job = read_job()
    it, rng = await bench(dut)
    cases = {"damaged": lambda: damaged(rng, job["count"]), "bits": lambda: every_bit(rng),
             "good": lambda: small(rng, job.get("small", 0)) + residues(rng, job["count"]),
             }[job["cases"]]()
    it.offer(cases)
    total = len(it.sources["i_frame"].queue)
    await it.run(it.finished, quiet=20)
    it.judge()
    taken = it.sources["i_frame"].taken
    result = {"beats": total, "cycles": taken[-1] - taken[0] + 1, "bad": sum(
        not case.good for case in cases), "latencies": sorted(it.latencies()),
        "taken": taken, "lengths": [len(case.frame + case.tail) for case in cases]}
    heads = it.sinks["o_headers"].items
    if cases[-1].good:
        result["header_latency"] = heads[-1][0] - taken[-1]
    write_result(result)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def headers_wait(dut):
    """32 header items and 12 KiB of payload are taken before any frame comes."""
    it, rng = await bench(dut, {})
    it.sources["i_frame"].gate = lambda: opened
    opened = False
    sizes = [4096] * 3 if read_job()["long"] else [384] * 32
    it.offer([make(rng, size, NETWORKS[i % 3]) for i, size in enumerate(sizes)])
    sources = it.sources
    await it.run(lambda: not sources["i_headers"].queue and not sources["i_payload"].queue)
    assert not it.sinks["o_headers"].items and not it.reports.items
    opened = True
    await it.run(it.finished)
    it.judge()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def verdicts_wait(dut):
    """64 frames are taken before any header item comes; the 65th waits and is not lost."""
    it, rng = await bench(dut, {})
    opened = False
    for name in ("i_headers", "i_payload"):
        it.sources[name].gate = lambda: opened
    it.offer([make(rng, size, "ipv6") for size in range(70)])
    per = [-(-len(case.frame) * 8 // it.width) for case in it.cases]
    await it.run(lambda: len(it.sources["i_frame"].taken) == sum(per[:64]), quiet=100)
    assert len(it.sources["i_frame"].taken) == sum(per[:64])
    assert len(it.reports.items) == 64
    opened = True
    await it.run(it.finished)
    it.judge()
