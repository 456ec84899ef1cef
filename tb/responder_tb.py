"""Bench of the responder with the completer behind it, against the golden model.

The ports' partners are small models on one host memory: caches that keep the locks, DMA that
reads and writes. After each packet answer, context, completions and memory are those of the
model on its own copy of the memory.
"""

import random
from collections import deque
from typing import Any

import cocotb
from cocotb.clock import Clock

from rtl.context import CacheRequest, CacheResponse, Operation
from rtl.dma.interface import Done, ReadBeat, ReadRequest, WriteRequest
from rtl.headers import Headers, Kind
from rtl.responder import Drop
from rtl.responder.records import ResponderEvents
from sim.golden.nic import GoldenNic
from sim.wire.codec import ETHERNET_BYTES, ICRC_BYTES, gid_bytes, mac_bytes, parse
from tb import responder_cases as cases
from tb.bits import pack, unpack
from tb.build import read_job, write_result
from tb.ports import Pulses, Sink, Source, beats, is_last, packets, reset, run

KINDS = {"roce2": Kind.ROCE2, "roce1": Kind.ROCE1, "cnp": Kind.CNP}
OK, BAD_KEY, FETCH_FAILED = 0, 1, 2
BTH_FIELDS = ("opcode", "se", "m", "tver", "pkey", "fecn", "becn", "dqpn", "ackreq", "psn")


class Delayed:
    """A request port answered `latency` cycles later by `serve(fields) -> list of words`."""

    def __init__(self, dut, port, layout, rng, stall, latency, serve, response="response"):
        self.sink = Sink(dut, f"{port}__request", rng, stall)
        self.source = Source(dut, f"{port}__{response}", rng, stall)
        self.layout, self.latency, self.serve = layout, latency, serve
        self.waiting: deque[tuple[int, list[int]]] = deque()

    def drive(self):
        self.sink.drive()
        self.source.drive()

    def sample(self, cycle):
        self.source.sample(cycle)
        self.sink.sample(cycle)
        for _, word in self.sink.items:
            self.waiting.append((cycle + self.latency - 1, self.serve(unpack(self.layout, word))))
        self.sink.items.clear()
        while self.waiting and self.waiting[0][0] <= cycle:
            self.source.queue += self.waiting.popleft()[1]


class Writes:
    """A write port: requests, their data, `done` in order."""

    def __init__(self, dut, port, rng, stall, latency, width, memory):
        self.requests = Sink(dut, f"{port}__request", rng, stall)
        self.data = Sink(dut, f"{port}__data", rng, stall)
        self.done = Source(dut, f"{port}__done", rng, stall)
        self.width, self.latency, self.memory, self.count = width, latency, memory, 0
        self.waiting: deque[tuple[int, int]] = deque()

    def drive(self):
        for agent in (self.requests, self.data, self.done):
            agent.drive()

    def sample(self, cycle):
        for agent in (self.requests, self.data, self.done):
            agent.sample(cycle)
        ended = self.data.items and is_last(self.data.items[-1][1], self.width)
        if ended and self.requests.items:
            request = unpack(WriteRequest, self.requests.items.pop(0)[1])
            packet, = packets((word for _, word in self.data.items), self.width)
            self.data.items.clear()
            assert len(packet) == request["length"] > 0
            self.memory().write(request["address"], packet)
            self.count += 1
            self.waiting.append((cycle + self.latency - 1,
                                 pack(Done, {"tag": request["tag"]})))
        while self.waiting and self.waiting[0][0] <= cycle:
            self.done.queue.append(self.waiting.popleft()[1])


class Bench:
    def __init__(self, dut, rng, job):
        self.dut, self.rng, self.width = dut, rng, job["width"]
        self.entry = 256
        stall, latency = job.get("stall", 0), job.get("latency", 4)
        self.failing: set[str] = set()
        self.good = 0  # beats that a failing read gives
        self.locked: set[tuple[str, int]] = set()
        common = (rng, stall, latency)
        self.headers = Source(dut, "headers", rng, stall)
        self.payload = Source(dut, "payload", rng, stall)
        self.answers = Sink(dut, "answer", rng, stall)
        self.answer_payload = Sink(dut, "answer_payload", rng, stall)
        self.events = Pulses(dut, "events", ResponderEvents)
        self.write = Writes(dut, "write", *common, self.width, lambda: self.memory)
        self.cqe_write = Writes(dut, "cqe_write", *common, self.width, lambda: self.memory)
        self.agents = [
            self.headers, self.payload, self.answers, self.answer_payload, self.events,
            self.write, self.cqe_write,
            *(Delayed(dut, name, CacheRequest(size), *common, self._cache(name, size))
              for name, size in (("qpc", 256), ("mpt", 64), ("cqc", 64))),
            *(Delayed(dut, name, ReadRequest, *common, self._reader(name))
              for name in ("wqe", "read"))]
        self.cycle = 0
        self.sequence = 0

    def load(self, changes, receives=4):
        self.memory, self.settings = cases.world(changes, receives)
        self.golden = GoldenNic(self.memory.copy(), self.settings)
        self.epsn = changes.get("epsn", cases.EPSN)
        self.failing.clear()
        self.good = 0

    def _cache(self, name, size):
        layout = CacheResponse(size)

        def serve(request):
            table, key = getattr(self.settings, name), request["key"]
            address, place = table.address(key, size), (name, key)
            answer = {"op": request["op"], "key": key, "tag": request["tag"], "hit": 1}
            if request["op"] == Operation.COMMIT.value:
                assert place in self.locked, f"{name} {key}: commit without a lock"
                self.locked.remove(place)
                old, new = bytearray(self.memory.read(address, size)), request["data"]
                for i in range(size):
                    if request["mask"] >> i // 8 & 1:
                        old[i] = new >> 8 * i & 255
                self.memory.write(address, bytes(old))
            elif address is None or name in self.failing:
                answer["status"] = BAD_KEY if address is None else FETCH_FAILED
                answer["data"] = self.rng.getrandbits(8 * size)
            else:
                answer["data"] = int.from_bytes(self.memory.read(address, size), "little")
                if request["op"] == Operation.ACQUIRE.value:
                    assert place not in self.locked, f"{name} {key}: acquired twice"
                    self.locked.add(place)
            return [pack(layout, answer)]
        return serve

    def _reader(self, name):
        """A failing port gives the first `self.good` beats, then the failure."""
        layout, size = ReadBeat(self.width), self.width // 8

        def serve(request):
            raw = self.memory.read(request["address"], request["length"])
            parts = [raw[start:start + size] for start in range(0, len(raw), size)]
            words = [pack(layout, {"data": int.from_bytes(part, "little"),
                                   "last": index == len(parts) - 1, "empty": size - len(part)})
                     for index, part in enumerate(parts)]
            if name in self.failing:
                good = [pack(layout, {"data": int.from_bytes(part, "little")})
                        for part in parts[:self.good]]
                return [*good, pack(layout, {"last": 1, "none": 1, "status": 1})]
            return words
        return serve

    def offer(self, frame):
        """Queue the packet; gives what the codec says of it."""
        report = parse(frame)
        assert report["error"] is None, report["error"]
        bth, ip = report["bth"], report.get("ip")
        values: dict[str, Any] = {
            "kind": KINDS[report["kind"]].value, "sequence": self.sequence,
            "payload_length": report["payload_length"] or 0,
            "bth": {name: bth[name] for name in ("opcode", "se", "m", "pad", "tver", "pkey",
                                                 "fecn", "becn", "dqpn", "ackreq", "psn")}}
        if ip:
            start = ETHERNET_BYTES + 4 * len(report["eth"]["vlan"])
            fixed = frame[start:start + 40]
            values |= {"l3_offset": start, "l4_offset": start + (20 if ip["version"] == 4 else 40),
                       "payload_offset": len(frame) - ICRC_BYTES - bth["pad"]
                       - values["payload_length"]}
            values["ip"] = {"version": ip["version"], "dscp": ip["dscp"], "ecn": ip["ecn"],
                            "ttl": ip["ttl"], "protocol": 17,
                            "identification": int.from_bytes(fixed[4:6], "big"),
                            "flags": fixed[6] >> 5,
                            "flow_label": int.from_bytes(fixed[1:4], "big") & 0xFFFFF,
                            "src": int.from_bytes(gid_bytes(ip["src"]), "little"),
                            "dst": int.from_bytes(gid_bytes(ip["dst"]), "little")}
        for name in ("reth", "atomiceth", "deth"):
            if name in report:
                values[name] = report[name]
        if "ieth" in report:
            values["ieth"] = report["ieth"]["rkey"]
        if "immdt" in report:
            imm = report["immdt"]["imm"].to_bytes(4, "big")
            values["immdt"] = int.from_bytes(imm, "little")
        self.headers.queue.append(pack(Headers, values))
        if report["payload"]:
            self.payload.queue += beats(report["payload"], self.width)
        self.sequence += 1
        return report

    async def step(self, packets_wanted):
        """Run until that many packets are finished and their completions are written."""
        self.cycle = await run(
            self.dut, self.agents, lambda: len(self.events.items) >= packets_wanted
            and not self.locked and self._payload_is_out(), limit=9000, quiet=30,
            first=self.cycle)

    def _payload_is_out(self):
        """Every answer that announces payload has it."""
        wanted = sum(unpack(Headers, word)["payload_length"] != 0
                     for _, word in self.answers.items)
        return sum(is_last(word, self.width)
                   for _, word in self.answer_payload.items) == wanted

    async def packet(self, frame):
        """One packet through RTL and model; gives the model's outcome."""
        self.events.items.clear()
        self.answers.items.clear()
        self.answer_payload.items.clear()
        self.offer(frame)
        await self.step(1)
        outcome = self.golden.receive(frame)
        (_, event), = self.events.items
        reason = Drop(event["drop"]).name.lower()
        assert (outcome.reason or "none") == reason
        self.same_answers(outcome.frames)
        if outcome.context is not None and event["updated"]:
            assert pack(ResponderEvents, event) >> ResponderEvents.as_shape()["context"].offset \
                == int.from_bytes(outcome.context, "little"), "context in the event"
        self.same_memory()
        assert not self.payload.queue and not self.headers.queue, "payload was not drained"
        return outcome

    def same_answers(self, frames):
        got = [unpack(Headers, word) for _, word in self.answers.items]
        assert [brief(headers) for headers in got] == [expected(frame) for frame in frames]
        payload = packets((word for _, word in self.answer_payload.items), self.width)
        assert payload == [part for frame in frames if (part := parse(frame)["payload"])]

    def same_memory(self):
        different = self.memory.differences(self.golden.memory)
        assert not different, f"memory differs at {[hex(a) for a in different[:8]]}" \
            f"\nrtl   {self.memory.read(different[0] & ~63, 64).hex()}" \
            f"\nmodel {self.golden.memory.read(different[0] & ~63, 64).hex()}"


def brief(headers):
    """What an answer must have right."""
    ip, bth = headers["ip"], headers["bth"]
    return {
        "dst": headers["eth"]["dst"].to_bytes(6, "little"),
        "src": headers["eth"]["src"].to_bytes(6, "little"),
        "ethertype": headers["eth"]["ethertype"],
        "tags": [tag["tci"] for tag in headers["eth"]["vlan"][:headers["eth"]["vlan_count"]]],
        "version": ip["version"], "dscp": ip["dscp"], "ecn": ip["ecn"], "ttl": ip["ttl"],
        "flow": ip["flow_label"], "sip": ip["src"].to_bytes(16, "little"),
        "dip": ip["dst"].to_bytes(16, "little"), "sport": headers["udp"]["sport"],
        "dport": headers["udp"]["dport"], "length": headers["payload_length"],
        "present": [name for name, bit in headers["present"].items() if bit],
        "bth": {name: bth[name] for name in BTH_FIELDS},
        "aeth": headers["aeth"] if headers["present"]["aeth"] else None,
        "original": headers["atomicacketh"] if headers["present"]["atomicacketh"] else None}


def expected(frame):
    report = parse(frame)
    ip, start = report["ip"], 12
    tags = []
    while frame[start:start + 2] == b"\x81\x00":
        tags.append(int.from_bytes(frame[start + 2:start + 4], "big"))
        start += 4
    flow = int.from_bytes(frame[start + 2:start + 6], "big") & 0xFFFFF
    return {
        "dst": mac_bytes(report["eth"]["dst"]), "src": mac_bytes(report["eth"]["src"]),
        "ethertype": int.from_bytes(frame[start:start + 2], "big"), "tags": tags,
        "version": ip["version"], "dscp": ip["dscp"], "ecn": ip["ecn"], "ttl": ip["ttl"],
        "flow": flow if ip["version"] == 6 else 0, "sip": gid_bytes(ip["src"]),
        "dip": gid_bytes(ip["dst"]), "sport": report["udp"]["sport"],
        "dport": report["udp"]["dport"], "length": report["payload_length"],
        "present": [name for name in ("aeth", "atomicacketh") if name in report],
        "bth": {name: report["bth"][name] for name in BTH_FIELDS},
        "aeth": report.get("aeth"),
        "original": report.get("atomicacketh", {}).get("original")}


async def begin(dut):
    Clock(dut.clk, 10, unit="ns").start(start_high=False)
    job = read_job()
    rng = random.Random(cocotb.RANDOM_SEED)
    bench = Bench(dut, rng, job)
    await reset(dut)
    return bench, rng, job


def result_of(outcome):
    """A drop reason, the answer's syndrome, or None."""
    if outcome.reason or not outcome.frames:
        return outcome.reason
    return parse(outcome.frames[0])["aeth"]["syndrome"]


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def directed(dut):
    """The cases named in the job, each from a fresh host."""
    bench, _, job = await begin(dut)
    wrong = []
    for name in job["cases"]:
        changes, steps, wanted = cases.CASES[name]
        bench.load(changes)
        try:
            for step in steps:
                if isinstance(step, cases.P):
                    outcome = await bench.packet(step.frame(bench.epsn))
                else:
                    step(bench.memory, bench.settings)
                    step(bench.golden.memory, bench.settings)
            assert result_of(outcome) == wanted, f"{result_of(outcome)} instead of {wanted}"
        except AssertionError as error:
            wrong.append(f"{name}: {error}")
            if len(wrong) > 8 or not job.get("all"):
                break
    write_result({"cases": len(job["cases"])})
    assert not wrong, "\n".join(wrong)


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def failures(dut):
    """A fetch that fails is never used."""
    bench, _, _ = await begin(dut)
    send, write = cases.P(cases.SO, 8), cases.P(cases.WO, 8)
    read, atomic = cases.P(cases.RD, length=700), cases.P(cases.FA)
    for failing, steps, drop, syndrome, status in (
            ("qpc", [write], "context_fetch", None, None),
            ("read", [read], "none", cases.REMOTE, None),
            ("read", [atomic], "none", cases.REMOTE, None),
            ("mpt", [read], "none", cases.REMOTE, None),
            ("mpt", [write], "none", cases.REMOTE, None),
            ("mpt", [send], "none", cases.REMOTE, 11),
            ("wqe", [send], "none", cases.REMOTE, None),
            ("cqc", [send], "none", cases.ACK, None)):
        bench.load({})
        before = bench.memory.copy()
        bench.failing.add(failing)
        bench.events.items.clear()
        bench.answers.items.clear()
        written = bench.cqe_write.count, bench.write.count
        for step in steps:
            bench.offer(step.frame(bench.epsn))
        await bench.step(len(steps))
        event = bench.events.items[0][1]
        assert Drop(event["drop"]).name.lower() == drop
        got = [unpack(Headers, word)["aeth"]["syndrome"] for _, word in bench.answers.items]
        assert got == ([] if syndrome is None else [syndrome])
        context = cases.context_of(bench.memory, bench.settings)
        assert context.state == (6 if syndrome == cases.REMOTE else 3)
        assert bench.cqe_write.count - written[0] == (status is not None)
        assert bench.write.count - written[1] == (failing == "cqc")
        assert not bench.payload.queue and not bench.locked
        if failing == "qpc":
            assert not bench.memory.differences(before)
    await _failing_read(bench, read)
    write_result({"completer": dut.completer_counters.value.to_unsigned()})
    assert dut.completer_counters.value.to_unsigned() >> 32 == 1, "lost completions"


async def _failing_read(bench, read):
    """The host fails after so many beats: the responses before that are sent, then a NAK."""
    packet = 8 * cases.MTU // bench.width
    for good in (1, packet - 1, packet, packet + 1, 2 * packet, 2 * packet + 1):
        bench.load({})
        bench.failing.add("read")
        bench.good = good
        for items in (bench.events, bench.answers, bench.answer_payload):
            items.items.clear()
        bench.offer(read.frame(bench.epsn))
        await bench.step(1)
        got = [unpack(Headers, word) for _, word in bench.answers.items]
        sent = good // packet
        assert [headers["bth"]["psn"] for headers in got] == list(
            range(bench.epsn, bench.epsn + sent + 1))
        assert got[-1]["aeth"]["syndrome"] == cases.REMOTE
        payload = packets((word for _, word in bench.answer_payload.items), bench.width)
        assert [len(part) for part in payload] == [cases.MTU] * sent
        assert cases.context_of(bench.memory, bench.settings).state == 6
        bench.load({})
        await bench.packet(read.frame(bench.epsn))  # nothing of it is left


def traffic(rng, count):
    """Messages in order, with gaps, duplicates and refusals between; gives steps."""
    steps, psn = [], 0
    while len(steps) < count:
        kind = rng.randrange(12)
        if kind == 0:
            steps.append(cases.P(rng.choice((cases.WO, cases.SO)), 4, psn=psn + rng.randint(1, 9)))
        elif kind == 1:
            steps.append(cases.P(rng.choice((cases.WO, cases.SM)), 256,
                                 psn=psn - rng.randint(1, 9)))
        elif kind in (2, 3):
            steps += read_or_atomic(rng, psn)
            psn += max(1, -(-(steps[-1].length or 0) // 256))
        elif kind == 4 and rng.random() < 0.2:
            steps.append(cases.P(rng.randrange(12), rng.randrange(1, 300), psn=psn))
        else:
            size, imm = rng.choice((0, 1, 3, 64, 255, 256, 257, 512, 700)), rng.randrange(2)
            base = rng.choice((0, 6))
            count_packets = max(1, -(-size // 256))
            for i in range(count_packets):
                part = min(256, size - 256 * i)
                last = i == count_packets - 1
                code = (4 + imm if last else 0) if i == 0 else (2 + imm if last else 1)
                steps.append(cases.P(base + code, part, psn=psn, length=size,
                                     va=cases.VA + rng.randrange(2000),
                                     ackreq=rng.randrange(2)))
                psn += 1
            steps.append(cases.wqe(posted=rng.random() < 0.8))
    return steps


def read_or_atomic(rng, psn):
    """One of a queue pair's requests, and sometimes one of the last again before it."""
    again = [cases.P(rng.choice((cases.RD, cases.FA, cases.CS)), psn=psn - rng.randint(1, 6),
                     length=rng.choice((0, 8, 300, 900)))] * (rng.random() < 0.5)
    if rng.random() < 0.5:
        return [*again, cases.P(rng.choice((cases.FA, cases.CS)), psn=psn, swap=rng.getrandbits(64),
                                va=cases.VA + 8 * rng.randrange(3))]
    return [*again, cases.P(cases.RD, psn=psn, va=cases.VA + rng.randrange(2000),
                            length=rng.choice((0, 1, 64, 255, 256, 257, 700, 1100)))]


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def at_random(dut):
    bench, rng, job = await begin(dut)
    results: dict[str, int] = {}
    total = 0
    while total < job["count"]:
        unreliable = rng.random() < 0.3
        bench.load({"service": int(unreliable), "epsn": rng.choice((5, 0xFFFFFA, 0x7FFFFE)),
                    "msn": 0xFFFFFC, "rq_consume": rng.choice((0, 0xFFFFFFFD))})
        for step in traffic(rng, 40):
            if isinstance(step, cases.P):
                context = cases.context_of(bench.memory, bench.settings)
                if context.state != 3:
                    break
                if unreliable:
                    step.opcode += cases.U * (step.opcode < cases.RD)
                outcome = await bench.packet(step.frame(bench.epsn))
                name = str(result_of(outcome))
                results[name] = results.get(name, 0) + 1
                total += 1
            else:
                step(bench.memory, bench.settings)
                step(bench.golden.memory, bench.settings)
    write_result({"results": results})


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def back_to_back(dut):
    """Single-packet WRITEs offered at once: order, memory and cycles a packet."""
    bench, _, job = await begin(dut)
    bench.load({})
    frames = [cases.P(cases.WO, job["size"], psn=i, va=cases.VA + 64 * i).frame(bench.epsn)
              for i in range(30)]
    outcomes = []
    for frame in frames:
        bench.offer(frame)
        outcomes.append(bench.golden.receive(frame))
    await bench.step(len(frames))
    bench.same_answers([frame for outcome in outcomes for frame in outcome.frames])
    bench.same_memory()
    times = [cycle for cycle, _ in bench.events.items]
    write_result({"cycles": (times[-1] - times[9]) / (len(times) - 10)})
