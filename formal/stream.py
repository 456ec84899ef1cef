"""What holds on every stream port: assertion on outputs, assumption on inputs."""

from amaranth.asserts import AnyConst, AnySeq
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


def environment(p: Properties, block) -> None:
    """Every stream port of `block`, by its direction."""
    for name, member in block.signature.members.items():
        if member.is_signature and isinstance(member.signature, stream.Signature):
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

    def byte(self, p: Properties, packet, index, name: str):
        """(hit, value): byte `index` of packet `packet` passes in this cycle."""
        lane = index[:self.lane_bits]
        hit = p.signal(self.move & (self.packet == packet) & ~self.packet.all()
                       & (self.beat == index[self.lane_bits:]) & ~self.beat.all()
                       & (lane < self.bytes), f"{self.name}_{name}_hit")
        value = p.signal(self.port.p.data.word_select(lane, 8), f"{self.name}_{name}_value")
        return hit, value


class Shadow:
    """One arbitrary byte, remembered where it enters: `seen`, then `value` for ever.

    What holds for it holds for every byte, since nothing is known of `packet` and `index`.
    """

    def __init__(self, p: Properties, monitor: PacketMonitor, name: str = "shadow"):
        self.packet = p.signal(AnyConst(len(monitor.packet)), f"{name}_packet")
        self.index = p.signal(AnyConst(len(monitor.beat) + monitor.lane_bits), f"{name}_index")
        hit, value = monitor.byte(p, self.packet, self.index, name)
        self.seen = Signal(name=f"{name}_seen")
        self.value = p.register(value, f"{name}_value", when=hit)
        self.hit = hit
        with p.m.If(hit):
            p.m.d.sync += self.seen.eq(1)
