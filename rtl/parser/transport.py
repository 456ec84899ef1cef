"""UDP, BTH and extension headers of a frame, and how long its payload says it is."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.headers import Headers, Kind
from rtl.parser.bytes import cut, number
from rtl.parser.collect import Progress
from rtl.parser.network import BTH_BYTES, UDP_BYTES, FrameFaults, Hashable, Network
from rtl.parser.opcodes import CNP, OpcodeInfo, Rule, look_up

ROCE_PORT = 4791
ICRC_BYTES = 4


class HeaderFaults(data.Struct):
    """Of a RoCE packet, but for those that need its lengths."""

    version: unsigned(1)
    ihl: unsigned(1)
    length: unsigned(1)
    udp_length: unsigned(1)
    grh: unsigned(1)
    tver: unsigned(1)


class Transport(data.Struct):
    """A look after all its headers, not yet judged. Of `headers`, `payload_offset` and
    `payload_length` are as the packet states them, whatever they are worth."""

    progress: Progress
    decisive: unsigned(1)  # the first look that tells where the frame goes
    headers: Headers
    known: unsigned(1)  # the opcode
    rule: Rule
    roce: unsigned(1)
    complete: unsigned(1)
    ipv4: unsigned(1)
    frame_faults: FrameFaults
    faults: HeaderFaults
    hashable: Hashable
    ports: unsigned(32)  # source and destination, as they lie
    checksum: unsigned(21)  # sum of the 16-bit words of the IPv4 header
    truncated: unsigned(1)
    length: signed(16)  # of the payload
    end: unsigned(14)


class TransportDecoder(wiring.Component):
    """Takes a `Network` a cycle and gives its `Transport` 1 cycle later; never stalls.

    `headers_valid` comes with the decisive look at a RoCE frame whose headers are all there.
    """

    def __init__(self):
        super().__init__({
            "valid": In(1),
            "i": In(Network),
            "o_valid": Out(1),
            "headers_valid": Out(1),
            "o": Out(Transport),
        })

    def elaborate(self, platform):
        m = Module()
        i, o, w = self.i, self.o, self.i.l4
        bth, extension = w[8 * UDP_BYTES:], w[8 * (UDP_BYTES + BTH_BYTES):]
        roce2, roce, held, info = Signal(), Signal(), Signal(), Signal(OpcodeInfo)
        opcode = cut(bth, 0, 1)
        m.d.comb += [
            roce2.eq(i.datagram & (number(w, 2, 2) == ROCE_PORT)),
            roce.eq(roce2 | i.roce1),
            held.eq(roce & (i.room >= 0)),
        ]
        look_up(m, opcode, info)
        m.d.sync += [
            o.progress.eq(i.progress), o.headers.eq(i.headers), o.ipv4.eq(i.ipv4),
            o.frame_faults.eq(i.frame_faults), o.hashable.eq(i.hashable), o.end.eq(i.end),
            o.known.eq(info.known), o.rule.eq(info.rule), o.roce.eq(roce),
            o.ports.eq(w[:32]),
            o.checksum.eq(((i.sums[0] + i.sums[1]) + (i.sums[2] + i.sums[3]))
                          + (i.sums[4] + i.sums[5])),
            o.faults.version.eq(roce2 & i.faults.version),
            o.faults.ihl.eq(roce2 & i.faults.ihl),
            o.faults.length.eq(roce2 & i.faults.length),
            o.faults.udp_length.eq(roce2 & (number(w, 4, 2) != i.udp_length)),
            o.faults.grh.eq(i.roce1 & i.faults.grh),
            o.faults.tver.eq(bth[8:12] != 0),
        ]
        self._decisive(m, roce, info)
        self._base(m, w, bth, roce2, held, opcode)
        self._lengths(m, info, bth)
        self._extensions(m, extension, info, held)
        return m

    def _decisive(self, m, roce, info):
        """The first look with all headers of its frame, at the latest that of its last beat."""
        i, o = self.i, self.o
        decided, fresh, complete = Signal(), Signal(), Signal()
        m.d.comb += [
            fresh.eq(self.valid & (i.progress.first | ~decided)),
            complete.eq(Mux(roce, i.seen >= (info.size << 2), i.complete)),
        ]
        with m.If(self.valid):
            m.d.sync += decided.eq((decided & ~i.progress.first) | complete)
        m.d.sync += [
            self.o_valid.eq(self.valid),
            self.headers_valid.eq(fresh & roce & complete),
            o.decisive.eq(fresh & (complete | i.progress.last)),
            o.complete.eq(complete),
        ]

    def _base(self, m, w, bth, roce2, held, opcode):
        i, h = self.i, self.o.headers
        m.d.sync += [
            h.l4_offset.eq(0), h.bth_offset.eq(Mux(held, i.at + UDP_BYTES, 0)),
            h.udp.eq(0), h.bth.eq(0),
        ]
        with m.If(i.udp_held):
            m.d.sync += [h.l4_offset.eq(i.at), h.udp.sport.eq(number(w, 0, 2)),
                         h.udp.dport.eq(number(w, 2, 2))]
        with m.If(i.roce1 & held):
            m.d.sync += h.l4_offset.eq(i.at + UDP_BYTES)
        with m.If(roce2):
            m.d.sync += h.kind.eq(Mux(opcode == CNP, Kind.CNP, Kind.ROCE2))
        with m.If(held):
            m.d.sync += [
                h.bth.opcode.eq(opcode),
                Cat(h.bth.tver, h.bth.pad, h.bth.m, h.bth.se).eq(cut(bth, 1, 1)),
                h.bth.pkey.eq(number(bth, 2, 2)),
                Cat(h.bth.resv6, h.bth.becn, h.bth.fecn).eq(cut(bth, 4, 1)),
                h.bth.dqpn.eq(number(bth, 5, 3)),
                Cat(h.bth.resv7, h.bth.ackreq).eq(cut(bth, 8, 1)),
                h.bth.psn.eq(number(bth, 9, 3)),
            ]

    def _lengths(self, m, info, bth):
        """The subtractions that need no opcode run beside its look-up."""
        i, o = self.i, self.o
        size = info.size << 2
        pad = bth[12:14]
        slack, inner, length = Signal(signed(16)), Signal(signed(16)), Signal(signed(16))
        m.d.comb += [
            slack.eq(i.room - ICRC_BYTES),
            inner.eq(i.room - ICRC_BYTES - pad),
            length.eq(inner - size),
        ]
        m.d.sync += [
            o.truncated.eq(slack < size), o.length.eq(length),
            o.headers.payload_length.eq(length[:14]),
            o.headers.payload_offset.eq(i.at + (UDP_BYTES + BTH_BYTES) + size),
        ]

    def _extensions(self, m, w, info, held):
        """The operation's headers come to the begin; what the packet does not hold is not present.
        """
        i, h, has = self.i, self.o.headers, info.present
        moved = Signal(len(w))
        with m.Switch(info.prefix):
            for prefix in range(4):
                with m.Case(prefix):
                    m.d.comb += moved.eq(w[32 * prefix:])
        words = Signal(14)  # that the packet holds
        m.d.comb += words.eq(Mux(held, i.room[2:15], 0))
        ends = {"rdeth": 1, "xrceth": 1, "feth": 1, "deth": info.prefix,
                "reth": info.main, "atomiceth": info.main, "aeth": info.main,
                "atomicacketh": info.size, "immdt": info.size, "ieth": info.size}
        m.d.sync += [h.present[name].eq(has[name] & (words >= end)) for name, end in ends.items()]
        deth = Signal(64)
        m.d.comb += deth.eq(Mux(has.rdeth, cut(w, 4, 8), cut(w, 0, 8)))
        immediate = Mux(has.reth, cut(moved, 16, 4), cut(moved, 0, 4))
        m.d.sync += [
            h.rdeth.eq(number(w, 1, 3)), h.xrceth.eq(number(w, 1, 3)), h.feth.eq(number(w, 0, 4)),
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
