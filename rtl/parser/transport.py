"""UDP, BTH and extension headers of a frame; its lengths, its fault and where it goes."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.headers import Headers, Kind, Reason
from rtl.parser.bytes import cut, number
from rtl.parser.network import FrameFaults, Network
from rtl.parser.opcodes import CNP, MAX_WORDS, OpcodeInfo, Rule, look_up

ROCE_PORT = 4791
BTH_BYTES, ICRC_BYTES = 12, 4
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
    """What becomes of a frame."""

    headers: Headers
    route: Route
    end: unsigned(14)  # just past the ICRC
    place: PayloadPlace


class _HeaderFaults(data.Struct):
    """Of a RoCE packet, but for those that need its lengths."""

    version: unsigned(1)
    ihl: unsigned(1)
    length: unsigned(1)
    checksum: unsigned(1)
    udp_length: unsigned(1)
    grh: unsigned(1)
    tver: unsigned(1)


class _Base(data.Struct):
    """After UDP and BTH."""

    headers: Headers
    extension: unsigned(32 * MAX_WORDS)
    info: OpcodeInfo
    roce: unsigned(1)
    frame_faults: FrameFaults
    faults: _HeaderFaults
    room: signed(16)
    end: unsigned(14)


class _Extended(data.Struct):
    """After the extension headers."""

    headers: Headers
    known: unsigned(1)
    rule: Rule
    roce: unsigned(1)
    frame_faults: FrameFaults
    faults: _HeaderFaults
    truncated: unsigned(1)
    length: signed(16)  # of the payload
    end: unsigned(14)


class _Judged(data.Struct):
    headers: Headers
    roce: unsigned(1)
    end: unsigned(14)


class TransportDecoder(wiring.Component):
    """Takes a `Network` a cycle and gives its `Verdict` 4 cycles later; never stalls."""

    def __init__(self, data_width: int):
        self.beat_log = exact_log2(data_width // 8)
        super().__init__({
            "valid": In(1),
            "i": In(Network),
            "o_valid": Out(1),
            "o": Out(Verdict),
        })

    def elaborate(self, platform):
        m = Module()
        valid = Signal(3)
        m.d.sync += Cat(valid, self.o_valid).eq(Cat(self.valid, valid))
        base = self._base(m)
        extended = self._extensions(m, base)
        self._decide(m, self._judge(m, extended))
        return m

    def _base(self, m):
        out, i, w = Signal(_Base), self.i, self.i.l4
        bth = w[8 * 8:8 * 20]
        roce2, roce, held, info = Signal(), Signal(), Signal(), Signal(OpcodeInfo)
        sport, dport, opcode = Signal(16), Signal(16), Signal(8)
        m.d.comb += [
            sport.eq(number(w, 0, 2)), dport.eq(number(w, 2, 2)), opcode.eq(cut(bth, 0, 1)),
            roce2.eq(i.datagram & (dport == ROCE_PORT)),
            roce.eq(roce2 | i.roce1),
            held.eq(roce & (i.room >= 0)),
        ]
        look_up(m, opcode, info)
        folded = Signal(17)
        m.d.comb += folded.eq(i.checksum[:16] + i.checksum[16:])
        right = (folded[:16] + folded[16]) == 0xFFFF
        h = out.headers
        at = Signal(8)
        m.d.comb += at.eq(i.headers.l3_offset + i.udp_at)
        m.d.sync += [
            h.eq(i.headers), out.extension.eq(w[8 * 20:]), out.info.eq(info), out.roce.eq(roce),
            out.frame_faults.eq(i.frame_faults), out.room.eq(i.room), out.end.eq(i.end),
            h.l4_offset.eq(0), h.bth_offset.eq(Mux(held, at + 8, 0)),
            out.faults.version.eq(roce2 & i.faults.version),
            out.faults.ihl.eq(roce2 & i.faults.ihl),
            out.faults.length.eq(roce2 & i.faults.length),
            out.faults.checksum.eq(roce2 & i.ipv4 & ~right),
            out.faults.udp_length.eq(roce2 & (number(w, 4, 2) != i.udp_length)),
            out.faults.grh.eq(i.roce1 & i.faults.grh),
            out.faults.tver.eq(bth[8:12] != 0),
        ]
        with m.If(i.udp_held):
            m.d.sync += [h.l4_offset.eq(at), h.udp.sport.eq(sport), h.udp.dport.eq(dport)]
        with m.Else():
            m.d.sync += h.udp.eq(0)
        with m.If(i.roce1 & held):
            m.d.sync += h.l4_offset.eq(at + 8)
        with m.If(roce2):
            m.d.sync += h.kind.eq(Kind.ROCE2)
            with m.If(opcode == CNP):
                m.d.sync += h.kind.eq(Kind.CNP)
        with m.If(held):
            self._bth(m, bth, h.bth)
        with m.Else():
            m.d.sync += h.bth.eq(0)
        return out

    def _bth(self, m, w, bth):
        m.d.sync += [
            bth.opcode.eq(cut(w, 0, 1)),
            Cat(bth.tver, bth.pad, bth.m, bth.se).eq(cut(w, 1, 1)),
            bth.pkey.eq(number(w, 2, 2)),
            Cat(bth.resv6, bth.becn, bth.fecn).eq(cut(w, 4, 1)),
            bth.dqpn.eq(number(w, 5, 3)),
            Cat(bth.resv7, bth.ackreq).eq(cut(w, 8, 1)),
            bth.psn.eq(number(w, 9, 3)),
        ]

    def _extensions(self, m, s):
        """The operation's headers come to the begin; what the packet does not hold is not present.
        """
        out, w, info = Signal(_Extended), s.extension, s.info
        h = out.headers
        moved = Signal(32 * MAX_WORDS)
        with m.Switch(info.prefix):
            for prefix in range(4):
                with m.Case(prefix):
                    m.d.comb += moved.eq(w[32 * prefix:])
        words = Signal(14)  # that the packet holds
        m.d.comb += words.eq(Mux(s.roce & (s.room >= 0), s.room[2:15], 0))
        has = info.present
        ends = {"rdeth": 1, "xrceth": 1, "feth": 1, "deth": info.prefix,
                "reth": info.main, "atomiceth": info.main, "aeth": info.main,
                "atomicacketh": info.size, "immdt": info.size, "ieth": info.size}
        m.d.sync += h.eq(s.headers)
        m.d.sync += [h.present[name].eq(has[name] & (words >= end)) for name, end in ends.items()]

        slack = Signal(signed(16))
        m.d.comb += slack.eq(s.room - (info.size << 2) - ICRC_BYTES)
        m.d.sync += [
            out.known.eq(info.known), out.rule.eq(info.rule), out.roce.eq(s.roce),
            out.frame_faults.eq(s.frame_faults), out.faults.eq(s.faults), out.end.eq(s.end),
            out.truncated.eq(slack < 0), out.length.eq(slack - s.headers.bth.pad),
            h.payload_offset.eq(s.headers.bth_offset + BTH_BYTES + (info.size << 2)),
            h.rdeth.eq(number(w, 1, 3)), h.xrceth.eq(number(w, 1, 3)),
            h.feth.eq(number(w, 0, 4)),
        ]
        deth = Signal(64)
        m.d.comb += deth.eq(Mux(has.rdeth, cut(w, 4, 8), cut(w, 0, 8)))
        immediate = Mux(has.reth, cut(moved, 16, 4), cut(moved, 0, 4))
        m.d.sync += [
            h.deth.qkey.eq(number(deth, 0, 4)), h.deth.sqpn.eq(number(deth, 5, 3)),
            h.reth.va.eq(number(moved, 0, 8)), h.reth.rkey.eq(number(moved, 8, 4)),
            h.reth.length.eq(number(moved, 12, 4)),
            h.atomiceth.va.eq(number(moved, 0, 8)), h.atomiceth.rkey.eq(number(moved, 8, 4)),
            h.atomiceth.swap.eq(number(moved, 12, 8)),
            h.atomiceth.compare.eq(number(moved, 20, 8)),
            h.aeth.syndrome.eq(cut(moved, 0, 1)), h.aeth.msn.eq(number(moved, 1, 3)),
            h.atomicacketh.eq(number(moved, 4, 8)),
            h.immdt.eq(immediate), h.ieth.eq(number(moved, 0, 4)),
        ]
        return out

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
            (Reason.IP_LENGTH, faults.length), (Reason.IP_CHECKSUM, faults.checksum),
            (Reason.UDP_LENGTH, faults.udp_length), (Reason.GRH, faults.grh),
            (Reason.BTH_TVER, faults.tver), (Reason.BTH_OPCODE, ~s.known),
            (Reason.PAD, s.length < 0), (Reason.PAYLOAD_TOO_LONG, s.length > MAX_PAYLOAD),
            (Reason.PAYLOAD_MISSING, missing),
        ]
        applies = [(Reason.MAC_ERROR, frame.mac_error), (Reason.RUNT, frame.runt),
                   (Reason.OVERSIZE, frame.oversize),
                   *((name, s.roce & fault) for name, fault in table)]
        for name, fault in reversed(applies):
            with m.If(fault):
                m.d.comb += reason.eq(name)
        good = s.roce & (reason == Reason.NONE)
        m.d.sync += [
            out.headers.eq(s.headers), out.roce.eq(s.roce), out.end.eq(s.end),
            out.headers.error.eq(reason),
            out.headers.payload_length.eq(Mux(good, s.length, 0)),
            out.headers.payload_offset.eq(Mux(good, s.headers.payload_offset, 0)),
        ]
        return out

    def _decide(self, m, s):
        out, h, place = self.o, s.headers, self.o.place
        offset, length = h.payload_offset, h.payload_length
        final = Signal(14)  # the payload's last byte, counted from its first
        aligned_last, touched_last = Signal(11), Signal(11)
        m.d.comb += [
            final.eq(length - 1),
            aligned_last.eq((offset >> self.beat_log) + (final >> self.beat_log)),
            touched_last.eq((offset + final) >> self.beat_log),
        ]
        m.d.sync += [
            out.headers.eq(h), out.end.eq(s.end),
            place.some.eq(length != 0),
            place.shift.eq(offset[:self.beat_log]),
            place.first.eq(offset >> self.beat_log),
            place.last.eq(aligned_last),
            place.within.eq(touched_last == aligned_last),
            place.empty.eq((-length)[:self.beat_log]),
            out.route.eq(Route.HOST),
        ]
        with m.If(s.roce):
            m.d.sync += out.route.eq(Route.RDMA)
        with m.If((h.error != Reason.NONE) | (h.kind == Kind.PAUSE) | (h.kind == Kind.PFC)):
            m.d.sync += out.route.eq(Route.DROP)
