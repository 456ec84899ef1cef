"""Writes the ICRC into the place that the deparser left for it."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.icrc.crc import power, product
from rtl.icrc.engine import IcrcEngine
from rtl.icrc.info import IcrcInfo
from rtl.stream import PacketLayout

DEPTH = 32  # beats that wait for their frame's ICRC; more than the latency of `_finish`


class IcrcInsert(wiring.Component):
    """Replaces the last 4 bytes of each frame by its ICRC (IBTA A17.3.3, A16.4.1).

    Takes a frame on `i` and its `info`, whose `end` is the length of the frame; gives the frame on
    `o`. One beat a cycle, frames back to back; a beat without bytes of the ICRC leaves 3 cycles
    after it came, the last one 7 + log2(data width / 32) + log2(data width / 8). Order and `error`
    are kept. The reset empties it; ready in the next cycle.
    """

    def __init__(self, config):
        self.data_width = config.data_width
        packet = stream.Signature(PacketLayout(config.data_width))
        super().__init__({
            "i": In(packet), "info": In(stream.Signature(IcrcInfo)), "o": Out(packet)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.engine = engine = IcrcEngine(self.data_width, tail=4)
        waiting = self._wait(m, engine)
        results = self._finish(m, engine)
        self._merge(m, waiting, results)
        return m

    def _waiting_shape(self):
        return data.StructLayout({
            "beat": PacketLayout(self.data_width),
            "near": unsigned(1),  # holds bytes of the ICRC
            "left": unsigned(exact_log2(self.data_width // 8) + 1),  # bytes until `end`, if near
        })

    def _wait(self, m, engine):
        """Beats go to the engine and into a queue, which sets the pace."""
        shape = self._waiting_shape()
        beat_bytes = self.data_width // 8
        m.submodules.waiting = fifo = SyncFIFOBuffered(width=shape.size, depth=DEPTH)
        left = self.info.p.end - Cat(Const(0, exact_log2(beat_bytes)), engine.index)
        entry = Signal(shape)
        m.d.comb += [
            self.i.ready.eq(self.info.valid & fifo.w_rdy),
            self.info.ready.eq(self.i.valid & self.i.p.last & fifo.w_rdy),
            engine.valid.eq(self.i.valid & self.i.ready),
            engine.beat.eq(self.i.p),
            engine.info.eq(self.info.p),
            entry.beat.eq(self.i.p),
            entry.near.eq(left < beat_bytes + 4),
            entry.left.eq(left),
            fifo.w_data.eq(entry),
            fifo.w_en.eq(engine.valid),
        ]
        return fifo

    def _finish(self, m, engine):
        """Take the zeros behind the covered bytes back, a power of two a stage, and queue the CRC.

        The queue cannot overflow: each CRC in it has the last beat of its frame among `waiting`.
        """
        valid, zeros, state = engine.done, engine.result.zeros, engine.remainder
        extra = 32  # from the remainder to the CRC register
        for stage in range(exact_log2(self.data_width // 8)):
            next_valid, next_zeros, next_state = Signal(), Signal.like(zeros), Signal(32)
            m.d.sync += [
                next_valid.eq(valid), next_zeros.eq(zeros),
                next_state.eq(Mux(zeros[stage], product(power(extra - (8 << stage)), state),
                                  product(power(extra), state))),
            ]
            valid, zeros, state, extra = next_valid, next_zeros, next_state, 0
        m.submodules.results = fifo = SyncFIFOBuffered(width=32, depth=DEPTH)
        m.d.comb += [fifo.w_en.eq(valid), fifo.w_data.eq(~state)]
        return fifo

    def _merge(self, m, waiting, results):
        """The ICRC goes in little-endian; it may straddle the last two beats."""
        beat_bytes = self.data_width // 8
        head = data.View(self._waiting_shape(), waiting.r_data)
        window = ((Const(0xF, beat_bytes + 8) << head.left) >> 4)[:beat_bytes]
        # byte j of the ICRC belongs to the lane that is j - left modulo 4
        turned = (Cat(results.r_data, results.r_data) << (head.left[:2] << 3))[32:64]
        lanes = turned.replicate(beat_bytes // 4)
        near = Signal(beat_bytes)
        m.d.comb += near.eq(window & head.near.replicate(beat_bytes))
        here = Cat(bit.replicate(8) for bit in near)
        free = ~self.o.valid | self.o.ready
        go = waiting.r_rdy & (results.r_rdy | ~head.near)
        m.d.comb += [
            waiting.r_en.eq(free & go),
            results.r_en.eq(free & go & head.beat.last),
        ]
        with m.If(free):
            m.d.sync += [
                self.o.valid.eq(go), self.o.payload.eq(head.beat),
                self.o.p.data.eq((head.beat.data & ~here) | (lanes & here)),
            ]
