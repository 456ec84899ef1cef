"""What each request port has of its own: requests to be tried again, and answers not yet taken."""

from amaranth.hdl import Module, Mux, Signal, unsigned
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

    def __init__(self, tenant_bits: int):
        super().__init__({"op": Operation, "key": unsigned(KEY_BITS), "tag": unsigned(TAG_BITS),
                          "tenant": unsigned(tenant_bits)})


class RetryQueue(wiring.Component):
    """Requests of one port that could not be decided, in order.

    `push` adds one. `issue` hands out `head`, and the following `head` may be issued in the next
    cycle, before it is known whether the first could be decided: `done` says it was, `rewind` that
    it was not; what was issued in the cycle of a rewind comes back with `stale` set and must be
    ignored. After a rewind nothing is ready until `wake`.
    """

    def __init__(self, tenant_bits: int = 0):
        self.shape = ShortRequest(tenant_bits)
        super().__init__({
            "push": In(1), "pushed": In(self.shape), "count": Out(range(RETRY_DEPTH + 1)),
            "ready": Out(1), "head": Out(self.shape), "issue": In(1),
            "done": In(1), "rewind": In(1), "stale": Out(1), "wake": In(1),
            "reason": In(Stall), "blocked": Out(Stall),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.store = store = memory.Memory(shape=self.shape, depth=RETRY_DEPTH, init=[])
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
    """Answers of one port, from up to two sources a cycle; `i[0]` goes before `i[1]`.

    With those of the cycle there must be no more than ANSWER_DEPTH. Latency 0 when empty.
    """

    def __init__(self, entry_bytes: int):
        shape = CacheResponse(entry_bytes)
        super().__init__({
            "valid": In(1).array(2), "i": In(shape).array(2),
            "o": Out(stream.Signature(shape)), "level": Out(range(ANSWER_DEPTH + 1)),
        })
        self.shape = shape

    def elaborate(self, platform):
        m = Module()
        put, get = Signal(range(ANSWER_DEPTH)), Signal(range(ANSWER_DEPTH))
        level = Signal.like(self.level)
        first, kept = Signal(self.shape), Signal(self.shape)
        both = self.valid[0] & self.valid[1]
        taken = self.o.valid & self.o.ready
        m.d.comb += [
            first.eq(Mux(self.valid[0], self.i[0], self.i[1])),
            self.level.eq(level),
            self.o.valid.eq(self.valid[0] | self.valid[1] | (level != 0)),
            self.o.payload.eq(Mux(level == 0, first, kept)),
        ]
        # Two banks, for the even and the odd places. An answer that passes through takes a place
        # too, so that the pointers need not know.
        for number in range(2):
            m.submodules[f"bank_{number}"] = bank = memory.Memory(
                shape=self.shape, depth=ANSWER_DEPTH // 2, init=[])
            write, read = bank.write_port(), bank.read_port(domain="comb")
            here = put[0] == number  # the first answer's bank
            m.d.comb += [
                write.addr.eq((put + ~here)[1:]),
                write.data.eq(Mux(here, first, self.i[1])),
                write.en.eq(Mux(here, self.valid[0] | self.valid[1], both)),
                read.addr.eq(get[1:]),
            ]
            with m.If(get[0] == number):
                m.d.comb += kept.eq(read.data)
        m.d.sync += [
            put.eq(put + self.valid[0] + self.valid[1]),
            get.eq(get + taken),
            level.eq(level + self.valid[0] + self.valid[1] - taken),
        ]
        return m
