"""Streams: SkidBuffer, FreeList, rotated, WordSender (rtl/stream)."""

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Cat, Mux, Signal

from formal.peek import Opened
from formal.proof import Mutant, Proof
from formal.properties import Properties, implies
from formal.stream import PacketMonitor, environment
from rtl.stream import FreeList, SkidBuffer, WordSender, rotated

DEPTH = 3  # of the free list
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
    p.check("invariant: at most two inside", count <= 2)
    p.check("o: valid when there is something", block.o.valid == (count != 0))
    p.check("i: ready when there is room", block.i.ready == (count != 2))
    p.check("o: the oldest item", implies(block.o.valid, block.o.payload == queue[0]))
    p.check("invariant: the spare holds the second item",
            (inner["spare_valid"] == (count == 2))
            & implies(inner["spare_valid"], inner["spare"] == queue[1]))
    p.cover("full", (count == 2) & (queue[0] != queue[1]))
    p.cover("back to back", take & give & (count == 1))


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
    p.check("invariant: beat", (inner["beat"] == out.beat) & (out.beat <= WORD // 8))
    p.cover("two words", out.ends & (out.packet == 1))


def rotator(p: Properties) -> None:
    word, amount = p.signal(AnySeq(64), "word"), p.signal(AnySeq(3), "amount")
    twice = Cat(word, word)
    p.check("to the right", rotated(p.m, word, amount) == twice.bit_select(amount << 3, 64))
    p.check("to the left", rotated(p.m, word, amount, left=True)
            == twice.bit_select(64 - (amount << 3), 64))
    p.cover("by five bytes", amount == 5)


SKID = "rtl.stream.skid.SkidBuffer.elaborate"
PROOFS = (
    Proof(name="skid", build=skid, depth=2, induction=True, cover_depth=8, mutants=(
        Mutant("spare overwritten", SKID, "self.i.ready.eq(~spare_valid)", "self.i.ready.eq(1)"),
        Mutant("wrong order", SKID, "m.d.sync += out.eq(spare)",
               "m.d.sync += out.eq(self.i.payload)"),
    )),
    Proof(name="free_list", build=free_list, depth=16, mutants=(
        Mutant("fresh ones run on", "rtl.stream.free_list.FreeList.elaborate",
               "with m.If(fresh != self.depth):\n            with",
               "with m.If(1):\n            with"),
    )),
    Proof(name="words", build=words, depth=2, induction=True, cover_depth=8, mutants=(
        Mutant("one beat short", "rtl.stream.words.WordSender.elaborate",
               "last = beat == count - 1", "last = beat == count - 2"),
    )),
    Proof(name="rotated", build=rotator, depth=1, induction=True),
)
