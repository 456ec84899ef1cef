"""Lets only those packets on whose ICRC is right."""

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from rtl.headers import Headers
from rtl.icrc.crc import RESIDUE, power, transform
from rtl.icrc.engine import IcrcEngine
from rtl.icrc.info import IcrcInfo
from rtl.stream import PacketLayout

VERDICTS = 64  # frames between their first beat and the release of their headers
HEADERS = 32  # header items that may wait for a verdict
PAYLOAD_BYTES = 3 * 4096  # payload that may wait for a verdict
_SPARE_BEATS = 32  # covers the latency of the verdict with short packets


class IcrcReport(data.Struct):
    """A pulse a frame, in frame order."""

    valid: unsigned(1)
    sequence: unsigned(32)
    flagged: unsigned(1)  # it came with `error`
    ok: unsigned(1)  # not so, and its ICRC is right
    payload: unsigned(1)  # as its info has it


class IcrcCounters(data.Struct):
    """The frames that came are `checked` + `flagged`."""

    checked: unsigned(32)
    bad: unsigned(32)  # of these, the ones whose ICRC is wrong
    flagged: unsigned(32)


class _Verdict(data.Struct):
    good: unsigned(1)
    payload: unsigned(1)


class IcrcCheck(wiring.Component):
    """Checks the ICRC of each frame and holds its headers and payload until the verdict.

    Takes `i_info`, `i_frame` and `i_headers`, one each a frame and in the same order, and
    `i_payload`, one packet for each info with `payload`. Gives the header items and payloads of
    the good frames, in order: nothing of a packet shows before its verdict, and a packet's payload
    not before its header item was taken. A frame that ends with `error` is dropped whole and
    counted `flagged`; whoever flagged it knows the reason. Another whose ICRC is wrong, or that
    ends before `end`, is dropped whole and counted `bad`.

    The input streams may run apart: up to 32 header items and 12 KiB of payload wait inside, so a
    parser that feeds all four in step never locks up. A frame is taken a beat a cycle whatever the
    outputs do, as long as fewer than 64 verdicts are unused.

    Latency from a frame's last beat to its report, in cycles: 4 + log2(data width / 32); to its
    header item 2 more. Initiation interval: one beat, of all streams. The reset empties it; ready
    in the next cycle. Clauses: IBTA A17.3.3 (RoCEv2), A16.4.1 (RoCEv1).
    """

    def __init__(self, config):
        self.data_width = config.data_width
        packet = stream.Signature(PacketLayout(config.data_width))
        super().__init__({
            "i_info": In(stream.Signature(IcrcInfo)),
            "i_frame": In(packet),
            "i_headers": In(stream.Signature(Headers)),
            "i_payload": In(packet),
            "o_headers": Out(stream.Signature(Headers)),
            "o_payload": Out(packet),
            "report": Out(IcrcReport),
            "counters": Out(IcrcCounters),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.verdicts = verdicts = SyncFIFOBuffered(
            width=_Verdict.as_shape().size, depth=VERDICTS)
        self._judge(m, verdicts)
        self._release(m, verdicts)
        return m

    def _judge(self, m, verdicts):
        """Frames in, a report and a verdict out; never more of them than `verdicts` can hold."""
        m.submodules.engine = engine = IcrcEngine(self.data_width, tail=0)
        m.submodules.right = right = self._right_remainders()
        right_port = right.read_port()
        unused = Signal(range(VERDICTS + 1))  # verdicts being made or waiting
        room = unused != VERDICTS
        take = self.i_frame.valid & self.i_frame.ready
        m.d.comb += [
            self.i_frame.ready.eq(self.i_info.valid & room),
            self.i_info.ready.eq(self.i_frame.valid & self.i_frame.p.last & room),
            engine.valid.eq(take),
            engine.beat.eq(self.i_frame.p),
            engine.info.eq(self.i_info.p),
            right_port.addr.eq(engine.folded.zeros),
        ]
        m.d.sync += unused.eq(unused + (take & self.i_frame.p.last)
                              - (verdicts.r_rdy & verdicts.r_en))

        result = engine.result
        right = engine.remainder == right_port.data
        m.d.sync += [
            self.report.valid.eq(engine.done),
            self.report.sequence.eq(result.sequence),
            self.report.flagged.eq(result.error),
            self.report.ok.eq(right & result.complete & ~result.error),
            self.report.payload.eq(result.payload),
        ]
        verdict, counters = Signal(_Verdict), self.counters
        m.d.comb += [
            verdict.good.eq(self.report.ok), verdict.payload.eq(self.report.payload),
            verdicts.w_en.eq(self.report.valid), verdicts.w_data.eq(verdict),
        ]
        with m.If(self.report.valid):
            with m.If(self.report.flagged):
                m.d.sync += counters.flagged.eq(counters.flagged + 1)
            with m.Else():
                m.d.sync += [counters.checked.eq(counters.checked + 1),
                             counters.bad.eq(counters.bad + ~self.report.ok)]

    def _right_remainders(self):
        """The remainder of a good frame by the zero bytes that follow it in its last beat."""
        return Memory(shape=32, depth=self.data_width // 8, init=[
            transform(power(8 * zeros - 32), RESIDUE) for zeros in range(self.data_width // 8)])

    def _release(self, m, verdicts):
        """Headers, then their payload, forward or into the void as the verdict says."""
        packet = PacketLayout(self.data_width)
        beats = 8 * PAYLOAD_BYTES // self.data_width + _SPARE_BEATS
        m.submodules.headers = headers = SyncFIFOBuffered(width=Headers.as_shape().size,
                                                          depth=HEADERS)
        m.submodules.payload = payload = SyncFIFOBuffered(width=packet.size, depth=beats)
        m.submodules.routes = routes = SyncFIFOBuffered(width=1, depth=HEADERS)
        for fifo, port in ((headers, self.i_headers), (payload, self.i_payload)):
            m.d.comb += [port.ready.eq(fifo.w_rdy), fifo.w_en.eq(port.valid),
                         fifo.w_data.eq(port.payload)]
        m.d.comb += [self.o_headers.payload.eq(headers.r_data),
                     self.o_payload.payload.eq(payload.r_data)]

        verdict = data.View(_Verdict.as_shape(), verdicts.r_data)
        good = verdict.good
        decided = headers.r_rdy & verdicts.r_rdy & routes.w_rdy
        release = decided & (self.o_headers.ready | ~good)
        m.d.comb += [
            self.o_headers.valid.eq(decided & good),
            headers.r_en.eq(release),
            verdicts.r_en.eq(release),
            routes.w_en.eq(release & verdict.payload),
            routes.w_data.eq(good),
        ]
        forward = routes.r_data
        flows = routes.r_rdy & payload.r_rdy
        step = flows & (self.o_payload.ready | ~forward)
        m.d.comb += [
            self.o_payload.valid.eq(flows & forward),
            payload.r_en.eq(step),
            routes.r_en.eq(step & self.o_payload.p.last),
        ]
