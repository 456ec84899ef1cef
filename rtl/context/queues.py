"""What each request port has of its own: requests to be tried again, and answers not yet taken."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, enum, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.context.interface import KEY_BITS, TAG_BITS, CacheResponse, CacheStatus, Operation

RETRY_DEPTH = 8
ANSWER_DEPTH = 4


class Stall(enum.Enum, shape=4):
    """Why a request could not be decided and is tried again."""

    NONE = 0
    ORDER = 1  # an earlier request of the port is being tried again
    FLUSH_ALL = 2  # every entry is being written back
    WRITING = 3  # the key is on its way to the host
    MISSES = 4  # the miss table is full
    WAYS = 5  # every way of the set is locked or pending
    WRITE_BUFFER = 6  # the victim is dirty and the write buffer full
    SLOTS = 7  # the port has no slot for another waiting request
    BUSY = 8  # flush or invalidate of an entry that is locked, pending or waited for
    FAILED = 9  # the entry's failed fetch is being answered


class ShortRequest(data.StructLayout):
    """A request without the commit's data, which never has to wait."""

    def __init__(self):
        super().__init__({"op": Operation, "key": unsigned(KEY_BITS), "tag": unsigned(TAG_BITS)})


class RetryQueue(wiring.Component):
    """Requests of one port that could not be decided, in order.

    `push` adds one. `issue` hands out `head`, and the following `head` may be issued in the next
    cycle, before it is known whether the first could be decided: `done` says it was, `rewind` that
    it was not; what was issued in the cycle of a rewind comes back with `stale` set and must be
    ignored. After a rewind nothing is ready until `wake`.
    """

    def __init__(self):
        super().__init__({
            "push": In(1), "pushed": In(ShortRequest()), "count": Out(range(RETRY_DEPTH + 1)),
            "ready": Out(1), "head": Out(ShortRequest()), "issue": In(1),
            "done": In(1), "rewind": In(1), "stale": Out(1), "wake": In(1),
            "reason": In(Stall), "blocked": Out(Stall),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.store = store = memory.Memory(shape=ShortRequest(), depth=RETRY_DEPTH, init=[])
        write, read = store.write_port(), store.read_port(domain="comb")
        put, get, trial = (Signal(range(RETRY_DEPTH), name=n) for n in ("put", "get", "trial"))
        untried = Signal(range(RETRY_DEPTH + 1))
        awake = Signal()
        blocked = Signal(Stall)
        m.d.comb += [
            write.addr.eq(put), write.data.eq(self.pushed), write.en.eq(self.push),
            read.addr.eq(trial), self.head.eq(read.data),
            self.ready.eq(awake & (untried != 0)),
            self.blocked.eq(blocked),
        ]
        m.d.sync += [
            self.count.eq(self.count + self.push - self.done),
            untried.eq(Mux(self.rewind, self.count, untried - self.issue) + self.push),
            self.stale.eq(self.rewind),
        ]
        with m.If(self.push):
            m.d.sync += put.eq(put + 1)
            with m.If(self.count == 0):
                m.d.sync += [awake.eq(0), blocked.eq(self.reason)]
        with m.If(self.done):
            m.d.sync += get.eq(get + 1)
        with m.If(self.issue):
            m.d.sync += trial.eq(trial + 1)
        with m.If(self.rewind):
            m.d.sync += [trial.eq(get), awake.eq(0), blocked.eq(self.reason)]
        with m.If(self.wake):
            m.d.sync += awake.eq(1)
        return m


class AnswerLayout(data.StructLayout):
    """A response without its data, while that is being read."""

    def __init__(self):
        super().__init__({
            "op": Operation, "key": unsigned(KEY_BITS), "tag": unsigned(TAG_BITS),
            "status": CacheStatus, "hit": unsigned(1),
        })


class AnswerQueue(wiring.Component):
    """Answers of one port. `i` must not come when `level` is ANSWER_DEPTH; latency 0 when empty."""

    def __init__(self, entry_bytes: int):
        shape = CacheResponse(entry_bytes)
        super().__init__({
            "valid": In(1), "answer": In(AnswerLayout()), "data": In(8 * entry_bytes),
            "o": Out(stream.Signature(shape)), "level": Out(range(ANSWER_DEPTH + 1)),
        })
        self.shape = shape

    def elaborate(self, platform):
        m = Module()
        m.submodules.store = store = memory.Memory(shape=self.shape, depth=ANSWER_DEPTH, init=[])
        write, read = store.write_port(), store.read_port(domain="comb")
        put, get = Signal(range(ANSWER_DEPTH)), Signal(range(ANSWER_DEPTH))
        level = Signal.like(self.level)
        now = Signal(self.shape)
        taken = self.o.valid & self.o.ready
        m.d.comb += [
            now.as_value().eq(Cat(self.answer.as_value(), self.data)),
            write.addr.eq(put), write.data.eq(now),
            write.en.eq(self.valid & ~(taken & (level == 0))),
            read.addr.eq(get),
            self.level.eq(level),
            self.o.valid.eq(self.valid | (level != 0)),
            self.o.payload.eq(Mux(level == 0, now, read.data)),
        ]
        m.d.sync += level.eq(level + self.valid - taken)
        with m.If(write.en):
            m.d.sync += put.eq(put + 1)
        with m.If(taken & (level != 0)):
            m.d.sync += get.eq(get + 1)
        return m
