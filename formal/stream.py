"""Streams (rtl/stream): SkidBuffer, CatchBuffer, FreeList, rotated, WordSender; Amaranth's FIFO."""

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Cat, Mux, Signal
from amaranth.lib.fifo import SyncFIFOBuffered

from formal.peek import Opened
from formal.proof import Mutant, Proof
from formal.properties import Properties, implies
from formal.rules import PacketMonitor, environment
from rtl.stream import CatchBuffer, FreeList, SkidBuffer, WordSender, rotate

DEPTH = 3  # of the free list
QUEUE = 4  # items of the FIFO
WORD = 13  # bytes


def skid(p: Properties) -> None:
    """The items inside are a queue of at most two: what goes in comes out, in order."""
    m, block = p.m, SkidBuffer(8)
    m.submodules.block = inner = Opened(block)
    environment(p, block)
    queue = [Signal(8, name=f"queue{i}") for i in range(2)]
    count = Signal(range(3))
    take = block.i.valid & block.i.ready
    give = block.o.valid & block.o.ready
    m.d.sync += count.eq(count + take - give)
    with m.If(give):
        m.d.sync += queue[0].eq(queue[1])
    for place in range(2):
        with m.If(take & (count - give == place)):
            m.d.sync += queue[place].eq(block.i.payload)
    p.invariant("at most two inside", count <= 2)
    p.check("o: valid when there is something", block.o.valid == (count != 0))
    p.check("i: ready when there is room", block.i.ready == (count != 2))
    p.check("o: the oldest item", implies(block.o.valid, block.o.payload == queue[0]))
    p.invariant("the spare holds the second item",
            (inner["spare_valid"] == (count == 2))
            & implies(inner["spare_valid"], inner["spare"] == queue[1]))
    p.cover("full", (count == 2) & (queue[0] != queue[1]))
    p.cover("back to back", take & give & (count == 1))


def catch(p: Properties) -> None:
    """What goes in comes out in the same cycle, or is the one item that waits."""
    m, block = p.m, CatchBuffer(8)
    m.submodules.block = inner = Opened(block)
    environment(p, block)
    item, waits = Signal(8), Signal()
    take = p.signal(block.i.valid & block.i.ready, "taken")
    give = p.signal(block.o.valid & block.o.ready, "given")
    m.d.sync += waits.eq(waits + take - give)
    with m.If(take):
        m.d.sync += item.eq(block.i.payload)
    p.check("i: ready when nothing waits", block.i.ready == ~waits)
    p.check("o: valid when there is something", block.o.valid == (waits | block.i.valid))
    p.check("o: the oldest item",
            implies(block.o.valid, block.o.payload == Mux(waits, item, block.i.payload)))
    p.invariant("what waits is held",
            (inner["held"] == waits) & implies(waits, inner["caught"] == item))
    p.cover("through a stall", give & p.register(waits & ~give, "stalled"))
    p.cover("straight through", take & give)


def fifo(p: Properties) -> None:
    """Amaranth's FIFO is an `AnyQueue`, by which other proofs replace it."""
    m, block = p.m, SyncFIFOBuffered(width=4, depth=QUEUE)
    m.submodules.block = block
    m.d.comb += [block.w_en.eq(AnySeq(1)), block.w_data.eq(AnySeq(4)), block.r_en.eq(AnySeq(1))]
    write = p.signal(block.w_en & block.w_rdy, "write")
    read = p.signal(block.r_en & block.r_rdy, "read")
    items = [Signal(4, name=f"item{i}") for i in range(QUEUE)]
    count = Signal(range(QUEUE + 1))
    m.d.sync += count.eq(count + write - read)
    for i, item in enumerate(items):
        with m.If(write & (count - read == i)):
            m.d.sync += item.eq(block.w_data)
        with m.Elif(read):
            m.d.sync += item.eq(items[i + 1] if i + 1 < QUEUE else 0)
    p.check("shows the oldest item", implies(block.r_rdy, (count != 0)
                                             & (block.r_data == items[0])))
    p.check("has room for its depth", block.w_rdy == (count != QUEUE))
    p.check("an item shown stays", implies(p.register(block.r_rdy & ~read, "shown"), block.r_rdy))
    p.cover("full", count == QUEUE)


def free_list(p: Properties) -> None:
    """Of those indices that are lent, none is lent again."""
    m, block = p.m, FreeList(DEPTH)
    m.submodules.block = block
    take = p.signal(AnySeq(1), "take")
    give = p.signal(AnySeq(1), "give")
    given = p.signal(AnySeq(2), "given")
    m.d.comb += [block.take.eq(take), block.give.eq(give), block.given.eq(given)]
    lent = Signal(DEPTH)
    p.assume("take: only what is available", implies(take, block.available))
    p.assume("give: only what is lent", implies(give, lent.bit_select(given, 1)
                                                & (given < DEPTH)))
    with m.If(give):
        m.d.sync += lent.bit_select(given, 1).eq(0)
    with m.If(take):
        m.d.sync += lent.bit_select(block.index, 1).eq(1)
    p.check("index: not lent", implies(block.available, ~lent.bit_select(block.index, 1)))
    p.check("index: below the depth", implies(block.available, block.index < DEPTH))
    p.check("available as long as one is free", block.available == ~lent.all())
    p.check("count of the free ones", block.count == DEPTH - sum(lent))
    p.cover("all lent, one back, lent again", p.register(lent.all() & give, "back") & take)


def words(p: Properties) -> None:
    """Each byte of the word comes in its place, and nothing else."""
    m, block = p.m, WordSender(64, WORD)
    m.submodules.block = inner = Opened(block)
    environment(p, block)
    out = PacketMonitor(p, block.o, "out", beat_bits=3)
    index = p.signal(AnyConst(6), "index")
    byte = block.i.payload.word_select(index, 8)
    p.check("o: every byte in its place", implies(
        block.o.valid & (out.beat == index[3:]) & (index < WORD),
        (index[:3] < out.bytes) & (block.o.p.data.word_select(index[:3], 8) == byte)))
    p.check("o: as long as the word", implies(
        block.o.valid, Mux(block.o.p.last, out.length == WORD, out.length < WORD)))
    p.check("i: taken with the last beat", (block.i.valid & block.i.ready) == out.ends)
    p.invariant("beat", (inner["beat"] == out.beat) & (out.beat <= WORD // 8))
    p.cover("two words", out.ends & (out.packet == 1))


def rotator(p: Properties) -> None:
    word, amount = p.signal(AnySeq(64), "word"), p.signal(AnySeq(3), "amount")
    twice = Cat(word, word)
    right = rotate.rotated(p.m, word, amount)
    left = rotate.rotated(p.m, word, amount, left=True)
    p.check("to the right", right == twice.bit_select(amount << 3, 64))
    p.check("to the left", left == twice.bit_select((64 - (amount << 3))[:7], 64))
    p.cover("by five bytes", amount == 5)


SKID = "rtl.stream.skid.SkidBuffer.elaborate"
PROOFS = (
    Proof(name="skid", build=skid, depth=2, induction=True, cover_depth=8, mutants=(
        Mutant("spare overwritten", SKID, "self.i.ready.eq(~spare_valid)", "self.i.ready.eq(1)"),
        Mutant("wrong order", SKID, "m.d.sync += out.eq(spare)",
               "m.d.sync += out.eq(self.i.payload)"),
    )),
    Proof(name="catch", build=catch, depth=2, induction=True, cover_depth=8, mutants=(
        Mutant("caught too late", "rtl.stream.skid.CatchBuffer.elaborate",
               "with m.If(~held)", "with m.If(held)"),
        Mutant("never held", "rtl.stream.skid.CatchBuffer.elaborate",
               "held.eq(self.o.valid & ~self.o.ready)", "held.eq(0)"),
    )),
    Proof(name="fifo", build=fifo, depth=14, mutants=(
        Mutant("shown too early", "amaranth.lib.fifo.SyncFIFOBuffered.elaborate",
               "inner_level != 0", "1"),
    )),
    Proof(name="free_list", build=free_list, depth=16, mutants=(
        Mutant("a ring of a power of two", "rtl.stream.free_list.FreeList.elaborate",
               "put.eq(following(put, self.depth))", "put.eq(put + 1)"),
    )),
    Proof(name="words", build=words, depth=2, induction=True, cover_depth=8, mutants=(
        Mutant("one beat short", "rtl.stream.words.WordSender.elaborate",
               "last = beat == count - 1", "last = beat == count - 2"),
    )),
    Proof(name="rotated", build=rotator, depth=1, induction=True, mutants=(
        Mutant("a stage left out", "rtl.stream.rotate.rotated",
               "amount[i], turned, stage", "amount[i], turned if i else stage, stage"),
    )),
)
