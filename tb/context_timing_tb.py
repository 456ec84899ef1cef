"""The cache and its timing model in step: the same inputs, and each cycle's outputs compared."""

from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

from rtl.config import CacheConfig
from rtl.context.interface import CacheRequest, CacheResponse
from rtl.context.observe import CacheEvents
from rtl.dma.interface import DmaStatus, ReadBeat, ReadRequest, WriteRequest
from sim.timing.context_cache import ContextCache
from sim.timing.interface import Event, Inputs, Outputs
from sim.timing.traffic import Traffic, World
from tb.bits import number, pack, unpack
from tb.build import read_job, write_result

BASE = 0x12_3456_0000
PULSES = ("lookup", "useful", "late", "forward", "bad_key")
AT_WAY = ("hit", "miss", "merged", "prefetch", "replay")
ANY_PULSE = (1 << CacheEvents.as_shape()["reason"].offset) - 1  # the pulses come first


class Pins:
    """Drives what the model is given, and reads what it predicts."""

    def __init__(self, dut, job, config):
        self.dut = dut
        self.ports = job["ports"]
        self.size = config.entry_bytes
        self.request = CacheRequest(self.size, config.tenants)
        self.response = CacheResponse(self.size)
        self.beat = ReadBeat(job["width"])
        self.empty = max(job["width"] // 8 - self.size, 0)
        self.driven = {}
        for port in range(self.ports):
            self.set(f"port__{port}__request__payload", 0)
        self.set("fetch__response__payload", 0)

    def set(self, name, value):
        """Only what changes: each access costs."""
        if self.driven.get(name) != value:
            self.driven[name] = value
            getattr(self.dut, name).value = value

    def get(self, name):
        return number(getattr(self.dut, name).value)

    def bit(self, name):
        return getattr(self.dut, name).value == 1

    async def reset(self, log_entries: int, tenant_ways=()):
        """The first cycle after it is the model's cycle 0."""
        Clock(self.dut.clk, 10, unit="ns").start(start_high=False)
        self.dut.rst.value = 1
        self.dut.host_table.value = BASE | log_entries << 64
        for tenant, ways in enumerate(tenant_ways):
            getattr(self.dut, f"tenant_ways__{tenant}").value = ways
        self.drive(Inputs([None] * self.ports, [False] * self.ports, None, False, False, False))
        for _ in range(3):
            await RisingEdge(self.dut.clk)
        self.dut.rst.value = 0

    def drive(self, i: Inputs):
        for port, request in enumerate(i.offered):
            name = f"port__{port}"
            self.set(f"{name}__request__valid", int(request is not None))
            self.set(f"{name}__response__ready", int(i.ready[port]))
            if request:
                mask = (1 << self.size) - 1 if request.writes else 0
                self.set(f"{name}__request__payload", pack(self.request, {
                    "op": request.op, "key": request.key, "tag": request.tag, "mask": mask,
                    "tenant": request.tenant}))
        for name, ready in (("fetch__request", i.fetch_ready),
                            ("writeback__request", i.write_ready),
                            ("writeback__data", i.data_ready)):
            self.set(f"{name}__ready", int(ready))
        self.set("fetch__response__valid", int(i.beat is not None))
        if i.beat:
            status = DmaStatus.REFUSED if i.beat.failed and i.beat.last else DmaStatus.OK
            self.set("fetch__response__payload", pack(self.beat, {
                "last": i.beat.last, "tag": i.beat.tag, "status": status,
                "none": status != DmaStatus.OK, "empty": self.empty if i.beat.last else 0}))
        self.set("writeback__done__valid", int(i.done))
        self.set("writeback__done__payload", 0)

    def _key(self, word):
        return (word["address"] - BASE) // self.size

    def sample(self, i: Inputs) -> dict[str, Any]:
        seen: dict[str, Any] = {"taken": [], "answers": [], "fetch": None, "write": None}
        for port in range(self.ports):
            name = f"port__{port}"
            if i.offered[port] and self.bit(f"{name}__request__ready"):
                seen["taken"].append(port)
            if i.ready[port] and self.bit(f"{name}__response__valid"):
                word = unpack(self.response, self.get(f"{name}__response__payload"))
                seen["answers"].append((port, word["op"], word["key"], word["tag"],
                                        word["status"], word["hit"]))
        if i.fetch_ready and self.bit("fetch__request__valid"):
            word = unpack(ReadRequest, self.get("fetch__request__payload"))
            seen["fetch"] = (self._key(word), word["tag"])
        if i.write_ready and self.bit("writeback__request__valid"):
            word = unpack(WriteRequest, self.get("writeback__request__payload"))
            seen["write"] = self._key(word)
        seen["beat"] = bool(i.beat and self.bit("fetch__response__ready"))
        seen["data"] = bool(i.data_ready and self.bit("writeback__data__valid"))
        word = self.get("events")
        seen["events"] = events(word) if word & ANY_PULSE else []
        return seen


def events(word: int) -> list[Event]:
    """As the model names them."""
    e = unpack(CacheEvents, word)
    found: list[Event] = [(name,) for name in PULSES if e[name]]
    found += [(name, e["key"], e["way"]) for name in AT_WAY if e[name]]
    found += [(name, e["fill_key"]) for name in ("fill", "fetch_error") if e[name]]
    found += [(name, e["victim"]) for name in ("evict", "writeback") if e[name]]
    found += [("stall", e["reason"])] if e["stall"] else []
    found += [("useless", e["useless"])] if e["useless"] else []
    return sorted(found)


def predicted(out: Outputs) -> dict[str, Any]:
    useless = sum(int(e[1]) for e in out.events if e[0] == "useless")
    shown = [e for e in out.events if e[0] not in ("useless", "timeout")]
    shown += [("useless", useless)] if useless else []
    return {
        "taken": [port for port, taken in enumerate(out.taken) if taken],
        "answers": [(port, a.request.op, a.request.key, a.request.tag, int(a.status), int(a.hit))
                    for port, a in enumerate(out.answers) if a],
        "fetch": out.fetch, "write": out.write, "beat": out.beat_taken, "data": out.data_taken,
        "events": sorted(shown),
    }


@cocotb.test(timeout_time=20, timeout_unit="sec")
async def equal(dut):
    job = read_job()
    config = CacheConfig(**job["cache"])
    traffic = Traffic(**job["traffic"] | {"weights": dict(job["weights"]) or
                                          Traffic().weights})
    beats = max(8 * config.entry_bytes // job["width"], 1)
    model = ContextCache(config, job["ports"], beats=beats, log_entries=job["log_entries"],
                         tenant_ways=job["tenant_ways"])
    world = World(traffic, job["ports"], beats, job["log_entries"])
    pins = Pins(dut, job, config)
    await pins.reset(job["log_entries"], job["tenant_ways"])
    counts, answered, idle = {}, 0, 0
    while idle < 50:
        now = model.now
        i = world.drive(now)
        pins.drive(i)
        out = model.step(i)
        await RisingEdge(dut.clk)
        want, have = predicted(out), pins.sample(i)
        assert want == have, f"cycle {now}: model {want}\nhardware {have}"
        world.settle(now, i, out)
        for event in out.events:
            name = f"stall_{event[1]}" if event[0] == "stall" else str(event[0])
            counts[name] = counts.get(name, 0) + 1
        progress = len(want["answers"])
        answered += progress
        idle = 0 if not world.quiet else idle + 1
        assert now < job["limit"], f"not done after {now} cycles"
    write_result({"cycles": model.now, "answers": answered, "events": counts})
