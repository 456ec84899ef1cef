"""Receive-side scaling: a hash of a frame's addresses and ports chooses its receive queue.

The hash is Toeplitz's as the NDIS documentation of receive-side scaling defines it: for each bit
that is set in the input, first bit of the wire first, the 32 bits of the key from that place on.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from rtl.parser.network import Hashable

KEY_BITS = 320
HASH_BITS = 32
TABLE = 128  # entries of the indirection table
QUEUE_BITS = 4


class HashType(enum.Enum, shape=3):
    """What went into the hash."""

    NONE = 0
    IPV4 = 1
    TCP_IPV4 = 2
    UDP_IPV4 = 3
    IPV6 = 4
    TCP_IPV6 = 5
    UDP_IPV6 = 6


class RssSettings(data.Struct):
    """They must hold still while frames pass."""

    key: unsigned(KEY_BITS)  # its first byte in bits 7:0
    ipv4: unsigned(1)  # each: this type is hashed
    tcp_ipv4: unsigned(1)
    udp_ipv4: unsigned(1)
    ipv6: unsigned(1)
    tcp_ipv6: unsigned(1)
    udp_ipv6: unsigned(1)
    table: data.ArrayLayout(unsigned(QUEUE_BITS), TABLE)  # queue by the hash's low 7 bits


class RssInput(data.Struct):
    """Of a look at a frame."""

    hashable: Hashable
    src: unsigned(128)  # as in `Headers`
    dst: unsigned(128)
    ports: unsigned(32)


class RssResult(data.Struct):
    hash: unsigned(HASH_BITS)
    hash_type: HashType


def wire_bits(value):
    """The bits of a byte string in the order of the wire: the top bit of its first byte first."""
    return Cat(bit for at in range(0, len(value), 8) for bit in reversed(value[at:at + 8]))


class RssHash(wiring.Component):
    """Takes an `RssInput` a cycle and gives its hash 2 cycles later; never stalls."""

    def __init__(self):
        super().__init__({"settings": In(RssSettings), "i": In(RssInput), "o": Out(RssResult)})

    def elaborate(self, platform):
        m = Module()
        chosen, kind = self._choose(m), Signal(HashType)
        m.d.comb += kind.eq(self._type(m))
        mapped = 12 * 8  # an IPv4 address is the end of its IPv4-mapped form
        four = Cat(self.i.src[mapped:], self.i.dst[mapped:], self.i.ports)
        six = Cat(self.i.src, self.i.dst, self.i.ports)
        place = Signal(len(six))
        with m.If(self.i.hashable.ipv4):
            with m.If(chosen):
                m.d.comb += place.eq(four)
            with m.Else():
                m.d.comb += place.eq(four[:-32])
        with m.Else():
            with m.If(chosen):
                m.d.comb += place.eq(six)
            with m.Else():
                m.d.comb += place.eq(six[:-32])
        bits, key = Signal(len(six)), Signal(KEY_BITS)
        m.d.comb += [bits.eq(wire_bits(place)), key.eq(wire_bits(self.settings.key))]
        words = range(0, len(six), 32)
        partial = Signal(data.ArrayLayout(HASH_BITS, len(words)))
        later = Signal(HashType)
        m.d.sync += later.eq(kind)
        for n, at in enumerate(words):
            for bit in range(HASH_BITS):  # of the hash, the top one first
                m.d.sync += partial[n][HASH_BITS - 1 - bit].eq(
                    (bits[at:at + 32] & key[at + bit:at + bit + 32]).xor())
        whole = [Cat(partial[n][bit] for n in range(len(words))).xor()
                 for bit in range(HASH_BITS)]
        m.d.sync += [
            self.o.hash.eq(Mux(later == HashType.NONE, 0, Cat(whole))),
            self.o.hash_type.eq(later),
        ]
        return m

    def _choose(self, m):
        """Whether the ports count."""
        h, s, ports = self.i.hashable, self.settings, Signal()
        m.d.comb += ports.eq(Mux(h.ipv4, (h.tcp & s.tcp_ipv4) | (h.udp & s.udp_ipv4),
                                 (h.tcp & s.tcp_ipv6) | (h.udp & s.udp_ipv6)))
        self._ports = ports
        return ports

    def _type(self, m):
        h, s = self.i.hashable, self.settings
        kind = Signal(HashType)
        for v, ip, tcp, udp, plain in (
                (h.ipv4, s.ipv4, HashType.TCP_IPV4, HashType.UDP_IPV4, HashType.IPV4),
                (h.ipv6, s.ipv6, HashType.TCP_IPV6, HashType.UDP_IPV6, HashType.IPV6)):
            with m.If(v & self._ports):
                m.d.comb += kind.eq(Mux(h.tcp, tcp, udp))
            with m.Elif(v & ip):
                m.d.comb += kind.eq(plain)
        return kind
