"""The context cache's timing: what each cycle brings, predicted from docs/context-cache.md.

`ContextCache.step` takes what clients and host do in a cycle and gives the transfers and events of
that cycle; it knows nothing of data. Cycle 0 is the first one after reset.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from rtl.config import CacheConfig
from sim.timing.interface import (
    ACQUIRE,
    COMMIT,
    FLUSH,
    FLUSH_ALL,
    INVALIDATE,
    LOOKUP,
    PASSES,
    PREFETCH,
    Answer,
    Event,
    Inputs,
    Outputs,
    Request,
    Stall,
    Status,
)
from sim.timing.parts import RETRY_DEPTH, Arrival, Miss, MissTable, RetryQueue, WriteBuffer
from sim.timing.replacement import POLICIES, Policy

KEY_BITS = 24
ANSWER_DEPTH = 4
WAITERS_MAX = 1024  # a port


class State(Enum):
    EMPTY = auto()
    PENDING = auto()
    PRESENT = auto()
    FAILED = auto()


class Kind(Enum):
    """Where the pipeline's item comes from."""

    FRESH = auto()
    RETRY = auto()
    REPLAY = auto()
    SWEEP = auto()


@dataclass(slots=True, eq=False)
class Line:
    """One way of one set."""

    number: int
    state: State = State.EMPTY
    key: int = 0
    dirty: bool = False
    locked: bool = False
    hinted: bool = False
    waiting: deque["Waiter"] = field(default_factory=deque)

    @property
    def idle(self) -> bool:
        return self.state is State.PRESENT and not self.locked and not self.waiting


@dataclass(slots=True, eq=False)
class Waiter:
    request: Request
    line: Line
    hit: bool


@dataclass(slots=True, eq=False)
class Set:
    lines: list[Line]
    policy: Policy


@dataclass(slots=True, eq=False)
class Item:
    kind: Kind
    request: Request  # of a SWEEP, only the set's number as key
    waiter: Waiter | None = None


@dataclass(slots=True)
class Outcome:
    """What a decision asks for beside the line's new state."""

    answer: Answer | None = None
    parked: Stall = Stall.NONE
    wake: Waiter | None = None  # goes next in its list
    heir: Waiter | None = None  # the first to wait for an entry that is locked and here
    joined: Waiter | None = None  # a list, and took a slot
    freed_slot: bool = False
    miss: Miss | None = None
    forward: bool = False
    push: int | None = None  # key into the write buffer
    begin_flush: bool = False
    begin_sweep: bool = False
    end_sweep: bool = False
    swept_set: bool = False
    changed: bool = False
    events: list[Event] = field(default_factory=list)


class Sweep:
    """FLUSH_ALL: a step every 2 cycles while it finds something to do."""

    def __init__(self, sets: int):
        self.sets = sets
        self.active = self.drain = self.swept = self.awake = self.deciding = False
        self.owner = 0
        self.set = 0

    @property
    def sweeping(self) -> bool:
        return self.active and not self.drain and not self.swept

    @property
    def ready(self) -> bool:
        return self.sweeping and self.awake and not self.deciding

    def end_cycle(self, do: Outcome, port: int, *, issued: bool, wake: bool,
                  drained: bool) -> None:
        sweeping, active = self.sweeping, self.active
        if self.deciding and do.push is None and not do.swept_set:
            self.awake = False
        if wake or not sweeping:
            self.awake = True
        if do.begin_sweep and not active:
            self.active, self.owner, self.set = True, port, 0
        if do.swept_set:
            self.set += 1
            self.drain |= self.set == self.sets
        if drained:
            self.drain, self.swept = False, True
        if do.end_sweep:
            self.swept = self.active = False
        self.deciding = issued


class ContextCache:
    def __init__(self, config: CacheConfig, ports: int, *, beats: int = 1, log_entries: int = 24,
                 tenant_ways: Sequence[int] = ()):
        self.config = config
        self.ports = ports
        self.entries = 1 << log_entries
        self.tenant_ways = [
            [way for way in range(config.ways) if not mask or mask >> way & 1]
            for mask in tenant_ways or [0]]
        self.sets = [Set([Line(way) for way in range(config.ways)],
                         POLICIES[config.policy](config.ways)) for _ in range(config.sets)]
        self.set_bits = (config.sets - 1).bit_length()
        self.retry = [RetryQueue() for _ in range(ports)]
        self.answers: list[deque[Answer]] = [deque() for _ in range(ports)]
        self.arriving: list[list[Answer]] = [[] for _ in range(ports)]
        self.slots = [min(config.misses * config.targets, WAITERS_MAX)] * ports
        self.tokens: tuple[deque[Waiter], deque[Waiter]] = (deque(), deque())
        self.heir: Waiter | None = None  # of the last entry that got one
        self.chained: Waiter | None = None  # follows what was selected the cycle before
        self.flushing = [False] * ports
        self.buffer = WriteBuffer(config.write_buffer, beats)
        self.misses = MissTable(config.misses, config.timeout_cycles)
        self.sweep = Sweep(config.sets)
        self.item: Item | None = None
        self.turn = 0  # ports from here on go first
        self.issued_retry: int | None = None
        self.now = 0

    def set_of(self, key: int) -> Set:
        tag = key >> self.set_bits
        folded = key
        while self.config.index == "hash" and tag and self.set_bits:
            folded ^= tag
            tag >>= self.set_bits
        return self.sets[folded & self.config.sets - 1]

    # A cycle. Everything below reads the state of the cycle's beginning unless it says otherwise.

    def step(self, i: Inputs) -> Outputs:
        out = Outputs([False] * self.ports, [None] * self.ports)
        item = self.item
        self.issued_retry = None
        free_misses = len(self.misses.free)
        under_way = self._offer_answers(i, out)
        out.fetch = self.misses.request(i.fetch_ready)
        stale = item and item.kind is Kind.RETRY and self.retry[item.request.port].stale
        do = Outcome()
        if item and not stale:
            do = self._decide(item)
        fill, filled = self.misses.fill, False
        if fill:
            first = fill.miss.first
            filled = not (item and item.request.op == COMMIT) and (
                first is None or under_way[first.port] < ANSWER_DEPTH)
            if filled and first:
                under_way[first.port] += 1
        out.beat_taken = i.beat is not None and (
            self.misses.arrived is None or (filled and self.misses.forwarded is None))
        picked = self._select(i, out, do, under_way, free_misses)
        self._finish(i, out, item if not stale else None, do, fill if filled else None, picked)
        return out

    def _offer_answers(self, i: Inputs, out: Outputs) -> list[int]:
        """The answers of the cycle; how many places for answers each port's requests take."""
        under_way = []
        for port, queue in enumerate(self.answers):
            queue.extend(self.arriving[port])
            coming = bool(self.item and self.item.kind is not Kind.SWEEP
                          and self.item.request.port == port)
            under_way.append(len(queue) + coming)
            if queue and i.ready[port]:
                out.answers[port] = queue.popleft()
        return under_way

    def _select(self, i: Inputs, out: Outputs, do: Outcome, under_way: list[int],
                free_misses: int) -> Item | None:
        """Waiting requests, then FLUSH_ALL, then the ports in turn."""
        if self.now < self.config.sets:
            return None  # still emptying the sets
        known = do.wake if do.wake in (self.heir, self.chained) else None
        self.chained = None
        if known and under_way[known.request.port] < ANSWER_DEPTH:
            do.wake = None
            return self._next_in_list(known, do)
        for tokens in self.tokens:
            if tokens and not known:
                waiter = tokens[0]
                if under_way[waiter.request.port] < ANSWER_DEPTH:
                    return self._next_in_list(tokens.popleft(), do)
                break
        if self.sweep.ready:
            return Item(Kind.SWEEP, Request(0, LOOKUP, self.sweep.set))
        starved = free_misses <= (self.item is not None)
        for step in range(self.ports):
            port = (self.turn + step) % self.ports
            request, retry = i.offered[port], self.retry[port]
            if under_way[port] >= ANSWER_DEPTH:
                continue
            if request and (request.op in PASSES or not retry.parked):
                self.turn = (port + 1) % self.ports
                out.taken[port] = True
                return Item(Kind.FRESH, request)
            if retry.ready and not (starved and retry.blocked is Stall.MISSES):
                self.turn = (port + 1) % self.ports
                self.issued_retry = port
                return Item(Kind.RETRY, retry.head)
        return None

    def _next_in_list(self, waiter: Waiter, do: Outcome) -> Item:
        """The first of its list goes. What follows a LOOKUP is known then, if it did not join in
        this very cycle."""
        if waiter.request.op == LOOKUP and len(waiter.line.waiting) > 1:
            follows = waiter.line.waiting[1]
            self.chained = follows if follows is not do.joined else None
        return Item(Kind.REPLAY, waiter.request, waiter)

    def _finish(self, i: Inputs, out: Outputs, item: Item | None, do: Outcome,
                fill: Arrival | None, picked: Item | None) -> None:
        """What the cycle leaves to the next one."""
        drained = self.sweep.drain and not self.buffer.held
        wake = do.changed or i.done or fill is not None or drained
        arriving: list[list[Answer]] = [[] for _ in range(self.ports)]
        out.events = do.events
        if fill:
            self._install(fill, arriving, out)
        if do.answer:
            arriving[do.answer.request.port].append(do.answer)
        if do.wake:
            self.tokens[0].append(do.wake)
        self.heir = do.heir or self.heir
        self.arriving = arriving
        self._queues(i, out, item, do, wake)
        port = item.request.port if item else 0
        self.slots[port] += do.freed_slot - (do.joined is not None)
        out.write, out.data_taken = self.buffer.send(i.write_ready, i.data_ready)
        self.sweep.end_cycle(do, port, issued=bool(picked and picked.kind is Kind.SWEEP),
                             wake=wake, drained=drained)
        self.buffer.end_cycle(do.push, i.done)
        timed_out = self.misses.end_cycle(
            self.now, fetched=out.fetch is not None, taken=do.miss, forward=do.forward,
            beat=i.beat if out.beat_taken else None, filled=fill is not None)
        if timed_out:
            out.events.append(("timeout",))
        self.item = picked
        self.now += 1

    def _install(self, fill: Arrival, arriving: list[list[Answer]], out: Outputs) -> None:
        """A fill, or the failure of one. Requests decided in this very cycle may wait for it."""
        miss, first = fill.miss, fill.miss.first
        line = self.set_of(miss.key).lines[miss.way]
        if fill.failed:
            line.state = State.FAILED if line.waiting else State.EMPTY
            if first is None and not line.waiting:
                out.events.append(("useless", 1))
        else:
            line.state = State.PRESENT
        out.events.append(("fetch_error" if fill.failed else "fill", miss.key))
        if line.waiting and (fill.failed or not (first and first.op == ACQUIRE)):
            self.tokens[1].append(line.waiting[0])
        if first:
            status = Status.FETCH_FAILED if fill.failed else Status.OK
            arriving[first.port].append(Answer(first, status, False))

    def _queues(self, i: Inputs, out: Outputs, item: Item | None, do: Outcome,
                wake: bool) -> None:
        for port, retry in enumerate(self.retry):
            mine = item if item and item.request.port == port else None
            fresh = mine is not None and mine.kind is Kind.FRESH
            tried = mine is not None and mine.kind is Kind.RETRY
            request = i.offered[port]
            pushed = mine.request if mine and fresh and do.parked else None
            if (request and request.op not in PASSES and not fresh
                    and 0 < len(retry.parked) < RETRY_DEPTH):
                out.taken[port] = True
                pushed = request
            retry.end_cycle(pushed=pushed, issued=self.issued_retry == port,
                            done=tried and not do.parked, rewind=tried and bool(do.parked),
                            wake=wake, reason=do.parked)
            if mine and do.begin_flush:
                self.flushing[port] = True
            elif tried and not do.parked:
                self.flushing[port] = False

    # Decisions.

    def _decide(self, item: Item) -> Outcome:
        do = Outcome()
        if item.kind is Kind.SWEEP:
            self._sweep_set(self.sets[item.request.key], do)
        elif item.waiter:
            self._replay(item.waiter, do)
        else:
            self._request(item, do)
            if do.parked:
                do.events.append(("stall", int(do.parked)))
        if do.push is not None:
            do.events.append(("writeback", do.push))
        return do

    def _sweep_set(self, cache_set: Set, do: Outcome) -> None:
        """Forget what is clean, and write back one dirty entry."""
        dirty = [line for line in cache_set.lines if line.idle and line.dirty]
        busy = [line for line in cache_set.lines if line.state is not State.EMPTY
                and not line.idle]
        hinted = sum(line.idle and line.hinted for line in cache_set.lines)
        if hinted:
            do.events.append(("useless", hinted))
        for line in cache_set.lines:
            if line.idle and not line.dirty:
                line.state = State.EMPTY
        if dirty and self.buffer.available:
            line = dirty.pop(0)
            line.state = State.EMPTY
            do.push = line.key
        do.swept_set = not dirty and not busy

    def _replay(self, waiter: Waiter, do: Outcome) -> None:
        line = waiter.line
        failed = line.state is State.FAILED
        line.waiting.popleft()
        line.locked = waiter.request.op == ACQUIRE and not failed
        if line.waiting and line.locked:
            do.heir = line.waiting[0]
        elif line.waiting:
            do.wake = line.waiting[0]
        if failed and not line.waiting:
            line.state = State.EMPTY
        status = Status.FETCH_FAILED if failed else Status.OK
        do.answer = Answer(waiter.request, status, waiter.hit)
        do.freed_slot = do.changed = True
        do.events.append(("replay", line.key, line.number))

    def _request(self, item: Item, do: Outcome) -> None:
        request, op = item.request, item.request.op
        line = next((line for line in self.set_of(request.key).lines
                     if line.state is not State.EMPTY and line.key == request.key), None)
        if item.kind is Kind.FRESH and self.retry[request.port].parked and op not in PASSES:
            do.parked = Stall.ORDER
        elif op == FLUSH_ALL:
            self._flush_all(request, do)
        elif request.key >= self.entries:
            do.answer = Answer(request, Status.BAD_KEY, False)
            do.events.append(("bad_key",))
        elif op == COMMIT:
            self._commit(request, line, do)
        elif op == PREFETCH:
            present = line is not None and line.state is State.PRESENT
            do.answer = Answer(request, Status.OK, present)
            if not line and not self.sweep.active and not self._start(request, do):
                do.events.append(("prefetch", request.key, do.miss.way if do.miss else 0))
        elif self.sweep.active:
            do.parked = Stall.FLUSH_ALL
        elif op in (FLUSH, INVALIDATE):
            self._flush(item, line, do)
        elif line:
            self._hit(request, line, do)
        else:
            do.parked = self._start(request, do)
            if do.miss:
                do.events += [("lookup",), ("miss", request.key, do.miss.way)]

    def _flush_all(self, request: Request, do: Outcome) -> None:
        if self.sweep.swept and self.sweep.owner == request.port:
            do.answer = Answer(request, Status.OK, False)
            do.end_sweep = do.changed = True
        else:
            do.parked = Stall.FLUSH_ALL
            do.begin_sweep = True

    def _commit(self, request: Request, line: Line | None, do: Outcome) -> None:
        if not (line and line.locked and line.state is State.PRESENT):
            do.answer = Answer(request, Status.BAD_KEY, False)
            return
        line.locked = False
        line.dirty |= request.writes
        if line.waiting:
            do.wake = line.waiting[0]
        do.answer = Answer(request, Status.OK, True)
        do.changed = True

    def _hit(self, request: Request, line: Line, do: Outcome) -> None:
        present = line.state is State.PRESENT
        if line.state is State.FAILED:
            do.parked = Stall.FAILED
            return
        if not line.idle:
            if not self.slots[request.port]:
                do.parked = Stall.SLOTS
                return
            do.joined = Waiter(request, line, present)
            line.waiting.append(do.joined)
            if present and line.locked and len(line.waiting) == 1:
                do.heir = do.joined
        else:
            line.locked = request.op == ACQUIRE
            self.set_of(request.key).policy.use(line.number)
            do.answer = Answer(request, Status.OK, True)
        do.events += [("lookup",), ("hit" if present else "merged", request.key, line.number)]
        if line.hinted:
            do.events.append(("useful" if present else "late",))
            line.hinted = False

    def _start(self, request: Request, do: Outcome) -> Stall:
        """Begins a miss, or says why not."""
        writing = request.key in self.buffer.held
        if writing and self.misses.forwarded:
            return Stall.WRITING
        if not self.misses.free:
            return Stall.MISSES
        cache_set = self.set_of(request.key)
        allowed = [cache_set.lines[way]
                   for way in self.tenant_ways[request.tenant % len(self.tenant_ways)]]
        line = next((line for line in allowed if line.state is State.EMPTY), None)
        if not line:
            idle = [line.number for line in allowed if line.idle]
            if not idle:
                return Stall.WAYS
            line = cache_set.lines[cache_set.policy.victim(idle, self.now)]
            if line.dirty and not self.buffer.available:
                return Stall.WRITE_BUFFER
            do.push = line.key if line.dirty else None
            do.events.append(("evict", line.key))
            if line.hinted:
                do.events.append(("useless", 1))
        if writing:
            do.events.append(("forward",))
        do.forward = writing
        do.miss = Miss(request.key, line.number, None if request.op == PREFETCH else request,
                       self.misses.free.popleft())
        line.state, line.key, line.dirty = State.PENDING, request.key, False
        line.locked, line.hinted = request.op == ACQUIRE, request.op == PREFETCH
        cache_set.policy.fill(line.number)
        return Stall.NONE

    def _flush(self, item: Item, line: Line | None, do: Outcome) -> None:
        """First the write-back; tried again, the answer once the host has the entry."""
        request = item.request
        begun = self.flushing[request.port] and item.kind is Kind.RETRY
        first = line if not begun else None
        writes = first is not None and first.dirty
        if first and not first.idle:
            do.parked = Stall.BUSY
            return
        if writes and not self.buffer.available:
            do.parked = Stall.WRITE_BUFFER
            return
        if first:
            do.changed = True
            first.dirty = False
            if request.op == INVALIDATE:
                first.state = State.EMPTY
                if first.hinted:
                    do.events.append(("useless", 1))
        if writes or request.key in self.buffer.held:
            do.parked = Stall.WRITING
            do.begin_flush = True
            do.push = request.key if writes else None
        else:
            do.answer = Answer(request, Status.OK, line is not None)


