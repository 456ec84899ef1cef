"""Acknowledge packets (IBTA 9.7.5.1; docs/responder.md, Answer packets)."""

from amaranth.hdl import C, Cat, Module, Mux
from amaranth.lib import wiring
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


class Acknowledge(wiring.Component):
    """Combinational: the headers of an ACK or NAK from the context, PSN, MSN and syndrome."""

    qpc: In(Qpc)
    sequence: In(32)  # of the frame that is answered, for observers
    psn: In(24)
    msn: In(24)
    syndrome: In(8)
    headers: Out(Headers)

    def elaborate(self, platform):
        m = Module()
        out, qpc = self.headers, self.qpc
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
            out.bth.opcode.eq(Opcode.ACKNOWLEDGE),
            out.bth.pkey.eq(qpc.pkey),
            out.bth.dqpn.eq(qpc.dest_qpn),
            out.bth.psn.eq(self.psn),
            out.present.aeth.eq(1),
            out.aeth.syndrome.eq(self.syndrome),
            out.aeth.msn.eq(self.msn),
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
