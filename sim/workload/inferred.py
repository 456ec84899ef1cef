"""A capture without a truth file as a scenario: everything is read off the packets themselves."""

from collections import Counter
from pathlib import Path

from sim.golden.answer import ACK, PSN_ERROR
from sim.golden.layout import MrAccess, QpAccess, QpContext, QpFlags, ReceiveOp, Service, State
from sim.golden.responder import FULL_MEMBER
from sim.wire import opcodes
from sim.wire.codec import gid_bytes, mac_bytes
from sim.workload.contents import Contents
from sim.workload.from_truth import DEFAULT_HOP_LIMIT, DEFAULT_SPORT, MTU_CODE
from sim.workload.host_setup import PD, HostSetup, Receive
from sim.workload.peers import pair_with_peers
from sim.workload.ranges import add_ranges
from sim.workload.scenario import Frame, Region, Scenario
from sim.workload.traffic import (
    Manner,
    Seen,
    addressed_to,
    in_psn_order,
    is_rnr_nak,
    read_traffic,
    relative_psn,
    wqe_uses,
)

SERVICES = {opcodes.RC: Service.RC, opcodes.UC: Service.UC, opcodes.UD: Service.UD}
MIN_BUFFER = 64
DEFAULT_RNR_TIMER = 12  # 0.64 ms
IN_PROGRESS = {
    opcodes.SEND_MIDDLE: ReceiveOp.SEND, opcodes.SEND_LAST: ReceiveOp.SEND,
    opcodes.SEND_LAST_IMM: ReceiveOp.SEND, opcodes.WRITE_MIDDLE: ReceiveOp.WRITE,
    opcodes.WRITE_LAST: ReceiveOp.WRITE, opcodes.WRITE_LAST_IMM: ReceiveOp.WRITE}
FULL_ACCESS = QpAccess.WRITE | QpAccess.READ | QpAccess.ATOMIC
WHOLE_PACKETS = (opcodes.SEND_FIRST, opcodes.SEND_MIDDLE, opcodes.WRITE_FIRST,
                 opcodes.WRITE_MIDDLE, opcodes.READ_RESP_FIRST, opcodes.READ_RESP_MIDDLE)


def inferred(capture_path: str | Path, nic: str | None = None,
             entry_bytes: int = 256) -> Scenario:
    """The capture as seen by the host that most RC requests go to, or by `nic`, a MAC address.

    The notes of the scenario say what was assumed. Raises CaptureError, or ValueError when `nic`
    is no address that frames go to.
    """
    traffic = read_traffic(capture_path)
    notes: list[str] = []
    mac = _choose_nic(traffic, nic, notes)
    received = addressed_to(traffic, mac)
    sent = [seen for seen in traffic if seen.is_roce2 and seen.report["eth"]["src"] == mac]
    setup = HostSetup(entry_bytes)
    by_qpn = _packets_by_qpn(received, notes)
    requests = {qpn: asked for qpn, held in by_qpn.items()
                if (asked := [seen for seen in held if seen.opcode not in opcodes.RESPONSES])}
    peers = pair_with_peers(requests, sent)
    answers = _answers(requests, peers, sent, notes)
    regions = add_ranges(setup, requests, peers, notes)
    buffers = _Buffers(setup)
    for qpn in sorted(by_qpn):
        if qpn in requests:
            _add_qp(setup, buffers, qpn, requests[qpn], peers.get(qpn, []), notes)
        else:
            setup.add_qp(qpn, _context(by_qpn[qpn][0], []), [])
            notes.append(f"QP {qpn}: gets answers only; this NIC does not send requests yet")
    regions += buffers.finish(notes)
    _show_contents(setup, requests, peers, notes)
    settings = setup.finish()
    return Scenario(
        name=Path(capture_path).stem, source="inferred", notes=notes,
        frames=[Frame(seen.number, seen.data) for seen in received],
        answers=[Frame(seen.number, seen.data) for seen in answers],
        memory=setup.memory, settings=settings, posts=setup.posts,
        regions=[Region(index, va, length) for index, (va, length) in enumerate(regions)],
        qpns=sorted(by_qpn), entry_bytes=entry_bytes)


def _show_contents(setup: HostSetup, requests: dict[int, list[Seen]],
                   peers: dict[int, list[Seen]], notes: list[str]) -> None:
    contents = Contents(setup.memory)
    contents.add(requests, peers, {qpn: context.mtu_bytes for qpn, context in setup.contexts()
                                   if qpn in requests})
    if contents.bytes:
        notes.append(f"{contents.bytes} bytes of memory are taken from READ responses and "
                     "atomics")


def _choose_nic(traffic: list[Seen], nic: str | None, notes: list[str]) -> str:
    requests = Counter(seen.report["eth"]["dst"] for seen in traffic if _is_rc_request(seen))
    every = Counter(seen.report["eth"]["dst"] for seen in traffic
                    if seen.report["eth"] and not seen.data[0] & 1)
    if nic is not None:
        mac = nic.lower().replace("-", ":")
        if mac not in every:
            raise ValueError(f"no frame of the capture is addressed to {nic}; give one of "
                             + ", ".join(sorted(every)))
        return mac
    if requests:
        mac, count = requests.most_common(1)[0]
        notes.append(f"the NIC is {mac}: {count} of {requests.total()} RC requests are "
                     "addressed to it")
        return mac
    notes.append("the capture holds no RoCEv2 RC request; nothing is answered")
    return every.most_common(1)[0][0] if every else "00:00:00:00:00:00"


def _is_rc_request(seen: Seen) -> bool:
    return seen.is_roce2 and seen.opcode >> 5 == 0 and seen.opcode not in opcodes.RESPONSES


def _packets_by_qpn(received: list[Seen], notes: list[str]) -> dict[int, list[Seen]]:
    """RoCEv2 packets to each QP from its first peer (UD: from anyone)."""
    by_qpn: dict[int, list[Seen]] = {}
    strangers: Counter[int] = Counter()
    for seen in received:
        if not seen.is_roce2 or seen.opcode & 0xE0 not in SERVICES:
            continue
        held = by_qpn.setdefault(seen.dqpn, [])
        if held and held[0].opcode & 0xE0 != opcodes.UD and _peer(held[0]) != _peer(seen):
            strangers[seen.dqpn] += 1
        else:
            held.append(seen)
    for qpn, count in sorted(strangers.items()):
        notes.append(f"QP {qpn}: {count} packets from another peer than its first are refused")
    return by_qpn


def _answers(requests: dict[int, list[Seen]], peers: dict[int, list[Seen]], sent: list[Seen],
             notes: list[str]) -> list[Seen]:
    """The answers to compare with; `peers` loses those to requests from before the capture."""
    for qpn, held in peers.items():
        peers[qpn] = [seen for seen in held if seen.number > requests[qpn][0].number]
    answers = sorted((seen for held in peers.values() for seen in held),
                     key=lambda seen: seen.number)
    others = sum(seen.is_answer for seen in sent) - len(answers)
    if others:
        notes.append(f"{others} answers are to requests that the capture does not hold; they are "
                     "not compared")
    return answers


def _peer(seen: Seen) -> tuple[str, str]:
    return seen.report["ip"]["src"], seen.report["ip"]["dst"]


class _Buffers:
    """Where receives land: a region of their own."""

    def __init__(self, setup: HostSetup) -> None:
        self._setup = setup
        self.key = setup.free_key()
        self._end = self._base = 1 << 40

    def __bool__(self) -> bool:
        return self._end > self._base

    def space(self, length: int) -> int:
        """Its address."""
        start = self._end
        self._end += -(-length // 64) * 64
        return start

    def take(self, wr_id: int, length: int, before_frame: int) -> Receive:
        return Receive(wr_id, self.space(length), length, self.key, before_frame)

    def finish(self, notes: list[str]) -> list[tuple[int, int]]:
        if not self:
            return []
        length = self._end - self._base
        base = self._setup.allocate(length)
        self._setup.add_region(self.key, self._base, length,
                               MrAccess.LOCAL_WRITE | MrAccess.REMOTE_WRITE, base)
        notes.append(f"receives land in a region of {length} bytes, key {self.key:#x}")
        return [(base, length)]


def _add_qp(setup: HostSetup, buffers: _Buffers, qpn: int, requests: list[Seen],
            answers: list[Seen], notes: list[str]) -> None:
    first = requests[0]
    service = SERVICES[first.opcode & 0xE0]
    context = _context(first, answers)
    context.service = service
    if service is not Service.RC:
        notes.append(f"QP {qpn}: {service.name}; its receives are not inferred, only a truth file "
                     "tells them")
        setup.add_qp(qpn, context, [])
        return
    _note_peer(qpn, context, answers, notes)
    context.epsn = _first_psn(requests, answers)
    context.mtu = _mtu_code(requests + answers)
    context.pkey = first.report["bth"]["pkey"] | FULL_MEMBER
    notes.append(f"QP {qpn}: expects PSN {context.epsn} first, has MTU {context.mtu_bytes} and "
                 "allows all remote access")
    timers = Counter(seen.report["aeth"]["syndrome"] & 31 for seen in answers if is_rnr_nak(seen))
    context.min_rnr_timer = timers.most_common(1)[0][0] if timers else DEFAULT_RNR_TIMER
    context.msn = _first_msn(requests, answers, context.epsn)
    if context.msn:
        notes.append(f"QP {qpn}: starts with MSN {context.msn}, from its first answer")
    _enter_message(context, buffers, requests, notes, qpn)
    receives = _receives(buffers, requests, answers, context, notes, qpn)
    setup.add_qp(qpn, context, receives)


def _context(first: Seen, answers: list[Seen]) -> QpContext:
    """Addresses and manner of sending."""
    report = first.report
    theirs = Manner.of([first])
    manner = Manner.of(answers)
    assert theirs is not None
    if manner is None:
        manner = theirs._replace(udp_sport=DEFAULT_SPORT, hop_limit=DEFAULT_HOP_LIMIT,
                                 flow_label=0)
    flags = QpFlags.IPV6 if report["ip"]["version"] == 6 else QpFlags(0)
    if manner.vlan_tci is not None:
        flags |= QpFlags.VLAN
    return QpContext(
        state=State.RTS, mtu=MTU_CODE[1024], flags=flags, pkey=0xFFFF, access=FULL_ACCESS,
        dest_qpn=answers[0].dqpn if answers else 0, pd=PD, udp_sport=manner.udp_sport,
        vlan_tci=manner.vlan_tci or 0, dmac=mac_bytes(report["eth"]["src"]),
        smac=mac_bytes(report["eth"]["dst"]), tclass=manner.tclass, hop_limit=manner.hop_limit,
        max_dest_rd_atomic=16, flow_label=manner.flow_label, dip=gid_bytes(report["ip"]["src"]),
        sip=gid_bytes(report["ip"]["dst"]))


def _note_peer(qpn: int, context: QpContext, answers: list[Seen], notes: list[str]) -> None:
    if answers:
        notes.append(f"QP {qpn}: its peer is QP {context.dest_qpn}, since the answers sent there "
                     "have the PSNs of its requests")
    else:
        notes.append(f"QP {qpn}: no answer is in the capture; the peer's QPN is taken as 0, the "
                     f"UDP source port as {DEFAULT_SPORT}, the hop limit as {DEFAULT_HOP_LIMIT}")


def _first_psn(requests: list[Seen], answers: list[Seen]) -> int:
    """The first PSN seen, or the one that a sequence NAK asks for before anything else."""
    if answers and answers[0].opcode == opcodes.ACK \
            and answers[0].report["aeth"]["syndrome"] == PSN_ERROR:
        return answers[0].psn
    return requests[0].psn


def _enter_message(context: QpContext, buffers: _Buffers, requests: list[Seen],
                   notes: list[str], qpn: int) -> None:
    """When the first packet is from the midst of a message: the state that it needs."""
    ordered = in_psn_order(requests, context.epsn)
    if not ordered or ordered[0].opcode not in IN_PROGRESS:
        return
    rest = 0
    for seen in ordered:
        rest += seen.report["payload_length"]
        if seen.ends:
            break
    context.r_op = IN_PROGRESS[ordered[0].opcode]
    context.r_key, context.r_va, context.r_left = buffers.key, buffers.space(rest), rest
    notes.append(f"QP {qpn}: the capture begins inside a message; its other {rest} bytes go to "
                 "the receives' region")


def _mtu_code(requests: list[Seen]) -> int:
    """The MTU of whole packets, else the smallest that holds the longest one."""
    whole = Counter(seen.report["payload_length"] for seen in requests
                    if seen.opcode in WHOLE_PACKETS)
    longest = max(seen.report["payload_length"] for seen in requests)
    size = whole.most_common(1)[0][0] if whole else longest
    return min(code for mtu, code in MTU_CODE.items() if mtu >= size)


def _first_msn(requests: list[Seen], answers: list[Seen], epsn: int) -> int:
    """So that the first acknowledgement has the MSN that it has in the capture."""
    for answer in answers:
        ahead = relative_psn(answer.psn, epsn)
        if "aeth" in answer.report and answer.report["aeth"]["syndrome"] == ACK and ahead >= 0:
            done = [seen for seen in in_psn_order(requests, epsn)
                    if relative_psn(seen.psn, epsn) <= ahead and seen.ends]
            return (answer.report["aeth"]["msn"] - len(done)) % (1 << 24)
    return 0


def _receives(buffers: _Buffers, requests: list[Seen], answers: list[Seen], context: QpContext,
              notes: list[str], qpn: int) -> list[Receive]:
    lengths = _message_lengths(requests, context.epsn)
    receives = []
    for index, use in enumerate(wqe_uses(requests, answers, context.epsn)):
        if use.frame is None:
            notes.append(f"QP {qpn}: PSN {use.psn} got RNR NAKs to the end; no receive is posted "
                         "for it")
            break
        before = use.frame if use.refusals else 0
        receives.append(buffers.take(index, max(MIN_BUFFER, lengths.get(use.psn, 0)), before))
    if receives:
        late = sum(receive.before_frame > 0 for receive in receives)
        notes.append(f"QP {qpn}: {len(receives)} receives, as many as it needs"
                     + (f"; {late} of them posted when RNR NAKs end" if late else ""))
    return receives


def _message_lengths(requests: list[Seen], epsn: int) -> dict[int, int]:
    """Bytes of each SEND, by the PSN of its first packet."""
    lengths: dict[int, int] = {}
    start = None
    for seen in in_psn_order(requests, epsn):
        if seen.opcode in (opcodes.SEND_FIRST, opcodes.SEND_ONLY, opcodes.SEND_ONLY_IMM,
                           opcodes.SEND_ONLY_INV):
            start = seen.psn
        if start is not None:
            lengths[start] = lengths.get(start, 0) + seen.report["payload_length"]
        if seen.ends:
            start = None
    return lengths

