"""HostStore: frames for the host come out whole and unchanged, once their end is in and good."""

from amaranth.asserts import AnySeq
from amaranth.hdl import Array, Cat, Mux, Signal, Value
from amaranth.lib import data

from formal.memory import Rows
from formal.peek import Opened
from formal.proof import Mutant, Proof
from formal.properties import Properties, implies
from formal.queue import AnyQueue, Inside
from formal.rules import environment
from rtl.parser.host_store import HostStore
from rtl.stream import PacketLayout

MAX_FRAME, SPARE = 16, 3  # bytes; beats and frames
LONGEST = MAX_FRAME // 8
DEPTH = LONGEST + SPARE  # beats
BITS = 4  # numbers wrap around at more than can be inside


def host(p: Properties) -> None:
    """A beat that is chosen when it enters: `ahead` others leave before it, if it is kept."""
    m, block = p.m, HostStore(64, MAX_FRAME)
    m.submodules.block = inner = Opened(block)
    environment(p, block)
    m.d.comb += [Value.cast(port).eq(AnySeq(len(Value.cast(port))))
                 for port in (block.settings, block.frame, block.end)]
    i, o, drop = block.i, block.o, block.end.drop
    take = p.signal(i.valid & i.ready, "take")
    moves = p.signal(o.valid & o.ready, "moves")
    beat = Signal(2)  # of the frame that enters; stops at 3
    kept, left = Signal(BITS), Signal(BITS)  # beats of kept frames; those that left
    keeps = p.signal(take & i.p.last & ~drop, "keeps")
    with m.If(take):
        m.d.sync += beat.eq(Mux(i.p.last, 0, beat + ~beat.all()))
    m.d.sync += [kept.eq(kept + Mux(keeps, beat + 1, 0)), left.eq(left + moves)]
    p.assume("a frame too long is dropped",
             implies(i.valid & i.p.last & (beat >= LONGEST), drop))
    p.check("o: no beat but those of kept frames", implies(o.valid, kept != left))

    started, inside, told = Signal(), Signal(), Signal()
    ahead = Signal(BITS)
    choose = p.signal(take & (beat < LONGEST) & ~started & AnySeq(1), "choose")
    noted = p.register(i.payload, "noted", when=choose)
    nth = p.register(beat, "nth", when=choose)
    shown = p.signal(inside & (ahead == 0) & o.valid, "shown")
    decided = p.signal(take & i.p.last & (choose | (inside & ~told)), "decided")
    m.d.sync += [
        started.eq(started | choose),
        inside.eq((choose | (inside & ~(shown & moves))) & ~(decided & drop)),
        told.eq(told | decided),
        ahead.eq(Mux(choose, (kept - left) + beat, ahead) - moves),
    ]
    p.check("o: not before its frame's end", implies(shown, told))
    p.check("o: the beat in its place, unchanged",
            implies(shown, Value.cast(o.payload) == noted.as_value()))
    p.cover("the second beat of a frame behind another one", shown & moves & (nth == 1)
            & p.register((kept - left)[:BITS] == 2, "behind", when=choose))
    _infos(p, block, inner, keeps)

    count, whole, used = inner["count"], inner["whole"], inner["used"]
    produce, start, consume = inner["produce"], inner["start"], inner["consume"]
    at = p.signal((ahead - o.valid)[:BITS], "at")
    rows = Array([inner[f"memory.row{row}"] for row in range(DEPTH)])
    p.invariant("beats of the frame that enters", count == Mux(beat < LONGEST, beat, LONGEST))
    p.invariant("beats in use", (used == whole + count) & (used <= DEPTH))
    p.invariant("whole frames", (kept - left)[:BITS] == whole + o.valid)
    p.invariant("pointers", (consume < DEPTH) & (start == _after(consume, whole))
                & (produce == _after(start, count)))
    for j in range(DEPTH):
        row = data.View(PacketLayout(64), rows[_after(consume, j)])
        p.invariant(f"beat {j}: only the last has empty bytes",
                    implies(j < used, row.last | (row.empty == 0)))
    p.invariant("once", implies(inside | told, started))
    p.invariant("it is where it should be", implies(inside & ~shown, (at < used) & (
        rows[_after(consume, at)] == noted.as_value())))
    p.invariant("its frame", implies(inside & ~shown, Mux(
        told, at < whole, (at == whole + nth) & (nth < beat))))


def _after(pointer, distance):
    total = pointer + distance
    return Mux(total >= DEPTH, total - DEPTH, total)[:3]


def _infos(p: Properties, block, inner, keeps) -> None:
    """One arbitrary kept frame's info."""
    m, queue = p.m, Inside(p, inner, "infos", SPARE)
    started, inside, ahead = Signal(), Signal(), Signal(3)
    moves = p.signal(block.info.valid & block.info.ready, "info_moves")
    choose = p.signal(keeps & ~started & AnySeq(1), "choose_info")
    frame = block.frame
    noted = p.register(Cat(frame.sequence, frame.kind, block.end.length, frame.rss), "noted_info",
                       when=choose)
    queue_number = p.register(block.settings.table[frame.rss.hash[:7]], "queue", when=choose)
    shown = p.signal(inside & (ahead == 0) & block.info.valid, "info_shown")
    m.d.sync += [
        started.eq(started | choose), inside.eq(choose | (inside & ~(shown & moves))),
        ahead.eq(Mux(choose, queue.count, ahead) - moves),
    ]
    info = block.info.p
    p.check("info: that of its frame", implies(shown, (
        Cat(info.sequence, info.kind, info.length, info.rss) == noted)
        & (info.queue == queue_number)))
    p.check("info: one for each kept frame", inner["infos.write"] == keeps)
    p.invariant("info once", implies(inside, started))
    p.invariant("it waits in its place", implies(inside, (ahead < queue.count) & (
        queue.item(ahead[:2]) == Cat(noted, queue_number))))


STORE = "rtl.parser.host_store.HostStore."
PROOFS = (
    Proof(name="host", build=host, depth=2, induction=True, cover_depth=12, mutants=(
        Mutant("a dropped frame's first beat kept", STORE + "elaborate", "produce.eq(start)",
               "produce.eq(after(start))"),
        Mutant("shown before its end", STORE + "elaborate", "count + 1, 0)", "count + 2, 0)"),
        Mutant("a beat too many stored", STORE + "elaborate", "used != self.depth", "1"),
    ), constants={"rtl.parser.host_store.SPARE": SPARE, "rtl.parser.host_store.Memory": Rows,
                  "rtl.parser.host_store.SyncFIFOBuffered": AnyQueue}),
)
