"""Writes completions into completion queues."""

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.context import CachePort, CacheStatus, Operation
from rtl.dma import WriteClient
from rtl.host.layout import CQC_BYTES, CQE_BYTES, Cqc, Cqe, word_mask
from rtl.stream import WordSender


class Completion(data.Struct):
    """A CQE on its way to queue `cqn`; `cqe.owner` is filled in by the completer."""

    cqn: unsigned(32)
    cqe: Cqe


class CompleterEvents(data.Struct):
    """`valid` pulses when a CQE has left for the host."""

    valid: unsigned(1)
    cqn: unsigned(32)
    cqe: Cqe


class CompleterCounters(data.Struct):
    completions: unsigned(32)
    lost: unsigned(32)  # the queue's context could not be read


class Completer(wiring.Component):
    """Takes completions, gives CQEs in host memory (docs/host-interface.md).

    One completion at a time: acquire the CQC, write the CQE, count it in the CQC. The write is
    handed to the DMA engine after everything that was written before the completion was offered,
    provided the offering block waited for its `done`. A completion whose CQC cannot be read is
    lost and counted. Latency: the CQC's answer + 4 cycles to the first beat of the write.
    """

    def __init__(self, data_width: int):
        super().__init__({
            "i": In(stream.Signature(Completion)),
            "cqc": Out(CachePort(CQC_BYTES)),
            "write": Out(WriteClient(data_width)),
            "events": Out(CompleterEvents),
            "counters": Out(CompleterCounters),
        })
        self.data_width = data_width

    def elaborate(self, platform):
        m = Module()
        item = Signal(Completion)
        cqc = Signal(Cqc)
        lap = Signal()
        slot = Signal(32)
        cqe = Signal(Cqe)
        m.submodules.sender = sender = WordSender(self.data_width, CQE_BYTES)
        wiring.connect(m, sender.o, wiring.flipped(self.write.data))

        answer = self.cqc.response
        m.d.comb += [
            lap.eq((cqc.produce >> cqc.log_size[:5])[0]),
            slot.eq(cqc.produce & ~(~0 << cqc.log_size[:5])),
            cqe.eq(item.cqe),
            cqe.owner.eq(~lap),
            sender.i.payload.eq(cqe),
            answer.ready.eq(1),
            self.cqc.request.p.key.eq(item.cqn),
            self.cqc.request.p.mask.eq(word_mask(Cqc, ("produce",))),
            self.write.request.p.address.eq(cqc.base + (slot << 6)),
            self.write.request.p.length.eq(CQE_BYTES),
            self.write.done.ready.eq(1),
            self.events.cqn.eq(item.cqn),
            self.events.cqe.eq(cqe),
        ]
        counted = Signal(Cqc)
        m.d.comb += [
            counted.eq(cqc),
            counted.produce.eq(cqc.produce + 1),
            self.cqc.request.p.data.eq(counted),
        ]
        # CQNs beyond the key's width must not alias into the table.
        out_of_range = item.cqn[len(self.cqc.request.p.key):].any()

        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(self.i.valid):
                    m.d.sync += item.eq(self.i.p)
                    m.next = "ACQUIRE"
            with m.State("ACQUIRE"):
                m.d.comb += self.cqc.request.p.op.eq(Operation.ACQUIRE)
                with m.If(out_of_range):
                    m.d.sync += self.counters.lost.eq(self.counters.lost + 1)
                    m.next = "IDLE"
                with m.Else():
                    m.d.comb += self.cqc.request.valid.eq(1)
                    with m.If(self.cqc.request.ready):
                        m.next = "CONTEXT"
            with m.State("CONTEXT"):
                with m.If(answer.valid & (answer.p.op == Operation.ACQUIRE)):
                    m.d.sync += cqc.eq(answer.p.data)
                    with m.If(answer.p.status == CacheStatus.OK):
                        m.next = "REQUEST"
                    with m.Else():
                        m.d.sync += self.counters.lost.eq(self.counters.lost + 1)
                        m.next = "IDLE"
            with m.State("REQUEST"):
                m.d.comb += self.write.request.valid.eq(1)
                with m.If(self.write.request.ready):
                    m.next = "DATA"
            with m.State("DATA"):
                m.d.comb += sender.i.valid.eq(1)
                with m.If(sender.i.ready):
                    m.next = "DONE"
            with m.State("DONE"):
                with m.If(self.write.done.valid):
                    m.d.comb += self.events.valid.eq(1)
                    m.d.sync += self.counters.completions.eq(self.counters.completions + 1)
                    m.next = "COMMIT"
            with m.State("COMMIT"):
                m.d.comb += [
                    self.cqc.request.valid.eq(1),
                    self.cqc.request.p.op.eq(Operation.COMMIT),
                ]
                with m.If(self.cqc.request.ready):
                    m.next = "IDLE"
        return m
