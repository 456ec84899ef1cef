"""Memory protection: may this access touch host memory, and where?"""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.context import CachePort, CacheStatus, Operation
from rtl.host.layout import MPT_BYTES, Mpt, MptKind, word_mask


class Right(enum.Enum, shape=3):
    LOCAL_WRITE = 0
    REMOTE_WRITE = 1
    REMOTE_READ = 2
    REMOTE_ATOMIC = 3
    INVALIDATE = 4  # end what the key stands for; no bytes are touched


class Access(data.Struct):
    """`length` > 0 bytes at `va` under `key`, wanted by a QP of `pd`; the start is mapped."""

    key: unsigned(32)
    qpn: unsigned(24)
    pd: unsigned(32)
    va: unsigned(64)
    length: unsigned(32)
    right: Right


class Permission(enum.Enum, shape=2):
    GRANTED = 0
    REFUSED = 1
    UNKNOWN = 2  # the host's memory did not give the entry


class Grant(data.Struct):
    permission: Permission
    address: unsigned(64)  # bus address of `va`


class Protect(wiring.Component):
    """Looks the key up in the MPT and checks key, PD, rights and every byte of the range
    (docs/host-interface.md, MPT entry; IBTA 10.6.3).

    One access at a time: `i` is taken when idle, `o` comes the MPT cache's latency + 3 cycles
    later and holds until taken. INVALIDATE holds the entry's lock and frees it, changed or not,
    before `o` is offered, so no access under the key is granted after that.
    """

    i: In(stream.Signature(Access))
    o: Out(stream.Signature(Grant))
    mpt: Out(CachePort(MPT_BYTES))

    def elaborate(self, platform):
        m = Module()
        access = Signal(Access)
        entry = Signal(Mpt)
        grant = Signal(Grant)
        invalidate = access.right == Right.INVALIDATE
        ended = Signal(Mpt)  # the entry without its key
        m.d.comb += [
            ended.eq(entry), ended.state.eq(0),
            self.mpt.request.p.data.eq(ended),
            self.mpt.request.p.op.eq(Mux(invalidate, Operation.ACQUIRE, Operation.LOOKUP)),
            self.mpt.request.p.mask.eq(Mux(grant.permission == Permission.GRANTED,
                                           word_mask(Mpt, ("state",)), 0)),
            self.mpt.request.p.key.eq(access.key >> 8),
            self.o.payload.eq(grant),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(self.i.valid):
                    m.d.sync += access.eq(self.i.p)
                    m.next = "LOOKUP"
            with m.State("LOOKUP"):
                m.d.comb += self.mpt.request.valid.eq(1)
                with m.If(self.mpt.request.ready):
                    m.next = "ENTRY"
            with m.State("ENTRY"):
                answer = self.mpt.response
                m.d.comb += answer.ready.eq(1)
                with m.If(answer.valid):
                    m.d.sync += entry.eq(answer.p.data)
                    with m.If(answer.p.status == CacheStatus.OK):
                        m.next = "RANGE"
                    with m.Else():
                        m.d.sync += grant.permission.eq(Permission.REFUSED)
                        with m.If(answer.p.status != CacheStatus.BAD_KEY):
                            m.d.sync += grant.permission.eq(Permission.UNKNOWN)
                        m.next = "GRANT"
            with m.State("RANGE"):
                self._judge(m, access, entry, grant, invalidate)
            with m.State("COMMIT"):
                m.d.comb += [
                    self.mpt.request.valid.eq(1),
                    self.mpt.request.p.op.eq(Operation.COMMIT),
                ]
                with m.If(self.mpt.request.ready):
                    m.next = "COMMITTED"
            with m.State("COMMITTED"):
                m.d.comb += self.mpt.response.ready.eq(1)
                with m.If(self.mpt.response.valid):
                    m.next = "GRANT"
            with m.State("GRANT"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.next = "IDLE"
        return m

    def _judge(self, m, access, entry, grant, invalidate):
        """Two cycles: differences, then comparisons. The offset of the first byte and the bytes
        behind it are compared rather than end addresses, so nothing can wrap at 2^64."""
        offset = Signal(65)  # bit 64: va is below the region
        inside = Signal()
        rights = Signal()
        settled = Signal()
        with m.If(~settled):
            m.d.sync += [
                settled.eq(1),
                offset.eq(access.va - entry.va),
                inside.eq(entry.length >= access.length),
                rights.eq((entry.state == 1) & (entry.key == access.key)
                          & (entry.pd == access.pd)
                          & ((entry.kind != MptKind.WINDOW) | (entry.qpn == access.qpn))
                          & self._right(m, access.right, entry)),
            ]
        with m.Else():
            fits = inside & ~offset[64] & (offset[:64] <= entry.length - access.length)
            m.d.sync += [
                settled.eq(0),
                grant.permission.eq(Permission.REFUSED),
                grant.address.eq(entry.base + offset[:64]),
            ]
            with m.If(rights & (invalidate | (fits & ~self._wraps(access)))):
                m.d.sync += grant.permission.eq(Permission.GRANTED)
            m.next = "GRANT"
            with m.If(invalidate):
                m.next = "COMMIT"

    @staticmethod
    def _right(m, right, entry):
        granted = Signal()
        with m.Switch(right):
            with m.Case(Right.LOCAL_WRITE):
                m.d.comb += granted.eq(entry.access.local_write)
            with m.Case(Right.REMOTE_WRITE):
                m.d.comb += granted.eq(entry.access.remote_write)
            with m.Case(Right.REMOTE_READ):
                m.d.comb += granted.eq(entry.access.remote_read)
            with m.Case(Right.REMOTE_ATOMIC):
                m.d.comb += granted.eq(entry.access.remote_atomic)
            with m.Case(Right.INVALIDATE):
                m.d.comb += granted.eq(entry.kind != MptKind.REGION)
        return granted

    @staticmethod
    def _wraps(access):
        """The last byte would be past 2^64 − 1 (only a region that itself wraps allows it)."""
        return (access.va + access.length)[64] & ((access.va + access.length)[:64] != 0)
