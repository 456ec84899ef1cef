"""The context cache (docs/context-cache.md)."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import ceil_log2

from rtl.config import CacheConfig
from rtl.context.arrays import WORD_BYTES, EntryArray, SetArray
from rtl.context.decide import Decision, Kind
from rtl.context.interface import CachePort, CacheResponse, CacheStatus, CacheTable, Operation
from rtl.context.line import KeySplit
from rtl.context.misses import AHEAD, MissLayout, MissTable
from rtl.context.observe import CacheCounters, CacheEvents, Counters
from rtl.context.policy import POLICIES
from rtl.context.queues import (
    ANSWER_DEPTH,
    RETRY_DEPTH,
    AnswerLayout,
    AnswerQueue,
    RetryQueue,
    Stall,
)
from rtl.context.waiters import SLOTS_MAX, Waiters
from rtl.context.write_buffer import WriteBuffer
from rtl.dma.arbiter import RoundRobin
from rtl.dma.interface import ReadClient, WriteClient


class ContextCache(wiring.Component):
    """Non-blocking, set-associative cache of a table of fixed-size entries in the host's memory.

    Takes requests on `port[n]` and answers each exactly once, on the same port. A hit is answered 2
    cycles after it is taken, one request a cycle over all ports; a waiting ACQUIRE may have its
    answer 3 cycles after the COMMIT. Answers of one port to one key come in order, except that
    COMMIT and PREFETCH never wait. `fetch` is a read client built unordered; at most
    `cache.misses` are in flight.

    Errors: a key outside `host_table` is BAD_KEY, and so is a COMMIT of an entry that is not
    locked; a failed fetch gives FETCH_FAILED to all who wait for it and installs nothing. A client
    must take its answers without waiting for anything else, and have no more than RETRY_DEPTH
    requests between an ACQUIRE and its COMMIT. `host_table` changes only while the cache is empty.
    Reset: empty, and ready after `sets` + 1 cycles; what is in flight then is dropped.
    """

    def __init__(self, cache: CacheConfig, data_width: int, ports: int = 2):
        if ports < 1:
            raise ValueError(f"a context cache has at least 1 port, not {ports}")
        if cache.policy not in POLICIES:
            raise ValueError(f"replacement policy must be one of {', '.join(POLICIES)}, "
                             f"not {cache.policy}")
        self.cache = cache
        self.data_width = data_width
        self.ports = ports
        tenants = {"tenant_ways": In(cache.ways).array(cache.tenants)} if cache.tenants > 1 else {}
        super().__init__({
            "port": In(CachePort(cache.entry_bytes, cache.tenants)).array(ports),
            "host_table": In(CacheTable),  # `table` is a word of Verilog
            "fetch": Out(ReadClient(data_width)),
            "writeback": Out(WriteClient(data_width)),
            "events": Out(CacheEvents),
            "counters": Out(CacheCounters),
            **tenants,
        })

    # Requests have three stages. SELECT takes one item (a waiting request, a step of FLUSH_ALL, or
    # a port's request) and reads its set. DECIDE has the set and settles everything at once:
    # the set's new state, and the one read of the data memory. ANSWER has the data. Nothing
    # stalls in between: what cannot be settled is parked, and tried again when something changed.
    # The set's memory is read while written with the new word, so there are no hazards.
    # Fills go beside them, one a cycle too: they write `arrived` and the data, answer the request
    # that started the miss, and wake those that were merged. A request sees a fill in its set from
    # the next cycle on.

    def elaborate(self, platform):
        m = Module()
        cache = self.cache
        self.split = KeySplit(cache.sets, cache.index)
        policy = POLICIES[cache.policy](cache.ways)
        slots = min(cache.misses * cache.targets, SLOTS_MAX)
        self.held = Signal(self.ports)  # ports whose item waits for a RECOVER
        depth = cache.misses + AHEAD
        port_bits = ceil_log2(self.ports)
        m.submodules.waiters = self.waiters = Waiters(self.ports, slots, depth)
        m.submodules.misses = self.misses = MissTable(
            cache.misses, cache.entry_bytes, MissLayout(policy.way_bits, port_bits),
            self.waiters.slot_bits, self.data_width, cache.timeout_cycles)
        m.submodules.write_buffer = self.buffer = WriteBuffer(
            cache.write_buffer, cache.entry_bytes, self.data_width)
        m.submodules.decision = self.decision = Decision(
            self.split, policy, port_bits, self.waiters.slot_bits, ceil_log2(depth),
            ceil_log2(cache.tenants))
        self.retry = [RetryQueue(ceil_log2(cache.tenants)) for _ in range(self.ports)]
        self.answers = [AnswerQueue(cache.entry_bytes) for _ in range(self.ports)]
        for number in range(self.ports):
            m.submodules[f"retry_{number}"] = self.retry[number]
            m.submodules[f"answers_{number}"] = self.answers[number]
        self._memories(m, policy)
        connect(m, self.misses.fetch, flipped(self.fetch))
        connect(m, self.buffer.writeback, flipped(self.writeback))
        m.d.comb += [self.misses.table.eq(self.host_table), self.buffer.table.eq(self.host_table)]
        self._select(m)
        self._decide(m)
        self._fill(m)
        self._flush_all(m)
        self._answer(m)
        self._count(m)
        return m

    def _memories(self, m, policy):
        cache = self.cache
        m.submodules.sets = self.sets = SetArray(
            cache.sets, self.decision.set_layout, cache.ways, policy.bits, policy.first)
        m.submodules.entries = self.entries = EntryArray(
            cache.sets << policy.way_bits, cache.entry_bytes)
        # After reset every set is emptied, one a cycle.
        self.clearing = Signal(init=1)
        self.clear_set = Signal(range(max(cache.sets, 2)))
        m.d.comb += self.sets.clear.eq(self.clearing)
        with m.If(self.clearing):
            m.d.sync += self.clear_set.eq(self.clear_set + 1)
            with m.If(self.clear_set == cache.sets - 1):
                m.d.sync += self.clearing.eq(0)

    def _select(self, m):
        """The item of this cycle: after an error what it made wait, then waiting requests, then
        FLUSH_ALL, then the ports."""
        self.item = Signal(self.decision.item_layout)
        self.data = Signal(8 * self.cache.entry_bytes)
        self.mask = Signal(self.cache.entry_bytes // WORD_BYTES)
        pick = Signal(self.decision.item_layout)
        waiter = self.waiters.waiter_out
        owner = Signal(range(self.ports))
        self.sweep_valid = Signal()
        self.sweep_set = Signal.like(self.clear_set)
        self.sweep_issue = Signal()
        credit = self._credits(m)
        m.d.comb += owner.eq(self.waiters.token >> self.waiters.index_bits)
        m.d.sync += self.item.eq(pick)
        recovers = self._recovers(m, pick)
        with m.If(self.clearing | recovers):
            pass
        with m.Elif(self.waiters.token_valid & credit.bit_select(owner, 1)):
            m.d.comb += [
                self.waiters.next.eq(1),
                pick.valid.eq(1), pick.kind.eq(Kind.REPLAY), pick.port.eq(owner),
                pick.op.eq(Mux(waiter.acquire, Operation.ACQUIRE, Operation.LOOKUP)),
                pick.key.eq(waiter.key), pick.tag.eq(waiter.tag), pick.hit.eq(waiter.hit),
                pick.slot.eq(self.waiters.token),
            ]
        with m.Elif(self.sweep_valid):
            m.d.comb += [self.sweep_issue.eq(1), pick.valid.eq(1), pick.kind.eq(Kind.SWEEP),
                         pick.key.eq(self.sweep_set)]
        with m.Else():
            self._select_port(m, pick, credit)
        m.d.comb += [
            self.sets.read_number.eq(self.split.set(pick.key)),
            self.sets.read.eq(pick.valid),
        ]

    def _recovers(self, m, pick):
        """Picks what an uncorrectable error asks for, and says whether it did.

        In the cycle of the answer, when the error is found, the item in DECIDE is held, as if it
        had not been selected. Then goes the one with the error, until it is settled, and then the
        one that was held.
        """
        item, do = self.item, self.decision.do
        held, last = (Signal(self.decision.item_layout, name=name) for name in ("held", "last"))
        again = Signal()
        recovering = item.valid & (item.kind == Kind.RECOVER)
        self.failing = Signal()  # the answer of this cycle, to `last`
        first = self.failing | again
        m.d.comb += self.held.eq(held.valid << held.port)
        m.d.sync += [again.eq(do.again), last.eq(item), last.kind.eq(Kind.RECOVER),
                     last.hit.eq(Mux(recovering, item.hit, do.hit))]
        with m.If(first):
            m.d.comb += pick.eq(last)
        with m.Elif(held.valid & ~recovering):
            m.d.comb += [pick.eq(held), self.sweep_issue.eq(held.kind == Kind.SWEEP)]
            m.d.sync += held.valid.eq(0)
        with m.If(self.failing):
            m.d.sync += held.eq(item)
        return first | recovering | held.valid

    def _credits(self, m):
        """Which ports have a place for an answer, with those under way counted."""
        credit = Signal(self.ports)
        self.answer_port = Signal(range(self.ports))
        self.answer_valid = Signal()
        self.fill_answer = Signal(CacheResponse(self.cache.entry_bytes))
        self.fill_answer_port = Signal(range(self.ports))
        self.fill_answer_valid = Signal()
        self.fill_credit = Signal(self.ports)
        fill, first = self.misses.fill, self.misses.fill.p.miss.first
        coming = self.item.valid & (self.item.kind != Kind.SWEEP)
        for number, answers in enumerate(self.answers):
            taken = (answers.level + (coming & (self.item.port == number)) + self.held[number]
                     + (self.answer_valid & (self.answer_port == number))
                     + (self.fill_answer_valid & (self.fill_answer_port == number)))
            filling = fill.ready & first.valid & (first.port == number)
            m.d.comb += [
                self.fill_credit[number].eq(taken < ANSWER_DEPTH),
                credit[number].eq(taken + filling < ANSWER_DEPTH),
            ]
        return credit

    def _select_port(self, m, pick, credit):
        """Round robin over the ports; a commit goes before what the port has to try again."""
        m.submodules.turn = turn = RoundRobin(self.ports)
        fresh = Signal(self.ports)
        for number, retry in enumerate(self.retry):
            request = self.port[number].request
            passes = ((request.p.op == Operation.COMMIT)
                      | (request.p.op == Operation.PREFETCH))
            starved = (retry.blocked == Stall.MISSES) & (self.misses.count <= self.item.valid)
            m.d.comb += [
                fresh[number].eq(request.valid & (passes | (retry.count == 0))),
                turn.requests[number].eq(
                    credit[number] & (fresh[number] | (retry.ready & ~starved))),
            ]
        m.d.comb += turn.next.eq(1)
        for number, retry in enumerate(self.retry):
            request = self.port[number].request
            with m.If(turn.grant[number]):
                m.d.comb += [pick.valid.eq(1), pick.port.eq(number)]
                with m.If(fresh[number]):
                    m.d.comb += [
                        request.ready.eq(1), pick.kind.eq(Kind.FRESH), pick.op.eq(request.p.op),
                        pick.key.eq(request.p.key), pick.tag.eq(request.p.tag),
                        pick.tenant.eq(request.p.tenant),
                        pick.writes.eq(request.p.mask.any()),
                    ]
                    m.d.sync += [self.data.eq(request.p.data), self.mask.eq(request.p.mask)]
                with m.Else():
                    m.d.comb += [
                        retry.issue.eq(1), pick.kind.eq(Kind.RETRY), pick.op.eq(retry.head.op),
                        pick.key.eq(retry.head.key), pick.tag.eq(retry.head.tag),
                        pick.tenant.eq(retry.head.tenant),
                    ]

    def _decide(self, m):
        """Everything the decision asks for, in its cycle."""
        decision, item = self.decision, self.item
        do = self.do = decision.do
        set_number = Signal.like(self.clear_set)
        address = Signal(len(self.entries.address))
        stale = Cat(retry.stale for retry in self.retry).bit_select(item.port, 1)
        outside = Signal.like(item.key)
        waiter = self.waiters.waiter
        miss = self.misses.miss
        tenant_ways = Array(self.tenant_ways)[item.tenant] if self.cache.tenants > 1 else 0
        m.d.comb += [
            decision.room.allowed.eq(Mux(tenant_ways == 0, -1, tenant_ways)),
            set_number.eq(self.split.set(item.key)),
            address.eq(Cat(do.way, set_number)),
            outside.eq(item.key >> self.host_table.log_entries),
            decision.item.eq(item),
            decision.item.valid.eq(item.valid & ~self.failing
                                   & ~((item.kind == Kind.RETRY) & stale)),
            decision.word.eq(self.sets.word),
            decision.arrived.eq(self.sets.arrived),
            decision.broken.eq(self.sets.broken),
            decision.slot.eq(self.waiters.slot[0]),
            decision.after.eq(self.waiters.after), decision.linked.eq(self.waiters.linked),
            decision.room.inside.eq(outside == 0),
            decision.room.writing.eq(self.buffer.pending),
            decision.room.write_buffer.eq(self.buffer.available),
            decision.room.forward.eq(self.misses.forward_available),
            decision.room.misses.eq(self.misses.available),
            decision.room.miss.eq(self.misses.index),
            decision.room.slot.eq(self.waiters.available.bit_select(item.port, 1)),
            # the set
            self.sets.number.eq(Mux(self.clearing, self.clear_set, set_number)),
            self.sets.word_in.eq(decision.word_out), self.sets.update.eq(do.update),
            # the data
            self.entries.read_address.eq(address), self.entries.read.eq(do.read),
            # misses and write-backs
            self.misses.take.eq(do.start),
            miss.key.eq(item.key), miss.way.eq(do.way), miss.phase.eq(do.phase),
            miss.first.valid.eq(item.op != Operation.PREFETCH),
            miss.first.acquire.eq(item.op == Operation.ACQUIRE),
            miss.first.port.eq(item.port), miss.first.tag.eq(item.tag),
            self.misses.forward.eq(do.forward),
            self.misses.forward_data.eq(self.buffer.peeked),
            self.misses.forward_spoiled.eq(self.buffer.peeked_spoiled),
            self.misses.merge.eq(do.merge), self.misses.merge_index.eq(do.merged),
            self.misses.merge_head.eq(do.merge_head),
            self.buffer.peek.eq(do.start & do.forward),
            self.buffer.key.eq(item.key),
            self.buffer.push.eq(do.push),
            self.buffer.pushed.eq(do.victim),
            self.buffer.data.eq(self.entries.entry),
            self.buffer.spoiled.eq(self.entries.uncorrectable),
            # waiting requests
            self.waiters.append.eq(do.append), self.waiters.port.eq(item.port),
            waiter.key.eq(item.key), waiter.tag.eq(item.tag), waiter.hit.eq(do.hit),
            waiter.acquire.eq(item.op == Operation.ACQUIRE),
            self.waiters.link.eq(do.link), self.waiters.tail.eq(do.tail),
            self.waiters.wake[0].eq(do.wake), self.waiters.woken[0].eq(do.woken),
            self.waiters.note.eq(do.note), self.waiters.heir.eq(do.heir),
            self.waiters.commit.eq(decision.item.valid & (item.op == Operation.COMMIT)),
            self.waiters.forget.eq(item.valid & (item.kind == Kind.RECOVER)),
            self.waiters.current.eq(item.slot), self.waiters.free.eq(do.free_slot),
            self.waiters.requeue.eq(do.requeue),
        ]
        for number in range(self.ports):
            with m.If(item.port == number):
                m.d.comb += decision.slot.eq(self.waiters.slot[number])
        self._park(m)

    def _fill(self, m):
        """An entry arrives, or does not. A commit has the data memory before it."""
        fill, miss = self.misses.fill, self.misses.fill.p.miss
        first, answer = miss.first, self.fill_answer
        commits = self.decision.item.valid & (self.item.op == Operation.COMMIT)
        set_number = Signal.like(self.clear_set)
        answers = Signal()
        m.d.comb += [
            fill.ready.eq(fill.valid & ~commits
                          & (~first.valid | self.fill_credit.bit_select(first.port, 1))),
            set_number.eq(self.split.set(miss.key)),
            self.sets.fill.eq(fill.ready), self.sets.fill_number.eq(set_number),
            self.sets.fill_way.eq(miss.way),
            self.sets.fill_arrived.phase.eq(miss.phase),
            self.sets.fill_arrived.failed.eq(fill.p.failed),
            self.entries.write.eq(Mux(commits, self.do.store, fill.ready & ~fill.p.failed)),
            self.entries.address.eq(Mux(
                commits, Cat(self.do.way, self.split.set(self.item.key)),
                Cat(miss.way, set_number))),
            self.entries.data.eq(Mux(commits, self.data, fill.p.data)),
            self.entries.mask.eq(Mux(commits, self.mask, -1)),
            self.waiters.wake[1].eq(fill.ready & fill.p.merged
                                    & ~(first.valid & first.acquire & ~fill.p.failed)),
            self.waiters.woken[1].eq(fill.p.head),
            answers.eq(fill.ready & first.valid),
        ]
        m.d.sync += [
            self.fill_answer_valid.eq(answers), self.fill_answer_port.eq(first.port),
            answer.op.eq(Mux(first.acquire, Operation.ACQUIRE, Operation.LOOKUP)),
            answer.key.eq(miss.key), answer.tag.eq(first.tag), answer.hit.eq(0),
            answer.status.eq(Mux(fill.p.failed, CacheStatus.FETCH_FAILED, CacheStatus.OK)),
            answer.data.eq(fill.p.data),
        ]

    def _park(self, m):
        """The ports' retry queues: what the decision could not settle, and what comes behind it."""
        item, do = self.item, self.do
        self.wake = Signal()
        self.sweep_spoiled = Signal()  # FLUSH_ALL met an entry that is lost
        flushing = Signal(self.ports)  # the head of the queue has begun its write-back
        spoiled = Signal(self.ports)  # and the host got a poisoned entry
        began = Signal(self.ports)  # it did so in the last cycle
        valid = self.decision.item.valid
        for number, retry in enumerate(self.retry):
            request = self.port[number].request
            mine = valid & (item.port == number)
            tried = mine & (item.kind == Kind.RETRY)
            parked = mine & (item.kind == Kind.FRESH)
            passes = ((request.p.op == Operation.COMMIT)
                      | (request.p.op == Operation.PREFETCH))
            follows = Signal()  # goes to the queue without a decision
            m.d.comb += [
                follows.eq(request.valid & ~passes & (retry.count != 0) & ~parked
                           & (retry.count != RETRY_DEPTH)),
                retry.push.eq(follows | (parked & do.park)),
                retry.reason.eq(do.reason),
                retry.done.eq(tried & ~do.park),
                retry.rewind.eq(tried & do.park),
                retry.wake.eq(self.wake),
            ]
            with m.If(follows):
                m.d.comb += [request.ready.eq(1), retry.pushed.op.eq(request.p.op),
                             retry.pushed.key.eq(request.p.key), retry.pushed.tag.eq(request.p.tag),
                             retry.pushed.tenant.eq(request.p.tenant)]
            with m.Else():
                m.d.comb += [retry.pushed.op.eq(item.op), retry.pushed.key.eq(item.key),
                             retry.pushed.tag.eq(item.tag), retry.pushed.tenant.eq(item.tenant)]
            m.d.sync += began[number].eq(mine & do.begin_flush & do.push)
            with m.If(mine & do.begin_flush):
                m.d.sync += flushing[number].eq(1)
                with m.If(~flushing[number]):
                    m.d.sync += spoiled[number].eq(0)
            with m.Elif(retry.done):
                m.d.sync += flushing[number].eq(0)
            with m.If(began[number] & self.entries.uncorrectable):
                m.d.sync += spoiled[number].eq(1)
        m.d.comb += [
            self.decision.room.behind.eq(
                Cat(retry.count != 0 for retry in self.retry).bit_select(item.port, 1)),
            self.decision.room.flushing.eq(
                flushing.bit_select(item.port, 1) & (item.kind == Kind.RETRY)),
            self.decision.room.spoiled.eq(Mux(
                item.op == Operation.FLUSH_ALL, self.sweep_spoiled,
                self.decision.room.flushing & spoiled.bit_select(item.port, 1))),
        ]

    def _flush_all(self, m):
        """Set by set, then the write buffer, then the answer; one port's at a time."""
        do = self.do
        owner = Signal(range(self.ports))
        active, drain, swept, awake, deciding = (
            Signal(name=name) for name in ("active", "drain", "swept", "awake", "deciding"))
        sweeping = active & ~drain & ~swept
        room = self.decision.room
        m.d.comb += [
            self.sweep_valid.eq(sweeping & awake & ~deciding),
            room.closed.eq(active),
            room.swept.eq(swept & (owner == self.item.port)),
            self.wake.eq(do.changed | self.buffer.ended | self.misses.fill.ready
                         | (drain & self.buffer.empty)),
        ]
        pushed = Signal()
        m.d.sync += [deciding.eq(self.sweep_issue),
                     pushed.eq(do.push & (self.item.kind == Kind.SWEEP))]
        with m.If(pushed & self.entries.uncorrectable
                  | deciding & self.sets.broken.any()):
            m.d.sync += self.sweep_spoiled.eq(1)
        with m.If(deciding & ~self.failing & ~do.push & ~do.swept_set):
            m.d.sync += awake.eq(0)
        with m.If(self.wake | ~sweeping):
            m.d.sync += awake.eq(1)
        with m.If(do.begin_sweep & ~active):
            m.d.sync += [active.eq(1), owner.eq(self.item.port), self.sweep_set.eq(0),
                         self.sweep_spoiled.eq(0)]
        with m.If(do.swept_set):
            m.d.sync += self.sweep_set.eq(self.sweep_set + 1)
            with m.If(self.sweep_set == self.cache.sets - 1):
                m.d.sync += drain.eq(1)
        with m.If(drain & self.buffer.empty):
            m.d.sync += [drain.eq(0), swept.eq(1)]
        with m.If(do.end_sweep):
            m.d.sync += [swept.eq(0), active.eq(0)]

    def _answer(self, m):
        """The cycle after the decision: the data is there, or has an error."""
        answer = Signal(AnswerLayout())
        item, do = self.item, self.do
        gives = Signal()
        m.d.comb += self.failing.eq(gives & self.entries.uncorrectable)
        m.d.sync += [
            gives.eq(do.gives),
            self.answer_valid.eq(do.answer), self.answer_port.eq(item.port),
            answer.op.eq(item.op), answer.key.eq(item.key), answer.tag.eq(item.tag),
            answer.status.eq(do.status), answer.hit.eq(do.hit),
        ]
        for number, answers in enumerate(self.answers):
            connect(m, answers.o, flipped(self.port[number].response))
            m.d.comb += [
                answers.valid[0].eq(
                    self.fill_answer_valid & (self.fill_answer_port == number)),
                answers.i[0].eq(self.fill_answer),
                answers.valid[1].eq(self.answer_valid & ~self.failing
                                    & (self.answer_port == number)),
                answers.i[1].as_value().eq(Cat(answer.as_value(), self.entries.entry)),
            ]

    def _count(self, m):
        m.submodules.counters = counters = Counters(self.cache.misses)
        fill = self.misses.fill
        m.d.comb += [
            self.events.eq(self.decision.events),
            self.events.corrected.eq(self.sets.corrected | self.entries.corrected),
            self.events.fill.eq(fill.ready & ~fill.p.failed),
            self.events.fetch_error.eq(fill.ready & fill.p.failed),
            self.events.fill_key.eq(fill.p.miss.key),
            self.events.useless.eq(self.decision.events.useless + (
                fill.ready & fill.p.failed & ~fill.p.miss.first.valid & ~fill.p.merged)),
            counters.events.eq(self.events),
            counters.in_flight.eq(self.misses.in_flight),
            counters.writeback_error.eq(self.buffer.failed),
            counters.spoiled.eq(self.buffer.spoiling),
            counters.stray.eq(self.misses.stray), counters.timed_out.eq(self.misses.timed_out),
            self.counters.eq(counters.counters),
        ]
