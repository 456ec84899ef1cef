"""Clients and a host around a context cache, cycle by cycle; the same for model and hardware."""

import random
from collections import deque
from dataclasses import dataclass, field

from sim.timing.interface import (
    ACQUIRE,
    COMMIT,
    FLUSH,
    FLUSH_ALL,
    INVALIDATE,
    LOOKUP,
    PREFETCH,
    Answer,
    Beat,
    Inputs,
    Outputs,
    Request,
)

KEY_BITS = 24
MIXED = {LOOKUP: 40, ACQUIRE: 40, PREFETCH: 8, FLUSH: 5, INVALIDATE: 5, FLUSH_ALL: 0.3}


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What to send, and how the host answers. Probabilities a cycle, a request or a fetch."""

    seed: int = 1
    requests: int = 1000  # of all ports, commits not counted
    weights: dict[int, float] = field(default_factory=lambda: dict(MIXED))
    keys: int = 16
    outside: float = 0.01  # keys beyond the table
    tenants: int = 1
    window: int = 8  # open requests a port; no more with ACQUIREs, see the contract
    idle: float = 0.0  # of clients and host
    stall: float = 0.0
    latency: tuple[int, int] = (2, 60)  # of fetches
    write_latency: tuple[int, int] = (0, 40)
    hold: tuple[int, ...] = (0, 0, 1, 5, 30)  # cycles between ACQUIRE's answer and COMMIT
    fail: float = 0.0
    overdue: float = 0.0  # fetches answered late or never
    timeout: int = 1 << 18


def some_keys(rng: random.Random, entries: int, count: int) -> list[int]:
    """Different keys, of which each second differs from the one before in one bit: what mixes up
    two entries is seen."""
    keys: dict[int, None] = {}
    while len(keys) < count - 1:
        key = rng.randrange(entries)
        keys |= {key: None, key ^ entries >> rng.randrange(1, entries.bit_length()): None}
    return list(keys)[:count] or [rng.randrange(entries)]


def outside_key(rng: random.Random, entries: int) -> int:
    """Beyond a table of `entries`, a power of 2; every second time by a single bit."""
    if rng.random() < 0.5:
        return 1 << rng.randrange(entries.bit_length() - 1, KEY_BITS)
    return rng.randrange(entries, 1 << KEY_BITS)


class Client:
    def __init__(self, port: int, traffic: Traffic, entries: int, requests: int):
        self.port = port
        self.traffic = traffic
        self.entries = entries
        self.rng = random.Random(traffic.seed * 100 + port)
        draw = random.Random(traffic.seed)
        self.keys = some_keys(draw, entries, min(traffic.keys, entries))
        self.left = requests
        self.tags = deque(range(256))
        self.open = 0
        self.commits: list[tuple[int, Request]] = []
        self.offered: Request | None = None

    def offer(self, now: int) -> Request | None:
        if self.offered is None and self.rng.random() >= self.traffic.idle:
            self.offered = self._next(now)
        return self.offered

    def _next(self, now: int) -> Request | None:
        if not self.tags:
            return None
        for index, (due, commit) in enumerate(self.commits):
            if due <= now:
                del self.commits[index]
                commit.tag = self.tags.popleft()
                return commit
        if not self.left or self.open >= self.traffic.window:
            return None
        self.left -= 1
        rng, weights = self.rng, self.traffic.weights
        op = rng.choices(list(weights), list(weights.values()))[0]
        key = rng.choice(self.keys)
        if rng.random() < self.traffic.outside and self.entries < 1 << KEY_BITS:
            key = outside_key(rng, self.entries)
        return Request(self.port, op, key, self.tags.popleft(),
                       rng.randrange(self.traffic.tenants))

    def settle(self, now: int, taken: bool, answer: Answer | None) -> None:
        if taken:
            self.open += 1
            self.offered = None
        if answer:
            request = answer.request
            self.open -= 1
            self.tags.append(request.tag)
            if request.op == ACQUIRE and answer.status == 0:
                self.commits.append((now + self.rng.choice(self.traffic.hold), Request(
                    self.port, COMMIT, request.key, writes=self.rng.random() < 0.7)))

    @property
    def quiet(self) -> bool:
        return not (self.left or self.open or self.commits or self.offered)


class Host:
    """Answers fetches in any order of those that are due, and write-backs in order."""

    def __init__(self, traffic: Traffic, beats: int):
        self.traffic = traffic
        self.beats = beats
        self.rng = random.Random(traffic.seed + 7)
        self.fetches: list[tuple[int, int]] = []  # (cycle due, tag)
        self.beat: Beat | None = None
        self.left = 0  # beats of this answer
        self.writes = self.packets = 0  # taken, not matched yet
        self.sent = 0
        self.dones: deque[int] = deque()  # cycles due

    def drive(self, now: int, i: Inputs) -> None:
        rng, stall = self.rng, self.traffic.stall
        i.fetch_ready, i.write_ready, i.data_ready = (rng.random() >= stall for _ in range(3))
        i.done = bool(self.dones) and self.dones[0] <= now
        if self.beat is None and rng.random() >= self.traffic.idle:
            self.beat = self._next_beat(now)
        i.beat = self.beat

    def _next_beat(self, now: int) -> Beat | None:
        if not self.left:
            due = [fetch for fetch in self.fetches if fetch[0] <= now]
            if not due:
                return None
            fetch = self.rng.choice(due)
            self.fetches.remove(fetch)
            self.tag, self.failed = fetch[1], self.rng.random() < self.traffic.fail
            self.left = self.rng.randint(1, self.beats) if self.failed else self.beats
        self.left -= 1
        return Beat(self.tag, not self.left, self.failed)

    def settle(self, now: int, i: Inputs, out: Outputs) -> None:
        if out.fetch:
            delay = self.rng.randint(*self.traffic.latency)
            if self.rng.random() < self.traffic.overdue:
                delay = self.rng.randrange(2 * self.traffic.timeout)
            if delay or not self.traffic.overdue:
                self.fetches.append((now + 1 + delay, out.fetch[1]))
        if out.beat_taken:
            self.beat = None
        if i.done:
            self.dones.popleft()
        self.writes += out.write is not None
        if out.data_taken:
            self.sent += 1
            if self.sent == self.beats:
                self.sent, self.packets = 0, self.packets + 1
        while self.writes and self.packets:
            self.writes, self.packets = self.writes - 1, self.packets - 1
            due = now + 1 + self.rng.randint(*self.traffic.write_latency)
            self.dones.append(max(due, self.dones[-1] if self.dones else 0))

    @property
    def quiet(self) -> bool:
        return not (self.fetches or self.beat or self.left or self.writes or self.packets
                    or self.dones or self.sent)


class World:
    """Everything around the cache. A cycle is `drive`, the cache, `settle`."""

    def __init__(self, traffic: Traffic, ports: int, beats: int, log_entries: int):
        share = -(-traffic.requests // ports)
        self.clients = [Client(port, traffic, 1 << log_entries, share) for port in range(ports)]
        self.host = Host(traffic, beats)
        self.rng = random.Random(traffic.seed + 13)
        self.stall = traffic.stall

    def drive(self, now: int) -> Inputs:
        i = Inputs([client.offer(now) for client in self.clients],
                   [self.rng.random() >= self.stall for _ in self.clients])
        self.host.drive(now, i)
        return i

    def settle(self, now: int, i: Inputs, out: Outputs) -> None:
        for client, taken, answer in zip(self.clients, out.taken, out.answers, strict=True):
            client.settle(now, taken, answer)
        self.host.settle(now, i, out)

    @property
    def quiet(self) -> bool:
        return self.host.quiet and all(client.quiet for client in self.clients)
