"""The checks that need only the packet and its context: rows 3 to 14 of docs/responder.md, and
what stands for them in UC and UD (IBTA 9.8)."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.headers import Headers, Kind, Opcode
from rtl.host.layout import Message, Qpc, QpState, Service
from rtl.responder.names import Drop, Verdict

_INVALIDATE = (Opcode.SEND_LAST_INV, Opcode.SEND_ONLY_INV)
_SEND = (Opcode.SEND_FIRST, Opcode.SEND_MIDDLE, Opcode.SEND_LAST, Opcode.SEND_LAST_IMM,
         Opcode.SEND_ONLY, Opcode.SEND_ONLY_IMM, *_INVALIDATE)
_WRITE = (Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE, Opcode.WRITE_LAST, Opcode.WRITE_LAST_IMM,
          Opcode.WRITE_ONLY, Opcode.WRITE_ONLY_IMM)
_ATOMIC = (Opcode.COMPARE_SWAP, Opcode.FETCH_ADD)
_FIRST = (Opcode.SEND_FIRST, Opcode.WRITE_FIRST)
_MIDDLE = (Opcode.SEND_MIDDLE, Opcode.WRITE_MIDDLE)
_LAST = (Opcode.SEND_LAST, Opcode.SEND_LAST_IMM, Opcode.SEND_LAST_INV, Opcode.WRITE_LAST,
         Opcode.WRITE_LAST_IMM)
_IMM = (Opcode.SEND_LAST_IMM, Opcode.SEND_ONLY_IMM, Opcode.WRITE_LAST_IMM, Opcode.WRITE_ONLY_IMM)


class Shape(data.Struct):
    """What an opcode means."""

    send: 1
    write: 1
    starts: 1  # FIRST or ONLY
    ends: 1  # LAST or ONLY
    imm: 1
    invalidate: 1
    read: 1
    atomic: 1
    repeat: 1  # the PSN is behind the expected one


class PacketCheck(wiring.Component):
    """Combinational: `headers` and `qpc` in; `verdict`, `drop` (when DROP) and `shape` out."""

    headers: In(Headers)
    qpc: In(Qpc)
    verdict: Out(Verdict)
    drop: Out(Drop)
    restart: Out(1)  # UC: the packet begins a message, whatever came before
    shape: Out(Shape)

    def elaborate(self, platform):
        m = Module()
        bth, qpc = self.headers.bth, self.qpc
        opcode = bth.opcode[:5]  # as of RC
        uc, ud = qpc.service == Service.UC, qpc.service == Service.UD
        first, middle, last = (opcode.matches(*group) for group in (_FIRST, _MIDDLE, _LAST))
        send, write = opcode.matches(*_SEND), opcode.matches(*_WRITE)
        read, atomic = opcode == Opcode.READ_REQUEST, opcode.matches(*_ATOMIC)
        distance = Signal(24)
        m.d.comb += [
            self.shape.send.eq(send),
            self.shape.write.eq(write),
            self.shape.starts.eq(~middle & ~last),
            self.shape.ends.eq(~first & ~middle),
            self.shape.imm.eq(opcode.matches(*_IMM)),
            self.shape.invalidate.eq(opcode.matches(*_INVALIDATE)),
            self.shape.read.eq(read),
            self.shape.atomic.eq(atomic),
            self.shape.repeat.eq(distance[23]),
        ]

        silent = self._silent_drop(m)
        wrong_length = self._wrong_length(m, first | middle, last)
        wrong = self._wrong_sequence() | wrong_length
        refused = self._refused()
        m.d.comb += distance.eq(bth.psn - qpc.epsn[:24])

        with m.If(silent != Drop.NONE):
            m.d.comb += [self.verdict.eq(Verdict.DROP), self.drop.eq(silent)]
        with m.Elif(ud):
            m.d.comb += self.verdict.eq(Verdict.SEND)
        with m.Elif(uc):
            lost = ~self.shape.starts & ((distance != 0) | ~self._continues())
            m.d.comb += self.restart.eq(self.shape.starts)
            with m.If(lost | wrong_length | refused):
                m.d.comb += self.verdict.eq(Verdict.BREAK)
            with m.Else():
                m.d.comb += self.verdict.eq(Mux(send, Verdict.SEND, Verdict.WRITE))
        with m.Elif(distance[23]):
            with m.If(send | write):
                m.d.comb += self.verdict.eq(Verdict.DUPLICATE)
            with m.Elif(read):
                m.d.comb += self.verdict.eq(Mux(refused, Verdict.INVALID, Verdict.READ))
            with m.Elif(atomic & (qpc.max_dest_rd_atomic != 0)):
                m.d.comb += self.verdict.eq(Verdict.ATOMIC)
            with m.Else():
                m.d.comb += [self.verdict.eq(Verdict.DROP), self.drop.eq(Drop.DUPLICATE)]
        with m.Elif(distance != 0):
            with m.If(qpc.r_nak[0]):
                m.d.comb += [self.verdict.eq(Verdict.DROP), self.drop.eq(Drop.PSN_GAP)]
            with m.Else():
                m.d.comb += self.verdict.eq(Verdict.SEQUENCE_NAK)
        with m.Elif(~(send | write | read | atomic) | wrong | refused):
            m.d.comb += self.verdict.eq(Verdict.INVALID)
        with m.Else():
            m.d.comb += self.verdict.eq(Mux(send, Verdict.SEND, Mux(write, Verdict.WRITE,
                                        Mux(read, Verdict.READ, Verdict.ATOMIC))))
        return m

    def _silent_drop(self, m):
        """Rows 3 to 7 (IBTA 9.6.1); the last assignment wins, so the first row comes last."""
        headers, qpc, drop = self.headers, self.qpc, Signal(Drop)
        bth = headers.bth
        with m.If((bth.opcode >= Opcode.READ_RESPONSE_FIRST)
                  & (bth.opcode <= Opcode.ATOMIC_ACKNOWLEDGE)):
            m.d.comb += drop.eq(Drop.NO_REQUESTER)
        ud = qpc.service == Service.UD
        with m.If(ud & (headers.payload_length > self._mtu(m))):
            m.d.comb += drop.eq(Drop.UD_LENGTH)
        with m.If(ud & (headers.deth.qkey != qpc.qkey)):
            m.d.comb += drop.eq(Drop.QKEY)
        with m.If(((headers.ip.src != qpc.dip) & ~ud) | (headers.ip.dst != qpc.sip)):
            m.d.comb += drop.eq(Drop.ADDRESS)
        with m.If((bth.pkey[:15] != qpc.pkey[:15]) | ~(bth.pkey[15] | qpc.pkey[15])):
            m.d.comb += drop.eq(Drop.PKEY)
        with m.If(~qpc.state.matches(QpState.RTR, QpState.RTS, QpState.SQD, QpState.SQE)):
            m.d.comb += drop.eq(Drop.QP_STATE)
        service = Signal(8)  # of the opcode, as the context has it
        with m.Switch(bth.opcode[5:]):
            for code, name in ((0, Service.RC), (1, Service.UC), (3, Service.UD)):
                with m.Case(code):
                    m.d.comb += service.eq(name)
            with m.Default():
                m.d.comb += service.eq(~0)
        with m.If((qpc.service != service) | (headers.kind != Kind.ROCE2)):
            m.d.comb += drop.eq(Drop.SERVICE)
        return drop

    def _wrong_sequence(self):
        """Row 12 (IBTA 9.7.4.1.2)."""
        starts = self.shape.starts
        return (starts & (self.qpc.r_op != Message.NONE)) | (~starts & ~self._continues())

    def _continues(self):
        shape, r_op = self.shape, self.qpc.r_op
        return (shape.send & (r_op == Message.SEND)) | (shape.write & (r_op == Message.WRITE))

    def _wrong_length(self, m, full, last):
        """Row 13 (IBTA 9.7.4.1.6)."""
        length, mtu = self.headers.payload_length, self._mtu(m)
        return ((length > mtu) | (full & (length != mtu)) | (last & (length == 0))
                | ((self.shape.read | self.shape.atomic) & (length != 0)))

    def _mtu(self, m):
        mtu = Signal(14)
        m.d.comb += mtu.eq(128 << self.qpc.mtu[:3])
        return mtu

    def _refused(self):
        """Row 14: the QP does not support the request (IBTA 9.7.4.1.2)."""
        shape, access = self.shape, self.qpc.access
        return ((shape.write & shape.starts & ~access.remote_write)
                | (shape.read & ~access.remote_read) | (shape.atomic & ~access.remote_atomic)
                | ((shape.read | shape.atomic) & (self.qpc.max_dest_rd_atomic == 0)))
