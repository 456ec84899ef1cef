"""Ethernet, VLAN tags, IPv4, IPv6 and GRH of a frame."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.headers import Headers, Kind
from rtl.parser.bytes import cut, number
from rtl.parser.collect import WINDOW, FrameStart

MIN_FRAME = 14
L3_WINDOW = WINDOW - 22
L4_WINDOW = 60  # UDP, BTH and the longest extension headers
TPID_CUSTOMER, TPID_SERVICE = 0x8100, 0x88A8
TYPE_IPV4, TYPE_ARP, TYPE_IPV6, TYPE_MAC_CONTROL, TYPE_ROCE1 = \
    0x0800, 0x0806, 0x86DD, 0x8808, 0x8915
PAUSE, PFC = 0x0001, 0x0101
UDP = 17
GRH_NEXT_HEADER = 0x1B
IPV4_WORDS, IPV6_WORDS = 5, 10  # header sizes in words of 4 bytes


class FrameFaults(data.Struct):
    """Of the frame as such, whatever it carries."""

    mac_error: unsigned(1)
    runt: unsigned(1)
    oversize: unsigned(1)


class NetworkFaults(data.Struct):
    """They count only if the frame is RoCE."""

    version: unsigned(1)
    ihl: unsigned(1)
    length: unsigned(1)
    grh: unsigned(1)


class Network(data.Struct):
    """The frame after its network header. `l4` begins with the UDP header; the BTH is 8 bytes on,
    with a GRH too, whose last 8 bytes then stand in the place of a UDP header."""

    headers: Headers
    l4: unsigned(8 * L4_WINDOW)
    roce1: unsigned(1)
    datagram: unsigned(1)  # IP, UDP, not a fragment
    ipv4: unsigned(1)
    frame_faults: FrameFaults
    faults: NetworkFaults
    checksum: unsigned(21)  # sum of the 16-bit words of the IPv4 header
    udp_at: unsigned(7)  # where `l4` lies after the start of the network header
    udp_length: unsigned(18)  # what the UDP length must be
    udp_held: unsigned(1)
    room: signed(16)  # bytes from the end of the BTH to the end of the packet
    end: unsigned(14)  # of the packet, from the frame's start


class _Start(data.Struct):
    """After the Ethernet header."""

    headers: Headers
    l3: unsigned(8 * L3_WINDOW)
    left: unsigned(14)  # bytes of the frame from `l3` on
    faults: FrameFaults
    ipv4: unsigned(1)
    ipv6: unsigned(1)
    roce1: unsigned(1)
    arp: unsigned(1)
    mac_control: unsigned(1)


class _Internet(data.Struct):
    """After the fields of the network header."""

    headers: Headers
    l4: unsigned(8 * (L4_WINDOW + 12))  # to be moved by 0 to 3 words
    move: unsigned(2)
    ipv4: unsigned(1)
    roce1: unsigned(1)
    datagram: unsigned(1)
    frame_faults: FrameFaults
    faults: NetworkFaults
    sums: data.ArrayLayout(unsigned(19), 6)
    udp_at: unsigned(7)
    left: unsigned(14)
    total: unsigned(17)  # bytes of the packet as its header says


class NetworkDecoder(wiring.Component):
    """Takes a frame start a cycle and gives its `Network` 3 cycles later; never stalls.

    Fields of headers that the frame does not hold whole are 0. `headers.kind` is final but for
    UDP datagrams, which are still `IP`.
    """

    def __init__(self, max_frame: int):
        self.max_frame = max_frame
        super().__init__({
            "valid": In(1),
            "i": In(FrameStart),
            "o_valid": Out(1),
            "o": Out(Network),
        })

    def elaborate(self, platform):
        m = Module()
        valid = Signal(2)
        m.d.sync += Cat(valid, self.o_valid).eq(Cat(self.valid, valid))
        start = self._ethernet(m)
        self._finish(m, self._internet(m, start))
        return m

    def _ethernet(self, m):
        """VLAN tags; the network header comes to the window's begin."""
        out, i, w = Signal(_Start), self.i, self.i.window
        types = [Signal(16, name=f"type{n}") for n in range(3)]
        m.d.comb += [kind.eq(number(w, 12 + 4 * n, 2)) for n, kind in enumerate(types)]
        service = [kind == TPID_SERVICE for kind in types[:2]]
        tagged = [(kind == TPID_CUSTOMER) | s for kind, s in zip(types, service, strict=False)]
        one, two, cut_short = Signal(), Signal(), Signal()
        m.d.comb += [
            one.eq(tagged[0] & (i.length >= 18)),
            two.eq(one & tagged[1] & (i.length >= 22)),
            cut_short.eq((tagged[0] & ~one) | (one & tagged[1] & ~two)),
        ]
        ethertype, offset = Signal(16), Signal(5)
        m.d.comb += [ethertype.eq(types[0]), offset.eq(14)]
        m.d.sync += out.l3.eq(w[8 * 14:])
        with m.If(two):
            m.d.comb += [ethertype.eq(types[2]), offset.eq(22)]
            m.d.sync += out.l3.eq(w[8 * 22:])
        with m.Elif(one):
            m.d.comb += [ethertype.eq(types[1]), offset.eq(18)]
            m.d.sync += out.l3.eq(w[8 * 18:])

        known = Signal()
        m.d.comb += known.eq((i.length >= MIN_FRAME) & ~cut_short)
        h, eth = out.headers, out.headers.eth
        m.d.sync += [
            h.sequence.eq(i.sequence), h.frame_length.eq(i.length), h.l3_offset.eq(offset),
            eth.dst.eq(cut(w, 0, 6)), eth.src.eq(cut(w, 6, 6)), eth.ethertype.eq(ethertype),
            eth.vlan_count.eq(one + two),
            eth.vlan[0].tci.eq(Mux(one, number(w, 14, 2), 0)),
            eth.vlan[0].service.eq(one & service[0]),
            eth.vlan[1].tci.eq(Mux(two, number(w, 18, 2), 0)),
            eth.vlan[1].service.eq(two & service[1]),
            out.left.eq(i.length - offset),
            out.faults.mac_error.eq(i.mac_error),
            out.faults.runt.eq(i.length < MIN_FRAME),
            out.faults.oversize.eq(i.length > self.max_frame),
            out.ipv4.eq(known & (ethertype == TYPE_IPV4)),
            out.ipv6.eq(known & (ethertype == TYPE_IPV6)),
            out.roce1.eq(known & (ethertype == TYPE_ROCE1)),
            out.arp.eq(known & (ethertype == TYPE_ARP)),
            out.mac_control.eq(known & (ethertype == TYPE_MAC_CONTROL)),
        ]
        return out

    def _internet(self, m, s):
        """Fields of the network header, its sums, and the coarse move to the transport header."""
        out, w = Signal(_Internet), s.l3
        h, ip = out.headers, out.headers.ip
        version, ihl = Signal(4), Signal(4)
        m.d.comb += [version.eq(w[4:8]), ihl.eq(w[0:4])]
        options = Signal(4)  # words from the 20th byte to the transport header
        m.d.comb += options.eq(Mux(ihl < IPV4_WORDS, 0, ihl - IPV4_WORDS))
        held = Signal()
        m.d.comb += held.eq(s.left >= 20)
        with m.If(~s.ipv4):
            m.d.comb += [options.eq(IPV6_WORDS - IPV4_WORDS), held.eq(s.left >= 40)]
        with m.If(s.roce1):
            # as if a UDP header ended with the GRH
            m.d.comb += options.eq(IPV6_WORDS - 2 - IPV4_WORDS)

        fragment = (number(w, 6, 2) & 0x3FFF) != 0
        m.d.sync += [
            h.eq(s.headers), out.ipv4.eq(s.ipv4), out.roce1.eq(s.roce1),
            out.frame_faults.eq(s.faults), out.left.eq(s.left), out.move.eq(options[:2]),
            out.udp_at.eq((options + IPV4_WORDS) << 2),
            out.l4.eq(w[8 * 20:]),
        ]
        for step in (1, 2):
            with m.If(options[2:] == step):
                m.d.sync += out.l4.eq(w[8 * (20 + 16 * step):])
        self._kind(m, s, h)
        with m.If(s.ipv4):
            self._ipv4(m, w, ip, held)
            m.d.sync += [
                out.total.eq(number(w, 2, 2)),
                out.datagram.eq(held & (cut(w, 9, 1) == UDP) & ~fragment),
                out.faults.version.eq(version != 4),
                out.faults.ihl.eq(ihl < IPV4_WORDS),
                out.faults.grh.eq(0),
            ]
        with m.Else():
            m.d.sync += ip.eq(0)
            with m.If(held & (s.ipv6 | s.roce1)):
                self._ipv6(m, w, ip)
            m.d.sync += [
                out.total.eq(number(w, 4, 2) + 40),
                out.datagram.eq(held & s.ipv6 & (cut(w, 6, 1) == UDP)),
                out.faults.version.eq(version != 6),
                out.faults.ihl.eq(0),
                out.faults.grh.eq((version != 6) | (cut(w, 6, 1) != GRH_NEXT_HEADER)),
            ]
        self._sums(m, w, options, out.sums)
        return out

    def _kind(self, m, s, h):
        opcode = number(s.l3, 0, 2)
        m.d.sync += h.kind.eq(Kind.OTHER)
        with m.If(s.ipv4 | s.ipv6):
            m.d.sync += h.kind.eq(Kind.IP)
        with m.If(s.roce1):
            m.d.sync += h.kind.eq(Kind.ROCE1)
        with m.If(s.arp):
            m.d.sync += h.kind.eq(Kind.ARP)
        with m.If(s.mac_control & (opcode == PAUSE)):
            m.d.sync += h.kind.eq(Kind.PAUSE)
        with m.If(s.mac_control & (opcode == PFC)):
            m.d.sync += h.kind.eq(Kind.PFC)

    def _ipv4(self, m, w, ip, held):
        mapped = Const(0xFFFF << 80, 96)
        m.d.sync += ip.eq(0)
        with m.If(held):
            m.d.sync += [
                ip.version.eq(4), ip.ecn.eq(w[8:10]), ip.dscp.eq(w[10:16]),
                ip.identification.eq(number(w, 4, 2)), ip.flags.eq(w[8 * 6 + 5:8 * 7]),
                ip.ttl.eq(cut(w, 8, 1)), ip.protocol.eq(cut(w, 9, 1)),
                ip.src.eq(Cat(mapped, cut(w, 12, 4))), ip.dst.eq(Cat(mapped, cut(w, 16, 4))),
            ]

    def _ipv6(self, m, w, ip):
        first = number(w, 0, 4)
        m.d.sync += [
            ip.version.eq(6), ip.ecn.eq(first[20:22]), ip.dscp.eq(first[22:28]),
            ip.flow_label.eq(first[:20]), ip.protocol.eq(cut(w, 6, 1)), ip.ttl.eq(cut(w, 7, 1)),
            ip.src.eq(cut(w, 8, 16)), ip.dst.eq(cut(w, 24, 16)),
        ]

    def _sums(self, m, w, options, sums):
        """Five words of 16 bits each; those past the IPv4 header count as 0."""
        words = []
        for index in range(30):
            word = Signal(16, name=f"word{index}")
            m.d.comb += word.eq(number(w, 2 * index, 2))
            if index >= 10:
                with m.If(options <= (index - 10) // 2):
                    m.d.comb += word.eq(0)
            words.append(word)
        m.d.sync += [sums[n].eq((words[n] + words[n + 6]) + (words[n + 12] + words[n + 18])
                                + words[n + 24]) for n in range(6)]

    def _finish(self, m, s):
        """The fine move, and where the packet ends.

        Bytes past the IP packet are Ethernet padding; a length that cannot be is no border.
        """
        out = self.o
        beyond, below = Signal(), Signal()
        m.d.comb += [beyond.eq(s.total > s.left), below.eq(s.total < s.udp_at)]
        size = Signal(14)  # of the packet
        m.d.comb += size.eq(Mux(beyond | below, s.left, s.total))
        m.d.sync += [
            out.headers.eq(s.headers), out.roce1.eq(s.roce1), out.datagram.eq(s.datagram),
            out.ipv4.eq(s.ipv4), out.frame_faults.eq(s.frame_faults),
            out.faults.eq(s.faults),
            out.faults.length.eq(beyond | below),
            out.faults.grh.eq(s.faults.grh | beyond),
            out.checksum.eq(((s.sums[0] + s.sums[1]) + (s.sums[2] + s.sums[3]))
                            + (s.sums[4] + s.sums[5])),
            out.udp_at.eq(s.udp_at),
            out.udp_length.eq(s.total - s.udp_at),
            out.udp_held.eq(s.datagram & (s.left >= s.udp_at + 8)),
            out.room.eq(size - s.udp_at - 20),
            out.end.eq(s.headers.l3_offset + size),
            out.l4.eq(s.l4),
        ]
        for step in range(1, 4):
            with m.If(s.move == step):
                m.d.sync += out.l4.eq(s.l4[32 * step:])
