"""The responder's control: one verified packet at a time, in the order of docs/responder.md."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.config import NicConfig
from rtl.context import CachePort, CacheStatus, Operation
from rtl.dma import ReadClient, WriteClient
from rtl.headers import Headers, Kind, Opcode
from rtl.host.completion import Completion
from rtl.host.layout import (
    MPT_BYTES,
    QPC_BYTES,
    RESPONDER_FIELDS,
    CqeOpcode,
    CqeStatus,
    Message,
    Qpc,
    QpState,
    RecvWqe,
    Service,
    word_mask,
)
from rtl.responder.answer import AnswerHeaders, Reply
from rtl.responder.atomic import OPERAND_BYTES, Atomic, AtomicStatus
from rtl.responder.check import PacketCheck, Shape
from rtl.responder.grh import GRH_BYTES, GrhWriter
from rtl.responder.names import Drop, Syndrome, Verdict
from rtl.responder.protect import Permission, Protect, Right
from rtl.responder.read import ReadResponder
from rtl.responder.receive_queue import ReceiveQueue, WqeState
from rtl.responder.records import Outcome, ResponderCounters, ResponderEvents, Update
from rtl.stream import PacketLayout

MAX_MESSAGE = 1 << 31  # bytes


class Responder(wiring.Component):
    """Takes verified packets, gives payload writes, completions and answers.

    `headers`/`payload`: each packet's headers, and its payload if it has any (IcrcCheck's output).
    `qpc`, `mpt`: the context caches. `wqe`: receive WQEs. `write`: payload and atomics. `read`:
    READs and atomics. `completion`: CQEs, offered after the payload's `done`. `answer`,
    `answer_payload`: headers for the deparser, and the payload of READ responses.

    One packet is in work at a time; with caches and DMA that answer in 4 cycles a WRITE of one beat
    takes 28 cycles. Order: packets are executed and answered in arrival order. A packet that is
    refused writes nothing. Idle in the cycle after reset. IBTA 9.7.
    """

    def __init__(self, config: NicConfig):
        width = config.data_width
        super().__init__({
            "headers": In(stream.Signature(Headers)),
            "payload": In(stream.Signature(PacketLayout(width))),
            "qpc": Out(CachePort(config.context.entry_bytes)),
            "mpt": Out(CachePort(MPT_BYTES)),
            "wqe": Out(ReadClient(width)),
            "write": Out(WriteClient(width)),
            "read": Out(ReadClient(width)),
            "completion": Out(stream.Signature(Completion)),
            "answer": Out(stream.Signature(Headers)),
            "answer_payload": Out(stream.Signature(PacketLayout(width))),
            "events": Out(ResponderEvents),
            "counters": Out(ResponderCounters),
        })
        self.config = config

    def elaborate(self, platform):
        m = Module()
        m.submodules.check = check = PacketCheck()
        m.submodules.protect = protect = Protect()
        m.submodules.receive_queue = queue = ReceiveQueue(self.config.data_width)
        m.submodules.reads = reads = ReadResponder(self.config.data_width)
        m.submodules.atomic = atomic = Atomic(self.config.data_width)
        m.submodules.grh = grh = GrhWriter(self.config.data_width)
        m.submodules.answer_headers = answer_headers = AnswerHeaders()
        connect(m, protect.mpt, flipped(self.mpt))
        connect(m, queue.read, flipped(self.wqe))
        connect(m, reads.payload, flipped(self.answer_payload))

        headers = Signal(Headers)
        qpc = Signal(Qpc)
        after = Signal(Qpc)  # the context after this packet
        verdict = Signal(Verdict)
        shape = Signal(Shape)
        wqe = Signal(RecvWqe)
        took_wqe = Signal()
        address = Signal(64)
        outcome = Signal(Outcome)
        placed = Signal()  # the payload has been taken from `payload`
        invalidating = Signal()
        responded = Signal()  # a READ response was sent
        next_psn = Signal(24)  # behind this request's own
        bth, length = headers.bth, headers.payload_length
        expected = qpc.epsn[:24]
        uc, ud = qpc.service == Service.UC, qpc.service == Service.UD
        answers = qpc.service == Service.RC

        def drop(reason):
            m.d.sync += [outcome.drop.eq(reason), outcome.update.eq(Update.NONE)]

        def answer(syndrome, psn, update):
            m.d.sync += [
                outcome.answer.eq(1),
                outcome.reply.opcode.eq(Opcode.ACKNOWLEDGE),
                outcome.reply.syndrome.eq(syndrome),
                outcome.reply.psn.eq(psn),
                outcome.reply.aeth.eq(1),
                outcome.update.eq(update),
            ]

        def break_message():
            m.d.sync += [outcome.answer.eq(0), outcome.drop.eq(Drop.UC_MESSAGE),
                         outcome.update.eq(Update.BREAK)]

        def refuse(syndrome, status, psn=bth.psn):
            """A NAK that ends the QP; the receive WQE in use, if any, completes with `status`.
            In UC what is wrong at the peer ends the message only, and nothing is answered."""
            answer(syndrome, psn, Update.ERROR)
            m.d.sync += outcome.answer.eq(answers)
            m.d.sync += [
                outcome.complete.eq(took_wqe | (qpc.r_op == Message.SEND)),
                outcome.status.eq(status),
            ]
            if syndrome != Syndrome.REMOTE_OPERATIONAL:
                with m.If(uc):
                    break_message()
                    m.d.sync += outcome.complete.eq(0)
            m.next = "DRAIN"

        def execute():
            answer(Syndrome.ACK, bth.psn, Update.ADVANCE)
            m.d.sync += [
                outcome.complete.eq(shape.ends & (shape.send | shape.imm)),
                outcome.status.eq(CqeStatus.SUCCESS),
                outcome.answer.eq(bth.ackreq & answers),
            ]
            m.next = "DRAIN"

        def placed_all():
            """The payload is in host memory."""
            execute()
            with m.If(shape.invalidate):
                m.next = "INVALIDATE"

        left = Signal(32)  # before this packet's payload
        m.d.comb += left.eq(qpc.r_left)
        with m.If(shape.starts):
            m.d.comb += left.eq(Mux(shape.send, wqe.length, headers.reth.length))
        key, va = Signal(32), Signal(64)
        m.d.comb += [key.eq(qpc.r_key), va.eq(qpc.r_va)]
        with m.If(shape.starts):
            m.d.comb += [
                key.eq(Mux(shape.send, wqe.lkey, headers.reth.rkey)),
                va.eq(Mux(shape.send, wqe.va, headers.reth.va)),
            ]
        with m.If(shape.atomic):
            m.d.comb += [key.eq(headers.atomiceth.rkey), va.eq(headers.atomiceth.va)]
        # The first packet of a WRITE answers for the whole message, every packet for its own bytes.
        whole = shape.write & shape.starts
        wanted, right = Signal(32), Signal(Right)
        m.d.comb += [
            wanted.eq(Mux(whole | shape.read, headers.reth.length,
                          Mux(shape.atomic, OPERAND_BYTES,
                              Mux(ud, length + GRH_BYTES, length)))),
            right.eq(Mux(shape.send, Right.LOCAL_WRITE, Mux(shape.write, Right.REMOTE_WRITE,
                     Mux(shape.read, Right.REMOTE_READ, Right.REMOTE_ATOMIC)))),
        ]
        m.d.comb += [
            check.headers.eq(headers),
            check.qpc.eq(qpc),
            protect.i.p.key.eq(Mux(invalidating, headers.ieth, key)),
            protect.i.p.qpn.eq(bth.dqpn),
            protect.i.p.pd.eq(qpc.pd),
            protect.i.p.va.eq(va),
            protect.i.p.length.eq(wanted),
            protect.i.p.right.eq(Mux(invalidating, Right.INVALIDATE, right)),
            queue.i.p.base.eq(qpc.rq_base),
            queue.i.p.log_size.eq(qpc.rq_log_size),
            queue.i.p.index.eq(qpc.rq_consume),
            self.qpc.request.p.key.eq(bth.dqpn),
            self.qpc.request.p.data.eq(after),
        ]
        self._context_after(m, headers, qpc, after, outcome, shape, wqe, took_wqe, key, va, left,
                            next_psn)
        self._completion(m, headers, qpc, after, outcome, shape, wqe, took_wqe)
        self._host_ports(m, reads, atomic, shape, address, length)
        self._jobs(m, reads, atomic, headers, qpc, shape, address)
        m.d.comb += [grh.headers.eq(headers), grh.address.eq(address)]
        reply = Signal(Reply)
        m.d.comb += [
            reply.eq(outcome.reply),
            answer_headers.qpc.eq(qpc),
            answer_headers.sequence.eq(headers.sequence),
            answer_headers.msn.eq(after.msn),
            answer_headers.reply.eq(reply),
            self.answer.p.eq(answer_headers.headers),
        ]
        # A duplicate READ must lie before the expected PSN with all its responses (row 10).
        responses, behind = Signal(33), Signal(24)
        m.d.sync += [
            responses.eq(Mux(headers.reth.length == 0, 1,
                             ((headers.reth.length - 1)[:32] >> (7 + qpc.mtu[:3])) + 1)),
            behind.eq(expected - bth.psn),
        ]

        acquired = self.qpc.response.p
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.headers.ready.eq(1)
                with m.If(self.headers.valid):
                    m.d.sync += [headers.eq(self.headers.p), outcome.eq(0), placed.eq(0),
                                 took_wqe.eq(0), responded.eq(0), invalidating.eq(0)]
                    m.next = "ACQUIRE"

            with m.State("ACQUIRE"):
                with m.If(headers.kind == Kind.CNP):
                    drop(Drop.CNP)
                    m.next = "FORGET"
                with m.Else():
                    m.d.comb += [
                        self.qpc.request.valid.eq(1),
                        self.qpc.request.p.op.eq(Operation.ACQUIRE),
                    ]
                    with m.If(self.qpc.request.ready):
                        m.next = "CONTEXT"

            with m.State("CONTEXT"):
                with m.If(self.qpc.response.valid & (acquired.op == Operation.ACQUIRE)):
                    m.d.sync += qpc.eq(acquired.data[:8 * QPC_BYTES])
                    m.next = "CHECK"
                    with m.If(acquired.status != CacheStatus.OK):
                        drop(Mux(acquired.status == CacheStatus.BAD_KEY, Drop.NO_QP,
                                 Drop.CONTEXT_FETCH))
                        m.next = "FORGET"

            with m.State("CHECK"):
                m.d.sync += [verdict.eq(check.verdict), shape.eq(check.shape),
                             next_psn.eq(bth.psn + 1)]
                drop(check.drop)
                with m.If(check.restart):
                    # The receive WQE of a UC message that did not end is used again.
                    m.d.sync += [qpc.r_op.eq(Message.NONE),
                                 qpc.rq_consume.eq(qpc.rq_consume - (qpc.r_op == Message.SEND))]
                m.next = "DECIDE"

            with m.State("DECIDE"):
                with m.Switch(verdict):
                    with m.Case(Verdict.DROP):
                        m.next = "DRAIN"
                    with m.Case(Verdict.BREAK):
                        break_message()
                        m.next = "DRAIN"
                    with m.Case(Verdict.DUPLICATE):
                        answer(Syndrome.ACK, expected - 1, Update.NONE)
                        m.next = "DRAIN"
                    with m.Case(Verdict.SEQUENCE_NAK):
                        answer(Syndrome.PSN_SEQUENCE, expected, Update.NAKED)
                        m.next = "DRAIN"
                    with m.Case(Verdict.INVALID):
                        refuse(Syndrome.INVALID_REQUEST, CqeStatus.REM_INV_REQ_ERR)
                    with m.Case(Verdict.SEND):
                        m.next = "BUFFER"
                        with m.If(shape.starts):
                            m.next = "WQE_REQUEST"
                    with m.Case(Verdict.READ):
                        m.next = "READ_LENGTH"
                        with m.If(headers.reth.length != 0):
                            m.next = "PROTECT"
                    with m.Case(Verdict.ATOMIC):
                        m.next = "PROTECT"
                        with m.If(shape.repeat):
                            m.next = "ATOMIC"
                    with m.Case(Verdict.WRITE):
                        m.next = "WRITE_LENGTH"
                        with m.If(shape.starts & (headers.reth.length != 0)):
                            m.next = "PROTECT"

            # Row 16. The range of a first packet has been checked by now, that of others is next.
            with m.State("WRITE_LENGTH"):
                with m.If(Mux(shape.ends, length != left, length >= left)):
                    refuse(Syndrome.INVALID_REQUEST, CqeStatus.REM_INV_REQ_ERR)
                with m.Elif(~shape.starts):
                    m.next = "PROTECT"
                with m.Elif(shape.imm):
                    m.next = "WQE_REQUEST"
                with m.Else():
                    m.next = "PLACE"

            with m.State("READ_LENGTH"):
                with m.If(headers.reth.length > MAX_MESSAGE):
                    refuse(Syndrome.INVALID_REQUEST, CqeStatus.REM_INV_REQ_ERR)
                with m.Elif(shape.repeat & (responses > behind)):
                    drop(Drop.DUPLICATE)
                    m.next = "DRAIN"
                with m.Else():
                    m.next = "READ"

            with m.State("READ"):
                m.d.comb += reads.i.valid.eq(1)
                m.d.sync += outcome.update.eq(Mux(shape.repeat, Update.NONE, Update.ADVANCE))
                with m.If(reads.i.ready):
                    m.next = "RESPONSES"

            with m.State("RESPONSES"):
                response = reads.o.p
                m.d.comb += [
                    self.answer.valid.eq(reads.o.valid & ~response.failed),
                    reads.o.ready.eq(self.answer.ready | response.failed),
                    reply.opcode.eq(response.opcode),
                    reply.psn.eq(response.psn),
                    reply.aeth.eq(response.aeth),
                    reply.syndrome.eq(Syndrome.ACK),
                    reply.length.eq(response.length),
                ]
                with m.If(reads.o.valid & response.failed):
                    refuse(Syndrome.REMOTE_OPERATIONAL, CqeStatus.REM_OP_ERR, response.psn)
                with m.Elif(reads.o.valid & reads.o.ready):
                    m.d.sync += [
                        responded.eq(1),
                        next_psn.eq(response.psn + 1),
                        self.counters.answers.eq(self.counters.answers + 1),
                    ]
                    with m.If(response.last):
                        m.next = "DRAIN"

            with m.State("ATOMIC"):
                m.d.comb += atomic.i.valid.eq(1)
                with m.If(~shape.repeat & (headers.atomiceth.va[:3] != 0)):
                    m.d.comb += atomic.i.valid.eq(0)
                    refuse(Syndrome.INVALID_REQUEST, CqeStatus.REM_INV_REQ_ERR)
                with m.Elif(atomic.i.ready):
                    m.next = "ORIGINAL"

            with m.State("ORIGINAL"):
                m.d.comb += atomic.o.ready.eq(1)
                with m.If(atomic.o.valid):
                    with m.Switch(atomic.o.p.status):
                        with m.Case(AtomicStatus.OK):
                            answer(Syndrome.ACK, bth.psn,
                                   Mux(shape.repeat, Update.NONE, Update.ADVANCE))
                            m.d.sync += [
                                outcome.reply.opcode.eq(Opcode.ATOMIC_ACKNOWLEDGE),
                                outcome.reply.original.eq(atomic.o.p.original),
                            ]
                            m.next = "DRAIN"
                        with m.Case(AtomicStatus.MISSING):
                            drop(Drop.DUPLICATE)
                            m.next = "DRAIN"
                        with m.Case(AtomicStatus.FAILED):
                            refuse(Syndrome.REMOTE_OPERATIONAL, CqeStatus.REM_OP_ERR)

            with m.State("INVALIDATE"):
                m.d.sync += invalidating.eq(1)
                m.d.comb += protect.i.valid.eq(invalidating)
                with m.If(protect.i.valid & protect.i.ready):
                    m.next = "INVALIDATED"

            with m.State("INVALIDATED"):
                m.d.comb += protect.o.ready.eq(1)
                with m.If(protect.o.valid):
                    m.next = "DRAIN"
                    with m.Switch(protect.o.p.permission):
                        with m.Case(Permission.UNKNOWN):
                            refuse(Syndrome.REMOTE_OPERATIONAL, CqeStatus.REM_OP_ERR)
                        with m.Case(Permission.REFUSED):
                            refuse(Syndrome.REMOTE_ACCESS, CqeStatus.REM_INV_REQ_ERR)

            with m.State("WQE_REQUEST"):
                m.d.comb += queue.i.valid.eq(1)
                with m.If(queue.i.ready):
                    m.next = "WQE"

            with m.State("WQE"):
                m.d.comb += queue.o.ready.eq(1)
                with m.If(queue.o.valid):
                    m.d.sync += wqe.eq(queue.o.p.wqe)
                    with m.If(queue.o.p.state == WqeState.EMPTY):
                        answer(Syndrome.RNR | qpc.min_rnr_timer[:5], expected, Update.NAKED)
                        with m.If(uc):
                            break_message()
                        with m.Elif(ud):
                            m.d.sync += outcome.answer.eq(0)
                            drop(Drop.NO_RECEIVE)
                        m.next = "DRAIN"
                    with m.Elif((queue.o.p.state == WqeState.FAILED)
                                | (queue.o.p.wqe.sge_count > 1)):
                        answer(Syndrome.REMOTE_OPERATIONAL, expected, Update.ERROR)
                        m.d.sync += outcome.answer.eq(answers)
                        m.next = "DRAIN"
                    with m.Else():
                        m.d.sync += took_wqe.eq(1)
                        with m.If(queue.o.p.wqe.sge_count == 0):
                            m.d.sync += wqe.length.eq(0)
                        m.next = "PLACE"
                        with m.If(shape.send):
                            m.next = "BUFFER"

            with m.State("BUFFER"):
                with m.If(ud & (length + GRH_BYTES > left)):
                    drop(Drop.UD_LENGTH)
                    m.d.sync += took_wqe.eq(0)
                    m.next = "DRAIN"
                with m.Elif(length > left):
                    refuse(Syndrome.INVALID_REQUEST, CqeStatus.LOC_LEN_ERR)
                with m.Elif((length == 0) & ~ud):
                    m.next = "PLACE"
                with m.Else():
                    m.next = "PROTECT"

            with m.State("PROTECT"):
                m.d.comb += protect.i.valid.eq(1)
                with m.If(protect.i.ready):
                    m.next = "PERMISSION"

            with m.State("PERMISSION"):
                m.d.comb += protect.o.ready.eq(1)
                m.d.sync += address.eq(protect.o.p.address)
                with m.If(protect.o.valid):
                    with m.If(protect.o.p.permission == Permission.UNKNOWN):
                        refuse(Syndrome.REMOTE_OPERATIONAL, CqeStatus.REM_OP_ERR)
                    with m.Elif(protect.o.p.permission == Permission.REFUSED):
                        with m.If(shape.send):
                            refuse(Syndrome.REMOTE_OPERATIONAL, CqeStatus.LOC_PROT_ERR)
                        with m.Else():
                            refuse(Syndrome.REMOTE_ACCESS, CqeStatus.REM_ACCESS_ERR)
                    with m.Elif(whole):
                        m.next = "WRITE_LENGTH"
                    with m.Elif(ud):
                        m.next = "GRH"
                    with m.Elif(shape.read):
                        m.next = "READ_LENGTH"
                    with m.Elif(shape.atomic):
                        m.next = "ATOMIC"
                    with m.Elif(shape.write & shape.imm):
                        m.next = "WQE_REQUEST"
                    with m.Else():
                        m.next = "PLACE"

            with m.State("GRH"):
                m.d.comb += grh.start.eq(1)
                connect_through(m, grh.write, self.write)
                with m.If(grh.done):
                    m.d.sync += address.eq(address + GRH_BYTES)
                    m.next = "PLACE"

            with m.State("PLACE"):
                with m.If(length == 0):
                    placed_all()
                with m.Else():
                    m.d.comb += self.write.request.valid.eq(1)
                    with m.If(self.write.request.ready):
                        m.next = "DATA"

            with m.State("DATA"):
                m.d.comb += [
                    self.write.data.valid.eq(self.payload.valid),
                    self.payload.ready.eq(self.write.data.ready),
                ]
                m.d.sync += placed.eq(1)
                with m.If(self.payload.valid & self.payload.ready & self.payload.p.last):
                    m.next = "DONE"

            with m.State("DONE"):
                m.d.comb += self.write.done.ready.eq(1)
                with m.If(self.write.done.valid):
                    m.d.sync += self.counters.placed_bytes.eq(self.counters.placed_bytes + length)
                    placed_all()

            # Payload of a packet that was not executed is thrown away.
            with m.State("DRAIN"):
                m.d.comb += self.payload.ready.eq((length != 0) & ~placed)
                with m.If((length == 0) | placed | (self.payload.valid & self.payload.p.last)):
                    m.next = "COMMIT"

            with m.State("COMMIT"):
                m.d.comb += [
                    self.qpc.request.valid.eq(1),
                    self.qpc.request.p.op.eq(Operation.COMMIT),
                    self.qpc.request.p.mask.eq(Mux(outcome.update == Update.NONE, 0,
                                                   word_mask(Qpc, RESPONDER_FIELDS))),
                ]
                with m.If(self.qpc.request.ready):
                    m.next = "COMPLETE"

            with m.State("COMPLETE"):
                m.d.comb += self.completion.valid.eq(outcome.complete)
                with m.If(self.completion.ready | ~outcome.complete):
                    m.next = "ANSWER"

            with m.State("ANSWER"):
                m.d.comb += self.answer.valid.eq(outcome.answer)
                with m.If(self.answer.ready | ~outcome.answer):
                    self._finish(m, headers, outcome, after, responded)
                    m.next = "IDLE"

            # As DRAIN and COMMIT, but there is no context to give back.
            with m.State("FORGET"):
                m.d.comb += self.payload.ready.eq(length != 0)
                with m.If((length == 0) | (self.payload.valid & self.payload.p.last)):
                    self._finish(m, headers, outcome, after, responded)
                    m.next = "IDLE"

        # Answers to commits carry nothing that is needed.
        m.d.comb += self.qpc.response.ready.eq(1)
        return m

    def _finish(self, m, headers, outcome, after, responded):
        counters = self.counters
        m.d.comb += [
            self.events.valid.eq(1),
            self.events.sequence.eq(headers.sequence),
            self.events.qpn.eq(headers.bth.dqpn),
            self.events.drop.eq(outcome.drop),
            self.events.answered.eq(outcome.answer | responded),
            self.events.updated.eq(outcome.update != Update.NONE),
            self.events.context.eq(after),
        ]
        m.d.sync += [
            counters.packets.eq(counters.packets + 1),
            counters.answers.eq(counters.answers + outcome.answer),
            counters.naks.eq(counters.naks
                             + (outcome.answer & (outcome.reply.syndrome != Syndrome.ACK))),
        ]
        with m.Switch(outcome.drop):
            for reason in Drop:
                with m.Case(reason):
                    count = counters.drops[reason.value]
                    m.d.sync += count.eq(count + (reason is not Drop.NONE))

    def _host_ports(self, m, reads, atomic, shape, address, length):
        """One request is in work, so its opcode says whose the ports are."""
        write, read = self.write, self.read
        m.d.comb += [
            write.request.p.address.eq(address),
            write.request.p.length.eq(length),
            write.data.p.eq(self.payload.p),
        ]
        with m.If(shape.atomic):
            connect_through(m, atomic.write, write)
            connect_through(m, atomic.read, read)
        with m.Elif(shape.read):
            connect_through(m, reads.read, read)

    def _jobs(self, m, reads, atomic, headers, qpc, shape, address):
        read, operation, eth = reads.i.p, atomic.i.p, headers.atomiceth
        m.d.comb += [
            read.address.eq(address),
            read.length.eq(headers.reth.length),
            read.psn.eq(headers.bth.psn),
            read.mtu.eq(qpc.mtu[:3]),
            operation.repeat.eq(shape.repeat),
            operation.add.eq(headers.bth.opcode == Opcode.FETCH_ADD),
            operation.address.eq(address),
            operation.swap.eq(eth.swap),
            operation.compare.eq(eth.compare),
            operation.psn.eq(headers.bth.psn),
            operation.ring.eq(qpc.atomic_base),
            operation.place.eq(qpc.r_atomic),
            operation.depth.eq(qpc.max_dest_rd_atomic),
        ]

    def _context_after(self, m, headers, qpc, after, outcome, shape, wqe, took_wqe, key, va, left,
                       next_psn):
        """docs/responder.md, Receive state."""
        m.d.comb += after.eq(qpc)
        with m.Switch(outcome.update):
            with m.Case(Update.NAKED):
                m.d.comb += after.r_nak.eq(1)
            with m.Case(Update.ERROR):
                m.d.comb += [
                    after.state.eq(QpState.ERR),
                    after.rq_consume.eq(qpc.rq_consume + took_wqe),
                ]
            with m.Case(Update.BREAK):
                m.d.comb += [
                    after.epsn.eq(next_psn),
                    after.r_op.eq(Message.NONE),
                    after.rq_consume.eq(qpc.rq_consume - (qpc.r_op == Message.SEND)),
                ]
            with m.Case(Update.ADVANCE):
                with m.If(qpc.service == Service.UD):  # no order and no messages in progress
                    m.d.comb += after.rq_consume.eq(qpc.rq_consume + 1)
                with m.Else():
                    self._advance(m, headers, qpc, after, shape, wqe, took_wqe, key, va, left,
                                  next_psn)

    def _advance(self, m, headers, qpc, after, shape, wqe, took_wqe, key, va, left, next_psn):
        msn = Signal(24)
        m.d.comb += [
            msn.eq(qpc.msn + shape.ends),
            after.epsn.eq(next_psn),
            after.msn.eq(msn),
            after.r_nak.eq(0),
        ]
        with m.If(shape.send | shape.write):
            self._message_after(m, headers, qpc, after, shape, wqe, took_wqe, key, va, left)
        with m.Elif(shape.atomic):
            place = Signal(8)
            m.d.comb += [
                place.eq(qpc.r_atomic + 1),
                after.r_atomic.eq(Mux(place == qpc.max_dest_rd_atomic, 0, place)),
            ]

    def _message_after(self, m, headers, qpc, after, shape, wqe, took_wqe, key, va, left):
        length = headers.payload_length
        m.d.comb += [
            after.rq_consume.eq(qpc.rq_consume + took_wqe),
            after.r_key.eq(key),
            after.r_va.eq(va + length),
            after.r_left.eq(left - length),
            after.r_bytes.eq(Mux(shape.starts, 0, qpc.r_bytes) + length),
            after.r_op.eq(Mux(shape.ends, Message.NONE,
                              Mux(shape.send, Message.SEND, Message.WRITE))),
        ]
        with m.If(took_wqe):
            m.d.comb += after.r_wr_id.eq(wqe.wr_id)

    def _completion(self, m, headers, qpc, after, outcome, shape, wqe, took_wqe):
        item = self.completion.p
        cqe = item.cqe
        ud = qpc.service == Service.UD
        success = outcome.status == CqeStatus.SUCCESS
        rkey = Cat(headers.ieth.word_select(byte, 8) for byte in (3, 2, 1, 0))  # as on the wire
        m.d.comb += [
            item.cqn.eq(qpc.recv_cqn),
            cqe.qpn.eq(headers.bth.dqpn),
            cqe.opcode.eq(Mux(shape.write & shape.imm, CqeOpcode.RECV_WRITE_IMM, CqeOpcode.RECV)),
            cqe.status.eq(outcome.status),
            cqe.wr_id.eq(Mux(took_wqe, wqe.wr_id, qpc.r_wr_id)),
            cqe.src_qpn.eq(Mux(ud, headers.deth.sqpn, qpc.dest_qpn)),
            # The WQE in use is the last one that was consumed, this packet's own included.
            cqe.wqe_index.eq(after.rq_consume - 1),
        ]
        with m.If(success):
            m.d.comb += [
                cqe.byte_len.eq(Mux(ud, headers.payload_length + GRH_BYTES, after.r_bytes)),
                cqe.imm.eq(Mux(shape.imm, headers.immdt, Mux(shape.invalidate, rkey, 0))),
                cqe.flags.eq(Cat(shape.imm, headers.bth.se, shape.invalidate)),
            ]


def connect_through(m, inner, outer):
    """`connect` of a client's ports to those of the block around it, where an If allows."""
    for name, member in inner.signature.members.items():
        source, target = getattr(inner, name), getattr(outer, name)
        if member.flow is In:
            source, target = target, source
        m.d.comb += [
            target.valid.eq(source.valid),
            target.payload.eq(source.payload),
            source.ready.eq(target.ready),
        ]
