"""Bench of the parser with the ICRC check: frames in, all that comes out written down.

It judges nothing but the stream rules; `tb.parser_run` turns what it saw into reports.
"""

import random
from collections.abc import Callable
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

from tb.build import read_job, write_result
from tb.ports import Sink, Source, beats, packets, reset

QUIET = 100  # cycles without any activity, beside those of dropping a frame, that mean the end


class Watches:
    """Collects the words of the observation ports; the bit of each in `activity` says when."""

    NAMES = ("report", "icrc_report", "seen", "early")

    def __init__(self, dut: Any) -> None:
        self._activity = dut.activity
        self._ports = [getattr(dut, name) for name in self.NAMES]
        self.words: dict[str, list[int]] = {name: [] for name in self.NAMES}
        self.cycles: dict[str, list[int]] = {name: [] for name in self.NAMES}
        self.count = 0

    def drive(self) -> None:
        pass

    def sample(self, cycle: int) -> None:
        active = self._activity.value.to_unsigned()
        if not active:
            return
        for number, name in enumerate(self.NAMES):
            if active >> number & 1:
                # without the lowest bit, `valid`
                self.words[name].append(self._ports[number].value.to_unsigned() >> 1)
                self.cycles[name].append(cycle)
                self.count += 1


@cocotb.test()
async def frames(dut):
    job = read_job()
    width = job["width"]
    rng = random.Random(cocotb.RANDOM_SEED)
    Clock(dut.clk, 2, unit="ns").start(start_high=False)
    source = Source(dut, "i", rng, job.get("idle", 0))
    for frame, error in zip(job["frames"], job["errors"], strict=True):
        data = bytes.fromhex(frame)
        source.queue.extend(beats(data, width, bool(error),
                                  rng.getrandbits(width) if job.get("garbage") else 0))
    total = len(source.queue)
    now = 0
    blocked = job.get("blocked", {})  # port: cycle until which it is never ready
    opened = max([*blocked.values(), 0])

    def opens(name: str) -> Callable[[], bool]:
        return lambda: now >= blocked.get(name, 0)

    sinks = {name: Sink(dut, name, rng, job.get("stall", 0), opens(name))
             for name in ("headers", "payload", "host", "host_info")}
    watches = Watches(dut)
    agents: list[Any] = [source, *sinks.values(), watches]
    dut.rss.value = int(job["rss"], 16)
    await reset(dut)

    cycle, active, before = 0, 0, (-1, 0, 0)
    quiet = QUIET + 8 * job["max_frame"] // width
    limit = 400 + quiet + total * 40 + opened
    while cycle - max(active, opened) < quiet or source.queue:
        for agent in agents:
            agent.drive()
        await RisingEdge(dut.clk)
        for agent in agents:
            agent.sample(cycle)
        moved = (len(source.queue), sum(len(sink.items) for sink in sinks.values()),
                 watches.count)
        if moved != before:
            before, active = moved, cycle
        assert cycle < limit, f"nothing more after {limit} cycles"
        cycle = now = cycle + 1

    words = {name: [word for _, word in sink.items] for name, sink in sinks.items()}
    write_result({
        "reports": [hex(word) for word in watches.words["report"]],
        "icrc": [hex(word) for word in watches.words["icrc_report"]],
        "seen": [packet.hex() for packet in packets(watches.words["seen"], width)],
        "headers": [hex(word) for word in words["headers"]],
        "payload": [packet.hex() for packet in packets(words["payload"], width)],
        "host": [packet.hex() for packet in packets(words["host"], width)],
        "host_info": [hex(word) for word in words["host_info"]],
        "counters": hex(dut.counters.value.to_unsigned()),
        "icrc_counters": hex(dut.icrc_counters.value.to_unsigned()),
        "beats": total,
        "in_cycles": source.taken[-1] - source.taken[0] + 1 if total else 0,
        "taken": source.taken, "report_cycles": watches.cycles["report"],
        "header_cycles": watches.cycles["early"], "early": watches.words["early"],
        "cycles": {name: [at for at, _ in sink.items] for name, sink in sinks.items()},
    })
