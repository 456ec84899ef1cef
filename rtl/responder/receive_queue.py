"""Fetches receive WQEs."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.dma import DmaStatus, ReadClient
from rtl.host.layout import WQE_BYTES, RecvWqe


class QueuePlace(data.Struct):
    """Which WQE: number `index` of the queue at `base`."""

    base: unsigned(64)
    log_size: unsigned(5)
    index: unsigned(32)


class WqeState(enum.Enum, shape=2):
    POSTED = 0
    EMPTY = 1  # the host has not posted this WQE
    FAILED = 2  # the host's memory did not give it


class FetchedWqe(data.Struct):
    state: WqeState
    wqe: RecvWqe


class ReceiveQueue(wiring.Component):
    """A place in, the WQE there out (docs/host-interface.md, Receive WQE).

    One fetch at a time. Latency: the host's + 3 cycles + the beats of 64 bytes.
    """

    def __init__(self, data_width: int):
        super().__init__({
            "i": In(stream.Signature(QueuePlace)),
            "o": Out(stream.Signature(FetchedWqe)),
            "read": Out(ReadClient(data_width)),
        })
        self.data_width = data_width

    def elaborate(self, platform):
        m = Module()
        place = Signal(QueuePlace)
        wqe = Signal(RecvWqe)
        failed = Signal()
        slot = place.index & ~(~0 << place.log_size)
        owner = ~(place.index >> place.log_size)[0]
        m.d.comb += [
            self.read.request.p.address.eq(place.base + (slot << 6)),
            self.read.request.p.length.eq(WQE_BYTES),
            self.o.p.wqe.eq(wqe),
            self.o.p.state.eq(Mux(failed, WqeState.FAILED,
                                  Mux(wqe.owner[0] == owner, WqeState.POSTED, WqeState.EMPTY))),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(self.i.valid):
                    m.d.sync += place.eq(self.i.p)
                    m.next = "REQUEST"
            with m.State("REQUEST"):
                m.d.comb += self.read.request.valid.eq(1)
                with m.If(self.read.request.ready):
                    m.next = "RESPONSE"
            with m.State("RESPONSE"):
                beat = self.read.response
                m.d.comb += beat.ready.eq(1)
                with m.If(beat.valid):
                    m.d.sync += wqe.eq(self._shift_in(wqe, beat.p.data))
                    with m.If(beat.p.last):
                        m.d.sync += failed.eq(beat.p.none | (beat.p.status != DmaStatus.OK))
                        m.next = "GIVE"
            with m.State("GIVE"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.next = "IDLE"
        return m

    def _shift_in(self, wqe, beat):
        bits = 8 * WQE_BYTES
        if self.data_width >= bits:
            return beat[:bits]
        return (wqe.as_value() >> self.data_width) | (beat << (bits - self.data_width))
