"""The parts of the context cache beside its pipeline: queues, write buffer, miss table.

Each shows its state as of the beginning of the cycle; the methods named `end_…` come last in a
cycle and make the next one's.
"""

from collections import deque
from dataclasses import dataclass

from sim.timing.interface import Beat, Request, Stall

RETRY_DEPTH = 8
AHEAD = 4  # misses accepted beyond those in flight


class RetryQueue:
    """Parked requests of a port, in order; the next is tried before the last one's outcome."""

    def __init__(self) -> None:
        self.parked: deque[Request] = deque()
        self.untried = 0
        self.awake = self.stale = False
        self.blocked = Stall.NONE

    @property
    def ready(self) -> bool:
        return self.awake and self.untried > 0

    @property
    def head(self) -> Request:
        return self.parked[len(self.parked) - self.untried]

    def end_cycle(self, *, pushed: Request | None, issued: bool, done: bool, rewind: bool,
                  wake: bool, reason: Stall) -> None:
        count = len(self.parked)
        self.untried = count if rewind else self.untried - issued
        if rewind or (pushed and not count):
            self.awake, self.blocked = False, reason
        if pushed:
            self.parked.append(pushed)
            self.untried += 1
        if done:
            self.parked.popleft()
        self.awake |= wake
        self.stale = rewind


class WriteBuffer:
    """Entries on their way to the host: stored 1 cycle after the push, sent from the next on."""

    def __init__(self, depth: int, beats: int):
        self.depth = depth
        self.beats = beats
        self.held: deque[int] = deque()  # keys, until the host has them
        self.unsent: deque[int] = deque()
        self.storing: int | None = None
        self.asking: int | None = None
        self.beats_left = 0

    @property
    def available(self) -> bool:
        return len(self.held) < self.depth

    @property
    def quiet(self) -> bool:
        return not (self.unsent or self.storing is not None or self.asking is not None
                    or self.beats_left)

    def send(self, write_ready: bool, data_ready: bool) -> tuple[int | None, bool]:
        """The key whose request the host takes in this cycle, and whether it takes a beat."""
        next_one = bool(self.unsent) and self.asking is None and not self.beats_left
        written = self.asking if write_ready else None
        if written is not None:
            self.asking = None
        beat = data_ready and self.beats_left > 0
        self.beats_left -= beat
        if next_one:
            self.asking, self.beats_left = self.unsent.popleft(), self.beats
        return written, beat

    def end_cycle(self, pushed: int | None, done: bool) -> None:
        if self.storing is not None:
            self.unsent.append(self.storing)
        self.storing = pushed
        if done:
            self.held.popleft()
        if pushed is not None:
            self.held.append(pushed)


@dataclass(slots=True, eq=False)
class Miss:
    key: int
    way: int
    first: Request | None  # who started it; None for a PREFETCH
    number: int


@dataclass(slots=True)
class Arrival:
    miss: Miss
    failed: bool
    timed_out: bool = False


class MissTable:
    """Numbers, the queue of fetches, those in flight with their time-outs, and one arrival."""

    def __init__(self, misses: int, timeout: int):
        self.misses = misses
        self.timeout = timeout
        self.depth = misses + AHEAD
        self.free = deque(range(self.depth))
        self.queue: deque[Miss] = deque()
        self.started = Miss(0, 0, None, 0)  # the fetch that left last
        self.flying: dict[int, Miss] = {}
        self.in_flight = 0
        self.arrived: Arrival | None = None
        self.forwarded: Miss | None = None
        self.resting: set[int] = set()
        self.marked: set[int] = set()
        self.passing: int | None = None  # the number that the pass over all of them has reached

    @property
    def fill(self) -> Arrival | None:
        """What may be installed: one had from the write buffer goes first."""
        return Arrival(self.forwarded, False) if self.forwarded else self.arrived

    def request(self, ready: bool) -> tuple[int, int] | None:
        """The fetch that leaves in this cycle; nothing else may have changed in it yet."""
        if not (ready and self.queue and self.in_flight < self.misses):
            return None
        self.started = self.queue.popleft()
        return self.started.key, self.started.number

    def end_cycle(self, now: int, *, fetched: bool, taken: Miss | None, forward: bool,
                  beat: Beat | None, filled: bool) -> bool:
        """What came and went. `beat` was taken, `filled`: `fill` was. True on a time-out."""
        number = beat.tag if beat and beat.last else None
        late = number is not None and number not in self.flying
        ended = self.flying.pop(number) if number is not None and not late else None
        released = self._fill_ends() if filled else None
        room = self.arrived is None and ended is None
        if filled and not self.forwarded:
            self.arrived = None
        if filled:
            self.forwarded = None
        expired, rested = self._pass(now, room, released is None, ended)
        if late and number is not None:
            self.marked.add(number)
        if fetched:
            self.flying[self.started.number] = self.started
            self.marked.discard(self.started.number)
        self.in_flight = len(self.flying)
        if ended and beat:
            self.arrived = Arrival(ended, beat.failed)
        elif expired:
            self.arrived = Arrival(expired, True, True)
        self.free.extend(n for n in (released, rested) if n is not None)
        if taken and forward:
            self.forwarded = taken
        elif taken:
            self.queue.append(taken)
        return expired is not None

    def _fill_ends(self) -> int | None:
        """The number that a fill sets free: a fetch that timed out keeps its own."""
        fill = self.fill
        assert fill is not None
        return None if fill.timed_out else fill.miss.number

    def _pass(self, now: int, room: bool, give: bool, ended: Miss | None
              ) -> tuple[Miss | None, int | None]:
        """One number a cycle, all of them every `timeout` cycles: (overdue fetch, rested)."""
        number = self.passing
        if number is None:
            if now % self.timeout == self.timeout - 1:
                self.passing = 0
            return None, None
        marked = number in self.marked
        flies = number in self.flying or (ended is not None and ended.number == number)
        self.marked.add(number)
        if marked and (flies and not room or number in self.resting and not give):
            return None, None
        self.passing = number + 1 if number + 1 < self.depth else None
        if marked and flies:
            self.marked.discard(number)
            self.resting.add(number)
            return self.flying.pop(number), None
        if marked and number in self.resting:
            self.resting.discard(number)
            return None, number
        return None, None
