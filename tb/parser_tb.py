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


class Watch:
    """Collects the words of an observation port whose lowest bit is `valid`."""

    def __init__(self, port: Any) -> None:
        self._port = port
        self.words: list[int] = []
        self.cycles: list[int] = []

    def drive(self) -> None:
        pass

    def sample(self, cycle: int) -> None:
        value = self._port.value
        if value[0] == 1:  # the rest may be undefined else
            self.words.append(value.to_unsigned() >> 1)
            self.cycles.append(cycle)


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

    def opens(name: str) -> Callable[[], bool]:
        return lambda: now >= blocked.get(name, 0)

    sinks = {name: Sink(dut, name, rng, job.get("stall", 0), opens(name))
             for name in ("headers", "payload", "host", "host_headers")}
    watches = {name: Watch(getattr(dut, name)) for name in ("report", "icrc_report", "seen")}
    agents: list[Any] = [source, *sinks.values(), *watches.values()]
    await reset(dut)

    cycle, active, before = 0, 0, (-1, 0, 0)
    quiet = QUIET + 8 * job["max_frame"] // width
    limit = 400 + quiet + total * 40 + max([*blocked.values(), 0])
    while cycle - active < quiet or source.queue or cycle < max([*blocked.values(), 0]):
        for agent in agents:
            agent.drive()
        await RisingEdge(dut.clk)
        for agent in agents:
            agent.sample(cycle)
        moved = (len(source.queue), sum(len(sink.items) for sink in sinks.values()),
                 sum(len(watch.words) for watch in watches.values()))
        if moved != before:
            before, active = moved, cycle
        assert cycle < limit, f"nothing more after {limit} cycles"
        cycle = now = cycle + 1

    words = {name: [word for _, word in sink.items] for name, sink in sinks.items()}
    write_result({
        "reports": [hex(word) for word in watches["report"].words],
        "icrc": [hex(word) for word in watches["icrc_report"].words],
        "seen": [packet.hex() for packet in packets(watches["seen"].words, width)],
        "headers": [hex(word) for word in words["headers"]],
        "payload": [packet.hex() for packet in packets(words["payload"], width)],
        "host": [packet.hex() for packet in packets(words["host"], width)],
        "host_headers": [hex(word) for word in words["host_headers"]],
        "counters": hex(dut.counters.value.to_unsigned()),
        "icrc_counters": hex(dut.icrc_counters.value.to_unsigned()),
        "beats": total,
        "in_cycles": source.taken[-1] - source.taken[0] + 1 if total else 0,
        "taken": source.taken, "report_cycles": watches["report"].cycles,
        "cycles": {name: [at for at, _ in sink.items] for name, sink in sinks.items()},
    })
