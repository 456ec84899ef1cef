"""What a responder sends: acknowledges, READ responses, atomic acknowledges (IBTA 9.7.5)."""

from dataclasses import dataclass

from sim.golden.layout import QpContext, QpFlags
from sim.wire import opcodes
from sim.wire.build import Packet, build
from sim.wire.headers import Values

PSN_SPACE = 1 << 24
DYNAMIC_PORTS = 0xC000

ACK = 0x1F  # no credits
RNR_NAK = 0x20
PSN_ERROR, INVALID_REQUEST, REMOTE_ACCESS, REMOTE_OPERATIONAL = 0x60, 0x61, 0x62, 0x63


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One packet; `syndrome` None leaves the AETH out, `original` is of an atomic."""

    psn: int
    syndrome: int | None = ACK
    opcode: int = opcodes.ACK
    payload: bytes = b""
    original: int | None = None

    def frame(self, context: QpContext) -> bytes:
        """As this QP sends it."""
        extensions: dict[str, Values] = {}
        if self.syndrome is not None:
            extensions["aeth"] = {"syndrome": self.syndrome, "msn": context.msn}
        if self.original is not None:
            extensions["atomicacketh"] = {"original": self.original}
        return build(Packet(
            dst=context.dmac, src=context.smac,
            vlan=(context.vlan_tci,) if context.flags & QpFlags.VLAN else (),
            network="ipv6" if context.flags & QpFlags.IPV6 else "ipv4",
            sgid=context.sip, dgid=context.dip, tclass=context.tclass,
            flow_label=context.flow_label, hop_limit=context.hop_limit,
            sport=source_port(context),
            bth={"opcode": self.opcode, "pkey": context.pkey, "dqpn": context.dest_qpn,
                 "psn": self.psn},
            extensions=extensions, payload=self.payload))


def read_responses(data: bytes, psn: int, mtu: int) -> list[Answer]:
    """The bytes of a READ cut at the path MTU, one PSN each (9.7.5.1.9); no byte is one packet."""
    pieces = [data[start:start + mtu] for start in range(0, len(data), mtu)] or [b""]
    last = len(pieces) - 1
    answers = []
    for index, piece in enumerate(pieces):
        if last == 0:
            opcode = opcodes.READ_RESP_ONLY
        elif index in (0, last):
            opcode = opcodes.READ_RESP_LAST if index else opcodes.READ_RESP_FIRST
        else:
            opcode = opcodes.READ_RESP_MIDDLE
        syndrome = None if opcode == opcodes.READ_RESP_MIDDLE else ACK
        answers.append(Answer(psn=(psn + index) % PSN_SPACE, syndrome=syndrome, opcode=opcode,
                              payload=piece))
    return answers


def source_port(context: QpContext) -> int:
    """The UDP source port: the context's, or its flow label folded into the dynamic ports.

    Routers choose among equal paths by it (IBTA A17 leaves its value to the sender); the fold
    is that of Linux's rdma_flow_label_to_udp_sport.
    """
    folded = (context.flow_label & 0x3FFF) ^ (context.flow_label >> 14)
    return context.udp_sport or DYNAMIC_PORTS | folded
