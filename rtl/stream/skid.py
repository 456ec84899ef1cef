"""Register slices of a stream."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class SkidBuffer(wiring.Component):
    """Two-entry buffer that cuts both directions: `i.ready` and `o.valid` come from registers.

    Latency 1 cycle, initiation interval 1. Empty and ready in the cycle after reset.
    """

    def __init__(self, shape):
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        shape = self.i.payload.shape()
        spare = Signal(shape)
        spare_valid = Signal()
        out = Signal(shape)
        out_valid = Signal()
        m.d.comb += [
            self.i.ready.eq(~spare_valid),
            self.o.valid.eq(out_valid),
            self.o.payload.eq(out),
        ]
        free = ~out_valid | self.o.ready
        with m.If(free):
            m.d.sync += [
                out_valid.eq(spare_valid | self.i.valid),
                spare_valid.eq(0),
            ]
            with m.If(spare_valid):
                m.d.sync += out.eq(spare)
            with m.Else():
                m.d.sync += out.eq(self.i.payload)
        with m.Elif(self.i.valid & self.i.ready):
            m.d.sync += [spare.eq(self.i.payload), spare_valid.eq(1)]
        return m


class CatchBuffer(wiring.Component):
    """One-entry buffer that cuts `ready` alone: `i.ready` comes from a register.

    Latency 0: `o` follows `i` within the cycle. Initiation interval 1. Empty and ready in the
    cycle after reset.
    """

    def __init__(self, shape):
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        caught, held = Signal(self.i.payload.shape()), Signal()
        m.d.comb += [
            self.i.ready.eq(~held),
            self.o.valid.eq(held | self.i.valid),
            self.o.payload.eq(Mux(held, caught, self.i.payload)),
        ]
        m.d.sync += held.eq(self.o.valid & ~self.o.ready)
        with m.If(~held):
            m.d.sync += caught.eq(self.i.payload)
        return m
