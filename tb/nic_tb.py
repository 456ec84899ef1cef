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
from rtl.host.completion import CompleterEvents
from rtl.host.control import Settings
from rtl.host.layout import CQE_BYTES, QPC_BYTES
from rtl.icrc import IcrcReport
from rtl.nic import Activity, Counters, Events
from rtl.parser import ParserReport
from rtl.responder import Drop
from rtl.responder.responder import ResponderEvents
from tb.bits import number, pack, unpack
from tb.build import read_job
from tb.host import HostAgent
from tb.nic_job import Executed, Job, Observed, load, save, wire_cycles
from tb.ports import beats, is_last, packets

PERIOD_NS = 2
IDLE_LIMIT = 20_000  # cycles without anything happening, beyond the host's latency: it hangs
QUIET = 400  # cycles without anything happening, beyond the host's latency: it is done


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
        self._beats = beats(frame.data, config.data_width, frame.number in job.mac_errors)
        self._beats.reverse()
        self._not_before = max(self._not_before, cycle) + wire_cycles(frame.data, config)
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
        self._width = job.config.data_width
        self._stalls, self._rng = job.stalls, rng
        self._frames = frames
        self._words: list[int] = []  # of the frame under way
        self._is_ready = False

    def step(self, cycle: int, valid: bool) -> None:
        if valid and self._is_ready:
            self._words.append(number(self._payload.value))
            if is_last(self._words[-1], self._width):
                frame, = packets(self._words, self._width)
                self._frames.append((cycle, frame))
                self._words.clear()
        ready = not (self._stalls and self._rng.random() < self._stalls)
        if ready != self._is_ready:
            self._is_ready = ready
            self._ready.value = ready


class Observer:
    """Reads the observation ports when `activity` says that there is something to see."""

    def __init__(self, dut, observed: Observed):
        self._events = dut.events
        self._seen = observed
        self._places = {name: (field.offset, field.width) for name, field in Events.as_shape()}
        self._context = ResponderEvents.as_shape()["context"].offset
        self._cqe = CompleterEvents.as_shape()["cqe"].offset
        self.dropped = 0  # on the wire side
        self.silent = 0  # by the responder's hand, or accepted without an answer
        self.answered = 0

    def step(self, cycle: int, activity: dict[str, bool]) -> None:
        word = number(self._events.value)
        for name, (offset, width) in self._places.items():
            if activity[name]:
                getattr(self, "_" + name)(cycle, word >> offset & (1 << width) - 1)

    def _parser(self, cycle, bits):
        headers = unpack(ParserReport, bits)["headers"]
        kind, error = Kind(headers["kind"]), Reason(headers["error"])
        self.dropped += error is not Reason.NONE or kind in (Kind.PAUSE, Kind.PFC)
        self._seen.reports.append({
            "cycle": cycle, "sequence": headers["sequence"],
            "kind": kind.name.lower(), "error": error.name.lower(),
            "opcode": headers["bth"]["opcode"]})

    def _icrc(self, cycle, bits):
        event = unpack(IcrcReport, bits)
        if not event["flagged"]:  # else the parser's report has counted it
            self._seen.icrc[event["sequence"]] = bool(event["ok"])
            self.dropped += not event["ok"]

    def _responder(self, cycle, bits):
        event = unpack(ResponderEvents, bits)
        context = _bytes(bits >> self._context, QPC_BYTES)
        self.answered += event["answered"]
        self.silent += not event["answered"]
        self._seen.executed.append(Executed(
            cycle=cycle, sequence=event["sequence"], qpn=event["qpn"],
            drop=Drop(event["drop"]).name.lower(), answered=bool(event["answered"]),
            context=context))

    def _completer(self, cycle, bits):
        self._seen.completions.append((cycle, _bytes(bits >> self._cqe, CQE_BYTES)))


def _bytes(bits: int, size: int) -> bytes:
    """The structure in host memory that the lowest bits are."""
    return (bits & (1 << 8 * size) - 1).to_bytes(size, "little")


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
                     "rc__payload"):
            getattr(dut, name).value = 0
        dut.host_info__ready.value = 1
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
