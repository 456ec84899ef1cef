"""Headers and payload, put together to a frame."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from rtl.deparser.assemble import HEADER_BYTES, Assembled, Assembler
from rtl.headers import Headers
from rtl.icrc.info import IcrcInfo
from rtl.stream import PacketLayout, SkidBuffer, rotated

FRAMES = 16  # header items inside; more than the latency of `Assembler`


class Deparser(wiring.Component):
    """Builds RoCE frames (docs/deparser.md).

    Takes `headers`, and for each item with `payload_length` > 0 one packet of that many bytes on
    `payload`. Gives the frame on `o`, its ICRC as 4 bytes of 0, and on `info` where the ICRC goes,
    offered with the frame's first beat. `kind` ROCE1 makes a GRH, else `ip.version` 4 makes IPv4
    and anything else IPv6; `eth.vlan_count` (0 to 2) tags, `present` the extension headers in the
    order of the IBTA. Worked out here: EtherType, IP lengths, IPv4 checksum, protocol, UDP length
    (its checksum is 0), pad count, pad and ICRC bytes. All else is as `headers` has it. The frame
    is not padded to 60 bytes. `error` of a payload comes out with its frame's last beat.

    From headers to the first beat 9 cycles when nothing waits; one beat a cycle, frames back to
    back. Order is kept. The reset empties it; ready in the next cycle.
    Clauses: IBTA 9.2 to 9.3, A16.4, A17.3; RFC 791, RFC 8200, RFC 768; IEEE 802.1Q 9.6.
    """

    def __init__(self, config):
        self.data_width = config.data_width
        packet = stream.Signature(PacketLayout(config.data_width))
        super().__init__({
            "headers": In(stream.Signature(Headers)), "payload": In(packet),
            "o": Out(packet), "info": Out(stream.Signature(IcrcInfo)),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.frame = frame = SkidBuffer(PacketLayout(self.data_width))
        m.submodules.place = place = SkidBuffer(IcrcInfo)
        connect(m, frame.o, flipped(self.o))
        connect(m, place.o, flipped(self.info))
        item, valid, done = Signal(Assembled), Signal(), Signal()
        self._assemble(m, item, valid, done)
        self._send(m, item, valid, done, frame.i, place.i)
        return m

    def _assemble(self, m, item, valid, done):
        """A queue behind the assembler holds all items that are inside."""
        m.submodules.assembler = assembler = Assembler(self.data_width)
        m.submodules.items = items = SyncFIFOBuffered(width=Assembled.as_shape().size,
                                                      depth=FRAMES)
        inside = Signal(range(FRAMES + 1))
        left = Signal(range(FRAMES + 1))
        room = Signal(init=1)
        take = self.headers.valid & self.headers.ready
        m.d.comb += [
            self.headers.ready.eq(room),
            left.eq(inside + take - done),
            assembler.valid.eq(take), assembler.i.eq(self.headers.p),
            items.w_en.eq(assembler.o_valid), items.w_data.eq(assembler.o),
            item.eq(items.r_data), valid.eq(items.r_rdy), items.r_en.eq(done),
        ]
        m.d.sync += [inside.eq(left), room.eq(left != FRAMES)]

    def _send(self, m, item, valid, done, out, info):
        """Beat by beat: header bytes, payload moved to its place, zeros for pad and ICRC."""
        beat_bytes = self.data_width // 8
        index = Signal(14 - exact_log2(beat_bytes))
        first, last, take, go = Signal(), Signal(), Signal(), Signal()
        error = Signal()  # of payload in an earlier beat of this frame
        failed = Signal()
        m.d.comb += [
            first.eq(index == 0),
            last.eq(index == item.last),
            take.eq(item.some & (index >= item.first) & (index <= item.payload_last)),
            go.eq(valid & out.ready & (~first | info.ready) & (~take | self.payload.valid)),
            done.eq(go & last),
            self.payload.ready.eq(valid & take & out.ready & (~first | info.ready)),
            out.valid.eq(go), info.valid.eq(go & first), info.payload.eq(item.info),
            failed.eq(error | (take & self.payload.p.last & self.payload.p.error)),
            out.p.last.eq(last), out.p.empty.eq(Mux(last, item.empty, 0)),
            out.p.error.eq(last & failed),
        ]
        moved = self._move(m, index, item)
        carry = Signal(self.data_width)  # the payload's bytes that spill into the next beat
        with m.If(go):
            m.d.sync += [index.eq(index + 1), error.eq(failed),
                         carry.eq(Mux(take, moved, 0))]
            with m.If(last):
                m.d.sync += [index.eq(0), error.eq(0), carry.eq(0)]

        header = Signal(self.data_width)
        with m.Switch(index):
            for place in range(-(-HEADER_BYTES // beat_bytes)):
                with m.Case(place):
                    m.d.comb += header.eq(item.header[self.data_width * place:])
        for lane in range(beat_bytes):
            part = slice(8 * lane, 8 * lane + 8)
            high = Signal(name=f"high{lane}")
            byte = Signal(8, name=f"byte{lane}")
            m.d.comb += high.eq(lane >= item.shift)
            with m.If(~high):
                m.d.comb += byte.eq(carry[part])
            with m.Elif(take):
                m.d.comb += byte.eq(moved[part])
            m.d.comb += out.p.data[part].eq(header[part] | byte)

    def _move(self, m, index, item):
        """The beat of payload without its invalid bytes, rotated to where it goes. Headers end at
        2 modulo 4, so the shift is known to that extent."""
        beat_bytes = self.data_width // 8
        ends = Signal()
        m.d.comb += ends.eq(index == item.payload_last)
        clean = Signal(self.data_width)
        for lane in range(beat_bytes):
            part = slice(8 * lane, 8 * lane + 8)
            with m.If(~ends | (lane < item.payload_bytes)):
                m.d.comb += clean[part].eq(self.payload.p.data[part])
        step = Signal(self.data_width)
        m.d.comb += step.eq(Cat(clean[-16:], clean[:-16]))
        return rotated(m, step, item.shift[2:exact_log2(beat_bytes)], left=True, unit=32)
