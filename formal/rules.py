"""What holds on every stream port: assertion on outputs, assumption on inputs."""

from amaranth.asserts import AnySeq
from amaranth.hdl import Signal, Value
from amaranth.lib import stream
from amaranth.lib.wiring import In
from amaranth.utils import exact_log2

from formal.properties import Properties, implies
from rtl.stream import PacketLayout


def stream_rules(p: Properties, port, name: str, require) -> None:
    """Once valid, a stream stays so with the same payload until the transfer; a packet's beats
    are full but for the last. `require` is `p.check` for an output, `p.assume` for an input."""
    payload = Value.cast(port.payload)
    stalled = p.register(port.valid & ~port.ready, f"{name}_stalled")
    before = p.register(payload, f"{name}_before")
    require(f"{name}: stays valid", implies(stalled, port.valid))
    require(f"{name}: payload stable", implies(stalled, payload == before))
    if is_packet(port):
        require(f"{name}: only the last beat has empty bytes",
                implies(port.valid & ~port.p.last, port.p.empty == 0))


def is_packet(port) -> bool:
    return isinstance(port.payload.shape(), PacketLayout)


def drive(p: Properties, port, name: str) -> None:
    """An input of the block that does anything the rules allow."""
    p.m.d.comb += [
        port.valid.eq(AnySeq(1)),
        Value.cast(port.payload).eq(AnySeq(len(Value.cast(port.payload)))),
    ]
    stream_rules(p, port, name, p.assume)


def accept(p: Properties, port, name: str) -> None:
    """An output of the block, taken whenever the environment likes."""
    p.m.d.comb += port.ready.eq(AnySeq(1))
    stream_rules(p, port, name, p.check)


def environment(p: Properties, block, *, leave_out=()) -> None:
    """Every stream port of `block`, by its direction, but for those named in `leave_out`: an input
    of these is never valid, an output may be taken and nothing is said of it."""
    for name, member in block.signature.members.items():
        if not member.is_signature or not isinstance(member.signature, stream.Signature):
            continue
        if name in leave_out:
            if member.flow is not In:
                p.m.d.comb += getattr(block, name).ready.eq(AnySeq(1))
        else:
            (drive if member.flow is In else accept)(p, getattr(block, name), name)


class PacketMonitor:
    """Counts what passes a packet port: `packet` and `offset` are those of the beat that is there.

    Counters stop at their greatest value, so that no number comes twice.
    """

    def __init__(self, p: Properties, port, name: str, *, packet_bits: int = 3,
                 beat_bits: int = 6):
        self.port, self.name = port, name
        self.lane_bits = exact_log2(len(port.p.data) // 8)
        self.move = p.signal(port.valid & port.ready, f"{name}_move")
        self.ends = p.signal(self.move & port.p.last, f"{name}_ends")
        self.packet = Signal(packet_bits, name=f"{name}_packet")
        self.beat = Signal(beat_bits, name=f"{name}_beat")
        self.bytes = p.signal((1 << self.lane_bits) - port.p.empty, f"{name}_bytes")
        self.length = p.signal((self.beat << self.lane_bits) + self.bytes, f"{name}_length")
        m = p.m
        with m.If(self.move):
            m.d.sync += self.beat.eq(self.beat + ~self.beat.all())
            with m.If(port.p.last):
                m.d.sync += [self.beat.eq(0), self.packet.eq(self.packet + ~self.packet.all())]


class Followed:
    """An item that is chosen when it enters: `ahead` others leave before it.

    What holds for it holds for every item, since nothing is known of the moment of the choice.
    """

    def __init__(self, p: Properties, enters, inside, leaves, name: str = "it"):
        m = p.m
        self.started = started = Signal(name=f"{name}_started")
        self.inside = Signal(name=f"{name}_inside")
        self.ahead = Signal(4, name=f"{name}_ahead")
        self.choose = p.signal(enters & ~started & AnySeq(1), f"{name}_choose")
        self.done = p.signal(self.inside & (self.ahead == 0) & leaves, f"{name}_done")
        with m.If(self.choose):
            m.d.sync += [started.eq(1), self.inside.eq(1), self.ahead.eq(inside - leaves)]
        with m.Elif(self.done):
            m.d.sync += self.inside.eq(0)
        with m.Elif(leaves):
            m.d.sync += self.ahead.eq(self.ahead - 1)
        p.invariant(f"{name}: once", implies(self.inside, started))
