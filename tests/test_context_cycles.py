"""The cycles that docs/context-cache.md states, row by row, on the model.

tests/test_context_timing.py shows that the hardware takes the same.
"""

from rtl.config import CacheConfig
from sim.timing.context_cache import ContextCache
from sim.timing.interface import (
    ACQUIRE,
    COMMIT,
    FLUSH,
    FLUSH_ALL,
    INVALIDATE,
    LOOKUP,
    PREFETCH,
    Beat,
    Inputs,
    Request,
    Stall,
)

SETS = 4
L = 20  # cycles from a fetch to its only beat, and from a write-back's beat to its end
A, B = 0, SETS  # keys of one set; keys 1 to 3 are in others


class Scene:
    """A cache and its requests, each offered from its cycle on; the host takes L cycles."""

    def __init__(self, *, ports=2, fail=(), **geometry):
        self.cache = ContextCache(CacheConfig(**{
            "sets": SETS, "ways": 1, "entry_bytes": 64, "misses": 4, "targets": 4,
            "write_buffer": 2} | geometry), ports)
        self.ports = ports
        self.fail = fail  # keys
        self.script = []
        self.sent, self.answered, self.hit = {}, {}, {}
        self.fetches, self.beats, self.writes, self.dones = [], [], [], []
        self.stalls, self.misses = [], {}

    def __call__(self, cycle, op, key=A, port=0, writes=True):
        request = Request(port, op, key, tag=len(self.script), writes=writes)
        self.script.append((cycle, request))
        return request

    def run(self, cycles=400):
        queue = [[entry for entry in self.script if entry[1].port == port]
                 for port in range(self.ports)]
        due, ends = [], []
        for now in range(cycles):
            offered = [mine[0][1] if mine and mine[0][0] <= now else None for mine in queue]
            ready = [fetch for fetch in due if fetch[0] <= now]
            beat = Beat(ready[0][1], True, ready[0][2] in self.fail) if ready else None
            i = Inputs(offered, [True] * self.ports, beat, done=bool(ends) and ends[0] <= now)
            out = self.cache.step(i)
            for port, taken in enumerate(out.taken):
                if taken:
                    self.sent[queue[port].pop(0)[1]] = now
            for answer in filter(None, out.answers):
                self.answered[answer.request] = now
                self.hit[answer.request] = answer.hit
            if out.fetch:
                self.fetches.append(now)
                due.append((now + L, out.fetch[1], out.fetch[0]))
            if out.beat_taken:
                self.beats.append(now)
                due.remove(ready[0])
            if out.write is not None:
                self.writes.append(now)
            if out.data_taken:
                ends.append(now + L)
            if i.done:
                self.dones.append(ends.pop(0))
            self.misses |= {e[1]: now for e in out.events if e[0] == "miss"}
            self.stalls += [Stall(e[1]).name for e in out.events if e[0] == "stall"]
        assert len(self.answered) == len(self.script), "not all is answered"
        return self

    def took(self, request):
        return self.answered[request] - self.sent[request]


def test_hit():
    scene = Scene()
    scene(10, LOOKUP)
    hits = [scene(60, LOOKUP) for _ in range(10)]
    scene.run()
    assert {scene.took(hit) for hit in hits} == {2}
    assert scene.answered[hits[-1]] - scene.answered[hits[0]] == 9


def test_miss():
    scene = Scene()
    miss = scene(10, LOOKUP)
    scene.run()
    assert scene.fetches[0] - scene.sent[miss] == 2
    assert scene.answered[miss] - scene.beats[0] == 2


def test_read_modify_write():
    scene = Scene()
    scene(10, LOOKUP)
    first, commit, after = scene(60, ACQUIRE), scene(63, COMMIT), scene(64, ACQUIRE)
    scene(80, COMMIT)
    scene.run()
    assert scene.answered[first] + 1 == scene.sent[commit]
    assert scene.answered[after] - scene.answered[first] == 4


def test_read_modify_write_waiting():
    """The next ACQUIREs are there before the COMMIT."""
    scene = Scene()
    scene(10, LOOKUP)
    rounds = [scene(60 + i, ACQUIRE, port=1) for i in range(4)]
    commits = [scene(63 + 4 * i, COMMIT) for i in range(4)]
    scene.run()
    assert [scene.answered[r] + 1 for r in rounds] == [scene.sent[c] for c in commits]


def test_replay_after_commit():
    """Of two locked entries, the one that got its first waiting request last is handed over a
    cycle sooner.
    """
    scene = Scene()
    scene(10, ACQUIRE, A)
    scene(10, ACQUIRE, 1)
    waiting = [scene(60, LOOKUP, key, port=1) for key in (A, 1, A, 1)]
    commits = [scene(80, COMMIT, A), scene(100, COMMIT, 1)]
    scene.run()
    took = [scene.answered[w] - scene.sent[c]
            for w, c in zip(waiting, commits * 2, strict=True)]
    assert took == [4, 3, 5, 4] and all(scene.hit[w] for w in waiting)


def test_replay_after_fill():
    scene = Scene()
    scene(10, LOOKUP)
    merged = [scene(12, LOOKUP, port=1) for _ in range(4)]
    scene.run()
    assert len(scene.fetches) == 1
    assert [scene.answered[m] - scene.beats[0] for m in merged] == [4, 5, 6, 7]


def test_forward():
    """With a way that is free: A leaves by INVALIDATE, and is wanted before the host has it."""
    scene = Scene(ways=2)
    scene(10, ACQUIRE)
    scene(50, COMMIT)
    scene(60, INVALIDATE, port=1)
    again = scene(64, LOOKUP)
    scene.run()
    assert scene.took(again) == 3 and not scene.hit[again] and len(scene.fetches) == 1


def test_writeback():
    scene = Scene()
    scene(10, ACQUIRE)
    scene(50, COMMIT)
    evicting = scene(60, LOOKUP, B)
    scene.run()
    assert scene.writes[0] - scene.sent[evicting] == 4


def test_prefetch():
    scene = Scene()
    hint, use = scene(10, PREFETCH), scene(60, LOOKUP)
    scene.run()
    assert scene.took(hint) == scene.took(use) == 2 and scene.hit[use]


def test_flush():
    """WRITING: from the end of the write-back to the answer."""
    scene = Scene()
    scene(10, ACQUIRE)
    scene(50, COMMIT)
    flush, clean = scene(60, FLUSH), scene(150, FLUSH)
    scene.run()
    assert scene.writes[0] - scene.sent[flush] == 4
    assert scene.answered[flush] - scene.dones[0] == 3
    assert scene.took(clean) == 2


def test_flush_all():
    scene = Scene()
    flush = scene(20, FLUSH_ALL)
    scene.run()
    assert scene.took(flush) == 2 * SETS + 5


def test_stall_ways():
    scene = Scene()
    scene(10, LOOKUP, A)
    parked = scene(12, LOOKUP, B, port=1)
    scene.run()
    assert set(scene.stalls) == {"WAYS"}
    assert scene.fetches[1] - scene.beats[0] == 4  # the fill, the choice, the decision, the fetch
    assert scene.answered[parked] - scene.beats[1] == 2


def test_stall_busy():
    scene = Scene()
    scene(10, ACQUIRE)
    flush = scene(50, INVALIDATE, port=1)
    commit = scene(70, COMMIT, writes=False)
    scene.run()
    assert set(scene.stalls) == {"BUSY"}
    assert scene.answered[flush] - scene.sent[commit] == 4


def test_stall_misses():
    """5 are under way, of which 1 is in flight."""
    scene = Scene(misses=1, ways=2)
    for key in range(6):
        scene(10, LOOKUP, key)
    scene.run()
    assert set(scene.stalls) == {"MISSES"}
    assert scene.misses[5] - scene.beats[0] == 3  # the fill, the choice, the decision
    assert {b - a for a, b in zip(scene.fetches, scene.fetches[1:], strict=False)} == {L + 1}


def test_stall_slots():
    scene = Scene(misses=1, targets=1)
    scene(10, ACQUIRE)
    waiting, parked = (scene(50, LOOKUP, port=1) for _ in range(2))
    scene(70, COMMIT)
    scene.run()
    assert set(scene.stalls) == {"SLOTS"}
    assert scene.answered[parked] - scene.answered[waiting] == 1  # the commit woke the queue


def test_stall_order():
    scene = Scene()
    scene(10, LOOKUP, A)
    scene(11, LOOKUP, 1)
    scene(60, ACQUIRE, A)
    parked, behind = scene(70, FLUSH, A, port=1), scene(71, LOOKUP, 1, port=1)
    commit = scene(90, COMMIT, writes=False)
    scene.run()
    assert set(scene.stalls) == {"BUSY", "ORDER"}
    assert scene.answered[parked] - scene.sent[commit] == 4
    assert scene.answered[behind] == scene.answered[parked] + 1


def test_stall_write_buffer():
    scene = Scene(write_buffer=1)
    for number, key in enumerate((A, 1)):
        scene(10 + 40 * number, ACQUIRE, key)
        scene(40 + 40 * number, COMMIT, key)
    scene(100, FLUSH, A, port=1)
    scene(101, LOOKUP, 1 + SETS)
    scene.run()
    assert set(scene.stalls) == {"WRITING", "WRITE_BUFFER"}
    assert scene.fetches[-1] - scene.dones[0] == 3


def test_stall_flush_all():
    scene = Scene()
    flush = scene(20, FLUSH_ALL)
    scene(22, LOOKUP, port=1)
    scene.run()
    assert set(scene.stalls) == {"FLUSH_ALL"}
    assert scene.fetches[0] - scene.answered[flush] == 1  # woken with the FLUSH_ALL itself


def test_stall_failed():
    """A request that comes while a failed fetch is being answered."""
    scene = Scene(fail={A}, ports=3)
    scene(10, LOOKUP)
    last = [scene(12, ACQUIRE, port=1) for _ in range(2)][-1]
    scene(10 + 2 + L + 3, LOOKUP, port=2)
    scene.run()
    assert "FAILED" in scene.stalls
    assert scene.fetches[1] - scene.answered[last] == 2
