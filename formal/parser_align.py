"""PayloadAligner: payload leaves byte for byte, from byte 0 of its first beat on."""

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Cat, Const, Mux, Signal

from formal.peek import Opened
from formal.proof import Mutant, Proof
from formal.properties import Properties, implies
from rtl.parser.align import PayloadAligner

MAX_PAYLOAD = 4096


class Frames:
    """Drives the aligner: frames of any length, each with payload of `length` bytes from `start` on
    (none if `length` is 0), as the place in `PayloadPlace` says."""

    def __init__(self, p: Properties, block):
        m = p.m
        self.start = start = p.signal(Cat(Const(2, 2), AnySeq(6)), "start")
        self.length = length = p.signal(AnySeq(13), "length")
        self.index = index = Signal(11)
        self.valid = valid = p.signal(AnySeq(1) & block.ready, "valid")
        self.last = last = p.signal(AnySeq(1), "last")
        self.some = some = p.signal(length != 0, "some")
        with m.If(valid):
            m.d.sync += index.eq(Mux(last, 0, index + ~index.all()))
        final = p.signal(final_beat(start, length), "final")
        m.d.comb += [
            block.valid.eq(valid), block.data.eq(AnySeq(64)), block.index.eq(index),
            block.last.eq(last), block.place.some.eq(some), block.place.shift.eq(start[:3]),
            block.place.first.eq(start[3:]), block.place.last.eq(final),
            block.place.within.eq(place_of_last(start, length) == final),
            block.place.empty.eq((-length)[:3]),
        ]
        p.assume("payload of at most 4096 bytes", length <= MAX_PAYLOAD)
        p.assume("payload begins within its frame",
                 implies(valid & last & some, index >= start[3:]))
        before = p.register(Cat(start, length), "place_before")
        p.assume("a place for the whole frame",
                 implies(index != 0, Cat(start, length) == before))


def final_beat(start, length):
    """The beat of the frame with the first byte of the last beat of payload."""
    return start[3:] + (length - 1)[3:13]


def place_of_last(start, length):
    """The beat of the frame with the last byte of payload."""
    return (start + length - 1)[3:]


def aligner(p: Properties) -> None:
    """One arbitrary byte of the payload of every frame. `held` is the beat that came last."""
    m, block = p.m, PayloadAligner(64)
    m.submodules.block = inner = Opened(block)
    f = Frames(p, block)
    o = block.o
    m.d.comb += o.ready.eq(AnySeq(1))
    start, length, index, ended = (
        p.register(value, f"held_{name}", when=f.valid, init=name == "last")
        for name, value in (("start", f.start), ("length", f.length), ("index", f.index),
                            ("last", f.last)))
    some = p.signal(length != 0, "held_some")
    moves = p.signal(o.valid & o.ready, "moves")
    beat, over = Signal(11), Signal()  # of the packet; it has left
    with m.If(moves):
        m.d.sync += beat.eq(Mux(o.p.last, 0, beat + 1))
    m.d.sync += over.eq(~(f.valid & (f.index == 0)) & (over | (moves & o.p.last)))
    nth = p.signal(AnyConst(12), "nth")
    place = p.signal(start + nth, "place")  # where it was in its frame
    enters = p.signal(f.valid & (f.index == (f.start + nth)[3:]), "enters")
    value = p.register(block.data.word_select((f.start + nth)[:3], 8), "value", when=enters)
    shown = p.signal(o.valid & (beat == nth[3:]) & (nth < length), "shown")
    out = p.signal(o.p.data.word_select(nth[:3], 8), "out")
    p.check("o: a payload byte in its place, from the beat before", implies(
        shown & (place[3:] == index), out == value))
    p.check("o: a payload byte in its place, from the beat that comes", implies(
        shown & ~ended & (place[3:] == index + 1),
        f.valid & (out == block.data.word_select(place[:3], 8))))
    final = p.signal(beat == (length - 1)[3:13], "final")
    p.check("o: payload alone, beat by beat",
            implies(o.valid, some & (index == start[3:] + beat) & (beat <= (length - 1)[3:13])))
    p.check("o: as long as announced, or as the frame lasts", implies(
        o.valid, (o.p.last == (final | ended)) & implies(o.p.last, o.p.empty == (-length)[:3])))
    whole = place_of_last(start, length) == final_beat(start, length)
    p.check("o: bytes that are there do not wait", implies(
        some & ~over & (index >= start[3:]) & (index <= final_beat(start, length))
        & (ended | ((index == final_beat(start, length)) & whole)), o.valid))
    p.check("no payload is left behind", implies(
        f.valid & (f.index == 0) & some & ended, over | (moves & o.p.last)))
    p.check("o: no error", ~o.p.error)
    p.check("o: stays valid", implies(p.register(o.valid & ~o.ready, "stalled"), o.valid))
    p.check("o: only the last beat has empty bytes",
            implies(o.valid & ~o.p.last, o.p.empty == 0))
    p.cover("the third beat of a payload leaves as the next frame comes",
            moves & o.p.last & (beat == 2) & f.valid & (f.index == 0))

    first, final = start[3:], p.signal(final_beat(start, length), "held_final")
    held_valid, mine = inner["held_valid"], index == final
    p.invariant("beat that came last", f.index == Mux(ended, 0, index + ~index.all()))
    p.invariant("its place", implies(~ended, Cat(f.start, f.length) == Cat(start, length))
                | (f.index == 0))
    p.invariant("within its place", implies(held_valid, (
        some & ~over & (index >= first) & (index <= final) & (beat == index - first))))
    p.invariant("how it goes on", implies(held_valid, (
        (inner["held_last"] == (mine | ended)) & (inner["shift"] == start[:3])
        & (inner["within"] == ((mine & whole) | ended))
        & (inner["empty"] == (-length)[:3]))))
    p.invariant("beats that left", implies(~held_valid, beat == Mux(
        some & ~over & (index >= first), index - first + 1, 0)))
    p.invariant("over", implies(over, some & (beat == 0) & ((index >= final) | ended)))
    p.invariant("not over", implies(some & ((index >= final) | ended), over | held_valid))
    p.invariant("the byte is held", implies(held_valid & (place[3:] == index) & (nth < length),
                                            inner["held"].word_select(nth[:3], 8) == value))


ALIGN = "rtl.parser.align.PayloadAligner.elaborate"
PROOFS = (
    Proof(name="aligner", build=aligner, depth=3, induction=True, cover_depth=12, mutants=(
        Mutant("the beat that comes, one lane early", ALIGN, "lane + shift < beat_bytes",
               "lane + shift < beat_bytes - 1"),
        Mutant("payload that ends within its beat waits", ALIGN,
               "(final & place.within) | self.last", "self.last"),
        Mutant("a beat overwritten", ALIGN, "~held_valid | self.o.ready", "1"),
    )),
)
