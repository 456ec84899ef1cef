"""Deparser, in two halves that share one contract: `Assembler` works out where everything goes,
and the rest of `Deparser` puts it there."""

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Cat, Const, Module, Mux, Signal

from formal.peek import Opened
from formal.proof import Mutant, Proof
from formal.properties import Properties, implies
from formal.stream import drive
from rtl.config import load
from rtl.deparser import Deparser
from rtl.deparser.assemble import HEADER_BYTES, LATENCY, Assembled, Assembler
from rtl.deparser.deparser import FRAMES
from rtl.headers import Headers, Kind, Opcode

WIDTH = 64
EXTENSIONS = {"rdeth": 4, "xrceth": 4, "deth": 8, "feth": 4, "reth": 16, "atomiceth": 28,
              "aeth": 4, "atomicacketh": 8, "immdt": 4, "ieth": 4}


def frame_end(start, length):
    """Past the ICRC, of a frame whose headers end at `start`."""
    return start + length + (-length)[:2] + 4


def places(start, length):
    """Field of `Assembled` → what it must be at 8 bytes a beat, by its docstring."""
    final = (length - 1)[:len(length)]
    return {
        "some": length != 0, "shift": start[:3], "first": start[3:],
        "payload_last": start[3:] + final[3:], "payload_bytes": final[:3] + 1,
        "last": (frame_end(start, length) - 1)[:14] >> 3,
        "empty": (-frame_end(start, length))[:3],
    }


# The first half

def assembler(p: Properties) -> None:
    """For any header item, taken at any moment."""
    m, block = p.m, Assembler(WIDTH)
    m.submodules.block = block
    m.d.comb += [block.valid.eq(AnySeq(1)), block.i.eq(AnySeq(Headers.as_shape().size))]
    age = Signal(range(LATENCY + 2))  # cycles since the chosen item was taken
    choose = p.signal(block.valid & (age == 0) & AnySeq(1), "choose")
    with m.If(choose | (age != 0)):
        m.d.sync += age.eq(age + (age != LATENCY + 1))
    h = Signal(Headers, name="item")
    with m.If(choose):
        m.d.sync += h.eq(block.i)
    start, extensions = header_bytes(p, h)
    length = h.payload_length
    p.assume("at most two tags", h.eth.vlan_count <= 2)
    p.assume("at most 40 bytes of extension headers", extensions <= 40)
    p.assume("payload of at most 9216 bytes", length <= 9216)
    there = p.signal(age == LATENCY, "there")
    p.check("an item comes 6 cycles later", implies(there, block.o_valid))
    for field, value in places(start, length).items():
        if field in ("first", "payload_last", "payload_bytes"):
            value = Mux(length != 0, value, block.o[field])  # of no meaning without payload
        p.check(f"place: {field}", implies(there, block.o[field] == value))
    byte = p.signal(AnyConst(8), "byte")
    p.check("no byte after the headers",
            implies(there & (byte >= start), block.o.header.word_select(byte, 8) == 0))
    p.check("info: end of the frame",
            implies(there, block.o.info.end == frame_end(start, length)))
    p.check("info: sequence", implies(there, block.o.info.sequence == h.sequence))
    p.check("addresses first",
            implies(there, block.o.header[:96] == Cat(h.eth.dst, h.eth.src)))
    p.cover("two tags, 40 bytes of extension headers, payload",
            there & (h.eth.vlan_count == 2) & (extensions == 40) & (length == 4096))
    p.cover("a congestion notification", there & (h.bth.opcode == Opcode.CNP))


def header_bytes(p: Properties, h):
    """(bytes from the frame's start to its payload, bytes of extension headers)."""
    extensions = p.signal(sum(Mux(h.present[name], size, 0)
                              for name, size in EXTENSIONS.items()), "extensions")
    network = Mux(h.kind == Kind.ROCE1, 40, Mux(h.ip.version == 4, 20 + 8, 40 + 8))
    size = Mux(h.bth.opcode == Opcode.CNP, 16, extensions)
    return p.signal(14 + 4 * h.eth.vlan_count + network + 12 + size, "start"), extensions


# The second half

class Sender(Deparser):
    """The beat machine alone: no assembler and no queue before it, no registers behind it."""

    def __init__(self):
        super().__init__(load("tiny"))
        self.item, self.valid, self.done = Signal(Assembled), Signal(), Signal()

    def elaborate(self, platform):
        m = Module()
        self._send(m, self.item, self.valid, self.done, self.o, self.info)
        return m


def sender(p: Properties) -> None:
    """Items that keep the contract, one after the other; payload as announced; any stalls."""
    m, block = p.m, Sender()
    m.submodules.block = inner = Opened(block)
    start, length, held = _any_item(p, block)
    end = p.signal(frame_end(start, length), "end")
    move = p.signal(block.o.valid & block.o.ready, "move")
    beat = Signal(11)  # of the frame
    with m.If(move):
        m.d.sync += beat.eq(Mux(block.o.p.last, 0, beat + 1))
    offset = p.signal(beat << 3, "offset")
    last = p.signal(offset + 8 >= end, "last")
    p.check("o: the frame's length", implies(block.o.valid, (block.o.p.last == last)
                                             & implies(last, offset + 8 - block.o.p.empty == end)))
    p.check("o: empty only with last", implies(block.o.valid & ~last, block.o.p.empty == 0))
    p.check("done with the last beat", block.done == (move & last))
    p.check("info: with the first beat",
            (block.info.valid & block.info.ready) == (move & (beat == 0)))
    taken, over = _payload(p, block, inner, length, end=move & last)
    p.check("payload: all of it taken", implies(move & last, over | (length == 0) | (
        block.payload.valid & block.payload.ready & block.payload.p.last)))
    p.check("invariant: a frame has its item", (beat == 0) | held & (offset < end))
    p.check("invariant: index", inner["index"] == beat)
    p.check("invariant: payload keeps pace", taken == Mux(
        (length == 0) | (beat < start[3:]), 0, Mux(over, (length + 7)[3:], beat - start[3:])))
    p.check("invariant: payload is over in time",
            over == ((length != 0) & (beat > start[3:] + (length - 1)[3:14])))
    _bytes(p, block, inner, (start, length), (beat, offset), taken)
    p.cover("payload over three beats", move & last & (length == 20))
    p.cover("a frame behind another", move & (beat == 0) & p.register(move & last, "ended"))


def _any_item(p: Properties, block):
    """Drives the item: anything that `Assembler` may give, until it is done. Gives its
    start and length, and whether it was there before."""
    m = p.m
    start = p.signal(Cat(Const(2, 2), AnySeq(6)), "start")
    length = p.signal(AnySeq(14), "length")
    header = AnySeq(8 * HEADER_BYTES)
    held = p.register(block.valid & ~block.done, "held")
    p.assume("an item has headers", (start >= 14) & (start <= HEADER_BYTES))
    p.assume("payload of at most 9216 bytes", length <= 9216)
    for name, value in (("valid", block.valid), ("start", start), ("length", length),
                        ("item", block.item.as_value())):
        p.assume(f"item: {name} until done",
                 implies(held, value == p.register(value, f"{name}_before")))
    m.d.comb += [
        block.valid.eq(AnySeq(1)), block.o.ready.eq(AnySeq(1)), block.info.ready.eq(AnySeq(1)),
        block.item.info.end.eq(frame_end(start, length)),
        *(block.item[field].eq(value) for field, value in places(start, length).items()),
        *(block.item.header[8 * at:8 * at + 8].eq(Mux(at < start, header[8 * at:8 * at + 8], 0))
          for at in range(HEADER_BYTES)),
    ]
    return start, length, held


def _payload(p: Properties, block, inner, length, end):
    """Drives the payload: (beats of it that were taken for this frame, it is over)."""
    m, port = p.m, block.payload
    drive(p, port, "payload")
    taken, over = Signal(11, name="taken"), Signal(name="over")
    move = p.signal(port.valid & port.ready, "payload_move")
    with m.If(move):
        m.d.sync += [taken.eq(taken + 1), over.eq(port.p.last)]
    with m.If(end):
        m.d.sync += [taken.eq(0), over.eq(0)]
    left = p.signal(length - (taken << 3), "left")
    p.assume("payload: as long as announced", implies(
        port.valid & block.valid & (length != 0) & ~over,
        (port.p.last == (left <= 8)) & implies(port.p.last, port.p.empty == (8 - left)[:3])))
    p.check("payload: none of another frame", implies(move, block.valid & (length != 0) & ~over))
    error = p.register(port.p.error, "error", when=move)
    p.check("o: error of the payload", implies(block.o.valid & block.o.p.last, (
        block.o.p.error == ((length != 0) & Mux(over, error, port.p.error)))))
    p.check("invariant: error", inner["error"] == (over & error))
    return taken, over


def _bytes(p: Properties, block, inner, item, frame, taken):
    """One arbitrary byte of payload, and one arbitrary lane of the frame's beats."""
    (start, length), (beat, offset) = item, frame
    port, carry = block.payload, inner["carry"]
    index = p.signal(AnyConst(14), "index")
    enters = p.signal(port.valid & port.ready & (taken == index[3:]), "enters")
    now = port.p.data.word_select(index[:3], 8)
    value = p.register(now, "value", when=enters)
    inside = p.signal(index < length, "inside")
    place = p.signal(start + index, "place")
    here = p.signal(block.o.valid & (place[3:] == beat), "here")
    byte = block.o.p.data.word_select(place[:3], 8)
    p.check("o: a payload byte in its place",
            implies(here & inside, byte == Mux(enters, now, value)))
    spilt = p.signal((taken == index[3:] + 1) & (place[3:] == beat), "spilt")
    p.check("invariant: what spills over",
            implies(spilt & inside, carry.word_select(place[:3], 8) == value))

    lane = p.signal(AnyConst(3), "lane")
    at = p.signal(offset + lane, "at")
    byte = block.o.p.data.word_select(lane, 8)
    p.check("o: a header byte in its place", implies(
        block.o.valid & (at < start), byte == block.item.header.word_select(at, 8)))
    p.check("o: pad and ICRC are 0",
            implies(block.o.valid & (at >= start + length), byte == 0))
    p.check("invariant: nothing else spills over",
            implies((at < start) | (at >= start + length),
                    (carry.word_select(lane, 8) == 0) | (lane >= start[:3])))
    p.check("invariant: no carry before payload", implies(beat <= start[3:], carry == 0))


# Between the halves

def any_sender(self, m, item, valid, done, out, info):
    """In place of `Deparser._send`: is done with an item whenever it likes."""
    m.d.comb += done.eq(valid & AnySeq(1))


def queue(p: Properties) -> None:
    """The assembler cannot be stopped, so the queue behind it must take all that comes."""
    m, block = p.m, Deparser(load("tiny"))
    m.submodules.block = inner = Opened(block)
    drive(p, block.headers, "headers")
    on_the_way = [inner["assembler.valid"][n] for n in range(LATENCY - 1)]
    arrives = inner["assembler.o_valid"]
    waiting, ready = inner["items.inner_level"], inner["items.r_rdy"]
    p.check("no item is lost", implies(arrives, waiting != FRAMES - 1))
    p.check("invariant: all that is inside is counted",
            inner["inside"] == sum(on_the_way) + arrives + waiting + ready)
    p.check("invariant: at most 16 inside", inner["inside"] <= FRAMES)
    p.check("invariant: room", inner["room"] == (inner["inside"] != FRAMES))
    p.check("invariant: the queue shows what it has", implies(waiting > 1, ready))
    p.cover("full", inner["inside"] == FRAMES)


ASSEMBLER = "rtl.deparser.assemble.Assembler."
DEPARSER = "rtl.deparser.deparser.Deparser."
PROOFS = (
    Proof(name="assembler", build=assembler, depth=LATENCY + 3, induction=True, mutants=(
        Mutant("pad left out", ASSEMBLER + "_measure", "h.payload_length + s.pad",
               "h.payload_length"),
        Mutant("a stage too early", ASSEMBLER + "_service", "h.kind == Kind.ROCE1",
               "self.i.kind == Kind.ROCE1"),
    )),
    Proof(name="sender", build=sender, depth=2, induction=True, cover_depth=14, mutants=(
        Mutant("invalid bytes of payload let through", DEPARSER + "_move",
               "lane < item.payload_bytes", "lane <= item.payload_bytes"),
        Mutant("error of an early beat forgotten", DEPARSER + "_send", "error | (take", "(take"),
    )),
    Proof(name="queue", build=queue, depth=4, induction=True, cover_depth=24,
          constants={DEPARSER + "_send": any_sender}, mutants=(
        Mutant("one item too many", DEPARSER + "_assemble", "left != FRAMES", "inside != FRAMES"),
    )),
)
