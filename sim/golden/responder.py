"""The responder of RC and UC, row by row as docs/responder.md numbers them (IBTA 9.7, 9.8)."""

from typing import NoReturn

from sim.golden.answer import (
    INVALID_REQUEST,
    PSN_ERROR,
    PSN_SPACE,
    REMOTE_ACCESS,
    REMOTE_OPERATIONAL,
    RNR_NAK,
    Answer,
    read_responses,
)
from sim.golden.datagram import Datagram
from sim.golden.layout import (
    Completion,
    MrAccess,
    QpAccess,
    QpContext,
    ReceiveOp,
    ReceiveWqe,
    Service,
    State,
    WcFlags,
    WcOpcode,
    WcStatus,
)
from sim.golden.memory import ADDRESS_SPACE
from sim.golden.outcome import Outcome, dropped
from sim.golden.request import ATOMIC_BYTES, Request
from sim.golden.tables import WORD, Tables
from sim.wire import opcodes
from sim.wire.codec import Report

FULL_MEMBER = 0x8000
MAX_MESSAGE = 1 << 31  # bytes (9.7.6)


class _Drop(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Broken(_Drop):
    """A UC message that ends here: its packets are dropped up to the next FIRST or ONLY."""

    def __init__(self) -> None:
        super().__init__("uc_message")


class _Answers(Exception):
    """NAKs that leave the QP alive, or the answers to a duplicate: ends the packet."""

    def __init__(self, *answers: Answer) -> None:
        super().__init__(answers)
        self.answers = answers


class _Refusal(Exception):
    """A NAK that puts the QP into the error state."""

    def __init__(self, syndrome: int, status: WcStatus) -> None:
        super().__init__(syndrome)
        self.syndrome = syndrome
        self.status = status


class Responder:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def receive(self, report: Report, frame: bytes) -> Outcome:
        """What the packet of `frame` does, of which `report` tells."""
        try:
            qpn, context = self._admit(report)
        except _Drop as drop:
            return dropped(drop.reason)
        if context.service == Service.UD:
            return Datagram(self._tables, qpn, context, report, frame).receive()
        packet = _Execution(self._tables, qpn, context, Request.of(report))
        try:
            packet.run()
        except _Broken as broken:
            self._tables.store_context(qpn, context)
            return Outcome(action="dropped", reason=broken.reason, qpn=qpn, context=bytes(context))
        except _Drop as drop:
            return dropped(drop.reason)
        self._tables.store_context(qpn, context)
        frames = [answer.frame(context) for answer in packet.answers]
        return Outcome(action="answered" if frames else "accepted", frames=frames, qpn=qpn,
                       context=bytes(context), completions=packet.completions)

    def _admit(self, report: Report) -> tuple[int, QpContext]:
        """Rows 1 to 5: what needs no more than the kind, the QPN and the opcode's service."""
        if report["kind"] == "cnp":
            raise _Drop("cnp")
        qpn = report["bth"]["dqpn"]
        context = self._tables.context(qpn)
        if context is None:
            raise _Drop("no_qp")
        services = {opcodes.RC: Service.RC, opcodes.UC: Service.UC, opcodes.UD: Service.UD}
        service = services.get(report["bth"]["opcode"] & 0xE0)
        if service is None or context.service != service or report["kind"] == "roce1":
            raise _Drop("service")
        if context.state not in (State.RTR, State.RTS, State.SQD, State.SQE):
            raise _Drop("qp_state")
        pkey = report["bth"]["pkey"]
        same = (context.pkey ^ pkey) & ~FULL_MEMBER == 0
        if not same or not (context.pkey | pkey) & FULL_MEMBER:
            raise _Drop("pkey")
        return qpn, context


class _Execution:
    """One request against one context: changes the context in place, writes memory and CQEs."""

    def __init__(self, tables: Tables, qpn: int, context: QpContext, request: Request) -> None:
        self.tables = tables
        self.qpn = qpn
        self.context = context
        self.request = request
        self.wqe: ReceiveWqe | None = None  # taken by this packet
        self.bus: int | None = None  # where the payload goes
        self.answers: list[Answer] = []
        self.completions: list[bytes] = []

    def run(self) -> None:
        self._check_identity()
        if self.context.service == Service.UC:
            self._run_unreliable()
        else:
            self._run_reliable()

    def _run_unreliable(self) -> None:
        """No answers: a message that cannot be executed is dropped whole (9.8.3)."""
        self._check_sequence()
        try:
            self._check_order_and_length()
            self._check_write()
            self._check_receive()
            self._execute()
        except _Answers:
            self._break()
        except _Refusal as refusal:
            if refusal.syndrome != REMOTE_OPERATIONAL:
                self._break()
            self._flush(refusal.status)
            self.context.state = State.ERR
        self.answers.clear()

    def _check_sequence(self) -> None:
        """A FIRST or ONLY starts anew wherever it comes; a MIDDLE or LAST must continue."""
        context, request = self.context, self.request
        if request.starts:
            self._give_back()
        elif request.psn != context.epsn or context.r_op != request.operation:
            self._break()

    def _break(self) -> NoReturn:
        self._give_back()
        self.context.epsn = (self.request.psn + 1) % PSN_SPACE
        raise _Broken

    def _give_back(self) -> None:
        """The receive WQE of the message in progress or of this packet is used for the next."""
        context = self.context
        if context.r_op == ReceiveOp.SEND or self.wqe is not None:
            context.rq_consume = (context.rq_consume - 1) % WORD
        context.r_op = ReceiveOp.NONE

    def _run_reliable(self) -> None:
        context = self.context
        try:
            self._check_psn()
            self._check_order_and_length()
            self._check_access()
            self._check_write()
            self._check_receive()
            self._execute()
        except _Answers as found:
            self.answers += found.answers
        except _Refusal as refusal:
            self._flush(refusal.status)
            context.state = State.ERR
            self.answers.append(Answer(psn=self.request.psn, syndrome=refusal.syndrome))

    # Rows 6 and 7

    def _check_identity(self) -> None:
        context, request = self.context, self.request
        if request.source != context.dip or request.destination != context.sip:
            raise _Drop("address")
        if request.is_response:
            raise _Drop("no_requester")

    # Rows 8 to 10

    def _check_psn(self) -> None:
        context = self.context
        ahead = (self.request.psn - context.epsn) % PSN_SPACE
        if ahead == 0:
            return
        if ahead < PSN_SPACE // 2:
            if context.r_nak & 1:
                raise _Drop("psn_gap")
            context.r_nak |= 1
            raise _Answers(Answer(psn=context.epsn, syndrome=PSN_ERROR))
        raise _Answers(*self._repeat(PSN_SPACE - ahead))

    def _repeat(self, behind: int) -> list[Answer]:
        """What a duplicate is answered; it changes nothing (9.7.5.1.4)."""
        context, request = self.context, self.request
        if request.repeats_quietly:
            return [Answer(psn=(context.epsn - 1) % PSN_SPACE)]
        if request.is_read:
            self._check_access()
            if request.responses(context.mtu_bytes) <= behind:
                return self._read()
        if request.is_atomic:
            original = self.tables.saved_atomic(context, request.psn)
            if original is not None:
                return [self._atomic_answer(original)]
        raise _Drop("duplicate")

    # Rows 11 to 13

    def _check_order_and_length(self) -> None:
        context, request = self.context, self.request
        operation, size, mtu = request.operation, len(request.payload), context.mtu_bytes
        expected = ReceiveOp.NONE if request.starts else operation
        if request.is_read or request.is_atomic:
            fits = size == 0
        elif request.is_only:
            fits = size <= mtu
        elif request.ends:
            fits = 1 <= size <= mtu
        else:
            fits = size == mtu
        if not request.is_carried_out or context.r_op != expected or not fits:
            raise _Refusal(INVALID_REQUEST, WcStatus.REM_INV_REQ_ERR)

    # Rows 14 to 17

    def _check_access(self) -> None:
        """Of READs and atomics: both are whole requests."""
        context, request = self.context, self.request
        if not (request.is_read or request.is_atomic):
            return
        right = MrAccess.REMOTE_READ if request.is_read else MrAccess.REMOTE_ATOMIC
        granted = context.access & (QpAccess.READ if request.is_read else QpAccess.ATOMIC)
        if not granted or context.max_dest_rd_atomic == 0:
            raise _Refusal(INVALID_REQUEST, WcStatus.REM_INV_REQ_ERR)
        self._translate(request.rkey, right, request.va, request.length)
        if request.length > MAX_MESSAGE or request.is_atomic and request.va % ATOMIC_BYTES:
            raise _Refusal(INVALID_REQUEST, WcStatus.REM_INV_REQ_ERR)

    def _check_write(self) -> None:
        context, request = self.context, self.request
        if request.operation is not ReceiveOp.WRITE:
            return
        size = len(request.payload)
        if request.starts:
            va, key, left, checked = request.va, request.rkey, request.length, request.length
            if not context.access & QpAccess.WRITE:
                raise _Refusal(INVALID_REQUEST, WcStatus.REM_INV_REQ_ERR)
            self._translate(key, MrAccess.REMOTE_WRITE, va, checked)
        else:
            va, key, left, checked = context.r_va, context.r_key, context.r_left, size
        if (size != left) if request.ends else (size >= left):
            raise _Refusal(INVALID_REQUEST, WcStatus.REM_INV_REQ_ERR)
        if not request.starts:
            self._translate(key, MrAccess.REMOTE_WRITE, va, checked)

    def _translate(self, key: int, right: MrAccess, va: int, length: int) -> None:
        if length == 0:
            return
        self.bus = self.tables.translate(key, self.qpn, self.context.pd, right, va, length)
        if self.bus is None:
            raise _Refusal(REMOTE_ACCESS, WcStatus.REM_ACCESS_ERR)

    # Rows 18 to 21

    def _check_receive(self) -> None:
        context, request = self.context, self.request
        if request.takes_wqe:
            self._take_wqe()
        if request.operation is not ReceiveOp.SEND:
            return
        va, key, left = self._buffer()
        size = len(request.payload)
        if size > left:
            raise _Refusal(INVALID_REQUEST, WcStatus.LOC_LEN_ERR)
        if size:
            self.bus = self.tables.translate(key, self.qpn, context.pd, MrAccess.LOCAL_WRITE,
                                              va, size)
            if self.bus is None:
                raise _Refusal(REMOTE_OPERATIONAL, WcStatus.LOC_PROT_ERR)

    def _take_wqe(self) -> None:
        context = self.context
        wqe = self.tables.receive_wqe(context)
        if wqe is None:
            if context.service == Service.RC:
                context.r_nak |= 1
            raise _Answers(Answer(psn=context.epsn, syndrome=RNR_NAK | context.min_rnr_timer))
        if wqe.sge_count > 1:
            raise _Refusal(REMOTE_OPERATIONAL, WcStatus.LOC_QP_OP_ERR)
        self.wqe = wqe
        context.rq_consume = (context.rq_consume + 1) % WORD

    def _buffer(self) -> tuple[int, int, int]:
        """Address, key and bytes left of the receive buffer of a SEND."""
        context, wqe = self.context, self.wqe
        if wqe is None:
            return context.r_va, context.r_key, context.r_left
        return wqe.va, wqe.lkey, wqe.length if wqe.sge_count else 0

    # Row 22 and the completions

    def _execute(self) -> None:
        context, request = self.context, self.request
        if request.is_read or request.is_atomic:
            self.answers += self._read() if request.is_read else self._atomic()
            context.epsn = (context.epsn + len(self.answers)) % PSN_SPACE
            context.msn = (context.msn + 1) % PSN_SPACE
            context.r_nak &= ~1
            return
        if request.payload:
            assert self.bus is not None
            self.tables.memory.write(self.bus, request.payload)
        self._invalidate()
        self._advance_message()
        context.epsn = (request.psn + 1) % PSN_SPACE
        context.r_nak = context.r_nak & ~1
        if request.ends:
            context.msn = (context.msn + 1) % PSN_SPACE
            context.r_op = ReceiveOp.NONE
            if request.operation is ReceiveOp.SEND or request.imm is not None:
                self._complete_message()
        if request.ackreq:
            self.answers.append(Answer(psn=request.psn))

    def _invalidate(self) -> None:
        """After the payload, so that it is written even if the key is refused."""
        key = self.request.invalidated
        if key is not None and not self.tables.invalidate(key, self.qpn, self.context.pd):
            raise _Refusal(REMOTE_ACCESS, WcStatus.REM_INV_REQ_ERR)

    def _read(self) -> list[Answer]:
        request = self.request
        data = b"" if self.bus is None else self.tables.memory.read(self.bus, request.length)
        return read_responses(data, request.psn, self.context.mtu_bytes)

    def _atomic(self) -> list[Answer]:
        """Host memory holds the value little-endian."""
        request, memory = self.request, self.tables.memory
        assert self.bus is not None
        original = int.from_bytes(memory.read(self.bus, ATOMIC_BYTES), "little")
        if request.opcode == opcodes.FETCH_ADD:
            after = (original + request.swap) % ADDRESS_SPACE
        else:
            after = request.swap if original == request.compare else original
        memory.write(self.bus, after.to_bytes(ATOMIC_BYTES, "little"))
        self.tables.save_atomic(self.context, request.psn, original)
        return [self._atomic_answer(original)]

    def _atomic_answer(self, original: int) -> Answer:
        return Answer(psn=self.request.psn, opcode=opcodes.ATOMIC_ACK, original=original)

    def _advance_message(self) -> None:
        context, request = self.context, self.request
        if request.starts:
            if request.operation is ReceiveOp.SEND:
                context.r_va, context.r_key, context.r_left = self._buffer()
            else:
                context.r_va, context.r_key, context.r_left = (
                    request.va, request.rkey, request.length)
            context.r_op = request.operation
            context.r_bytes = 0
        if self.wqe is not None:
            context.r_wr_id = self.wqe.wr_id
        size = len(request.payload)
        context.r_va = (context.r_va + size) % ADDRESS_SPACE
        context.r_left -= size
        context.r_bytes = (context.r_bytes + size) % WORD

    def _complete_message(self) -> None:
        request = self.request
        write = request.operation is ReceiveOp.WRITE
        flags, imm = WcFlags(0), bytes(4)
        if request.imm is not None:
            flags, imm = WcFlags.IMM, request.imm
        elif request.invalidated is not None:
            flags, imm = WcFlags.INVALIDATED, request.invalidated.to_bytes(4, "big")
        self._complete(Completion(
            opcode=WcOpcode.RECV_RDMA_WITH_IMM if write else WcOpcode.RECV,
            status=WcStatus.SUCCESS,
            flags=flags | (WcFlags.SOLICITED if request.solicited else 0),
            byte_len=self.context.r_bytes, imm=imm,
            wr_id=self.context.r_wr_id))

    def _flush(self, status: WcStatus) -> None:
        """Complete the WQE that a refused message holds, if it holds one."""
        if self.wqe is not None:
            self._complete(Completion(opcode=WcOpcode.RECV, status=status, wr_id=self.wqe.wr_id))
        elif self.context.r_op == ReceiveOp.SEND:
            self._complete(Completion(opcode=WcOpcode.RECV, status=status,
                                      wr_id=self.context.r_wr_id))

    def _complete(self, completion: Completion) -> None:
        context = self.context
        completion.qpn = self.qpn
        completion.src_qpn = context.dest_qpn
        completion.wqe_index = (context.rq_consume - 1) % WORD
        written = self.tables.complete(context.recv_cqn, completion)
        if written is not None:
            self.completions.append(written)
