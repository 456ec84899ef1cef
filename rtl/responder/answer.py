"""The headers of answers (IBTA 9.7.5.1; docs/responder.md, Answer packets)."""

from amaranth.hdl import C, Cat, Module, Mux, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.headers import Headers, Kind, Opcode
from rtl.host.layout import Qpc

ETHERTYPE_IPV4 = 0x0800
ETHERTYPE_IPV6 = 0x86DD
PROTOCOL_UDP = 17
ROCE_PORT = 4791
DYNAMIC_PORTS = 0b11  # from 0xC000


def source_port(qpc):
    """The UDP source port of a QP's packets: `udp_sport`, or if that is 0 the flow label, folded
    into the dynamic ports, so that routers spread flows over equal paths (IBTA A17)."""
    folded = qpc.flow_label[:14] ^ qpc.flow_label[14:20]
    return Mux(qpc.udp_sport == 0, Cat(folded, C(DYNAMIC_PORTS, 2)), qpc.udp_sport)


class Reply(data.Struct):
    """What is one answer's own."""

    opcode: Opcode
    psn: unsigned(24)
    aeth: unsigned(1)  # all but the middle of a READ have one
    syndrome: unsigned(8)
    length: unsigned(13)  # bytes of payload
    original: unsigned(64)  # of an atomic


class AnswerHeaders(wiring.Component):
    """Combinational: the headers of an answer from the context, the MSN and the reply."""

    qpc: In(Qpc)
    sequence: In(32)  # of the frame that is answered, for observers
    msn: In(24)
    reply: In(Reply)
    headers: Out(Headers)

    def elaborate(self, platform):
        m = Module()
        out, qpc, reply = self.headers, self.qpc, self.reply
        m.d.comb += [
            out.kind.eq(Kind.ROCE2),
            out.sequence.eq(self.sequence),
            out.eth.dst.eq(qpc.dmac),
            out.eth.src.eq(qpc.smac),
            out.eth.vlan_count.eq(qpc.flags.vlan),
            out.eth.vlan[0].tci.eq(qpc.vlan_tci),
            out.ip.dscp.eq(qpc.tclass[2:]),
            out.ip.ecn.eq(qpc.tclass[:2]),
            out.ip.ttl.eq(qpc.hop_limit),
            out.ip.protocol.eq(PROTOCOL_UDP),
            out.ip.src.eq(qpc.sip),
            out.ip.dst.eq(qpc.dip),
            out.udp.sport.eq(source_port(qpc)),
            out.udp.dport.eq(ROCE_PORT),
            out.bth.opcode.eq(reply.opcode),
            out.bth.pkey.eq(qpc.pkey),
            out.bth.dqpn.eq(qpc.dest_qpn),
            out.bth.psn.eq(reply.psn),
            out.payload_length.eq(reply.length),
            out.present.aeth.eq(reply.aeth),
            out.aeth.syndrome.eq(reply.syndrome),
            out.aeth.msn.eq(self.msn),
            out.present.atomicacketh.eq(reply.opcode == Opcode.ATOMIC_ACKNOWLEDGE),
            out.atomicacketh.eq(reply.original),
        ]
        with m.If(qpc.flags.ipv6):
            m.d.comb += [
                out.eth.ethertype.eq(ETHERTYPE_IPV6),
                out.ip.version.eq(6),
                out.ip.flow_label.eq(qpc.flow_label),
            ]
        with m.Else():
            m.d.comb += [
                out.eth.ethertype.eq(ETHERTYPE_IPV4),
                out.ip.version.eq(4),
                out.ip.flags.eq(0b010),  # don't fragment: identification 0 is then allowed
            ]
        return m
