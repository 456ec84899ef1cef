"""What a datagram's receive buffer begins with: its GRH, or the IP header that stands for it."""

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.dma import WriteClient
from rtl.headers import Headers
from rtl.stream import WordSender

GRH_BYTES = 40
ICRC_BYTES = 4
IPV4_WORDS = 10  # of 16 bits, without options


class GrhWriter(wiring.Component):
    """Writes the 40 bytes: an IPv6 header, or 20 bytes of 0 and an IPv4 header without its options
    (IBTA A17; docs/responder.md, Datagrams).

    `headers` and `address` hold while `start` is set, until `done`. The checksum takes a cycle for
    each word of the header.
    """

    def __init__(self, data_width: int):
        super().__init__({
            "headers": In(Headers), "address": In(64), "start": In(1), "done": Out(1),
            "write": Out(WriteClient(data_width)),
        })
        self.data_width = data_width

    def elaborate(self, platform):
        m = Module()
        m.submodules.sender = sender = WordSender(self.data_width, GRH_BYTES)
        total = Signal(16)  # bytes of the packet from its IP header on
        h = self.headers
        m.d.sync += total.eq(h.payload_offset + h.payload_length + h.bth.pad + ICRC_BYTES
                             - h.l3_offset)
        ipv4, ipv6 = self._ipv4(total), self._ipv6(total)
        checksum = Signal(16)  # ones' complement sum so far
        word = Signal(range(IPV4_WORDS))
        port = self.write
        with_checksum = Cat(ipv4[:80], _wire(~checksum), ipv4[96:])
        m.d.comb += [
            sender.i.payload.eq(Mux(h.ip.version == 6, ipv6,
                                    Cat(C(0, 160), with_checksum))),
            port.request.p.address.eq(self.address),
            port.request.p.length.eq(GRH_BYTES),
            port.data.p.eq(sender.o.p),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [checksum.eq(0), word.eq(0)]
                with m.If(self.start):
                    m.next = "SUM"
            with m.State("SUM"):
                part = Signal(16)
                m.d.comb += part.eq(ipv4.word_select(word, 16))
                added = checksum + Cat(part[8:], part[:8])
                m.d.sync += [checksum.eq(added[:16] + added[16]), word.eq(word + 1)]
                with m.If(word == IPV4_WORDS - 1):
                    m.next = "REQUEST"
            with m.State("REQUEST"):
                m.d.comb += port.request.valid.eq(1)
                with m.If(port.request.ready):
                    m.next = "DATA"
            with m.State("DATA"):
                m.d.comb += [
                    sender.i.valid.eq(1),
                    port.data.valid.eq(sender.o.valid),
                    sender.o.ready.eq(port.data.ready),
                ]
                with m.If(sender.i.ready):
                    m.next = "DONE"
            with m.State("DONE"):
                m.d.comb += [port.done.ready.eq(1), self.done.eq(port.done.valid)]
                with m.If(port.done.valid):
                    m.next = "IDLE"
        return m

    def _ipv4(self, total):
        """160 bits, byte 0 lowest; the checksum is 0."""
        h, ip = self.headers, self.headers.ip
        length = h.l4_offset - h.l3_offset
        return Cat(length[2:6], C(4, 4), ip.ecn, ip.dscp, _wire(total), _wire(ip.identification),
                   C(0, 5), ip.flags, C(0, 8), ip.ttl, ip.protocol, C(0, 16),
                   ip.src[96:], ip.dst[96:])

    def _ipv6(self, total):
        ip = self.headers.ip
        first = Cat(ip.flow_label, ip.ecn, ip.dscp, C(6, 4))
        length = (total - GRH_BYTES)[:16]
        return Cat(_wire(first), _wire(length), ip.protocol, ip.ttl, ip.src, ip.dst)


def _wire(value):
    """A number as its bytes on the wire, the first one lowest."""
    count = len(value) // 8
    return Cat(value[8 * i:8 * i + 8] for i in reversed(range(count)))
