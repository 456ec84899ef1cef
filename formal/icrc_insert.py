"""IcrcInsert: every frame comes out as it went in, but for the ICRC in its last 4 bytes."""

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Cat, Mux, Signal
from amaranth.lib import data

from formal.peek import Opened
from formal.proof import Mutant, Proof
from formal.properties import Properties, implies
from formal.queue import AnyQueue, Inside
from formal.rules import Followed, drive, environment
from rtl.config import load
from rtl.icrc import IcrcInsert, insert

QUEUE = 4  # beats that wait, in place of `DEPTH`
RESULT = 7  # cycles from a frame's last beat until its ICRC is known, at 64 bits


def any_word(matrix, word):
    """In place of `rtl.icrc.crc.product`."""
    return AnySeq(32)


def any_results(self, m, engine):
    """In place of `IcrcInsert._finish`: any word for each frame, in any later cycle."""
    m.submodules.results = queue = AnyQueue(width=32, depth=insert.DEPTH)
    pending = Signal(range(insert.DEPTH + 1))
    m.d.comb += [queue.w_en.eq((pending != 0) & AnySeq(1)), queue.w_data.eq(AnySeq(32))]
    m.d.sync += pending.eq(pending + (engine.valid & engine.beat.last) - queue.w_en)
    return queue


def results(p: Properties) -> None:
    """`IcrcInsert._finish` is one of those: a result for each frame, always as late."""
    m, block = p.m, IcrcInsert(load("tiny"))
    m.submodules.block = inner = Opened(block)
    drive(p, block.i, "i")
    drive(p, block.info, "info")
    m.d.comb += block.o.ready.eq(AnySeq(1))
    due = Signal(RESULT)
    m.d.sync += due.eq(Cat(block.i.valid & block.i.ready & block.i.p.last, due))
    comes = inner["results.w_en"]
    p.check("a result for every frame, 7 cycles after its end", comes == due[-1])
    p.cover("two in a row", comes & p.register(comes, "before"))


def beats(p: Properties) -> None:
    """Beats leave in the order in which they came, each once and in its place."""
    m, block = p.m, IcrcInsert(load("tiny"))
    m.submodules.block = inner = Opened(block)
    environment(p, block)
    waiting, index = Inside(p, inner, "waiting", QUEUE), Signal(11)
    i, o, end = block.i.p, block.o.p, block.info.p.end
    move = p.signal(block.i.valid & block.i.ready, "move")
    with m.If(move):
        m.d.sync += index.eq(Mux(i.last, 0, index + ~index.all()))
    length = p.signal((index << 3) + 8 - i.empty, "length")
    p.assume("info: end is the frame's length", implies(
        block.i.valid & block.info.valid, Mux(i.last, end == length, end > length)))
    p.assume("a frame has room for the ICRC", implies(block.info.valid, end >= 4))
    p.check("info: taken with the frame's last beat",
            (block.info.valid & block.info.ready) == (move & i.last))
    p.invariant("index", inner["engine.index"] == index)

    leaves = p.signal(block.o.valid & block.o.ready, "leaves")
    it = Followed(p, move, waiting.count + block.o.valid, leaves)
    beat = p.register(block.i.p, "beat", when=it.choose)
    left = p.register((end - (index << 3))[:14], "left", when=it.choose)
    shown = p.signal(it.inside & (it.ahead == 0) & block.o.valid, "shown")
    queued = p.signal(it.inside & ~shown, "queued")
    place = p.signal((it.ahead - block.o.valid)[:2], "place")
    item = _beat(block, waiting.item(place))
    p.invariant("it waits in its place", implies(queued, (
        (it.ahead - block.o.valid == place) & (place < waiting.count)
        & (item.beat.as_value() == beat.as_value())
        & (item.near == (left < 12)) & implies(left < 12, item.left == left[:4]))))
    p.invariant("only a last beat has empty bytes", waiting.count == waiting.number(
        lambda item: _beat(block, item).beat.last | (_beat(block, item).beat.empty == 0)))
    p.invariant("what is left", implies(it.inside, (left != 0) & (beat.last == (left <= 8))))
    known, icrc = _icrc(p, block, inner, waiting, (move & i.last, it, queued, place, beat))

    lane = p.signal(AnyConst(3), "lane")
    out = p.signal(o.data.word_select(lane, 8), "out")
    is_icrc = p.signal((lane + 4 >= left) & (lane < left), "is_icrc")
    p.check("o: a byte in its place, unchanged", implies(
        shown & (lane + 4 < left), out == beat.data.word_select(lane, 8)))
    p.check("o: the ICRC of its own frame, first byte first", implies(
        shown & is_icrc, known & (out == icrc.word_select((lane + 4 - left)[:2], 8))))
    p.check("o: last, empty and error", implies(
        shown, Cat(o.last, o.empty, o.error) == Cat(beat.last, beat.empty, beat.error)))
    p.check("no ICRC is lost", implies(inner["results.w_en"], inner["results.w_rdy"]))
    p.cover("an ICRC begins in one beat and ends in the next", shown & is_icrc & ~beat.last)
    p.cover("behind four others", it.done & p.register(
        waiting.count + block.o.valid == 4, "behind", when=it.choose))


def _beat(block, item):
    return data.View(block._waiting_shape(), item)


def _icrc(p: Properties, block, inner, waiting, followed):
    """(it is known, value) of the ICRC of the followed beat's frame: the first that is made after
    those of the frames that ended before."""
    m = p.m
    ends, it, queued, place, beat = followed
    icrcs, pending = Inside(p, inner, "results", QUEUE), inner["pending"]
    made = inner["results.w_en"]

    def last(item):
        return _beat(block, item).beat.last

    ended, known = Signal(name="ended"), Signal(name="known")
    before, to_make = Signal(4, name="before"), Signal(4, name="to_make")  # of earlier frames
    own_end = p.signal(ends & (it.choose | (it.inside & ~ended)), "own_end")
    own = p.signal(made & ended & ~known & (to_make == 0), "own")
    value = p.register(inner["results.w_data"], "value", when=own)
    with m.If(own_end):
        m.d.sync += [ended.eq(1), before.eq(waiting.number(last) - icrcs.read),
                     to_make.eq(pending - made)]
    with m.Else():
        m.d.sync += [before.eq(before - (icrcs.read & (before != 0))),
                     to_make.eq(to_make - (made & (to_make != 0))), known.eq(known | own)]

    lasts = p.signal(waiting.number(last), "lasts")
    p.invariant("an ICRC or one to come for each frame", lasts == icrcs.count + pending)
    p.invariant("a last beat has ICRC", waiting.number(last) == waiting.number(
        lambda item: last(item) & _beat(block, item).near))
    p.invariant("its frame goes on", implies(it.inside & ~ended, ~beat.last & (
        lasts == Mux(queued, waiting.number(last, below=place), 0))))
    p.invariant("ICRCs of frames before", implies(it.inside & ended, before == Mux(
        queued, waiting.number(last, below=place), 0)))
    p.invariant("its ICRC is to come", implies(it.inside & ended & ~known, (
        before == icrcs.count + to_make) & (to_make < pending)))
    p.invariant("its ICRC waits in its place", implies(queued & known, (
        (before < icrcs.count) & (icrcs.item(before[:2]) == value))))
    p.invariant("not known before the end", implies(known, ended) & implies(ended, it.started))
    return known, value


INSERT = "rtl.icrc.insert.IcrcInsert."
ABSTRACT = {"rtl.icrc.engine.product": any_word, "rtl.icrc.insert.product": any_word}
PROOFS = (
    Proof(name="results", build=results, depth=RESULT + 2, induction=True, cover_depth=12,
          constants=ABSTRACT, mutants=(
        Mutant("a result too early", "rtl.icrc.engine.IcrcEngine.elaborate",
               "self.done.eq(valid & result.last)", "self.done.eq(valid)"),
    )),
    Proof(name="insert", build=beats, depth=2, induction=True, cover_depth=10, mutants=(
        Mutant("an ICRC over two beats forgotten", INSERT + "_wait", "left < beat_bytes + 4",
               "left <= beat_bytes"),
        Mutant("an ICRC used twice", INSERT + "_merge", "free & go & head.beat.last",
               "free & go & head.beat.last & (head.beat.empty != 0)"),
        Mutant("an ICRC not waited for", INSERT + "_merge", "(results.r_rdy | ~head.near)", "1"),
    ), constants={**ABSTRACT, "rtl.icrc.insert.DEPTH": QUEUE, INSERT + "_finish": any_results,
                  "rtl.icrc.insert.SyncFIFOBuffered": AnyQueue}),
)
