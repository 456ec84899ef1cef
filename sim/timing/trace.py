"""Traces of LOOKUPs: what is asked for, and how clients and host behave; and the two models on it.

Each port's client keeps up to `window` requests open and takes every answer at once; with `gap` it
rests that many cycles after one. The host answers the n-th fetch `latency[n]` cycles after it left
(the list starts again at its end), in the order in which they are due.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rtl.config import CacheConfig
from sim.timing import plain, victims
from sim.timing.context_cache import WAITERS_MAX, ContextCache
from sim.timing.interface import LOOKUP, Answer, Beat, Inputs, Outputs, Request, Status
from sim.timing.parts import AHEAD, RETRY_DEPTH

Keys = NDArray[np.int64]
TAGS = 256  # of a port


@dataclass(frozen=True, kw_only=True)
class AnyCache:
    """A geometry that need not be one of the hardware: with more ways, say."""

    sets: int = 1
    ways: int
    misses: int = 16
    targets: int = 4
    policy: Literal["plru", "lru", "srrip", "random"] = "plru"
    index: Literal["modulo", "hash"] = "modulo"


Geometry = CacheConfig | AnyCache


@dataclass(frozen=True, kw_only=True)
class Trace:
    keys: Keys  # [port, n]
    tenants: NDArray[np.int64] | None = None  # as `keys`
    latency: Sequence[int] = (100,)  # each at least 1
    window: int = 8
    gap: int = 0
    beats: int = 1  # of an entry
    tenant_ways: Sequence[int] = field(default=())

    @property
    def ports(self) -> int:
        return len(self.keys)


def _requests(trace: Trace) -> plain.Array:
    table = np.zeros(trace.keys.size, plain.REQUEST)
    table["key"] = trace.keys.ravel()
    table["port"] = np.repeat(np.arange(trace.ports), trace.keys.shape[1])
    if trace.tenants is not None:
        table["tenant"] = trace.tenants.ravel() % max(len(trace.tenant_ways), 1)
    table["evicted"] = table["next"] = -1
    return table


def _ports(trace: Trace, slots: int) -> plain.Array:
    table = np.zeros(trace.ports, plain.PORT)
    table["first"] = np.arange(trace.ports) * trace.keys.shape[1]
    table["end"] = table["first"] + trace.keys.shape[1]
    table["slots"] = slots
    return table


def predict(cache: Geometry, trace: Trace) -> Any:
    """Of each request, as records of `plain.REQUEST`, [port, n]."""
    assert min(trace.latency) >= 1
    slots = min(cache.misses * cache.targets, WAITERS_MAX)
    lines = np.zeros((cache.sets, cache.ways), plain.LINE)
    lines["head"] = -1
    state = np.zeros(1, plain.STATE)
    state["now"] = cache.sets  # until then they are being emptied
    state["item"] = state["arrived"] = state["chained"] = -1
    state["free"] = cache.misses + AHEAD
    queues = 2 * trace.ports + 3
    longest = max(slots * trace.ports, cache.misses + AHEAD, RETRY_DEPTH)
    model = plain.Model(
        lines, victims.new_ages(cache.policy, cache.sets, cache.ways), _requests(trace),
        _ports(trace, slots), state,
        np.zeros((queues, 2 << longest.bit_length()), np.int64), np.zeros((queues, 2), np.int64),
        np.array([[not mask or bool(mask >> way & 1) for way in range(cache.ways)]
                  for mask in trace.tenant_ways or (0,)]),
        np.zeros(cache.ways, np.bool_), np.array(trace.latency, np.int64), victims.NOISE,
        cache.misses, victims.POLICY[cache.policy], cache.index == "hash", trace.beats,
        trace.window, trace.gap)
    plain.run(model)
    return model.requests.reshape(trace.keys.shape)


class _Client:
    """Notes when each request is taken and answered, and whether it hit."""

    def __init__(self, trace: Trace, port: int):
        assert trace.window <= TAGS, f"a port has {TAGS} tags"
        self.trace = trace
        self.port = port
        self.times: list[list[int]] = []  # taken, answered, hit
        self.tags = deque(range(TAGS))
        self.open: dict[int, int] = {}  # tag → number of the request
        self.again = 0

    def offer(self, now: int) -> Request | None:
        number = len(self.times)
        if (number == self.trace.keys.shape[1] or len(self.open) >= self.trace.window
                or now < self.again):
            return None
        tenants = self.trace.tenants
        return Request(self.port, LOOKUP, int(self.trace.keys[self.port, number]), self.tags[0],
                       0 if tenants is None else int(tenants[self.port, number]))

    def settle(self, now: int, taken: bool, answer: Answer | None) -> None:
        if taken:
            self.open[self.tags.popleft()] = len(self.times)
            self.times.append([now, 0, 0])
        if answer:
            tag = answer.request.tag
            assert answer.status == Status.OK
            self.times[self.open.pop(tag)][1:] = now, int(answer.hit)
            self.tags.append(tag)
            self.again = now + 1 + self.trace.gap

    @property
    def quiet(self) -> bool:
        return len(self.times) == self.trace.keys.shape[1] and not self.open


class TraceWorld:
    """Clients and host of a trace around the whole model or the hardware, as traffic.World."""

    def __init__(self, trace: Trace):
        self.trace = trace
        self.clients = [_Client(trace, port) for port in range(trace.ports)]
        self.flights: list[tuple[int, int, int]] = []  # due, order, tag
        self.fetches = self.left = self.tag = 0

    def drive(self, now: int) -> Inputs:
        i = Inputs([client.offer(now) for client in self.clients], [True] * self.trace.ports)
        if not self.left and self.flights and self.flights[0][0] <= now:
            self.tag, self.left = heappop(self.flights)[2], self.trace.beats
        if self.left:
            i.beat = Beat(self.tag, self.left == 1)
        return i

    def settle(self, now: int, i: Inputs, out: Outputs) -> None:
        for client, taken, answer in zip(self.clients, out.taken, out.answers, strict=True):
            client.settle(now, taken, answer)
        self.left -= out.beat_taken
        if out.fetch:
            latency = self.trace.latency[self.fetches % len(self.trace.latency)]
            heappush(self.flights, (now + latency, self.fetches, out.fetch[1]))
            self.fetches += 1

    @property
    def quiet(self) -> bool:
        return all(client.quiet for client in self.clients)

    @property
    def times(self) -> list[list[list[int]]]:
        """[taken, answered, hit] of each request of each port."""
        return [client.times for client in self.clients]


def play(cache: Any, world: TraceWorld, *, log_entries: int = 24
         ) -> Iterator[tuple[int, Outputs]]:
    """Each cycle's outputs of the whole model; `world.times` has its answers at the end."""
    trace = world.trace
    model = ContextCache(cache, trace.ports, beats=trace.beats, log_entries=log_entries,
                         tenant_ways=trace.tenant_ways)
    while not world.quiet:
        now, i = model.now, world.drive(model.now)
        out = model.step(i)
        world.settle(now, i, out)
        yield now, out
