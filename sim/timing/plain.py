"""The cache's timing for plain LOOKUPs, compiled: what sim/timing/context_cache.py predicts, fast.

A request is an index into `requests`. Functions come in the order of a cycle; what they leave for
the end of the cycle is in `state`. Only LOOKUPs whose fetches succeed: no locks, nothing dirty.
"""

from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.timing.compiled import compiled
from sim.timing.context_cache import ANSWER_DEPTH
from sim.timing.parts import RETRY_DEPTH
from sim.timing.victims import fill, set_of, use, victim

Array = NDArray[Any]
EMPTY, PENDING, PRESENT = range(3)
FRESH, RETRY, REPLAY = range(3)
NONE, ORDER, MISSES, WAYS, SLOTS = range(5)  # why a request is parked
HIT, MISS, MERGED = range(3)

LINE = np.dtype([("state", "i1"), ("key", "i8"), ("head", "i8"), ("tail", "i8")])
REQUEST = np.dtype([
    ("key", "i8"), ("port", "i4"), ("tenant", "i4"), ("due", "i8"),  # what is asked
    ("taken", "i8"), ("decided", "i8"), ("answered", "i8"),  # cycles
    ("outcome", "i1"), ("way", "i4"), ("evicted", "i8"), ("row", "i8"), ("next", "i8")])
PORT = np.dtype([(name, "i8") for name in (
    "first", "end", "open", "again", "offer", "under_way", "slots",
    "untried", "awake", "stale", "blocked", "taken")])
STATE = np.dtype([(name, "i8") for name in (
    "now", "clock", "turn", "free", "in_flight", "item", "kind", "answered",  # kept
    "chained", "arrived", "bus", "beats_left", "fetched",
    "parked", "settled", "wake", "changed", "retried")])  # of this cycle


class Model(NamedTuple):
    """Arrays, so that compiled functions can share them. `state` has one element."""

    lines: Array  # [set, way]
    ages: Array
    requests: Array
    ports: Array
    state: Array
    slots: Array  # queues, a row each: answers of each port, retries of each, replays, fetches
    ends: Array  # [queue, (read, written)]
    allowed: Array  # [tenant, way]
    may_go: Array  # [way]
    latency: Array  # of the fetches in turn
    noise: Array
    misses: int
    policy: int
    hashed: bool
    beats: int
    window: int
    gap: int


@compiled
def _count(model, queue):
    return model.ends[queue, 1] - model.ends[queue, 0]


@compiled
def _push(model, queue, value):
    model.slots[queue, model.ends[queue, 1] & (model.slots.shape[1] - 1)] = value
    model.ends[queue, 1] += 1


@compiled
def _ahead(model, queue, place):
    """The entry `place` from the head."""
    return model.slots[queue, (model.ends[queue, 0] + place) & (model.slots.shape[1] - 1)]


@compiled
def _pop(model, queue):
    value = _ahead(model, queue, 0)
    model.ends[queue, 0] += 1
    return value


@compiled
def _retries(model, port):
    return len(model.ports) + port


@compiled
def _replays(model):
    return 2 * len(model.ports)  # of waiting lists that go on; of those just filled, one more


@compiled
def _fetches(model):
    return 2 * len(model.ports) + 2


@compiled
def _offer(model, number):
    """What the client asks for in this cycle, and the answer that it takes."""
    port, state = model.ports[number], model.state[0]
    port.offer, port.taken = -1, False
    if (port.first < port.end and port.open < model.window and state.now >= port.again
            and state.now >= model.requests[port.first].due):
        port.offer = port.first
    mine = state.item >= 0 and model.requests[state.item].port == number
    port.under_way = _count(model, number) + mine
    if not _count(model, number):
        return False
    model.requests[_pop(model, number)].answered = state.now
    port.open -= 1
    port.again = state.now + 1 + model.gap
    state.answered += 1
    return True


@compiled
def _fetch(model, flights):
    state = model.state[0]
    if not _count(model, _fetches(model)) or state.in_flight >= model.misses:
        return False
    due = state.now + model.latency[state.fetched % len(model.latency)]
    heappush(flights, (due, state.fetched, _pop(model, _fetches(model))))
    state.fetched += 1
    return True


@compiled
def _find(model, row, key):
    for way in range(model.lines.shape[1]):
        line = model.lines[row, way]
        if line.state != EMPTY and line.key == key:
            return way
    return -1


@compiled
def _decide(model, starting):
    """The item's decision; `starting`: it may be tried at all, being no stale retry."""
    state = model.state[0]
    state.parked, state.settled, state.wake, state.changed = NONE, False, -1, False
    if not starting:
        return
    request = model.requests[state.item]
    port = model.ports[request.port]
    if state.kind == REPLAY:
        line = model.lines[request.row, request.way]
        line.head = request.next
        state.wake = line.head
        port.slots += 1
        state.settled = state.changed = True
        return
    if state.kind == FRESH and _count(model, _retries(model, request.port)):
        state.parked = ORDER
        return
    request.row = set_of(request.key, len(model.lines), model.hashed)
    way = _find(model, request.row, request.key)
    state.parked = _miss(model, request) if way < 0 else _hit(model, request, port, way)
    if state.parked == NONE:
        request.decided = state.now


@compiled
def _hit(model, request, port, way):
    state, line = model.state[0], model.lines[request.row, way]
    present = line.state == PRESENT
    if present and line.head < 0:
        state.clock += 1
        use(model.policy, model.ages[request.row], way, state.clock)
        state.settled = True
    else:
        if not port.slots:
            return SLOTS
        port.slots -= 1
        request.next = -1
        if line.head < 0:
            line.head = state.item
        else:
            model.requests[line.tail].next = state.item
        line.tail = state.item
    request.outcome, request.way = HIT if present else MERGED, way
    return NONE


@compiled
def _miss(model, request):
    state = model.state[0]
    if not state.free:
        return MISSES
    lines = model.lines[request.row]
    allowed = model.allowed[request.tenant]
    chosen, some = -1, False
    for way in range(len(lines)):
        line = lines[way]
        if chosen < 0 and allowed[way] and line.state == EMPTY:
            chosen = way
        model.may_go[way] = allowed[way] and line.state == PRESENT and line.head < 0
        some |= model.may_go[way]
    if chosen < 0:
        if not some:
            return WAYS
        chosen = victim(model.policy, model.ages[request.row], model.may_go, state.now,
                        model.noise)
        request.evicted = lines[chosen].key
    line = lines[chosen]
    line.state, line.key, line.head = PENDING, request.key, -1
    request.outcome, request.way = MISS, chosen
    state.free -= 1
    state.clock += 1
    fill(model.policy, model.ages[request.row], chosen, state.clock)
    _push(model, _fetches(model), state.item)
    return NONE


@compiled
def _wrapped(model, port):
    return port - len(model.ports) if port >= len(model.ports) else port


@compiled
def _waiter(model):
    """What goes on from a waiting list: what is woken in this cycle, if that was known before."""
    state = model.state[0]
    waiter = state.chained
    if waiter >= 0:
        if model.ports[model.requests[waiter].port].under_way < ANSWER_DEPTH:
            state.wake = -1
            return waiter
        return -1
    for queue in range(_replays(model), _replays(model) + 2):
        if _count(model, queue):
            waiter = _ahead(model, queue, 0)
            if model.ports[model.requests[waiter].port].under_way < ANSWER_DEPTH:
                return _pop(model, queue)
            break
    return -1


@compiled
def _select(model, starved):
    """The next item and its kind: waiting requests first, then the ports in turn."""
    state = model.state[0]
    state.retried = -1
    waiter = _waiter(model)
    state.chained = -1
    if waiter >= 0:
        follows = model.requests[waiter].next
        if follows != state.item:  # which may have joined the list in this very cycle
            state.chained = follows
        return waiter, REPLAY
    for step in range(len(model.ports)):
        number = _wrapped(model, state.turn + step)
        port, parked = model.ports[number], _count(model, _retries(model, number))
        if port.under_way >= ANSWER_DEPTH:
            continue
        if port.offer >= 0 and not parked:
            state.turn = _wrapped(model, number + 1)
            port.taken = True
            return port.offer, FRESH
        if port.awake and port.untried and not (starved and port.blocked == MISSES):
            state.turn = _wrapped(model, number + 1)
            state.retried = number
            return _ahead(model, _retries(model, number), parked - port.untried), RETRY
    return -1, FRESH


@compiled
def _install(model):
    """The entry that has arrived; requests decided in this very cycle may wait for it."""
    state = model.state[0]
    request = model.requests[state.arrived]
    line = model.lines[request.row, request.way]
    line.state = PRESENT
    if line.head >= 0:
        _push(model, _replays(model) + 1, line.head)
    _push(model, request.port, state.arrived)


@compiled
def _end_of_retries(model, number, mine, wake):
    """A port's queue of parked requests: what joins it, and what its last try came to."""
    state, port, queue = model.state[0], model.ports[number], _retries(model, number)
    fresh, tried = mine and state.kind == FRESH, mine and state.kind == RETRY
    count = _count(model, queue)
    pushed = state.item if fresh and state.parked else -1
    if port.offer >= 0 and not fresh and 0 < count < RETRY_DEPTH:
        port.taken = True
        pushed = port.offer
    rewind = tried and state.parked != NONE
    port.untried = count if rewind else port.untried - (state.retried == number)
    if rewind or (pushed >= 0 and not count):
        port.awake, port.blocked = False, state.parked
    if pushed >= 0:
        _push(model, queue, pushed)
        port.untried += 1
    if tried and state.parked == NONE:
        _pop(model, queue)
    port.awake |= wake
    port.stale = rewind
    if port.taken:
        model.requests[port.offer].taken = state.now
        port.first += 1
        port.open += 1


@compiled
def _cycle(model, flights):
    """One cycle; whether anything happened in it, without which the next is the same."""
    state = model.state[0]
    item, starved = state.item, state.free <= (state.item >= 0)
    busy = item >= 0
    for number in range(len(model.ports)):
        busy |= _offer(model, number)
    fetched = _fetch(model, flights)
    live = item >= 0 and not (
        state.kind == RETRY and model.ports[model.requests[item].port].stale)
    _decide(model, live)
    filled = False
    if state.arrived >= 0:
        first = model.ports[model.requests[state.arrived].port]
        filled = first.under_way < ANSWER_DEPTH
        first.under_way += filled
    if not state.beats_left and len(flights) and flights[0][0] <= state.now:
        state.bus, state.beats_left = heappop(flights)[2], model.beats
    beat = state.beats_left > 0 and (state.arrived < 0 or filled)
    picked, kind = _select(model, starved)
    _finish(model, live, filled, fetched, beat)
    for number in range(len(model.ports)):
        busy |= model.ports[number].taken
    state.item, state.kind = picked, kind
    state.now += 1
    return busy or fetched or filled or beat or picked >= 0


@compiled
def _finish(model, live, filled, fetched, beat):
    """What the cycle leaves to the next one."""
    state = model.state[0]
    wake = state.changed or filled
    if filled:
        _install(model)
    if state.settled:
        _push(model, model.requests[state.item].port, state.item)
    if state.wake >= 0:
        _push(model, _replays(model), state.wake)
    for number in range(len(model.ports)):
        mine = live and model.requests[state.item].port == number
        _end_of_retries(model, number, mine, wake)
    if filled:
        state.arrived = -1
        state.free += 1
    state.in_flight += fetched
    if beat:
        state.beats_left -= 1
        if not state.beats_left:
            state.arrived = state.bus
            state.in_flight -= 1


@compiled
def _next_event(model, flights):
    """The next cycle in which anything comes from outside."""
    soon = flights[0][0] if len(flights) else np.int64(1) << 62
    for port in model.ports:
        if port.first < port.end and port.open < model.window:
            soon = min(soon, max(port.again, model.requests[port.first].due))
    return soon


@compiled
def run(model):
    state = model.state[0]
    flights = [(np.int64(0), np.int64(0), np.int64(0))]
    flights.pop()
    while state.answered < len(model.requests):
        if not _cycle(model, flights):
            state.now = max(state.now, _next_event(model, flights))
    return state.now
