"""IcrcCheck: a report for every frame; headers and payload of the good ones, and nothing else.

Numbers of frames and packets wrap around at 16, more than can be inside: what is noted under a
number is then of the last one that had it.
"""

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Cat, Mux, Signal, Value, unsigned
from amaranth.lib import data

from formal.icrc_insert import any_word
from formal.peek import Opened
from formal.proof import Mutant, Proof
from formal.properties import Properties, implies
from formal.queue import AnyQueue, Inside
from formal.rules import environment
from rtl.config import load
from rtl.icrc import IcrcCheck, check
from rtl.stream import PacketLayout

REPORT = 5  # cycles from a frame's last beat, at 64 bits
DEPTH = 3  # of each queue
BITS = 4  # of a number


class AnyHeaders(data.Struct):
    """In place of `Headers`, which IcrcCheck passes on unread."""

    tag: unsigned(8)


def number(p: Properties, event, name: str) -> Signal:
    """How often `event` was there before this cycle."""
    out = Signal(BITS, name=name)
    p.m.d.sync += out.eq(out + event)
    return out


def steps(start, end):
    """From one number to a later one."""
    return (end - start)[:BITS]


# Frames → reports and verdicts

def verdicts(p: Properties) -> None:
    """The report of one arbitrary frame, and the sum of all."""
    m, block = p.m, IcrcCheck(load("tiny"))
    m.submodules.block = inner = Opened(block)
    environment(p, block, leave_out=("o_headers", "o_payload"))
    queue, beat, info = Inside(p, inner, "verdicts", DEPTH), block.i_frame.p, block.i_info.p
    report, counters, index = block.report, block.counters, Signal(11)
    move = p.signal(block.i_frame.valid & block.i_frame.ready, "move")
    ends = p.signal(move & beat.last, "ends")
    with m.If(move):
        m.d.sync += index.eq(Mux(beat.last, 0, index + ~index.all()))
    p.check("i_info: taken with the frame's last beat",
            (block.i_info.valid & block.i_info.ready) == ends)
    due = Signal(REPORT)  # reports, by the cycles since the end of their frame
    m.d.sync += due.eq(Cat(ends, due))
    p.check("a report for every frame, 5 cycles after its end", report.valid == due[-1])

    frame = p.signal(AnyConst(BITS), "frame")
    frames, reports = number(p, ends, "frames"), number(p, report.valid, "reports")
    known = {name: p.register(value, f"its_{name}", when=ends & (frames == frame))
             for name, value in (
        ("sequence", info.sequence), ("payload", info.payload), ("flagged", beat.error),
        ("complete", (index << 3) + 8 - beat.empty >= info.end))}
    now = p.signal(report.valid & (reports == frame), "now")
    for name in ("sequence", "payload", "flagged"):
        p.check(f"report: {name} of its frame", implies(now, report[name] == known[name]))
    p.check("report: ok only if not flagged and whole",
            implies(now & report.ok, ~known["flagged"] & known["complete"]))

    sums = {"checked": ~report.flagged, "flagged": report.flagged,
            "bad": ~report.flagged & ~report.ok}
    for name, test in sums.items():
        told = Signal(32, name=f"told_{name}")
        m.d.sync += told.eq(told + (report.valid & test))
        p.check(f"counters: {name}", counters[name] == told)
    p.check("no verdict is lost", implies(inner["verdicts.w_en"], inner["verdicts.w_rdy"]))
    p.invariant("index", inner["engine.index"] == index)
    p.invariant("reports are behind", steps(reports, frames) == sum(due))
    p.invariant("unused verdicts", inner["unused"] == sum(due) + queue.count)
    p.cover("good after bad after flagged",
            report.valid & report.ok & (counters.bad == 1) & (counters.flagged == 1))


# Verdicts → headers and payload

def any_verdicts(self, m, verdicts):
    """In place of `IcrcCheck._judge`: any report, while there is room for its verdict."""
    report, verdict = self.report, data.View(check._Verdict, verdicts.w_data)
    m.d.comb += [
        Cat(report.flagged, report.ok, report.payload).eq(AnySeq(3)),
        report.valid.eq(verdicts.w_rdy & AnySeq(1)), verdicts.w_en.eq(report.valid),
        verdict.good.eq(report.ok), verdict.payload.eq(report.payload),
    ]


class Release:
    """The block, its queues, and the numbers of what passes its ports."""

    def __init__(self, p: Properties, leave_out: str = ""):
        self.block = block = IcrcCheck(load("tiny"))
        p.m.submodules.block = inner = Opened(block)
        environment(p, block, leave_out=("i_frame", "i_info", leave_out))
        self.verdicts, self.headers, self.routes = (
            Inside(p, inner, name, DEPTH) for name in ("verdicts", "headers", "routes"))
        self.payload = Inside(p, inner, "payload", DEPTH)
        heads, packets, report = block.o_headers, block.o_payload, block.report
        good = p.signal(report.valid & report.ok, "good")
        self.released = number(p, self.headers.read, "released")
        self.heads_in = number(p, self.headers.written, "heads_in")
        self.heads_out = number(p, heads.valid & heads.ready, "heads_out")
        self.packets_out = number(p, packets.valid & packets.ready & packets.p.last, "packets_out")
        self.reports = number(p, report.valid, "reports")
        self.with_payload = number(p, report.valid & report.payload, "with_payload")
        self.good_heads = number(p, good, "good_heads")
        self.good_packets = number(p, good & report.payload, "good_packets")
        self.frame = p.signal(AnyConst(BITS), "frame")
        self.now = p.signal(report.valid & (self.reports == self.frame), "now")


def good(item):
    return data.View(check._Verdict, item).good


def has_payload(item):
    return data.View(check._Verdict, item).payload


def good_with_payload(item):
    return good(item) & has_payload(item)


def headers(p: Properties) -> None:
    """The header item of one arbitrary frame."""
    r = Release(p, leave_out="o_payload")
    block, m, heads = r.block, p.m, r.block.o_headers
    place = p.register(r.good_heads, "place", when=r.now)
    inside, is_good = Signal(), p.register(block.report.ok, "is_good", when=r.now)
    gone = p.signal(r.headers.read & (r.released == r.frame) & inside, "gone")
    m.d.sync += inside.eq(r.now | (inside & ~gone))
    tag = p.register(block.i_headers.p.tag, "tag",
                     when=r.headers.written & (r.heads_in == r.frame))
    mine = p.signal(heads.valid & inside & is_good & (r.heads_out == place), "mine")
    p.check("o_headers: nothing before its verdict",
            implies(heads.valid, r.heads_out != r.good_heads))
    p.check("o_headers: the item of the good frame", implies(mine, heads.p.tag == tag))

    at = p.signal(steps(r.released, r.frame), "at")
    before = r.verdicts.number(good, below=at)
    p.check("a bad frame's item goes, a good one's leaves",
            implies(gone, is_good == (heads.valid & heads.ready)))
    release_invariants(p, r)
    p.invariant("its verdict", implies(inside, (at < r.verdicts.count) & (
        good(r.verdicts.item(at[:2])) == is_good)))
    p.invariant("its item", implies(at < r.headers.count, r.headers.item(at[:2]) == tag))
    p.invariant("its place", implies(inside, steps(r.heads_out, place) == before))
    p.cover("good behind bad behind good", gone & is_good & (r.frame == 2) & (place == 1))


def release_invariants(p: Properties, r: Release) -> None:
    p.invariant("verdicts", steps(r.released, r.reports) == r.verdicts.count)
    p.invariant("header items", steps(r.released, r.heads_in) == r.headers.count)
    p.invariant("good frames",
                steps(r.heads_out, r.good_heads) == r.verdicts.number(good))


class Place:
    """The number of a packet, and of that of its beats which is next."""

    def __init__(self, p: Properties, moves, last, name: str):
        self.beat = Signal(BITS, name=f"{name}_beat")
        p.m.d.sync += self.beat.eq(Mux(moves, Mux(last, 0, self.beat + 1), self.beat))
        self.packet = number(p, moves & last, f"{name}_packet")

    def at(self, packet, beat):
        return (self.packet == packet) & (self.beat == beat)


def payload(p: Properties) -> None:
    """One arbitrary beat of one arbitrary packet of payload."""
    m, r = p.m, Release(p)
    i, o, queue = r.block.i_payload, r.block.o_payload, r.payload
    packet, beat = p.signal(AnyConst(BITS), "packet"), p.signal(AnyConst(BITS), "beat")
    moves = p.signal(o.valid & o.ready, "moves")
    enters, leaves = Place(p, queue.written, i.p.last, "in"), Place(p, moves, o.p.last, "out")
    goes = Place(p, queue.read, _beat(queue.items[0]).last, "gone")  # out, or thrown away
    noted = p.register(i.payload, "noted", when=queue.written & enters.at(packet, beat))

    report = r.block.report
    told = p.signal(report.valid & report.payload & (r.with_payload == packet), "told")
    is_good = p.register(report.ok, "is_good", when=told)
    out = p.register(r.good_packets, "out", when=told)  # its number among those that leave
    head = p.register(r.good_heads, "head", when=told)
    frame = p.register(r.reports, "frame_of_packet", when=told)
    live, head_out = Signal(), Signal()
    ends = p.signal(queue.read & _beat(queue.items[0]).last & (goes.packet == packet), "ends")
    m.d.sync += [
        live.eq(told | (live & ~ends)),
        head_out.eq(~told & (head_out | (r.block.o_headers.valid & r.block.o_headers.ready
                                         & (r.heads_out == head)))),
    ]
    mine = p.signal(o.valid & live & is_good & (leaves.packet == out), "mine")
    p.check("o_payload: nothing before its verdict",
            implies(o.valid, leaves.packet != r.good_packets))
    p.check("o_payload: not before its header item", implies(mine, head_out))
    p.check("o_payload: the beat in its place, unchanged",
            implies(mine & (leaves.beat == beat), Value.cast(o.payload) == noted.as_value()))
    p.check("a bad packet's beats go, a good one's leave",
            implies(queue.read & live & (goes.packet == packet), is_good == moves))
    p.cover("good behind bad behind good",
            mine & (beat == 1) & (leaves.beat == 1) & (packet == 2) & (out == 1))

    release_invariants(p, r)
    _payload_invariants(p, r, (enters, leaves, goes), (packet, beat, noted))
    k, j = p.signal(steps(goes.packet, packet), "k"), p.signal(steps(r.released, frame), "j")
    routed = p.signal(k < r.routes.count, "routed")
    verdict = r.verdicts.item(j[:2])
    p.invariant("its route", implies(live & routed, (r.routes.item(k[:2]) == is_good)
                & (steps(leaves.packet, out) == r.routes.number(forward, below=k))
                & (head_out | ~is_good)))
    p.invariant("its verdict", implies(live & ~routed, (j < r.verdicts.count)
                & (good(verdict) == is_good) & has_payload(verdict)
                & (k == r.routes.count + r.verdicts.number(has_payload, below=j))
                & (steps(r.heads_out, head) == r.verdicts.number(good, below=j))
                & (steps(leaves.packet, out) == r.routes.number(forward)
                   + r.verdicts.number(good_with_payload, below=j))))


def _beat(item):
    return data.View(PacketLayout(64), item)


def forward(item):
    return item


def _payload_invariants(p: Properties, r: Release, places, chosen) -> None:
    enters, leaves, goes = places
    packet, beat, noted = chosen
    queue, routes = r.payload, r.routes
    at = goes.packet, goes.beat
    for i, item in enumerate(queue.items):
        there = i < queue.count
        p.invariant(f"beat {i} is the noted one", implies(
            there & (at[0] == packet) & (at[1] == beat), item == noted.as_value()))
        p.invariant(f"beat {i}: only the last has empty bytes",
                    implies(there, _beat(item).last | (_beat(item).empty == 0)))
        last = _beat(item).last
        at = [p.signal(Mux(there, value, before)[:BITS], f"{name}{i}") for name, value, before in (
            ("packet_at", at[0] + last, at[0]), ("beat_at", Mux(last, 0, at[1] + 1), at[1]))]
    p.invariant("beats inside", enters.at(*at))
    p.invariant("routes", steps(goes.packet, r.with_payload) == routes.count
                + r.verdicts.number(has_payload))
    p.invariant("good packets", steps(leaves.packet, r.good_packets) == routes.number(forward)
                + r.verdicts.number(good_with_payload))
    p.invariant("within a packet", implies(goes.beat != 0, routes.count != 0) & (
        leaves.beat == Mux((routes.count != 0) & routes.items[0], goes.beat, 0)))


SMALL = {"rtl.icrc.engine.product": any_word, "rtl.icrc.check.SyncFIFOBuffered": AnyQueue,
         "rtl.icrc.check.VERDICTS": DEPTH, "rtl.icrc.check.HEADERS": DEPTH,
         "rtl.icrc.check.PAYLOAD_BYTES": 8, "rtl.icrc.check._SPARE_BEATS": DEPTH - 1,
         "rtl.icrc.check.Headers": AnyHeaders}
CHECK = "rtl.icrc.check.IcrcCheck."
FREE = {**SMALL, CHECK + "_judge": any_verdicts}
PROOFS = (
    Proof(name="verdicts", build=verdicts, depth=REPORT + 2, induction=True, cover_depth=12,
          constants=SMALL, mutants=(
        Mutant("a flagged frame is good", CHECK + "_judge", "result.complete & ~result.error",
               "result.complete"),
        Mutant("a frame too short is good", CHECK + "_judge", "right & result.complete", "right"),
        Mutant("a bad frame not counted", CHECK + "_judge", "counters.checked + 1",
               "counters.checked + self.report.ok"),
        Mutant("a verdict too many", CHECK + "_judge", "unused != VERDICTS", "1"),
    )),
    Proof(name="headers", build=headers, depth=2, induction=True, cover_depth=10, constants=FREE,
          mutants=(
        Mutant("a bad frame's item let through", CHECK + "_release",
               "self.o_headers.valid.eq(decided & good)", "self.o_headers.valid.eq(decided)"),
        Mutant("an item lost", CHECK + "_release", "self.o_headers.ready | ~good", "1"),
    )),
    Proof(name="payload", build=payload, depth=2, induction=True, cover_depth=12, constants=FREE,
          mutants=(
        Mutant("payload of a bad frame", CHECK + "_release", "routes.w_data.eq(good)",
               "routes.w_data.eq(1)"),
        Mutant("payload ahead of its headers", CHECK + "_release",
               "routes.w_en.eq(release & verdict.payload)",
               "routes.w_en.eq(decided & verdict.payload)"),
        Mutant("headers without room for the route", CHECK + "_release", " & routes.w_rdy", ""),
        Mutant("a route for each beat", CHECK + "_release", "step & self.o_payload.p.last", "step"),
    )),
)
