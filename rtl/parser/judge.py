"""The fault of a frame, where it goes, and where its payload lies."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.headers import Headers, Kind, Reason
from rtl.parser.collect import Progress
from rtl.parser.opcodes import Rule
from rtl.parser.transport import Transport

MAX_PAYLOAD = 4096


class Route(enum.Enum, shape=2):
    DROP = 0
    RDMA = 1
    HOST = 2


class PayloadPlace(data.Struct):
    """Where the payload lies, in beats of the frame."""

    some: unsigned(1)
    shift: unsigned(8)  # of its first byte within its beat
    first: unsigned(8)  # beat with its first byte
    last: unsigned(11)  # beat with the first byte of its last beat when it is aligned
    within: unsigned(1)  # the payload ends in that beat too
    empty: unsigned(8)  # invalid bytes of its last beat when it is aligned


class Verdict(data.Struct):
    """What a look tells of its frame: `route` and `place` if it is decisive, `headers.error` if it
    is the last."""

    progress: Progress
    decisive: unsigned(1)
    headers: Headers
    route: Route
    end: unsigned(14)  # just past the ICRC
    place: PayloadPlace


class _Judged(data.Struct):
    progress: Progress
    decisive: unsigned(1)
    headers: Headers
    roce: unsigned(1)
    good: unsigned(1)  # RoCE without a fault
    headers_left: unsigned(1)  # its header item has left
    length: signed(16)
    end: unsigned(14)


class Judge(wiring.Component):
    """Takes a `Transport` a cycle and gives its `Verdict` 2 cycles later; never stalls."""

    def __init__(self, data_width: int):
        self.beat_log = exact_log2(data_width // 8)
        super().__init__({
            "valid": In(1),
            "i": In(Transport),
            "o_valid": Out(1),
            "o": Out(Verdict),
        })

    def elaborate(self, platform):
        m = Module()
        valid = Signal()
        m.d.sync += Cat(valid, self.o_valid).eq(Cat(self.valid, valid))
        self._decide(m, self._judge(m, self.i))
        return m

    @staticmethod
    def _checksum_right(m, s):
        folded = Signal(17)
        m.d.comb += folded.eq(s.checksum[:16] + s.checksum[16:])
        return (folded[:16] + folded[16]) == 0xFFFF

    def _judge(self, m, s):
        """The first fault that applies is the reason (docs/parser.md)."""
        out = Signal(_Judged)
        frame, faults = s.frame_faults, s.faults
        some = s.length > 0
        missing = s.known & (((s.rule == Rule.NONE) & some) | ((s.rule == Rule.REQUIRED) & ~some))
        reason = Signal(Reason)
        table = [
            (Reason.TRUNCATED, s.truncated),
            (Reason.IP_VERSION, faults.version), (Reason.IP_IHL, faults.ihl),
            (Reason.IP_LENGTH, faults.length),
            (Reason.IP_CHECKSUM, s.ipv4 & ~self._checksum_right(m, s)),
            (Reason.UDP_LENGTH, faults.udp_length), (Reason.GRH, faults.grh),
            (Reason.BTH_TVER, faults.tver), (Reason.BTH_OPCODE, ~s.known),
            (Reason.PAD, s.length < 0), (Reason.PAYLOAD_TOO_LONG, s.length > MAX_PAYLOAD),
            (Reason.PAYLOAD_MISSING, missing),
        ]
        applies = [(Reason.MAC_ERROR, frame.mac_error), (Reason.RUNT, frame.runt),
                   (Reason.OVERSIZE, frame.oversize), (Reason.TRUNCATED, frame.control_short),
                   *((name, s.roce & fault) for name, fault in table)]
        for name, fault in reversed(applies):
            with m.If(fault):
                m.d.comb += reason.eq(name)
        m.d.sync += [
            out.progress.eq(s.progress), out.decisive.eq(s.decisive),
            out.headers.eq(s.headers), out.roce.eq(s.roce), out.end.eq(s.end),
            out.headers.error.eq(reason), out.length.eq(s.length),
            out.good.eq(s.roce & (reason == Reason.NONE)),
            out.headers_left.eq(s.roce & s.complete),
        ]
        return out

    def _decide(self, m, s):
        out, h, place = self.o, s.headers, self.o.place
        offset, length = h.payload_offset, s.length[:14]
        final = Signal(14)  # the payload's last byte, counted from its first
        aligned_last, touched_last = Signal(11), Signal(11)
        m.d.comb += [
            final.eq(length - 1),
            aligned_last.eq((offset >> self.beat_log) + (final >> self.beat_log)),
            touched_last.eq((offset + final) >> self.beat_log),
        ]
        m.d.sync += [
            out.progress.eq(s.progress), out.decisive.eq(s.decisive),
            out.headers.eq(h), out.end.eq(s.end),
            out.headers.payload_length.eq(Mux(s.good, length, 0)),
            out.headers.payload_offset.eq(Mux(s.good, offset, 0)),
            place.some.eq(s.good & (length != 0)),
            place.shift.eq(offset[:self.beat_log]),
            place.first.eq(offset >> self.beat_log),
            place.last.eq(aligned_last),
            place.within.eq(touched_last == aligned_last),
            place.empty.eq((-length)[:self.beat_log]),
            out.route.eq(Route.HOST),
        ]
        with m.If(s.roce & s.headers_left):
            m.d.sync += out.route.eq(Route.RDMA)
        with m.Elif(s.roce | (h.error != Reason.NONE)
                    | (h.kind == Kind.PAUSE) | (h.kind == Kind.PFC)):
            m.d.sync += out.route.eq(Route.DROP)
