"""Bench of the whole NIC: frames at the MAC, a host behind PCIe, everything seen written down.

It judges nothing; tb/nic_scoreboard.py does. One loop turns once a cycle and looks at the one
`activity` port; everything else is read only when that says so, which is what keeps it fast.
"""

import random
import time
from collections.abc import Callable
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

from rtl.headers import Kind, Reason
from rtl.host.control import Settings
from rtl.host.layout import QPC_BYTES
from rtl.nic import Activity, Counters, Events
from rtl.responder import Drop
from rtl.stream import PacketLayout
from tb.bits import number, pack, unpack
from tb.build import read_job
from tb.host import HostAgent
from tb.nic_job import WIRE_MINIMUM, WIRE_OVERHEAD, Executed, Job, Observed, load, save

PERIOD_NS = 2
IDLE_LIMIT = 20_000  # cycles without anything happening, beyond the host's latency: it hangs
QUIET = 400  # cycles without anything happening, beyond the host's latency: it is done


def to_beats(frame: bytes, width: int, error: bool = False) -> list[int]:
    """The frame as payload words of a packet stream."""
    layout, size = PacketLayout(width), width // 8
    empty, last, flag = (layout[name].offset for name in ("empty", "last", "error"))
    beats = [int.from_bytes(frame[i:i + size], "little") for i in range(0, len(frame), size)]
    beats[-1] |= 1 << last | (-len(frame) % size) << empty | error << flag
    return beats


class FrameSource:
    """Frames to beats at MAC RX, no faster than the wire brings them."""

    def __init__(self, dut, job: Job, observed: Observed, rng: random.Random):
        self._valid, self._payload = dut.mac_rx__valid, dut.mac_rx__payload
        self._job, self._observed, self._rng = job, observed, rng
        self._waiting = list(reversed(job.scenario.frames))
        self._beats: list[int] = []
        self._offering = False
        self._not_before = 0.0  # cycle at which the wire has the next frame
        self.sent = 0

    @property
    def done(self) -> bool:
        return not self._waiting and not self._beats

    def _start(self, cycle: int) -> None:
        job, frame = self._job, self._waiting.pop()
        config = job.config
        self._beats = to_beats(frame.data, config.data_width, frame.number in job.mac_errors)
        self._beats.reverse()
        wire = (max(len(frame.data), WIRE_MINIMUM) + WIRE_OVERHEAD) * 8
        cycles = wire / config.line_rate_gbps / 1e3 * config.clock_mhz
        self._not_before = max(self._not_before, cycle) + cycles
        self._observed.first.append(cycle)

    def step(self, cycle: int, ready: bool, hold: Callable[[int, int], bool]) -> bool:
        """After a clock edge; `hold(cycle, number)` tells whether to keep that frame back.

        Whether a beat was taken.
        """
        taken = self._offering and ready
        if taken:
            self._beats.pop()
            self._offering = False
            self.sent += not self._beats
        if not self._offering:
            if (not self._beats and self._waiting and cycle >= self._not_before
                    and not hold(cycle, self._waiting[-1].number)):
                self._start(cycle)
            stall = self._job.stalls and self._rng.random() < self._job.stalls
            self._offering = bool(self._beats) and not stall
            if self._offering:
                self._payload.value = self._beats[-1]
            if self._offering or taken:
                self._valid.value = self._offering
        return taken


class FrameSink:
    """Beats to frames at one packet output."""

    def __init__(self, dut, name: str, job: Job, frames: list[tuple[int, bytes]],
                 rng: random.Random):
        self._ready = getattr(dut, f"{name}__ready")
        self._payload = getattr(dut, f"{name}__payload")
        self._size = job.config.beat_bytes
        layout = PacketLayout(job.config.data_width)
        self._last = layout["last"].offset
        self._empty = layout["empty"].offset
        self._empty_mask = (1 << layout["empty"].width) - 1
        self._stalls, self._rng = job.stalls, rng
        self._frames, self._held = frames, bytearray()
        self._is_ready = False

    def step(self, cycle: int, valid: bool) -> None:
        if valid and self._is_ready:
            word = number(self._payload.value)
            empty = word >> self._empty & self._empty_mask
            data = (word & (1 << 8 * self._size) - 1).to_bytes(self._size, "little")
            self._held += data[:self._size - empty]
            if word >> self._last & 1:
                self._frames.append((cycle, bytes(self._held)))
                self._held.clear()
        ready = not (self._stalls and self._rng.random() < self._stalls)
        if ready != self._is_ready:
            self._is_ready = ready
            self._ready.value = ready


class Observer:
    """Reads the observation ports when `activity` says that there is something to see."""

    def __init__(self, dut, observed: Observed):
        self._events = dut.events
        self._seen = observed
        layout = Events.as_shape()
        self._fields = {name: (layout[name].offset, (1 << layout[name].width) - 1)
                        for name in ("parser", "icrc", "responder", "completer")}
        self._shapes = {name: layout[name].shape for name in self._fields}
        self.dropped = 0  # on the wire side
        self.silent = 0  # by the responder's hand, or accepted without an answer
        self.answered = 0

    def step(self, cycle: int, activity: dict[str, bool]) -> None:
        word = number(self._events.value)
        for name, (offset, mask) in self._fields.items():
            if activity[name]:
                event = unpack(self._shapes[name], word >> offset & mask)
                getattr(self, "_" + name)(cycle, event)

    def _parser(self, cycle, event):
        headers = event["headers"]
        kind, error = Kind(headers["kind"]), Reason(headers["error"])
        self.dropped += error is not Reason.NONE or kind in (Kind.PAUSE, Kind.PFC)
        self._seen.reports.append({
            "cycle": cycle, "sequence": headers["sequence"],
            "kind": kind.name.lower(), "error": error.name.lower(),
            "opcode": headers["bth"]["opcode"]})

    def _icrc(self, cycle, event):
        self._seen.icrc[event["sequence"]] = bool(event["ok"])
        self.dropped += not event["ok"]

    def _responder(self, cycle, event):
        context = pack(Events.as_shape()["responder"].shape.as_shape()["context"].shape,
                       event["context"]).to_bytes(QPC_BYTES, "little")
        self.answered += event["answered"]
        self.silent += not event["answered"]
        self._seen.executed.append(Executed(
            cycle=cycle, sequence=event["sequence"], qpn=event["qpn"],
            drop=Drop(event["drop"]).name.lower(), answered=bool(event["answered"]),
            updated=bool(event["updated"]), context=context))

    def _completer(self, cycle, event):
        cqe = Events.as_shape()["completer"].shape.as_shape()["cqe"].shape
        self._seen.completions.append((cycle, pack(cqe, event["cqe"]).to_bytes(64, "little")))


class Testbench:
    def __init__(self, dut, job: Job, seed: int, progress: Path | None):
        self.dut, self.job, self.seen = dut, job, Observed()
        self.seen.memory = job.scenario.memory.copy()
        rng = random.Random(seed)
        self.source = FrameSource(dut, job, self.seen, rng)
        self.wire = FrameSink(dut, "mac_tx", job, self.seen.transmitted, rng)
        self.queue = FrameSink(dut, "host", job, self.seen.host_frames, rng)
        self.observer = Observer(dut, self.seen)
        self.host = HostAgent(dut, self.seen.memory, limits=job.config.dma,
                              width=job.config.data_width, latency=job.latency, rng=rng,
                              stalls=job.stalls)
        layout = Activity.as_shape()
        self._bits = {name: layout[name].offset for name, _ in layout}
        self._posts = list(reversed(job.scenario.posts))
        self._progress = progress
        self._last_active = 0

    async def reset(self) -> None:
        dut = self.dut
        Clock(dut.clk, PERIOD_NS, unit="ns").start(start_high=False)
        dut.rst.value = 1
        for name in ("mac_rx__valid", "mac_rx__payload", "mac_tx__ready", "host__ready", "flush",
                     "rc__valid", "rc__payload"):
            getattr(dut, name).value = 0
        dut.host_headers__ready.value = 1
        settings = self.job.scenario.settings
        dut.settings.value = pack(Settings, {
            name: {"base": table.base, "log_entries": table.log_entries}
            for name in ("qpc", "mpt", "cqc") for table in [getattr(settings, name)]})
        for _ in range(3):
            await RisingEdge(dut.clk)
        dut.rst.value = 0

    async def run(self) -> Observed:
        """Frames in, until all is quiet again; then the caches go back to host memory."""
        await self.reset()
        started = time.monotonic()
        limit = IDLE_LIMIT + 20 * self.job.latency
        cycle = 0
        flushing = False
        while True:
            await RisingEdge(self.dut.clk)
            self._step(cycle)
            idle = cycle - self._last_active
            if idle == 0 and not flushing:
                self.seen.cycles = cycle
            if cycle % 256 == 0:
                self._report_progress()
            finished = self.source.done and self._accounted() == self.source.sent
            done = finished and not flushing
            if idle > (QUIET + 4 * self.job.latency if done else limit):
                self.seen.finished |= finished
                if flushing or not finished:
                    break
                flushing = True
                self.dut.flush.value = 1
                self._last_active = cycle
            elif flushing:
                self.dut.flush.value = 0
                if cycle - self._last_active > 4 and self._flushed and self.host.idle:
                    self.seen.flushed = True
                    break
            cycle += 1
        self.seen.cycles_run = cycle
        self.seen.run_seconds = time.monotonic() - started
        self.seen.counters = unpack(Counters, number(self.dut.counters.value))
        self.seen.violations = [f"cycle {at}: {text}" for at, text in self.host.violations]
        self._report_progress()
        return self.seen

    def _step(self, cycle: int) -> None:
        word = number(self.dut.activity.value)
        bits = self._bits
        active = word & ~(1 << bits["rx_ready"] | 1 << bits["rc_ready"] | 1 << bits["flushed"])
        self._flushed = word >> bits["flushed"] & 1
        activity = {name: bool(word >> bit & 1) for name, bit in bits.items()} if active else {}
        if activity and any(activity[name] for name in ("parser", "icrc", "responder",
                                                         "completer")):
            self.observer.step(cycle, activity)
        taken = self.source.step(cycle, bool(word >> bits["rx_ready"] & 1), self._hold)
        self.wire.step(cycle, bool(word >> bits["tx_valid"] & 1))
        self.queue.step(cycle, bool(word >> bits["host_valid"] & 1))
        self.host.step()
        if active or taken or not self.host.idle:
            self._last_active = cycle

    def _hold(self, cycle: int, number: int) -> bool:
        """Posts of the host come when all frames before them are done with, so that there is
        one right answer."""
        if not self._posts or number < self._posts[-1].frame_number:
            return False
        if self._accounted() < self.source.sent or cycle - self._last_active < QUIET // 4:
            return True
        while self._posts and self._posts[-1].frame_number <= number:
            post = self._posts.pop()
            self.seen.memory.write(post.address, post.data)
        return False

    def _accounted(self) -> int:
        """Frames that the NIC has finished with."""
        seen, observer = self.seen, self.observer
        return (observer.dropped + observer.silent + len(seen.host_frames)
                + min(observer.answered, len(seen.transmitted)))

    def _report_progress(self) -> None:
        if self._progress:
            self._progress.write_text(str(self.source.sent))


@cocotb.test()
async def replay(dut):
    files = read_job()
    progress = Path(files["progress"]) if files.get("progress") else None
    bench = Testbench(dut, load(Path(files["job"])), cocotb.RANDOM_SEED, progress)
    save(Path(files["observed"]), await bench.run())


