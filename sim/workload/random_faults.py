"""What can be wrong with a request, one function a fault, by the rows of docs/responder.md.

A fault of `HARMLESS` leaves the queue pair as it was, so that traffic goes on; one of `FATAL` is
refused with a NAK that puts the queue pair into the error state. Each takes the traffic and a
queue pair and sends what it needs; it gives False when it does not apply to this queue pair.
"""

import dataclasses
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from sim.golden.answer import ACK
from sim.golden.layout import QpAccess
from sim.wire import opcodes
from sim.wire.build import Packet, build, reseal
from sim.wire.codec import ETHERNET_BYTES
from sim.workload.random_qp import LIMITED, MAX_PAYLOAD, PSN_SPACE, Planned, RandomQp

if TYPE_CHECKING:
    from sim.workload.random_rc import Traffic

Fault = Callable[["Traffic", RandomQp], bool]
HALF = PSN_SPACE // 2
ACCESS = {opcodes.WRITE_ONLY: QpAccess.WRITE, opcodes.READ_REQUEST: QpAccess.READ,
          opcodes.CMP_SWAP: QpAccess.ATOMIC, opcodes.FETCH_ADD: QpAccess.ATOMIC}
UNSUPPORTED = [  # row 11
    Planned(opcodes.FLUSH, b"", {"feth": {"selectivity": 1}}),
    Planned(opcodes.ATOMIC_WRITE, bytes(8), {"reth": {"va": 0x1000, "rkey": 0, "length": 8}}),
]
RESPONSES = [
    Planned(opcodes.ACK, b"", {"aeth": {"syndrome": ACK}}),
    Planned(opcodes.READ_RESP_ONLY, b"data", {"aeth": {"syndrome": ACK}}),
    Planned(opcodes.ATOMIC_ACK, b"", {"aeth": {"syndrome": ACK}}),
]


# Harmless: dropped before the queue pair is looked at, or refused without effect


def duplicate(traffic: "Traffic", qp: RandomQp) -> bool:
    """Row 9: one of the packets done, any age."""
    if not qp.sent:
        return False
    traffic.send(traffic.rng.choice(qp.sent[-8:]))
    return True


def duplicate_other(traffic: "Traffic", qp: RandomQp) -> bool:
    """Row 10: PSN behind; nothing to answer, or a READ or atomic that may be answered again."""
    rng = traffic.rng
    planned = rng.choice([*UNSUPPORTED, *(
        qp.read_or_atomic(opcode) for opcode in (opcodes.READ_REQUEST, opcodes.FETCH_ADD)
        if qp.context.access & ACCESS[opcode])])
    if "reth" in planned.extensions:  # not so long that it ends in what is not read yet
        reth = {**planned.extensions["reth"], "length": rng.choice((0, 1, 4))}
        planned = dataclasses.replace(planned, extensions={"reth": reth})
    traffic.send(qp.packet(planned, (qp.psn - rng.randint(1, 9)) % PSN_SPACE))
    return True


def read_from_the_middle(traffic: "Traffic", qp: RandomQp) -> bool:
    """Row 10: what is left of one of the last READs, from its second response on."""
    reads = [packet for packet in qp.sent[-8:]
             if packet.bth["opcode"] == opcodes.READ_REQUEST
             and packet.extensions["reth"]["length"] > qp.mtu]
    if not reads:
        return False
    packet = traffic.rng.choice(reads)
    reth = packet.extensions["reth"]
    rest = {**reth, "va": reth["va"] + qp.mtu, "length": reth["length"] - qp.mtu}
    traffic.send(dataclasses.replace(
        packet, bth={**packet.bth, "psn": (packet.bth["psn"] + 1) % PSN_SPACE},
        extensions={"reth": rest}))
    return True


def gap(traffic: "Traffic", qp: RandomQp) -> bool:
    """Row 8: packets from behind a hole, once or more; the first one is told."""
    for _ in range(traffic.rng.randint(1, 3)):
        ahead = traffic.rng.choice((1, 2, 3, 100, HALF - 1))
        planned = Planned(traffic.rng.choice((opcodes.SEND_ONLY, opcodes.WRITE_LAST)), b"late")
        traffic.send(qp.packet(planned, (qp.psn + ahead) % PSN_SPACE))
    return True


def far_behind(traffic: "Traffic", qp: RandomQp) -> bool:
    """Row 9: the first PSN that counts as behind."""
    planned = Planned(opcodes.SEND_ONLY, b"old")
    traffic.send(qp.packet(planned, (qp.psn + HALF) % PSN_SPACE))
    return True


def partition(traffic: "Traffic", qp: RandomQp) -> bool:
    """Row 5: another partition, or limited members on both sides."""
    wrong = [0x1234, 0x7FFE, 0xFFFE, 0] + [LIMITED] * (qp.context.pkey == LIMITED)
    return _with_bth(traffic, qp, pkey=traffic.rng.choice(wrong))


def address(traffic: "Traffic", qp: RandomQp) -> bool:
    """Row 6: from or to another address."""
    packet = _harmless(qp)
    if traffic.rng.random() < 0.5:
        packet.sgid = _other(packet.sgid)
    else:
        packet.dgid = _other(packet.dgid)
    traffic.send(packet)
    return True


def service(traffic: "Traffic", qp: RandomQp) -> bool:
    """Row 3: an opcode of another service."""
    return _with_bth(traffic, qp, opcode=traffic.rng.choice((opcodes.UC, opcodes.RD | 0,
                                                            opcodes.XRC)) | opcodes.SEND_ONLY)


def unreliable_datagram(traffic: "Traffic", qp: RandomQp) -> bool:
    """Row 3, with the datagram header."""
    planned = Planned(opcodes.UD | opcodes.SEND_ONLY, b"hello", {"deth": {"qkey": 1, "sqpn": 2}})
    traffic.send(qp.packet(planned))
    return True


def stranger(traffic: "Traffic", qp: RandomQp) -> bool:
    """Rows 2 and 4: a QPN outside the table, or of a queue pair never set up."""
    return _with_bth(traffic, qp, dqpn=traffic.rng.choice((0, 0xFFFFFF, 1 << 20)))


def response(traffic: "Traffic", qp: RandomQp) -> bool:
    """Row 7: an answer, though nothing was asked."""
    traffic.send(qp.packet(traffic.rng.choice(RESPONSES)))
    return True


def bad_icrc(traffic: "Traffic", qp: RandomQp) -> bool:
    frame = bytearray(build(_harmless(qp)))
    frame[-traffic.rng.randint(1, 8)] ^= 1 << traffic.rng.randrange(8)
    traffic.add(bytes(frame))
    return True


def bad_header(traffic: "Traffic", qp: RandomQp) -> bool:
    """A fault that the parser finds (docs/parser.md)."""
    bth = traffic.rng.choice(({"tver": 1}, {"opcode": 0x1F}, {"opcode": opcodes.SEND_FIRST},
                              {"opcode": opcodes.READ_REQUEST}))
    packet = _harmless(qp, b"" if "opcode" in bth and bth["opcode"] == opcodes.SEND_FIRST
                       else b"abcd")
    traffic.send(dataclasses.replace(packet, bth={**packet.bth, **bth}))
    return True


def damaged(traffic: "Traffic", qp: RandomQp) -> bool:
    """Cut short, or with a length or checksum that contradicts the frame."""
    packet = dataclasses.replace(_harmless(qp), vlan=())
    frame = bytearray(build(packet))
    start = ETHERNET_BYTES
    kind = traffic.rng.choice(("cut", "udp", "checksum" if packet.network == "ipv4" else "cut"))
    if kind == "cut":
        frame = frame[:traffic.rng.randint(start, len(frame) - 1)]
    elif kind == "udp":
        udp = start + (20 if packet.network == "ipv4" else 40)
        frame[udp + 4:udp + 6] = struct.pack(">H", traffic.rng.getrandbits(16) | 0x4000)
    else:
        frame[start + 10] ^= 1
    traffic.add(bytes(frame))
    return True


def roce1(traffic: "Traffic", qp: RandomQp) -> bool:
    traffic.send(dataclasses.replace(_harmless(qp), network="roce1"))
    return True


def cnp(traffic: "Traffic", qp: RandomQp) -> bool:
    """Row 1."""
    packet = qp.packet(Planned(opcodes.CNP, b""), 0)
    traffic.send(dataclasses.replace(packet, bth={**packet.bth, "becn": 1, "ackreq": 0}))
    return True


def not_rdma(traffic: "Traffic", qp: RandomQp) -> bool:
    """For the host queue, or consumed as MAC control."""
    rng = traffic.rng
    ethertype = rng.choice((0x0806, 0x0800, 0x86DD, 0x88CC, 0x8808))
    body = bytearray(rng.randbytes(rng.randint(46, 400)))
    if ethertype == 0x0800:
        body[0], body[9] = 0x45, 6
    elif ethertype == 0x86DD:
        body[0], body[6] = 0x60, 6
    elif ethertype == 0x8808:
        body[:2] = struct.pack(">H", rng.choice((1, 0x0101)))
    traffic.add(qp.packet(Planned(0, b"")).dst + qp.peer_mac + struct.pack(">H", ethertype)
                + bytes(body))
    return True


def fragment(traffic: "Traffic", qp: RandomQp) -> bool:
    """An IPv4 fragment is for the host, whatever its port."""
    packet = dataclasses.replace(_harmless(qp), vlan=())
    if packet.network != "ipv4":
        return False
    frame = bytearray(build(packet))
    frame[ETHERNET_BYTES + 6] = 0x20
    traffic.add(reseal(bytes(frame)))
    return True


# Fatal


def out_of_order(traffic: "Traffic", qp: RandomQp) -> bool:
    """Row 12: an opcode that cannot follow the one before."""
    payload = traffic.rng.randbytes(qp.mtu)
    if not qp.started:
        opcode = traffic.rng.choice((opcodes.SEND_MIDDLE, opcodes.SEND_LAST, opcodes.WRITE_MIDDLE,
                                     opcodes.WRITE_LAST))
    elif qp.queue[0].opcode in (opcodes.SEND_MIDDLE, opcodes.SEND_LAST, opcodes.SEND_LAST_IMM):
        opcode = traffic.rng.choice((opcodes.SEND_FIRST, opcodes.SEND_ONLY, opcodes.WRITE_MIDDLE,
                                     opcodes.WRITE_LAST))
    else:
        opcode = traffic.rng.choice((opcodes.SEND_FIRST, opcodes.SEND_ONLY, opcodes.SEND_MIDDLE,
                                     opcodes.SEND_LAST))
    return _refused(traffic, qp, Planned(opcode, payload))


def unsupported(traffic: "Traffic", qp: RandomQp) -> bool:
    """Row 11."""
    return _refused(traffic, qp, traffic.rng.choice(UNSUPPORTED))


def wrong_size(traffic: "Traffic", qp: RandomQp) -> bool:
    """Row 13: a payload that its opcode does not allow at this MTU."""
    choices = [Planned(opcodes.SEND_FIRST, bytes(qp.mtu - 1))]
    if qp.started:
        choices = [dataclasses.replace(qp.queue[0], payload=b"")] if len(qp.queue) == 1 else \
            [dataclasses.replace(qp.queue[0], payload=bytes(qp.mtu - 4))]
    elif qp.mtu < MAX_PAYLOAD:
        choices += [Planned(opcodes.SEND_FIRST, bytes(qp.mtu + 1)),
                    Planned(opcodes.SEND_ONLY, bytes(qp.mtu + 1))]
    return _refused(traffic, qp, traffic.rng.choice(choices))


def no_access(traffic: "Traffic", qp: RandomQp) -> bool:
    """Row 14."""
    if qp.started:
        return False
    lacking = [opcode for opcode, access in ACCESS.items() if not qp.context.access & access]
    if not lacking:
        return False
    opcode = traffic.rng.choice(lacking)
    if opcode != opcodes.WRITE_ONLY:
        return _refused(traffic, qp, qp.read_or_atomic(opcode))
    qp.plan(write=True)
    return _refused(traffic, qp, qp.queue[0])


def bad_read_or_atomic(traffic: "Traffic", qp: RandomQp) -> bool:
    """Rows 15 and 16: a key, range or alignment that is not granted."""
    granted = [opcode for opcode in (opcodes.READ_REQUEST, opcodes.CMP_SWAP, opcodes.FETCH_ADD)
               if qp.context.access & ACCESS[opcode]]
    if qp.started or not granted:
        return False
    rng, end = traffic.rng, qp.target.va + qp.target.length
    planned = qp.read_or_atomic(rng.choice(granted))
    (name, fields), = planned.extensions.items()
    wrong = {"length": rng.randint(1, 99)} if name == "reth" else {}
    wrong |= rng.choice(({"rkey": qp.target.key ^ 1}, {"rkey": qp.buffers.key}, {"va": end},
                         {"va": qp.target.va - 8}, {"va": fields["va"] | 1, **(
                             {} if name == "atomiceth" else {"rkey": 0})}))
    return _refused(traffic, qp, dataclasses.replace(
        planned, extensions={name: {**fields, **wrong}}))


def bad_invalidate(traffic: "Traffic", qp: RandomQp) -> bool:
    """Row 21: a SEND that would invalidate what it may not."""
    if qp.started:
        return False
    qp.post(64)
    key = traffic.rng.choice((qp.target.key, qp.buffers.key, traffic.strange.key, 0xFFFFFF00))
    return _refused(traffic, qp, Planned(opcodes.SEND_ONLY_INV, b"the last of this",
                                         {"ieth": {"rkey": key}}))


def bad_key(traffic: "Traffic", qp: RandomQp) -> bool:
    """Row 15: a key or range that is not granted."""
    if qp.started or not qp.context.access & QpAccess.WRITE:
        return False
    rng, target = traffic.rng, qp.target
    qp.plan(write=True, length=rng.choice((1, 4, qp.mtu, qp.mtu + 1, 2 * qp.mtu)))
    reth = dict(qp.queue[0].extensions["reth"])
    end = target.va + target.length
    reth |= rng.choice((
        {"rkey": 0xFFFFFF00}, {"rkey": target.key ^ 1}, {"rkey": traffic.strange.key,
                                                         "va": traffic.strange.va},
        {"rkey": qp.buffers.key, "va": qp.buffers.va}, {"va": target.va - 1},
        {"va": end}, {"va": end - reth["length"] + 1}, {"va": (1 << 64) - 1}, {"rkey": 0x100},
    ))
    qp.queue[0].extensions["reth"] = reth
    return _refused(traffic, qp, qp.queue[0])


def wrong_write_length(traffic: "Traffic", qp: RandomQp) -> bool:
    """Row 16: the RETH length does not agree with the packets."""
    if not qp.context.access & QpAccess.WRITE:
        return False
    if qp.started:
        planned = qp.queue[0]
        if planned.opcode not in (opcodes.WRITE_LAST, opcodes.WRITE_LAST_IMM):
            return False
        longer = len(planned.payload) < qp.mtu
        payload = planned.payload + b"x" if longer else planned.payload[:-1]
        return _refused(traffic, qp, dataclasses.replace(planned, payload=payload))
    first = traffic.rng.random() < 0.5
    qp.plan(write=True, imm=False, length=2 * qp.mtu if first else 8)
    wrong = traffic.rng.choice((qp.mtu, 4)) if first else traffic.rng.choice((7, 9, 1))
    reth = {"reth": {"va": qp.target.va, "rkey": qp.target.key, "length": wrong}}
    return _refused(traffic, qp, dataclasses.replace(qp.queue[0], extensions=reth))


def many_sges(traffic: "Traffic", qp: RandomQp) -> bool:
    """Row 19."""
    return _refused_send(traffic, qp, 16, lambda: qp.post(64, sge_count=2))


def too_long(traffic: "Traffic", qp: RandomQp) -> bool:
    """Row 20: in the packet that overflows, the first or a later one."""
    length = traffic.rng.choice((1, 16, qp.mtu, 2 * qp.mtu, 2 * qp.mtu + 5))
    sge_count = traffic.rng.choice((0, 1, 1))
    return _refused_send(traffic, qp, length,
                         lambda: qp.post(traffic.rng.randint(0, length - 1), sge_count=sge_count))


def bad_buffer(traffic: "Traffic", qp: RandomQp) -> bool:
    """Row 21: a receive whose key or range is not granted."""
    length = traffic.rng.choice((1, 16, qp.mtu, 2 * qp.mtu))
    end = qp.buffers.va + qp.buffers.length
    wrong = traffic.rng.choice(({"lkey": qp.buffers.key ^ 2}, {"lkey": qp.target.key},
                                {"va": end - length + 1}, {"lkey": 0xFFFFFF00}))
    return _refused_send(traffic, qp, length, lambda: qp.post(length, **wrong))


HARMLESS: tuple[Fault, ...] = (
    duplicate, duplicate, duplicate, duplicate_other, read_from_the_middle, gap, gap, far_behind,
    partition, address,
    service, unreliable_datagram, stranger, response, bad_icrc, bad_icrc, bad_header, damaged,
    roce1, cnp, not_rdma, not_rdma, fragment)
FATAL: tuple[Fault, ...] = (
    out_of_order, unsupported, wrong_size, no_access, bad_key, bad_key, bad_read_or_atomic,
    bad_read_or_atomic, bad_invalidate, wrong_write_length, many_sges, too_long, bad_buffer)


def _harmless(qp: RandomQp, payload: bytes = b"abcd") -> Packet:
    return qp.packet(Planned(opcodes.SEND_ONLY, payload))


def _other(gid: bytes) -> bytes:
    return gid[:15] + bytes([gid[15] ^ 1])


def _with_bth(traffic: "Traffic", qp: RandomQp, **fields: int) -> bool:
    packet = _harmless(qp)
    traffic.send(dataclasses.replace(packet, bth={**packet.bth, **fields}))
    return True


def _refused(traffic: "Traffic", qp: RandomQp, planned: Planned) -> bool:
    traffic.send(qp.packet(planned))
    qp.dead = True
    return True


def _refused_send(traffic: "Traffic", qp: RandomQp, length: int,
                  post: Callable[[], None]) -> bool:
    """A SEND whose receive is bad: all its packets, since any of them may be the one refused."""
    if qp.started:
        return False
    qp.plan(write=False, length=length)
    post()
    while qp.queue:
        packet = qp.packet(qp.queue[0])
        traffic.send(packet)
        qp.took(packet)
    qp.dead = True
    return True
