"""Ethernet, VLAN tags, IPv4, IPv6, GRH and MAC control of a frame."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.headers import Headers, Kind
from rtl.parser.bytes import cut, number
from rtl.parser.collect import WINDOW, FrameLook, Progress

MIN_FRAME = 14
L3_WINDOW = WINDOW - 22
L4_WINDOW = 60  # UDP, BTH and the longest extension headers
TPID_CUSTOMER, TPID_SERVICE = 0x8100, 0x88A8
TYPE_IPV4, TYPE_ARP, TYPE_IPV6, TYPE_MAC_CONTROL, TYPE_ROCE1 = \
    0x0800, 0x0806, 0x86DD, 0x8808, 0x8915
PAUSE, PFC = 0x0001, 0x0101
PAUSE_BYTES, PFC_BYTES = 4, 20  # from the opcode on
TCP, UDP = 6, 17
PORTS_BYTES, UDP_BYTES, BTH_BYTES = 4, 8, 12
GRH_NEXT_HEADER = 0x1B
IPV4_WORDS, IPV6_WORDS = 5, 10  # header sizes in words of 4 bytes


class FrameFaults(data.Struct):
    """Of the frame as such, whatever it carries."""

    mac_error: unsigned(1)
    runt: unsigned(1)
    oversize: unsigned(1)
    control_short: unsigned(1)  # MAC control that ends before its fields


class NetworkFaults(data.Struct):
    """They count only if the frame is RoCE."""

    version: unsigned(1)
    ihl: unsigned(1)
    length: unsigned(1)
    grh: unsigned(1)


class Hashable(data.Struct):
    """What of the frame may go into its hash (rtl/parser/rss.py)."""

    ipv4: unsigned(1)
    ipv6: unsigned(1)
    tcp: unsigned(1)  # with its ports
    udp: unsigned(1)  # with its ports


class Network(data.Struct):
    """The look after its network header. `l4` begins with the UDP header; the BTH is 8 bytes on,
    with a GRH too, whose last 8 bytes then stand in the place of a UDP header."""

    progress: Progress
    headers: Headers
    l4: unsigned(8 * L4_WINDOW)
    roce1: unsigned(1)
    datagram: unsigned(1)  # IP, UDP, not a fragment
    ipv4: unsigned(1)
    complete: unsigned(1)  # all headers that matter are there, if the frame is not RoCE
    frame_faults: FrameFaults
    faults: NetworkFaults
    hashable: Hashable
    sums: data.ArrayLayout(unsigned(19), 6)  # of the 16-bit words of the IPv4 header
    at: unsigned(8)  # where `l4` lies in the frame
    udp_length: unsigned(18)  # what the UDP length must be
    udp_held: unsigned(1)
    seen: signed(16)  # bytes from the end of the BTH to the end of what was seen
    room: signed(16)  # … to the end of the packet
    end: unsigned(14)  # of the packet, from the frame's start


class _Start(data.Struct):
    """After the Ethernet header."""

    progress: Progress
    headers: Headers
    l3: unsigned(8 * L3_WINDOW)
    left: unsigned(14)  # bytes seen from `l3` on
    options: unsigned(4)  # words from the 20th byte of `l3` to `l4`
    settled: unsigned(1)  # the EtherType is there
    faults: FrameFaults
    ipv4: unsigned(1)
    ipv6: unsigned(1)
    roce1: unsigned(1)
    arp: unsigned(1)
    mac_control: unsigned(1)


class NetworkDecoder(wiring.Component):
    """Takes a look a cycle and gives its `Network` 2 cycles later; never stalls.

    Fields of headers that were not seen whole are 0. `headers.kind` is final but for UDP
    datagrams, which are still `IP`.
    """

    def __init__(self, max_frame: int):
        self.max_frame = max_frame
        super().__init__({
            "valid": In(1),
            "i": In(FrameLook),
            "o_valid": Out(1),
            "o": Out(Network),
        })

    def elaborate(self, platform):
        m = Module()
        valid = Signal()
        m.d.sync += Cat(valid, self.o_valid).eq(Cat(self.valid, valid))
        self._internet(m, self._ethernet(m))
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
        ethertype, offset, l3 = Signal(16), Signal(5), Signal(8 * L3_WINDOW)
        m.d.comb += [ethertype.eq(types[0]), offset.eq(14), l3.eq(w[8 * 14:])]
        with m.If(two):
            m.d.comb += [ethertype.eq(types[2]), offset.eq(22), l3.eq(w[8 * 22:])]
        with m.Elif(one):
            m.d.comb += [ethertype.eq(types[1]), offset.eq(18), l3.eq(w[8 * 18:])]

        known = Signal()
        m.d.comb += known.eq((i.length >= MIN_FRAME) & ~cut_short)
        h, eth = out.headers, out.headers.eth
        m.d.sync += [
            out.progress.eq(i.progress), out.l3.eq(l3), out.settled.eq(known),
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
        with m.If(ethertype == TYPE_IPV4):
            ihl = l3[:4]
            m.d.sync += out.options.eq(Mux(ihl < IPV4_WORDS, 0, ihl - IPV4_WORDS))
        with m.Elif(ethertype == TYPE_ROCE1):
            # as if a UDP header ended with the GRH
            m.d.sync += out.options.eq(IPV6_WORDS - UDP_BYTES // 4 - IPV4_WORDS)
        with m.Else():
            m.d.sync += out.options.eq(IPV6_WORDS - IPV4_WORDS)
        return out

    def _internet(self, m, s):
        """Fields of the network header, its sums; the transport header comes to the begin."""
        out, w = self.o, s.l3
        h, ip = out.headers, out.headers.ip
        version, ihl = Signal(4), Signal(4)
        m.d.comb += [version.eq(w[4:8]), ihl.eq(w[0:4])]
        udp_at, held = Signal(7), Signal()
        m.d.comb += [
            udp_at.eq((s.options + IPV4_WORDS) << 2),
            held.eq(s.left >= Mux(s.ipv4, 20, 40)),
        ]
        protocol, fragment = Signal(8), Signal()
        m.d.comb += [
            protocol.eq(Mux(s.ipv4, cut(w, 9, 1), cut(w, 6, 1))),
            fragment.eq(s.ipv4 & ((number(w, 6, 2) & 0x3FFF) != 0)),
        ]
        internet, ports = Signal(), Signal()  # IP; a port header follows
        m.d.comb += [
            internet.eq(s.ipv4 | s.ipv6),
            ports.eq(internet & ((protocol == TCP) | (protocol == UDP)) & ~fragment),
        ]
        whole = s.left >= udp_at  # with its options
        ports_held = s.left >= udp_at + PORTS_BYTES
        m.d.sync += [
            out.progress.eq(s.progress), h.eq(s.headers),
            out.ipv4.eq(s.ipv4), out.roce1.eq(s.roce1), out.frame_faults.eq(s.faults),
            out.at.eq(s.headers.l3_offset + udp_at),
            out.datagram.eq(held & ports & (protocol == UDP)),
            out.udp_held.eq(held & ports & (protocol == UDP) & (s.left >= udp_at + UDP_BYTES)),
            out.complete.eq(Mux(internet, Mux(ports, ports_held, whole),
                                s.settled & (~s.mac_control | (s.left >= PFC_BYTES)))),
            ip.eq(0),
            out.faults.version.eq(version != Mux(s.ipv4, 4, 6)),
            out.faults.ihl.eq(s.ipv4 & (ihl < IPV4_WORDS)),
        ]
        with m.If(s.ipv4 & held):
            self._ipv4(m, w, ip)
        with m.If(~s.ipv4 & held & (s.ipv6 | s.roce1)):
            self._ipv6(m, w, ip)
        hashes = whole & (version == Mux(s.ipv4, 4, 6)) & ~(s.ipv4 & (ihl < IPV4_WORDS))
        m.d.sync += [
            out.hashable.ipv4.eq(s.ipv4 & hashes), out.hashable.ipv6.eq(s.ipv6 & hashes),
            out.hashable.tcp.eq(ports & ports_held & (protocol == TCP)),
            out.hashable.udp.eq(ports & ports_held & (protocol == UDP)),
        ]
        self._move(m, w, s.options)
        self._kind(m, s)
        self._sums(m, w, s.options)
        self._borders(m, s, w, udp_at, version)

    def _move(self, m, w, options):
        """In two steps of four, which is what a LUT of six inputs does."""
        coarse = Signal(8 * (L4_WINDOW + 12))
        with m.Switch(options[2:]):
            for step in range(3):
                with m.Case(step):
                    m.d.comb += coarse.eq(w[8 * (20 + 16 * step):])
        with m.Switch(options[:2]):
            for step in range(4):
                with m.Case(step):
                    m.d.sync += self.o.l4.eq(coarse[32 * step:])

    def _kind(self, m, s):
        h, faults, w = self.o.headers, self.o.frame_faults, s.l3
        opcode, pause, pfc = number(w, 0, 2), Signal(), Signal()
        m.d.comb += [pause.eq(s.mac_control & (opcode == PAUSE)),
                     pfc.eq(s.mac_control & (opcode == PFC))]
        m.d.sync += h.kind.eq(Kind.OTHER)
        for known, kind in ((s.ipv4 | s.ipv6, Kind.IP), (s.roce1, Kind.ROCE1),
                            (s.arp, Kind.ARP), (pause, Kind.PAUSE), (pfc, Kind.PFC)):
            with m.If(known):
                m.d.sync += h.kind.eq(kind)
        m.d.sync += [
            faults.control_short.eq((pause & (s.left < PAUSE_BYTES))
                                    | (pfc & (s.left < PFC_BYTES))),
            h.control.enable.eq(Mux(pfc, cut(w, 3, 1), 0)),
            h.control.times[0].eq(Mux(pfc, number(w, 4, 2), Mux(pause, number(w, 2, 2), 0))),
        ]
        m.d.sync += [h.control.times[n].eq(Mux(pfc, number(w, 4 + 2 * n, 2), 0))
                     for n in range(1, 8)]

    def _ipv4(self, m, w, ip):
        mapped = Const(0xFFFF << 80, 96)
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

    def _sums(self, m, w, options):
        """Five words of 16 bits each; those past the IPv4 header count as 0."""
        words = []
        for index in range(30):
            word = Signal(16, name=f"word{index}")
            m.d.comb += word.eq(number(w, 2 * index, 2))
            if index >= 10:
                with m.If(options <= (index - 10) // 2):
                    m.d.comb += word.eq(0)
            words.append(word)
        m.d.sync += [
            self.o.sums[n].eq((words[n] + words[n + 6]) + (words[n + 12] + words[n + 18])
                              + words[n + 24]) for n in range(6)]

    def _borders(self, m, s, w, udp_at, version):
        """Where the packet ends, by its own length or by the frame's.

        Bytes past the IP packet are Ethernet padding; a length that cannot be is no border. Before
        the frame's last beat any length can be. Both cases are worked out side by side.
        """
        out, last = self.o, s.progress.last
        total = Signal(17)  # bytes of the packet as its header says
        m.d.comb += total.eq(Mux(s.ipv4, number(w, 2, 2), number(w, 4, 2) + 40))
        beyond, wrong = Signal(), Signal()
        m.d.comb += [
            beyond.eq(last & (total > s.left)),
            wrong.eq(beyond | (total < udp_at)),
        ]
        before = Signal(7)  # bytes from the network header to the end of the BTH
        m.d.comb += before.eq(udp_at + (UDP_BYTES + BTH_BYTES))
        seen, stated = Signal(signed(16)), Signal(signed(19))
        m.d.comb += [seen.eq(s.left - before), stated.eq(total - before)]
        m.d.sync += [
            out.seen.eq(seen),
            out.room.eq(Mux(wrong, seen, stated[:16])),
            out.end.eq(Mux(wrong, s.headers.frame_length, s.headers.l3_offset + total)),
            out.udp_length.eq(total - udp_at),
            out.faults.length.eq(wrong),
            out.faults.grh.eq((version != 6) | (cut(w, 6, 1) != GRH_NEXT_HEADER) | beyond),
        ]
