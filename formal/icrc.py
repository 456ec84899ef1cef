"""ICRC: that IcrcCheck and IcrcInsert (rtl/icrc) carry frames faithfully, whatever the CRC says.

The CRC itself is held against zlib by simulation; here each product of a matrix and a word is any
word at all. So the remainder, and with it the verdict or the ICRC to insert, is anything: what is
proved holds for every CRC that could be computed.
"""

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Cat, Mux, Signal, unsigned
from amaranth.lib import data
from amaranth.lib.fifo import SyncFIFOBuffered

from formal.peek import Opened
from formal.proof import Mutant, Proof
from formal.properties import Properties, implies
from formal.rules import PacketMonitor, Shadow, environment
from rtl.config import load
from rtl.icrc import IcrcCheck, IcrcInsert
from rtl.icrc import check as check_module
from rtl.icrc import insert as insert_module

REPORT = 5  # cycles from a frame's last beat, at 64 bits
RESULT = 7  # from a frame's last beat until its ICRC is known to IcrcInsert
STUCK = 8  # cycles in which what can move must


def any_word(matrix, word):
    """In place of `rtl.icrc.crc.product`."""
    return AnySeq(32)


class AnyHeaders(data.Struct):
    """In place of `Headers`, which IcrcCheck passes on unread."""

    tag: unsigned(4)


# Insertion

def any_results(self, m, engine):
    """In place of `IcrcInsert._finish`: any word for each frame, in any later cycle."""
    m.submodules.results = fifo = SyncFIFOBuffered(width=32, depth=insert_module.DEPTH)
    pending = Signal(range(insert_module.DEPTH + 1))
    m.d.comb += [fifo.w_en.eq((pending != 0) & AnySeq(1)), fifo.w_data.eq(AnySeq(32))]
    m.d.sync += pending.eq(pending + (engine.valid & engine.beat.last) - fifo.w_en)
    return fifo


def results(p: Properties) -> None:
    """`IcrcInsert._finish` is one of those: a result for each frame, always as late."""
    m, block = p.m, IcrcInsert(load("tiny"))
    m.submodules.block = inner = Opened(block)
    environment(p, block)
    due = Signal(RESULT)
    m.d.sync += due.eq(Cat(block.i.valid & block.i.ready & block.i.p.last, due))
    p.check("a result for every frame, 7 cycles after its end", inner["results.w_en"] == due[-1])
    p.cover("two in a row", inner["results.w_en"] & p.register(inner["results.w_en"], "before"))


def insert(p: Properties) -> None:
    """Beats leave in the order in which they came, each once: the beat chosen when it enters is
    followed by the number of those ahead of it, and looked at in one arbitrary lane."""
    m, block = p.m, IcrcInsert(load("tiny"))
    m.submodules.block = inner = Opened(block)
    environment(p, block)
    waiting, icrcs = Inside(inner, "waiting", QUEUE), Inside(inner, "results", QUEUE)
    beats, end = Beats(p, block.i, "in"), block.info.p.end
    length = p.signal((beats.number << 3) + 8 - block.i.p.empty, "length")
    p.assume("info: end is the frame's length", implies(block.i.valid & block.info.valid, Mux(
        block.i.p.last, end == length, end > length)))
    p.assume("a frame has 4 bytes for the ICRC", implies(block.info.valid, end >= 4))
    p.check("info: taken with the frame's last beat",
            (block.info.valid & block.info.ready) == beats.ends)

    leaves = p.signal(block.o.valid & block.o.ready, "leaves")
    follow = Follow(p, beats.move, waiting.count + block.o.valid, leaves)
    beat = p.register(block.i.payload, "beat", when=follow.choose)
    left = p.register((end - (beats.number << 3))[:14], "left", when=follow.choose)
    icrc = _its_icrc(p, inner, waiting, icrcs, beats, follow)

    o = block.o.p
    lane = p.signal(AnyConst(3), "lane")
    out = p.signal(o.data.word_select(lane, 8), "out")
    shown = p.signal(follow.inside & (follow.ahead == 0) & block.o.valid, "shown")
    data = p.signal(lane + 4 < left, "is_data")
    p.check("o: a byte in its place, unchanged",
            implies(shown & data, out == beat.data.word_select(lane, 8)))
    p.check("o: the frame's own ICRC, little-endian", implies(shown & ~data & (lane < left), (
        icrc.known & (out == icrc.value.word_select((lane + 4 - left)[:2], 8)))))
    p.check("o: where the frame ends, and its error",
            implies(shown, Cat(o.last, o.empty, o.error) == Cat(beat.last, beat.empty, beat.error)))
    p.check("no ICRC is lost", implies(inner["results.w_en"], inner["results.w_rdy"]))

    layout = data_layout(block)
    item = data_view(layout, waiting.item(follow.place))
    p.invariant("index", inner["engine.index"] == beats.number)
    p.invariant("it waits where it should", implies(follow.queued, (
        (follow.place < waiting.count) & (item.beat.as_value() == beat.as_value())
        & (item.near == (left < 12)) & implies(item.near, item.left == left[:4]))))
    p.invariant("a beat is a beat", implies(follow.inside, (left != 0)
                                            & (beat.last == (left <= 8))))
    p.cover("two beats that share an ICRC", shown & ~data & (lane < left) & ~beat.last)
    p.cover("the fourth beat behind it", leaves & p.register(follow.done, "done", when=leaves))


def _its_icrc(p, inner, waiting, icrcs, beats, follow):
    return None


# Check

def any_verdicts(self, m, verdicts):
    """In place of `IcrcCheck._judge`: any report, while there is room for its verdict."""
    report = self.report
    verdict = data.View(check_module._Verdict, verdicts.w_data)
    m.d.comb += [
        Cat(report.flagged, report.ok, report.payload).eq(AnySeq(3)),
        report.valid.eq(verdicts.w_rdy & AnySeq(1)), verdicts.w_en.eq(report.valid),
        verdict.good.eq(report.ok), verdict.payload.eq(report.payload),
    ]


def verdicts(p: Properties) -> None:
    """The report of one arbitrary frame, and the sum of all."""
    m, block = p.m, IcrcCheck(load("tiny"))
    m.submodules.block = inner = Opened(block)
    environment(p, block)
    frames, info, report = PacketMonitor(p, block.i_frame, "frame"), block.i_info.p, block.report
    p.check("i_info: taken with the frame's last beat",
            (block.i_info.valid & block.i_info.ready) == frames.ends)

    due = Signal(REPORT)  # reports, by the cycles until they come
    m.d.sync += due.eq(Cat(frames.ends, due))
    p.check("a report for every frame, 5 cycles after its end", report.valid == due[-1])

    frame = p.signal(AnyConst(3), "frame")
    ends = p.signal(frames.ends & (frames.packet == frame), "ends")
    known = {name: p.register(value, f"its_{name}", when=ends) for name, value in (
        ("sequence", info.sequence), ("payload", info.payload),
        ("flagged", block.i_frame.p.error), ("complete", frames.length >= info.end))}
    reports = count(p, report.valid, "reports")
    now = p.signal(report.valid & (reports == frame) & ~frame.all(), "now")
    for name in ("sequence", "payload", "flagged"):
        p.check(f"report: {name} of its frame", implies(now, report[name] == known[name]))
    p.check("report: ok only if not flagged and whole",
            implies(now & report.ok, ~known["flagged"] & known["complete"]))

    counters = block.counters
    p.check("frames are checked or flagged", counters.checked + counters.flagged == reports)
    p.check("those with a wrong ICRC are bad",
            counters.bad == count(p, report.valid & ~report.ok & ~report.flagged, "bad"))
    p.check("no verdict is lost", implies(inner["verdicts.w_en"], inner["verdicts.w_rdy"]))
    p.cover("good after bad after flagged", report.ok & (reports == 2) & (counters.bad == 1)
            & (counters.flagged == 1))


def count(p: Properties, event, name: str) -> Signal:
    """How often it happened before this cycle, up to 7."""
    out = Signal(3, name=name)
    with p.m.If(event):
        p.m.d.sync += out.eq(out + ~out.all())
    return out


def release(p: Properties) -> None:
    """Headers and payload come out if and only if the report of their frame was good: those of
    one arbitrary frame, by their number among those that came and those that leave."""
    m, block = p.m, IcrcCheck(load("tiny"))
    m.submodules.block = block
    environment(p, block)
    report, heads = block.report, block.o_headers
    good = p.signal(report.valid & report.ok, "good")
    heads_in = count(p, block.i_headers.valid & block.i_headers.ready, "heads_in")
    heads_out = count(p, heads.valid & heads.ready, "heads_out")
    enters, leaves = PacketMonitor(p, block.i_payload, "in"), PacketMonitor(p, block.o_payload, "out")
    byte = Shadow(p, enters)

    frame = p.signal(AnyConst(3), "frame")
    reports = count(p, report.valid, "reports")
    now = p.signal(report.valid & (reports == frame) & ~frame.all(), "now")
    good_heads, good_payloads = count(p, good, "good_heads"), count(
        p, good & report.payload, "good_payloads")
    payloads = count(p, report.valid & report.payload, "payloads")
    p.assume("the byte is in the frame's payload",
             implies(now & report.payload, byte.packet == payloads))
    is_good = p.register(report.ok, "is_good", when=now)
    has_payload = p.register(good & report.payload, "has_payload", when=now)
    place = p.register(good_heads, "place", when=now)
    payload_place = p.register(good_payloads, "payload_place", when=now)

    item = p.register(block.i_headers.p.tag, "item", when=(
        block.i_headers.valid & block.i_headers.ready & (heads_in == frame)))
    mine = p.signal(heads.valid & is_good & (heads_out == place), "my_head")
    p.check("o_headers: nothing before its verdict", implies(heads.valid, heads_out < good_heads))
    p.check("o_headers: that of the good frame",
            implies(mine, (heads_in > frame) & (heads.p.tag == item)))

    mine = p.signal(has_payload & (leaves.packet == payload_place), "my_payload")
    hit, value = leaves.byte(p, payload_place, byte.index, "shadow")
    length = p.register(enters.length, "length", when=enters.ends & (enters.packet == byte.packet))
    error = p.register(block.i_payload.p.error, "error",
                       when=enters.ends & (enters.packet == byte.packet))
    p.check("o_payload: nothing before its verdict",
            implies(block.o_payload.valid, leaves.packet < good_payloads))
    p.check("o_payload: not before its header item",
            implies(mine & block.o_payload.valid, heads_out > place))
    p.check("o_payload: a byte in its place, unchanged",
            implies(mine & hit, byte.seen & (value == byte.value)))
    p.check("o_payload: length and error are kept", implies(
        mine & leaves.ends, (enters.packet > byte.packet) & (leaves.length == length)
        & (block.o_payload.p.error == error)))

    waits = p.signal((heads_out != good_heads) | (leaves.packet != good_payloads), "waits")
    free = p.signal(heads.ready & block.o_payload.ready & (heads_in >= reports)
                    & (enters.packet >= payloads), "free")
    stuck = Signal(range(STUCK + 1))
    m.d.sync += stuck.eq(Mux(waits & free & ~heads.valid & ~block.o_payload.valid, stuck + 1, 0))
    p.check("nothing gets stuck", stuck != STUCK)
    p.cover("a good frame after a bad one, with payload",
            leaves.ends & (leaves.packet == 0) & (reports > good_heads) & (leaves.beat == 1))
    p.cover("payload thrown away", (payloads > good_payloads) & (enters.packet == payloads)
            & (leaves.packet == good_payloads) & (good_payloads == 1))


ABSTRACT = {"rtl.icrc.engine.product": any_word, "rtl.icrc.insert.product": any_word}
SMALL = {**ABSTRACT, "rtl.icrc.check.VERDICTS": 4, "rtl.icrc.check.HEADERS": 3,
         "rtl.icrc.check.PAYLOAD_BYTES": 16, "rtl.icrc.check._SPARE_BEATS": 2,
         "rtl.icrc.check.Headers": AnyHeaders}
ENGINE = "rtl.icrc.engine.IcrcEngine."
CHECK, INSERT = "rtl.icrc.check.IcrcCheck.", "rtl.icrc.insert.IcrcInsert."
PROOFS = (
    Proof(name="results", build=results, depth=RESULT + 2, induction=True, cover_depth=12,
          constants=ABSTRACT, mutants=(
        Mutant("a result too early", ENGINE + "elaborate", "self.done.eq(valid & result.last)",
               "self.done.eq(valid & self.folded.last)"),
    )),
    Proof(name="insert", build=insert, depth=12, mutants=(
        Mutant("an ICRC over two beats forgotten", INSERT + "_wait", "left < beat_bytes + 4",
               "left <= beat_bytes"),
        Mutant("an ICRC used twice", INSERT + "_merge", "free & go & head.beat.last",
               "free & go & head.beat.last & (head.beat.empty != 0)"),
    ), constants={**ABSTRACT, "rtl.icrc.insert.DEPTH": 4, INSERT + "_finish": any_results}),
    Proof(name="verdicts", build=verdicts, depth=24, cover_depth=16, constants=SMALL, mutants=(
        Mutant("a flagged frame is good", CHECK + "_judge", "result.complete & ~result.error",
               "result.complete"),
        Mutant("a frame too short is good", CHECK + "_judge", "right & result.complete", "right"),
        Mutant("a bad frame not counted", CHECK + "_judge", "counters.checked + 1",
               "counters.checked + self.report.ok"),
        Mutant("a verdict too many", CHECK + "_judge", "unused != VERDICTS", "1"),
    )),
    Proof(name="release", build=release, depth=12, mutants=(
        Mutant("payload of a bad frame", CHECK + "_release", "routes.w_data.eq(good)",
               "routes.w_data.eq(1)"),
        Mutant("a bad frame's headers kept", CHECK + "_release", "self.o_headers.ready | ~good",
               "self.o_headers.ready & good"),
        Mutant("headers without room for their payload's route", CHECK + "_release",
               "& routes.w_rdy", ""),
    ), constants={**SMALL, CHECK + "_judge": any_verdicts}),
)
