"""The cache's decision: from a request and the state of its set to everything that follows."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from rtl.context.interface import KEY_BITS, TAG_BITS, CacheStatus, Operation
from rtl.context.line import Arrived, KeySplit, LineLayout, LineState, SetLayout
from rtl.context.observe import CacheEvents
from rtl.context.policy import Policy
from rtl.context.queues import Stall


class Kind(enum.Enum, shape=3):
    """Where an item of the pipeline comes from."""

    FRESH = 0  # a port
    RETRY = 1  # a port's retry queue
    REPLAY = 2  # a list of waiting requests
    SWEEP = 3  # one step of FLUSH_ALL; the key is the set's number
    RECOVER = 4  # a LOOKUP or ACQUIRE whose data could not be corrected


class ItemLayout(data.StructLayout):
    def __init__(self, port_bits: int, slot_bits: int, tenant_bits: int):
        super().__init__({
            "valid": unsigned(1), "kind": Kind, "port": unsigned(port_bits),
            "op": Operation, "key": unsigned(KEY_BITS), "tag": unsigned(TAG_BITS),
            "hit": unsigned(1),  # REPLAY: how the request was counted
            "slot": unsigned(slot_bits),  # REPLAY
            "tenant": unsigned(tenant_bits),
            "writes": unsigned(1),  # COMMIT: the mask is not empty
        })


class RoomLayout(data.StructLayout):
    """What the rest of the cache can take in this cycle."""

    def __init__(self, ways: int, miss_bits: int):
        bit = unsigned(1)
        super().__init__({
            "inside": bit,  # the key is in the table
            "allowed": unsigned(ways),  # the ways that the tenant's misses may take
            "behind": bit,  # the port's retry queue holds earlier requests
            "closed": bit,  # FLUSH_ALL is at work
            "swept": bit,  # this port's FLUSH_ALL has ended
            "flushing": bit,  # this FLUSH or INVALIDATE has begun its write-back
            "spoiled": bit,  # what the port's FLUSH, INVALIDATE or FLUSH_ALL wrote was lost
            "writing": bit,  # the key is in the write buffer
            "forward": bit,  # and a miss could have it from there
            "write_buffer": bit,
            "misses": bit,
            "miss": unsigned(miss_bits),  # the number of the next miss
            "slot": bit,  # a place for a waiting request of the port
        })


class OutcomeLayout(data.StructLayout):
    def __init__(self, slot_bits: int, way_bits: int, miss_bits: int):
        bit = unsigned(1)
        super().__init__({
            "answer": bit, "status": CacheStatus, "hit": bit,
            "park": bit, "reason": Stall,
            "append": bit, "link": bit, "tail": unsigned(slot_bits),
            "wake": bit, "woken": unsigned(slot_bits), "free_slot": bit,
            "note": bit, "heir": unsigned(slot_bits),  # the first to wait for the locked entry
            "start": bit, "phase": bit,  # a miss, into `way`
            "gives": bit,  # the answer is the entry that is read
            "again": bit,  # the same item once more in the next cycle
            "requeue": bit,  # the waiting request is not to be answered yet
            "forward": bit,  # whose entry is in the write buffer
            "merge": bit, "merged": unsigned(miss_bits),  # a first request waits for this miss
            "merge_head": unsigned(slot_bits),
            "push": bit, "victim": unsigned(KEY_BITS),  # into the write buffer, from `way`
            "way": unsigned(way_bits), "read": bit, "store": bit,
            "begin_flush": bit, "begin_sweep": bit, "end_sweep": bit, "swept_set": bit,
            "update": bit,
            "changed": bit,  # something a parked request may wait for
        })


class Decision(wiring.Component):
    """Combinational. `word` is the set of `item`'s key, `word_out` what it becomes if `do.update`.

    `arrived` is what the fills have left there; what is known of the ways of `broken` is lost, and
    they are not used any more. `slot` is the port's free slot, `after` the slot behind `item.slot`
    in its list, if it is `linked`.
    """

    def __init__(self, split: KeySplit, policy: Policy, port_bits: int, slot_bits: int,
                 miss_bits: int, tenant_bits: int):
        self.line_layout = LineLayout(split.tag_bits, slot_bits, miss_bits)
        self.set_layout = SetLayout(self.line_layout, policy.ways, policy.bits)
        self.item_layout = ItemLayout(port_bits, slot_bits, tenant_bits)
        super().__init__({
            "item": In(self.item_layout), "word": In(self.set_layout),
            "arrived": In(data.ArrayLayout(Arrived, policy.ways)),
            "room": In(RoomLayout(policy.ways, miss_bits)),
            "broken": In(policy.ways),
            "slot": In(slot_bits), "after": In(slot_bits), "linked": In(1),
            "do": Out(OutcomeLayout(slot_bits, policy.way_bits, miss_bits)),
            "word_out": Out(self.set_layout), "events": Out(CacheEvents),
        })
        self.split = split
        self.policy = policy

    def elaborate(self, platform):
        m = Module()
        self._find(m)
        with m.If(self.item.valid):
            with m.Switch(self.item.kind):
                with m.Case(Kind.SWEEP):
                    self._sweep(m)
                with m.Case(Kind.REPLAY):
                    self._replay(m)
                with m.Case(Kind.RECOVER):
                    self._recover(m)
                with m.Default():
                    self._request(m)
        m.d.comb += [
            self.events.key.eq(self.item.key),
            self.events.way.eq(self.way),
            self.events.victim.eq(self.do.victim),
            self.events.writeback.eq(self.do.push),
            self.events.stall.eq(self.do.park),
            self.events.reason.eq(self.do.reason),
        ]
        return m

    def _find(self, m):
        """The way that holds the key, or else the way to replace; and the set as it is after."""
        ways = range(self.policy.ways)
        lines = [self.word.lines[way] for way in ways]
        tag = self.split.tag(self.item.key)
        bits = [Signal(len(ways), name=n) for n in ("match", "empty", "idle")]
        self.match, self.empty, self.idle = bits
        states = [self._state(m, way) for way in ways]
        for way, line in enumerate(lines):
            m.d.comb += [
                self.empty[way].eq((states[way] == LineState.EMPTY) & ~self.broken[way]),
                self.match[way].eq((states[way] != LineState.EMPTY) & ~self.broken[way]
                                   & (line.tag == tag)),
                self.idle[way].eq((states[way] == LineState.PRESENT) & ~self.broken[way]
                                  & ~line.locked & ~line.waiting),
            ]
        self.idle_dirty = Signal(len(ways))
        m.d.comb += self.idle_dirty.eq(self.idle & Cat(line.dirty for line in lines))
        self.found = Signal()
        self.candidate = Signal()
        free, victims = Signal(len(ways)), Signal(len(ways))
        m.d.comb += [
            self.found.eq(self.match.any()),
            free.eq(self.empty & self.room.allowed),
            victims.eq(self.idle & self.room.allowed),
            self.candidate.eq(free.any() | victims.any()),
        ]
        # A signal of its own, not read back from `do`: an event-driven simulator wakes the
        # readers of any part of `do` with every part, and would never settle.
        way = self.way = Signal(self.policy.way_bits)
        m.d.comb += self.do.way.eq(way)
        of_dirty, of_match, of_free = (
            self.policy.first_of(m, mask) for mask in (self.idle_dirty, self.match, free))
        victim = self.policy.victim(m, self.word.age, victims)
        with m.If(self.item.kind == Kind.SWEEP):
            m.d.comb += way.eq(of_dirty)
        with m.Elif(self.found):
            m.d.comb += way.eq(of_match)
        with m.Elif(free.any()):
            m.d.comb += way.eq(of_free)
        with m.Else():
            m.d.comb += way.eq(victim)
        self.state = Signal(LineState)
        with m.Switch(way):
            for number in ways:
                with m.Case(number):
                    m.d.comb += self.state.eq(states[number])
        self.line = Signal(self.line_layout)
        self.next = Signal(self.line_layout)
        m.d.comb += [
            self.line.eq(self.word.lines[way]),
            self.next.eq(self.line),
            self.do.victim.eq(self.split.key(self.split.set(self.item.key), self.line.tag)),
            self.word_out.eq(self.word),
        ]
        for number in ways:
            with m.If(way == number):
                m.d.comb += self.word_out.lines[number].eq(self.next)
        self.used = self.policy.used(m, self.word.age, way)
        self.filled = self.policy.filled(m, self.word.age, way)

    def _state(self, m, way):
        line, arrived = self.word.lines[way], self.arrived[way]
        state = Signal(LineState, name=f"state_{way}")
        with m.If(~line.valid):
            m.d.comb += state.eq(LineState.EMPTY)
        with m.Elif(line.phase != arrived.phase):
            m.d.comb += state.eq(LineState.PENDING)
        with m.Elif(~arrived.failed):
            m.d.comb += state.eq(LineState.PRESENT)
        with m.Elif(line.waiting):
            m.d.comb += state.eq(LineState.FAILED)
        return state

    def _answer(self, m, status=CacheStatus.OK, hit=0):
        m.d.comb += [self.do.answer.eq(1), self.do.status.eq(status), self.do.hit.eq(hit)]

    def _park(self, m, reason):
        m.d.comb += [self.do.park.eq(1), self.do.reason.eq(reason)]

    def _replay(self, m):
        """Answer the first waiting request; what is behind it goes on, or waits for its commit.

        Its entry is PENDING again if the one before it met an error. If what is known of the entry
        is lost, so is the entry: those who wait are told.
        """
        failed = self.state == LineState.FAILED
        locks = (self.item.op == Operation.ACQUIRE) & ~failed
        with m.If(~self.found):
            self._answer(m, CacheStatus.CORRUPT, self.item.hit)
            m.d.comb += [
                self.do.free_slot.eq(1), self.events.replay.eq(1), self.do.changed.eq(1),
                self.events.uncorrectable.eq(1),
                self.do.wake.eq(self.linked), self.do.woken.eq(self.after),
            ]
        with m.Elif(self.state == LineState.PENDING):
            m.d.comb += self.do.requeue.eq(1)
        with m.Else():
            self._answer(m, Mux(failed, CacheStatus.FETCH_FAILED, CacheStatus.OK), self.item.hit)
            m.d.comb += [
                self.do.update.eq(1), self.do.free_slot.eq(1), self.do.changed.eq(1),
                self.do.read.eq(1), self.do.gives.eq(~failed),
                self.do.wake.eq(self.linked & ~locks), self.do.woken.eq(self.after),
                self.do.note.eq(self.linked & locks), self.do.heir.eq(self.after),
                self.next.head.eq(self.after), self.next.waiting.eq(self.linked),
                self.next.locked.eq(locks),
                self.events.replay.eq(1),
            ]

    def _recover(self, m):
        """The request that was answered last is not: its data had an error. If the host has the
        same, it comes from there, as if the request had missed; if not, it is lost.

        Nothing else was decided since. Who waits behind a LOOKUP is on its way already, behind an
        ACQUIRE nobody is.
        """
        line, acquires = self.line, self.item.op == Operation.ACQUIRE
        m.d.comb += [self.do.update.eq(1), self.do.changed.eq(1)]
        with m.If(line.dirty):
            self._answer(m, CacheStatus.CORRUPT, self.item.hit)
            m.d.comb += [
                self.next.locked.eq(0), self.events.uncorrectable.eq(1),
                self.do.wake.eq(acquires & line.waiting), self.do.woken.eq(line.head),
            ]
        with m.Elif(~self.room.misses | (self.room.writing & ~self.room.forward)):
            m.d.comb += self.do.again.eq(1)
        with m.Else():
            m.d.comb += [
                self.do.start.eq(1), self.do.forward.eq(self.room.writing),
                self.do.phase.eq(~line.phase), self.next.phase.eq(~line.phase),
                self.next.miss.eq(self.room.miss),
                self.do.merge.eq(acquires & line.waiting), self.do.merged.eq(self.room.miss),
                self.do.merge_head.eq(line.head),
                self.events.uncorrectable.eq(1), self.events.refetch.eq(1),
                self.events.forward.eq(self.room.writing),
            ]

    def _sweep(self, m):
        """Forget every clean entry of the set, and one dirty one after reading it out."""
        dirty = self.idle_dirty.any()
        push = Signal()
        left = Signal(self.policy.ways)
        m.d.comb += [
            push.eq(dirty & self.room.write_buffer),
            left.eq(~self.empty & ~self.broken & ~(self.idle & ~self.idle_dirty)),
            self.do.push.eq(push), self.do.read.eq(push),
            self.do.update.eq(1),
        ]
        for way in range(self.policy.ways):
            chosen = push & (self.way == way)
            with m.If((self.idle[way] & ~self.idle_dirty[way]) | chosen):
                m.d.comb += self.word_out.lines[way].valid.eq(0)
        forgotten = self.idle & Cat(line.hinted for line in (
            self.word.lines[way] for way in range(self.policy.ways)))
        m.d.comb += self.events.useless.eq(sum(forgotten))
        several = (left & (left - 1)[:len(left)]).any()
        m.d.comb += self.do.swept_set.eq(~left.any() | (push & ~several))

    def _request(self, m):
        item, room = self.item, self.room
        passes = (item.op == Operation.COMMIT) | (item.op == Operation.PREFETCH)
        with m.If((item.kind == Kind.FRESH) & room.behind & ~passes):
            self._park(m, Stall.ORDER)
        with m.Elif(item.op == Operation.FLUSH_ALL):
            with m.If(room.swept):
                self._answer(m, Mux(room.spoiled, CacheStatus.CORRUPT, CacheStatus.OK))
                m.d.comb += [self.do.end_sweep.eq(1), self.do.changed.eq(1)]
            with m.Else():
                self._park(m, Stall.FLUSH_ALL)
                m.d.comb += self.do.begin_sweep.eq(1)
        with m.Elif(~room.inside):
            self._answer(m, CacheStatus.BAD_KEY)
            m.d.comb += self.events.bad_key.eq(1)
        with m.Elif(~self.found & self.broken.any()):  # the key may be in what is lost
            self._answer(m, Mux(item.op == Operation.PREFETCH, CacheStatus.OK,
                                CacheStatus.CORRUPT))
            m.d.comb += self.events.uncorrectable.eq(item.op != Operation.PREFETCH)
        with m.Elif(item.op == Operation.COMMIT):
            self._commit(m)
        with m.Elif(item.op == Operation.PREFETCH):
            self._answer(m, hit=self.found & (self.state == LineState.PRESENT))
            with m.If(~self.found & ~room.closed & (~room.writing | room.forward) & room.misses
                      & self.candidate & (~self._dirty_victim() | room.write_buffer)):
                self._start(m)
                m.d.comb += self.events.prefetch.eq(1)
        with m.Elif(room.closed):
            self._park(m, Stall.FLUSH_ALL)
        with m.Elif((item.op == Operation.FLUSH) | (item.op == Operation.INVALIDATE)):
            self._flush(m)
        with m.Elif(self.found):
            self._hit(m)
        with m.Else():
            self._miss(m)

    def _commit(self, m):
        """Nothing to wait for: the entry is locked, so it is here."""
        with m.If(self.found & self.line.locked & (self.state == LineState.PRESENT)):
            self._answer(m, hit=1)
            m.d.comb += [
                self.do.update.eq(1), self.do.store.eq(1), self.do.changed.eq(1),
                self.next.locked.eq(0),
                self.next.dirty.eq(self.line.dirty | self.item.writes),
                self.do.wake.eq(self.line.waiting), self.do.woken.eq(self.line.head),
            ]
        with m.Else():
            self._answer(m, CacheStatus.BAD_KEY)

    def _hit(self, m):
        line, item = self.line, self.item
        present = self.state == LineState.PRESENT
        with m.If(self.state == LineState.FAILED):
            self._park(m, Stall.FAILED)
        with m.Elif(present & ~line.locked & ~line.waiting):
            self._answer(m, hit=1)
            m.d.comb += [
                self.do.update.eq(1), self.do.read.eq(1), self.do.gives.eq(1),
                self.next.locked.eq(item.op == Operation.ACQUIRE), self.next.hinted.eq(0),
                self.word_out.age.eq(self.used),
                self.events.lookup.eq(1), self.events.hit.eq(1),
                self.events.useful.eq(line.hinted),
            ]
        with m.Elif(~self.room.slot):
            self._park(m, Stall.SLOTS)
        with m.Else():
            self._append(m)
            m.d.comb += [
                self.do.hit.eq(present),
                self.do.merge.eq(~present & ~line.waiting), self.do.merged.eq(line.miss),
                self.do.merge_head.eq(self.slot),
                self.do.note.eq(present & line.locked & ~line.waiting),
                self.do.heir.eq(self.slot),
                self.events.hit.eq(present), self.events.merged.eq(~present),
                self.events.useful.eq(present & line.hinted),
                self.events.late.eq(~present & line.hinted),
            ]

    def _append(self, m):
        """The request becomes the last of the entry's list."""
        m.d.comb += [
            self.do.append.eq(1), self.do.update.eq(1), self.events.lookup.eq(1),
            self.do.link.eq(self.line.waiting), self.do.tail.eq(self.line.tail),
            self.next.waiting.eq(1), self.next.tail.eq(self.slot), self.next.hinted.eq(0),
        ]
        with m.If(~self.line.waiting):
            m.d.comb += self.next.head.eq(self.slot)

    def _dirty_victim(self):
        return (self.state == LineState.PRESENT) & self.line.dirty

    def _start(self, m):
        """The victim leaves, the way is kept for the key, and the fetch is asked for."""
        evicts = self.state == LineState.PRESENT
        m.d.comb += [
            self.do.update.eq(1), self.do.start.eq(1), self.do.forward.eq(self.room.writing),
            self.do.push.eq(self._dirty_victim()), self.do.read.eq(self._dirty_victim()),
            self.do.phase.eq(~self.line.phase),
            self.next.valid.eq(1), self.next.phase.eq(~self.line.phase), self.next.dirty.eq(0),
            self.next.locked.eq(self.item.op == Operation.ACQUIRE),
            self.next.hinted.eq(self.item.op == Operation.PREFETCH),
            self.next.waiting.eq(0), self.next.miss.eq(self.room.miss),
            self.next.tag.eq(self.split.tag(self.item.key)),
            self.word_out.age.eq(self.filled),
            self.events.evict.eq(evicts), self.events.forward.eq(self.room.writing),
            self.events.useless.eq(evicts & self.line.hinted),
        ]

    def _miss(self, m):
        room = self.room
        with m.If(room.writing & ~room.forward):
            self._park(m, Stall.WRITING)
        with m.Elif(~room.misses):
            self._park(m, Stall.MISSES)
        with m.Elif(~self.candidate):
            self._park(m, Stall.WAYS)
        with m.Elif(self._dirty_victim() & ~room.write_buffer):
            self._park(m, Stall.WRITE_BUFFER)
        with m.Else():
            self._start(m)
            m.d.comb += [self.events.lookup.eq(1), self.events.miss.eq(1)]

    def _flush(self, m):
        """First the write-back, then, tried again, the answer once the host has the entry."""
        line, room = self.line, self.room
        forget = self.item.op == Operation.INVALIDATE
        busy = (self.state != LineState.PRESENT) | line.locked | line.waiting
        wait = self.found & ~room.flushing & line.dirty

        with m.If(self.found & ~room.flushing & busy):
            self._park(m, Stall.BUSY)
        with m.Elif(wait & ~room.write_buffer):
            self._park(m, Stall.WRITE_BUFFER)
        with m.Else():
            with m.If(self.found & ~room.flushing):
                m.d.comb += [self.do.update.eq(1), self.next.dirty.eq(0), self.do.changed.eq(1)]
                with m.If(forget):
                    m.d.comb += [self.next.valid.eq(0), self.events.useless.eq(line.hinted)]
            with m.If(wait | room.writing):
                self._park(m, Stall.WRITING)
                m.d.comb += [self.do.begin_flush.eq(1), self.do.push.eq(wait),
                             self.do.read.eq(wait)]
            with m.Else():
                self._answer(m, Mux(room.spoiled, CacheStatus.CORRUPT, CacheStatus.OK),
                             self.found)
