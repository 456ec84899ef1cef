"""READ responses: host memory read once, cut at the path MTU."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.dma import DmaStatus, ReadClient
from rtl.headers import Opcode
from rtl.stream import PacketLayout

MAX_MTU = 4096  # bytes
PACKETS = 2  # of the longest kind that wait


class ReadJob(data.Struct):
    address: unsigned(64)  # bus address
    length: unsigned(32)  # bytes; 0 is one empty response
    psn: unsigned(24)  # of the first response
    mtu: unsigned(3)  # code, as in the context


class ReadResponse(data.Struct):
    opcode: Opcode
    psn: unsigned(24)
    length: unsigned(13)  # bytes of payload, which `payload` gives
    aeth: unsigned(1)  # the packet has one
    last: unsigned(1)  # of the job
    failed: unsigned(1)  # no packet: the host's memory did not give its bytes


class ReadResponder(wiring.Component):
    """A READ in, its responses out, one PSN each (IBTA 9.7.5.1.9).

    `i` is taken when the job before it is done. `o` offers a response once all its payload is
    here; `payload` gives that of the responses taken, in order. A job ends with the response that
    is `last` or `failed`. One beat a cycle; the first response comes the host's latency + the
    beats of its packet + 2 cycles after the request. Two packets of 4096 bytes wait, in block RAM.
    """

    def __init__(self, data_width: int):
        super().__init__({
            "i": In(stream.Signature(ReadJob)),
            "o": Out(stream.Signature(ReadResponse)),
            "payload": Out(stream.Signature(PacketLayout(data_width))),
            "read": Out(ReadClient(data_width)),
        })
        self.data_width = data_width

    def elaborate(self, platform):
        m = Module()
        layout = PacketLayout(self.data_width)
        depth = PACKETS * 8 * MAX_MTU // self.data_width
        m.submodules.store = store = SyncFIFOBuffered(width=layout.size, depth=depth)
        job = Signal(ReadJob)
        left = Signal(32)  # bytes of responses not yet offered
        whole = Signal(range(depth + 1))  # packets in the store that were not offered
        owed = Signal(range(depth + 1))  # packets offered whose payload has not left
        spoilt = Signal()  # the host failed; what the store then holds is part of a packet
        arrived, offered, left_store = Signal(), Signal(), Signal()
        m.d.sync += [
            whole.eq(whole + arrived - (offered & (self.o.p.length != 0))),
            owed.eq(owed + (offered & (self.o.p.length != 0)) - left_store),
        ]
        self._fill(m, store, job, spoilt, arrived)
        self._empty(m, store, owed, spoilt & (whole == 0), left_store)
        self._describe(m, job, left)
        m.d.comb += [
            self.read.request.p.address.eq(job.address),
            self.read.request.p.length.eq(job.length),
            offered.eq(self.o.valid & self.o.ready & ~self.o.p.failed),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += [job.eq(self.i.p), left.eq(self.i.p.length), spoilt.eq(0)]
                with m.If(self.i.valid):
                    m.next = "REQUEST"
                    with m.If(self.i.p.length == 0):
                        m.next = "EMPTY"
            with m.State("EMPTY"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.next = "IDLE"
            with m.State("REQUEST"):
                m.d.comb += self.read.request.valid.eq(1)
                with m.If(self.read.request.ready):
                    m.next = "RESPONSES"
            with m.State("RESPONSES"):
                # A failure is told when all before it is gone, and the partial packet with it.
                m.d.comb += [
                    self.o.p.failed.eq(spoilt & (whole == 0)),
                    self.o.valid.eq((whole != 0) | spoilt & (owed == 0) & (store.level == 0)),
                ]
                with m.If(offered):
                    m.d.sync += [job.psn.eq(job.psn + 1), left.eq(left - self.o.p.length)]
                with m.If(self.o.valid & self.o.ready & (self.o.p.last | self.o.p.failed)):
                    m.next = "IDLE"
        return m

    def _fill(self, m, store, job, spoilt, arrived):
        """Beats from the host, each packet's end marked."""
        beat, item = self.read.response, Signal(PacketLayout(self.data_width))
        count = Signal(range(8 * MAX_MTU // self.data_width))  # beats of the packet so far
        beats = Signal(range(8 * MAX_MTU // self.data_width + 1))  # of a full packet
        m.d.comb += [
            beats.eq((1024 << job.mtu) >> exact_log2(self.data_width)),
            item.data.eq(beat.p.data),
            item.last.eq(beat.p.last | (count == beats - 1)),
            item.empty.eq(Mux(beat.p.last, beat.p.empty, 0)),
            beat.ready.eq(store.w_rdy),
            store.w_data.eq(item),
        ]
        failed = beat.p.none | (beat.p.last & (beat.p.status != DmaStatus.OK))
        with m.If(beat.valid & beat.ready):
            with m.If(failed):
                m.d.sync += [spoilt.eq(1), count.eq(0)]
            with m.Else():
                m.d.comb += [store.w_en.eq(1), arrived.eq(item.last)]
                m.d.sync += count.eq(Mux(item.last, 0, count + 1))

    def _empty(self, m, store, owed, discard, left_store):
        """Payload leaves behind its response; a partial packet, behind all others, into nothing."""
        item = Signal(PacketLayout(self.data_width))
        m.d.comb += [
            item.eq(store.r_data),
            self.payload.p.eq(item),
            self.payload.valid.eq(store.r_rdy & (owed != 0)),
            store.r_en.eq(Mux(owed != 0, self.payload.ready, discard)),
            left_store.eq(self.payload.valid & self.payload.ready & item.last),
        ]

    def _describe(self, m, job, left):
        o, mtu, first = self.o.p, Signal(14), Signal()
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += first.eq(0)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += first.eq(1)
        m.d.comb += [
            mtu.eq(128 << job.mtu),
            o.psn.eq(job.psn),
            o.last.eq(left <= mtu),
            o.length.eq(Mux(o.last, left[:13], mtu)),
            o.aeth.eq(first | o.last),
            o.opcode.eq(Mux(first,
                            Mux(o.last, Opcode.READ_RESPONSE_ONLY, Opcode.READ_RESPONSE_FIRST),
                            Mux(o.last, Opcode.READ_RESPONSE_LAST, Opcode.READ_RESPONSE_MIDDLE))),
        ]
