"""Around a context cache: its clients, the host that answers it, and the judge of both."""

import random
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from cocotb.triggers import RisingEdge

from rtl.context.interface import CacheRequest, CacheResponse, CacheStatus, Operation
from rtl.context.observe import CacheCounters, CacheEvents
from rtl.dma.interface import DmaStatus, Done, ReadBeat, ReadRequest, WriteRequest
from rtl.stream import PacketLayout
from tb.bits import number, pack, unpack

BASE = 0x12_3456_0000
REPAIR = 200  # cycles until software has seen to a poisoned entry
ORDERED = (Operation.LOOKUP, Operation.ACQUIRE, Operation.FLUSH, Operation.INVALIDATE)


@dataclass
class Request:
    op: Operation
    key: int
    data: int = 0
    mask: int = 0
    tag: int = 0
    sent: int = -1  # cycle of the transfer
    answered: int = -1
    answer: dict = field(default_factory=dict)


class Judge:
    """Knows each entry's versions and says whether an answer may be given.

    A version is (cycle its commit was taken, value). A commit is decided in the cycle after it is
    taken, so a request taken later must see it, and one that is taken but not answered may.
    """

    def __init__(self, entry_bytes, log_entries):
        self.entry_bytes = entry_bytes
        self.entries = 1 << log_entries
        self.versions = {}
        self.memory = {}
        self.failures = defaultdict(list)  # key → (first, last) cycle a fetch may have failed in
        self.locked = set()
        self.answers = defaultdict(int)  # status → count
        self.upsets = False  # bits flip, more than can be corrected
        self.lines_lost = False  # those of lines too
        self.poisoned = {}  # key → cycle in which software gives the host's entry its last value

    def initial(self, key):
        return random.Random(key).getrandbits(8 * self.entry_bytes)

    def history(self, key):
        if key not in self.versions:
            self.versions[key] = [(-1, self.initial(key))]
        return self.versions[key]

    def host(self, key):
        if key in self.poisoned:
            return self.history(key)[-1][1]
        return self.memory.get(key, self.initial(key))

    def taken(self, request):
        if request.op == Operation.COMMIT and request.key in self.locked:
            self.locked.discard(request.key)
            if request.mask:
                bits = sum((1 << 64) - 1 << 64 * i for i in range(self.entry_bytes // 8)
                           if request.mask >> i & 1)
                old = self.history(request.key)[-1][1]
                self.versions[request.key].append(
                    (request.sent, old & ~bits | request.data & bits))

    def judge(self, request, answer):
        """Raises where the answer is not one of those allowed."""
        where = f"{request.op.name} {request.key:#x} taken {request.sent}: {answer['status']}"
        status = CacheStatus(answer["status"])
        self.answers[status.name] += 1
        inside = request.key < self.entries or request.op == Operation.FLUSH_ALL
        assert (status == CacheStatus.BAD_KEY) == (not inside), where
        if not inside:
            return
        versions = self.history(request.key)
        if status == CacheStatus.FETCH_FAILED:
            assert request.op in (Operation.LOOKUP, Operation.ACQUIRE), where
            spoiled = self.upsets and len(versions) > 1  # had from the write buffer
            assert spoiled or any(request.sent <= last + 2 and first <= request.answered
                                  for first, last in self.failures[request.key]
                                  ), where + " without a failed fetch"
            return
        if status == CacheStatus.CORRUPT:  # only what differs from the host's can be lost
            assert self.upsets and request.op != Operation.PREFETCH, where
            assert (self.lines_lost or len(versions) > 1
                    or request.op == Operation.FLUSH_ALL), where
            return
        assert status == CacheStatus.OK, where
        if request.op == Operation.ACQUIRE:
            assert request.key not in self.locked, where + " already locked"
            self.locked.add(request.key)
            assert answer["data"] == versions[-1][1], where + " not the last version"
        elif request.op == Operation.LOOKUP:
            assert answer["data"] in self._allowed(request), where + " stale or foreign data"
        elif request.op in (Operation.FLUSH, Operation.INVALIDATE):
            assert self.host(request.key) in self._allowed(request), where + " host is stale"
        elif request.op == Operation.FLUSH_ALL:
            for key in self.versions:
                late = Request(request.op, key, sent=request.sent, answered=request.answered)
                assert self.host(key) in self._allowed(late), where + f" host is stale at {key:#x}"

    def _allowed(self, request):
        versions = self.history(request.key)
        first = max(i for i, (cycle, _) in enumerate(versions) if cycle < request.sent)
        return [value for cycle, value in versions[first:] if cycle <= request.answered]

    def same(self):
        """After FLUSH_ALL: the host has the last version of everything."""
        for key, versions in self.versions.items():
            assert self.host(key) == versions[-1][1], f"entry {key:#x} was lost"


class Port:
    """A client. Sends what `next_request` gives; commits what it acquired after `hold` cycles."""

    def __init__(self, bench, number):
        self.bench = bench
        self.rng = random.Random(bench.rng.getrandbits(32))
        self.request = bench.stream(f"port__{number}__request")
        self.response = bench.stream(f"port__{number}__response")
        self.script = deque()  # requests to send, in order
        self.commits = []  # (cycle, request)
        self.open = {}  # tag → request
        self.order = defaultdict(deque)  # key → tags to be answered in order
        self.offered = None
        self.window = 256  # open requests, commits not counted
        self.idle = self.stall = 0.0
        self.hold = None  # None: commits are in the script
        self.next_request = lambda: None
        self.done = []
        self.free_tags = deque(range(256))
        self.request[0].value = 0
        self.response[1].value = 0

    def _choose(self):
        for index, (due, commit) in enumerate(self.commits):
            if due <= self.bench.now:
                self.commits.pop(index)
                return commit
        waiting = len(self.open)
        if waiting >= self.window:
            waiting -= sum(request.op == Operation.COMMIT for request in self.open.values())
        if waiting >= self.window or not self.free_tags:
            return None
        return self.script.popleft() if self.script else self.next_request()

    def drive(self):
        if self.offered is None and self.free_tags and self.rng.random() >= self.idle:
            self.offered = self._choose()
            if self.offered:
                self.offered.tag = tag = self.free_tags.popleft()
                r = self.offered
                self.request[2].value = pack(self.bench.request_layout, {
                    "op": r.op, "key": r.key, "tag": tag, "data": r.data, "mask": r.mask})
                self.open[tag] = r
        self.request[0].value = self.offered is not None
        self.ready = self.rng.random() >= self.stall
        self.response[1].value = self.ready

    def sample(self):
        now = self.bench.now
        if self.offered and self.request[1].value == 1:
            self.offered.sent = now
            if self.offered.op in ORDERED:
                self.order[self.offered.key].append(self.offered.tag)
            self.bench.judge.taken(self.offered)
            self.offered = None
        if self.ready and self.response[0].value == 1:
            answer = unpack(self.bench.response_layout, number(self.response[2].value))
            self._answered(answer, now)

    def _answered(self, answer, now):
        assert answer["tag"] in self.open, f"answer without request: tag {answer['tag']}"
        request = self.open.pop(answer["tag"])
        assert request.sent >= 0, "answered before it was taken"
        assert (answer["op"], answer["key"]) == (request.op.value, request.key)
        if request.op in ORDERED:
            first = self.order[request.key].popleft()
            assert first == request.tag, f"out of order on key {request.key:#x}"
        self.free_tags.append(request.tag)
        request.answered, request.answer = now, answer
        self.bench.judge.judge(request, answer)
        self.done.append(request)
        if (request.op == Operation.ACQUIRE and self.hold is not None
                and answer["status"] == CacheStatus.OK.value):
            self.commits.append((now + self.hold(), self.commit_of(request)))

    def forget(self):
        """The cache was reset: what is open is never answered."""
        self.open.clear()
        self.order.clear()
        self.commits.clear()
        self.offered, self.free_tags = None, deque(range(256))

    def commit_of(self, request):
        size = self.bench.entry_bytes
        words = size // 8
        mask = self.rng.choice((0, (1 << words) - 1, self.rng.getrandbits(words)))
        return Request(Operation.COMMIT, request.key, self.rng.getrandbits(8 * size), mask)

    @property
    def quiet(self):
        return not (self.offered or self.script or self.commits or self.open)


class Host:
    """Answers fetches after `latency()` cycles in any order, and takes write-backs."""

    def __init__(self, bench):
        self.bench = bench
        self.rng = random.Random(bench.rng.getrandbits(32))
        self.fetch = bench.stream("fetch__request")
        self.answer = bench.stream("fetch__response")
        self.write = bench.stream("writeback__request")
        self.data = bench.stream("writeback__data")
        self.done = bench.stream("writeback__done")
        self.beat_layout, self.packet_layout = ReadBeat(bench.width), PacketLayout(bench.width)
        self.latency = lambda: 20
        self.write_latency = lambda: 10
        self.fail = self.lose = 0.0
        self.timeout = 0  # cycles; a lost fetch fails after 1 to 2 of them
        self.lost = {}  # key → (tag, cycle until which neither may be seen again)
        self.idle = self.stall = 0.0
        self.fetches = {}  # tag → key
        self.due = []  # [cycle, tag, key]
        self.beats = deque()
        self.offered = None
        self.writes = deque()  # [key, tag, data or None, due cycle]
        self.packet = []
        self.dones = deque()
        self.done_offered = None
        self.count = defaultdict(int)
        self.peak = 0
        self.log = []  # (cycle, "fetch" or "write", key)
        self.hold_fetch = self.hold_write = False
        self.refuses = False  # to take write-backs
        for valid, *_ in (self.answer, self.done):
            valid.value = 0
        for _, ready, _ in (self.fetch, self.write, self.data):
            ready.value = 0

    def _key(self, address, length):
        offset = address - BASE
        assert length == self.bench.entry_bytes and offset % length == 0 and offset >= 0
        key = offset // length
        assert key < self.bench.judge.entries, f"access outside the table: key {key:#x}"
        return key

    def drive(self):
        self.ready = [self.rng.random() >= self.stall for _ in range(3)]
        if self.refuses:
            self.ready[1:] = False, False
        ports = (self.fetch, self.write, self.data)
        for (_, ready, _), value in zip(ports, self.ready, strict=True):
            ready.value = value
        if self.offered is None and self.rng.random() >= self.idle:
            if not self.beats and not self.hold_fetch:
                self._begin_answer()
            if self.beats:
                self.offered = self.beats.popleft()
                self.answer[2].value = self.offered[0]
        self.answer[0].value = self.offered is not None
        if self.done_offered is None and self.writes and not self.hold_write:
            key, tag, data, due, poisoned = self.writes[0]
            if data is not None and due <= self.bench.now:
                self._store(key, data, poisoned)
                self.done_offered = pack(Done, {"tag": tag, "status": DmaStatus.OK})
                self.done[2].value = self.done_offered
        self.done[0].value = self.done_offered is not None

    def _store(self, key, data, poisoned):
        judge = self.bench.judge
        if poisoned:
            assert judge.upsets
            judge.poisoned[key] = self.bench.now + REPAIR
        else:
            judge.memory[key] = data

    def _begin_answer(self):
        ready = [entry for entry in self.due if entry[0] <= self.bench.now]
        if not ready:
            return
        entry = self.rng.choice(ready) if self.bench.shuffle else ready[0]
        self.due.remove(entry)
        _, tag, key = entry
        size, width = 8 * self.bench.entry_bytes, self.bench.width
        count = max(size // width, 1)
        value = self.bench.judge.host(key)
        empty = max(width - size, 0) // 8
        parts = [value >> i * width & (1 << width) - 1 for i in range(count)]
        failed = self.rng.random() < self.fail or self._poisoned(key)
        if failed:
            status, none = self.rng.choice(
                ((DmaStatus.REFUSED, 1), (DmaStatus.POISONED, 0), (DmaStatus.TIMEOUT, 1)))
            if none:
                parts = parts[:self.rng.randrange(count + 1) - 1] + [0] if count > 1 else [0]
            words = [pack(self.beat_layout, {"data": p}) for p in parts[:-1]]
            words.append(pack(self.beat_layout, {
                "data": parts[-1], "last": 1, "none": none, "tag": tag, "status": status}))
        else:
            words = [pack(self.beat_layout, {"data": p}) for p in parts[:-1]]
            words.append(pack(self.beat_layout, {
                "data": parts[-1], "last": 1, "empty": empty, "tag": tag}))
        last = len(words) - 1
        self.beats.extend((w, tag if i == last else None, failed) for i, w in enumerate(words))

    def _poisoned(self, key):
        poisoned, judge = self.bench.judge.poisoned, self.bench.judge
        if key in poisoned and poisoned[key] <= self.bench.now:
            del poisoned[key]
            judge.memory[key] = judge.history(key)[-1][1]
        return key in poisoned

    def sample(self):
        now = self.bench.now
        if self.ready[0] and self.fetch[0].value == 1:
            self._fetched(unpack(ReadRequest, number(self.fetch[2].value)), now)
        if self.offered and self.answer[1].value == 1:
            _, tag, failed = self.offered
            self.offered = None
            if tag is not None:
                key = self.fetches.pop(tag)
                if failed:
                    self.bench.judge.failures[key].append((now, now))
                self.count["failed" if failed else "fills"] += 1
        # one that leaves in the cycle in which another ends takes its place
        self.peak = max(self.peak, len(self.fetches))
        if self.ready[1] and self.write[0].value == 1:
            word = unpack(WriteRequest, number(self.write[2].value))
            key = self._key(word["address"], word["length"])
            assert key not in self.fetches.values(), "write-back of an entry being fetched"
            self.writes.append([key, word["tag"], None, 0, word["poisoned"]])
            self.log.append((now, "write", key))
            self.count["writebacks"] += 1
        if self.ready[2] and self.data[0].value == 1:
            self._beat(unpack(self.packet_layout, number(self.data[2].value)))
        self._match(now)
        if self.done_offered is not None and self.done[1].value == 1:
            self.done_offered = None
            self.writes.popleft()

    def _fetched(self, word, now):
        key = self._key(word["address"], word["length"])
        assert word["tag"] not in self.fetches, "tag used twice"
        assert key not in self.fetches.values(), f"key {key:#x} is being fetched already"
        assert key not in [w[0] for w in self.writes], f"key {key:#x} is being written back"
        assert key not in self.lost or self.lost[key][1] <= now, f"{key:#x} is still in flight"
        assert word["tag"] not in [tag for tag, until in self.lost.values() if now < until]
        if self.rng.random() < self.lose:
            self.lost[key] = word["tag"], now + self.timeout
            self.bench.judge.failures[key].append(
                (now + self.timeout, now + 2 * self.timeout + 100))
            self.count["lost"] += 1
            return
        self.fetches[word["tag"]] = key
        self.due.append((now + self.latency(), word["tag"], key))
        self.log.append((now, "fetch", key))
        self.count["fetches"] += 1

    def _beat(self, beat):
        self.packet.append(beat)

    def _match(self, now):
        count = max(8 * self.bench.entry_bytes // self.bench.width, 1)
        for write in self.writes:
            if write[2] is None and len(self.packet) >= count:
                beats, self.packet = self.packet[:count], self.packet[count:]
                assert [b["last"] for b in beats] == [0] * (count - 1) + [1]
                value = sum(b["data"] << i * self.bench.width for i, b in enumerate(beats))
                value &= (1 << 8 * self.bench.entry_bytes) - 1
                allowed = [v for _, v in self.bench.judge.history(write[0])]
                assert write[4] or value in allowed, f"foreign data written back to {write[0]:#x}"
                write[2], write[3] = value, now + self.write_latency()

    @property
    def quiet(self):
        return not (self.fetches or self.writes or self.beats or self.offered)


class Bench:
    """Drives before the edge, samples right after it; everything in one loop."""

    def __init__(self, dut, job, seed):
        self.dut = dut
        self.rng = random.Random(seed)
        self.entry_bytes = job["entry_bytes"]
        self.width = job["width"]
        self.shuffle = True
        self.now = 0
        self.request_layout = CacheRequest(self.entry_bytes)
        self.response_layout = CacheResponse(self.entry_bytes)
        self.log_entries = job.get("log_entries", 6)
        self.judge = Judge(self.entry_bytes, self.log_entries)
        self.host = Host(self)
        self.ports = [Port(self, number) for number in range(job["ports"])]
        self.watch: Callable[[dict[str, int]], None] | None = self._watch

    def stream(self, name):
        return tuple(getattr(self.dut, f"{name}__{part}") for part in ("valid", "ready", "payload"))

    async def reset(self):
        self.dut.rst.value = 1
        self.dut.host_table.value = BASE | self.log_entries << 64
        for _ in range(3):
            await RisingEdge(self.dut.clk)
        self.dut.rst.value = 0

    def _watch(self, events):
        """Whoever holds a lock keeps the entry here."""
        if events["evict"] or events["writeback"]:
            assert events["victim"] not in self.judge.locked, f"{events['victim']:#x} is locked"
        assert events["hit"] + events["miss"] + events["merged"] == events["lookup"]

    async def cycle(self):
        self.host.drive()
        for port in self.ports:
            port.drive()
        await RisingEdge(self.dut.clk)
        if self.watch:
            self.watch(unpack(CacheEvents, number(self.dut.events.value)))
        for port in self.ports:
            port.sample()
        self.host.sample()
        self.now += 1

    async def cycles(self, count):
        for _ in range(count):
            await self.cycle()

    async def settle(self, limit=20000):
        """Until nobody waits for anything."""
        end = self.now + limit
        while not (self.host.quiet and all(port.quiet for port in self.ports)):
            await self.cycle()
            if self.now > end:
                waiting = {n: [(r.op.name, r.key, r.sent) for r in p.open.values()]
                           for n, p in enumerate(self.ports)}
                raise AssertionError(f"stuck: {waiting}, fetches {self.host.fetches}")

    async def call(self, number, op, key, limit=20000, **fields):
        """One request on an otherwise quiet port, and its answer."""
        request = Request(op, key, **fields)
        self.ports[number].script.append(request)
        end = self.now + limit
        while request.answered < 0:
            await self.cycle()
            assert self.now < end, f"no answer to {op.name} {key:#x}"
        return request

    def counters(self):
        return unpack(CacheCounters, number(self.dut.counters.value))
