"""Header fields → the bytes of a frame's headers, with lengths, pad count and IPv4 checksum."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.headers import Headers, Kind, Opcode
from rtl.icrc.info import IcrcInfo

TPID_CUSTOMER, TPID_SERVICE = 0x8100, 0x88A8
TYPE_IPV4, TYPE_IPV6, TYPE_ROCE1 = 0x0800, 0x86DD, 0x8915
UDP, GRH_NEXT_HEADER = 17, 0x1B
ICRC_BYTES = 4
EXTENSION_BYTES = 40  # RDETH, DETH and AtomicETH
HEADER_BYTES = 22 + 40 + 8 + 12 + EXTENSION_BYTES
CNP_BYTES = 16  # reserved, after the BTH of a congestion notification
LATENCY = 6


class Assembled(data.Struct):
    """A frame but for its payload; places are in beats."""

    header: unsigned(8 * HEADER_BYTES)  # 0 after the headers
    some: unsigned(1)  # there is payload
    shift: unsigned(8)  # of the payload's first byte within its beat
    first: unsigned(8)  # beat with the payload's first byte
    payload_last: unsigned(11)  # beat in which the last beat of payload begins
    payload_bytes: unsigned(9)  # valid ones of the last beat of payload
    last: unsigned(11)  # beat with the frame's last byte
    empty: unsigned(8)  # invalid bytes in it
    info: IcrcInfo


class _Sized(data.Struct):
    headers: Headers
    extensions: unsigned(8 * EXTENSION_BYTES)
    size: unsigned(6)  # bytes of `extensions`
    roce1: unsigned(1)
    ipv4: unsigned(1)
    pad: unsigned(2)


class _Measured(data.Struct):
    headers: Headers
    extensions: unsigned(8 * EXTENSION_BYTES)
    roce1: unsigned(1)
    ipv4: unsigned(1)
    transport_at: unsigned(6)  # of the BTH, from the network header's start
    header: unsigned(8)  # from the network header's start to the payload
    length: unsigned(14)  # UDP length; of a GRH, its payload
    total: unsigned(14)  # from the network header's start to the ICRC's end
    sum: unsigned(19)  # of the constant part of the IPv4 header


class _Built(data.Struct):
    """`network` is the headers from the network header on."""

    headers: Headers
    network: unsigned(8 * (HEADER_BYTES - 22))
    roce1: unsigned(1)
    ipv4: unsigned(1)
    transport_at: unsigned(6)
    header: unsigned(8)
    total: unsigned(14)


class _Framed(data.Struct):
    bytes: unsigned(8 * HEADER_BYTES)
    header: unsigned(8)
    payload_length: unsigned(14)
    info: IcrcInfo


def wire(value):
    """An integer of whole bytes as it goes over the wire, most significant byte first."""
    return Cat(value[i:i + 8] for i in reversed(range(0, len(value), 8)))


class Assembler(wiring.Component):
    """Takes a header item a cycle and gives its `Assembled` 6 cycles later; never stalls."""

    def __init__(self, data_width: int):
        self.beat_log = exact_log2(data_width // 8)
        super().__init__({
            "valid": In(1), "i": In(Headers), "o_valid": Out(1), "o": Out(Assembled)})

    def elaborate(self, platform):
        m = Module()
        valid = Signal(LATENCY - 1)
        m.d.sync += Cat(valid, self.o_valid).eq(Cat(self.valid, valid))
        headers, tail, size = self._operation(m)
        sized = self._service(m, headers, tail, size)
        self._place(m, self._ethernet(m, self._network(m, self._measure(m, sized))))
        return m

    def _prepend(self, m, name, chain, present, field):
        """`chain` is (bytes, size); a present field goes in front."""
        body, size = chain
        out, out_size = Signal.like(body, name=f"with_{name}"), Signal(6, name=f"size_{name}")
        m.d.comb += [
            out.eq(Mux(present, Cat(field, body), body)),
            out_size.eq(Mux(present, size + len(field) // 8, size)),
        ]
        return out, out_size

    def _operation(self, m):
        """Extension headers from the operation's first one on."""
        i = self.i
        reth = Cat(wire(i.reth.va), wire(i.reth.rkey), wire(i.reth.length))
        atomiceth = Cat(wire(i.atomiceth.va), wire(i.atomiceth.rkey),
                        wire(i.atomiceth.swap), wire(i.atomiceth.compare))
        chain = Const(0, 8 * EXTENSION_BYTES), Const(0, 6)
        for name, field in (("ieth", wire(i.ieth)), ("immdt", i.immdt),
                            ("atomicacketh", wire(i.atomicacketh)),
                            ("aeth", Cat(i.aeth.syndrome, wire(i.aeth.msn))),
                            ("atomiceth", atomiceth), ("reth", reth)):
            chain = self._prepend(m, name, chain, i.present[name], field)
        headers, tail, size = Signal(Headers), Signal(8 * EXTENSION_BYTES), Signal(6)
        m.d.sync += [headers.eq(i), tail.eq(chain[0]), size.eq(chain[1])]
        return headers, tail, size

    def _service(self, m, h, tail, size):
        """Extension headers before those."""
        zero = Const(0, 8)
        chain = tail, size
        for name, field in (("feth", wire(h.feth)),
                            ("deth", Cat(wire(h.deth.qkey), zero, wire(h.deth.sqpn))),
                            ("xrceth", Cat(zero, wire(h.xrceth))),
                            ("rdeth", Cat(zero, wire(h.rdeth)))):
            chain = self._prepend(m, name, chain, h.present[name], field)
        out = Signal(_Sized)
        m.d.sync += [
            out.headers.eq(h), out.extensions.eq(chain[0]), out.size.eq(chain[1]),
            out.roce1.eq(h.kind == Kind.ROCE1),
            out.ipv4.eq((h.kind != Kind.ROCE1) & (h.ip.version == 4)),
            out.pad.eq((-h.payload_length)[:2]),
        ]
        with m.If(h.bth.opcode == Opcode.CNP):
            m.d.sync += [out.extensions.eq(0), out.size.eq(CNP_BYTES)]
        return out

    def _measure(self, m, s):
        """Lengths, and the part of the IPv4 checksum that does not hang on them."""
        out, h, ip = Signal(_Measured), s.headers, s.headers.ip
        at = Signal(6)
        m.d.comb += at.eq(Mux(s.ipv4, 28, Mux(s.roce1, 40, 48)))
        body = Signal(14)  # from the BTH to the ICRC's end
        m.d.comb += body.eq((h.payload_length + s.pad) + (s.size + (12 + ICRC_BYTES)))
        words = [Cat(ip.ecn, ip.dscp, Const(0x45, 8)), ip.identification,
                 Cat(Const(0, 13), ip.flags), Cat(Const(UDP, 8), ip.ttl),
                 *(wire(address[96 + 16 * n:112 + 16 * n])
                   for address in (ip.src, ip.dst) for n in range(2))]
        m.d.sync += [
            out.headers.eq(h), out.extensions.eq(s.extensions), out.roce1.eq(s.roce1),
            out.ipv4.eq(s.ipv4), out.headers.bth.pad.eq(s.pad),
            out.transport_at.eq(at), out.header.eq(at + 12 + s.size),
            out.length.eq(Mux(s.roce1, body, body + 8)),
            out.total.eq(at + body),
            out.sum.eq(((words[0] + words[1]) + (words[2] + words[3]))
                       + ((words[4] + words[5]) + (words[6] + words[7]))),
        ]
        return out

    def _network(self, m, s):
        out, h, ip, bth = Signal(_Built), s.headers, s.headers.ip, s.headers.bth
        total, folded, checksum = Signal(20), Signal(17), Signal(16)
        length = Signal(16)
        m.d.comb += [
            length.eq(s.length),
            total.eq(s.sum + s.total),
            folded.eq(total[:16] + total[16:]),
            checksum.eq(~(folded[:16] + folded[16])),
        ]
        transport = Cat(
            bth.opcode, bth.tver, bth.pad, bth.m, bth.se, wire(bth.pkey),
            bth.resv6, bth.becn, bth.fecn, wire(bth.dqpn),
            bth.resv7, bth.ackreq, wire(bth.psn), s.extensions)
        datagram = Cat(wire(h.udp.sport), wire(h.udp.dport), wire(length), Const(0, 16), transport)
        size = Signal(16)
        m.d.comb += size.eq(s.total)
        fixed4 = Cat(Const(0x45, 8), ip.ecn, ip.dscp, wire(size), wire(ip.identification),
                     wire(Cat(Const(0, 13), ip.flags)), ip.ttl, Const(UDP, 8), wire(checksum),
                     ip.src[96:], ip.dst[96:])
        fixed6 = Cat(wire(Cat(ip.flow_label, ip.ecn, ip.dscp, Const(6, 4))), wire(length),
                     Mux(s.roce1, Const(GRH_NEXT_HEADER, 8), Const(UDP, 8)), ip.ttl, ip.src, ip.dst)
        m.d.sync += [
            out.headers.eq(h), out.roce1.eq(s.roce1), out.ipv4.eq(s.ipv4),
            out.transport_at.eq(s.transport_at), out.header.eq(s.header), out.total.eq(s.total),
        ]
        with m.If(s.ipv4):
            m.d.sync += out.network.eq(Cat(fixed4, datagram))
        with m.Elif(s.roce1):
            m.d.sync += out.network.eq(Cat(fixed6, transport))
        with m.Else():
            m.d.sync += out.network.eq(Cat(fixed6, datagram))
        return out

    def _ethernet(self, m, s):
        out, h, eth = Signal(_Framed), s.headers, s.headers.eth
        ethertype, at = Signal(16), Signal(5)
        m.d.comb += ethertype.eq(Mux(s.ipv4, TYPE_IPV4, Mux(s.roce1, TYPE_ROCE1, TYPE_IPV6)))
        tags = []
        for n in range(2):
            tpid = Signal(16, name=f"tpid{n}")
            m.d.comb += tpid.eq(Mux(eth.vlan[n].service, TPID_SERVICE, TPID_CUSTOMER))
            tags.append(Cat(wire(tpid), wire(eth.vlan[n].tci)))
        with m.Switch(eth.vlan_count):
            for count in range(3):
                with m.Case(count):
                    m.d.comb += at.eq(14 + 4 * count)
                    m.d.sync += out.bytes.eq(Cat(eth.dst, eth.src, *tags[:count],
                                                 wire(ethertype), s.network))
        m.d.sync += [
            out.header.eq(at + s.header), out.payload_length.eq(h.payload_length),
            out.info.l3_offset.eq(at), out.info.bth_offset.eq(at + s.transport_at),
            out.info.ip_version.eq(Mux(s.ipv4, 4, 6)), out.info.roce1.eq(s.roce1),
            out.info.end.eq(at + s.total), out.info.sequence.eq(h.sequence),
        ]
        return out

    def _place(self, m, s):
        out, log = self.o, self.beat_log
        final, rest = Signal(14), Signal(log)
        m.d.comb += [final.eq(s.payload_length - 1), rest.eq(s.payload_length)]
        m.d.sync += [
            out.header.eq(s.bytes), out.info.eq(s.info),
            out.some.eq(s.payload_length != 0),
            out.shift.eq(s.header[:log]),
            out.first.eq(s.header >> log),
            out.payload_last.eq((s.header >> log) + (final >> log)),
            out.payload_bytes.eq(Mux(rest == 0, 1 << log, rest)),
            out.last.eq((s.info.end - 1)[:14] >> log),
            out.empty.eq((-s.info.end)[:log]),
        ]
