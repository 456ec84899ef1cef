"""The CRC of a frame's covered bytes, a beat a cycle at any width."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from rtl.icrc.crc import power, product, register_after
from rtl.icrc.info import IcrcInfo
from rtl.stream import PacketLayout

L3_OFFSETS = (14, 18, 22)  # after Ethernet with none, one or two VLAN tags
SEED = register_after(b"\xff" * 8)  # the dummy LRH that stands before the covered bytes
# offset from the L3 header: bits that count as ones because routers change them
VARIANT = {
    4: {1: 0xFF, 8: 0xFF, 10: 0xFF, 11: 0xFF},  # TOS, TTL, header checksum
    6: {0: 0x0F, 1: 0xFF, 2: 0xFF, 3: 0xFF, 7: 0xFF},  # class, flow label, hop limit
}
_BTH_OFFSETS = range(2, 254, 4)  # headers before the BTH are multiples of 4 after 14 bytes


class _Result(data.Struct):
    """What travels beside a beat and comes out with a frame's last."""

    last: unsigned(1)
    error: unsigned(1)  # of the frame
    complete: unsigned(1)  # the frame reached `end`
    zeros: unsigned(8)  # bytes of zero that the remainder holds after the covered ones
    payload: unsigned(1)  # as the info has it
    sequence: unsigned(32)


def _bytes(bits):
    return Cat(bit.replicate(8) for bit in bits)


class IcrcEngine(wiring.Component):
    """CRC-32 over the bytes that the ICRC covers, variant fields as ones (IBTA A17.3.3, A16.4.1).

    The eight 0xFF bytes before the headers are not fed: the register's value after them is XORed
    into the first four covered bytes, and the bytes before those are fed as zeros into a register
    of zeros, which changes nothing. Bytes from `end - tail` on are zeros as well. Their number
    within the beat where they begin, `zeros`, comes with the result; later beats are left out.

    A beat is folded by neighbours, one register a halving: words of 32 bits, then 64 … become
    `left · x^n + right`. The remainder R is such that the CRC register is `power(32)` of it.

    Takes a beat whenever `valid`, with the frame's info; it never stalls. `done` comes
    `latency` cycles after a frame's last beat; one beat a cycle, frames back to back.
    """

    def __init__(self, data_width: int, tail: int):
        self.data_width = data_width
        self.beat_log = exact_log2(data_width // 8)
        self.levels = exact_log2(data_width // 32)
        self.tail = tail
        self.latency = 3 + self.levels
        super().__init__({
            "valid": In(1),
            "beat": In(PacketLayout(data_width)),
            "info": In(IcrcInfo),
            "index": Out(14 - self.beat_log),  # of the beat that enters
            "folded": Out(_Result),  # a cycle ahead of `remainder`
            "done": Out(1),
            "remainder": Out(32),
            "result": Out(_Result),
        })

    def elaborate(self, platform):
        m = Module()
        covered, used, first, valid, result = self._cover(m)
        for level in range(self.levels):
            words = [covered[i:i + 32] for i in range(0, len(covered), 32)]
            distance = power(32 << level)
            covered = self._delay(m, Cat(
                product(distance, left) ^ right
                for left, right in zip(words[0::2], words[1::2], strict=True)))
            valid, used, first, result = (
                self._delay(m, signal) for signal in (valid, used, first, result))

        carried = product(power(self.data_width), self.remainder)
        with m.If(valid & used):
            m.d.sync += self.remainder.eq(covered ^ Mux(first, 0, carried))
        m.d.comb += self.folded.eq(result)
        m.d.sync += [self.done.eq(valid & result.last), self.result.eq(result)]
        return m

    @staticmethod
    def _delay(m, signal):
        later = Signal.like(signal)
        m.d.sync += later.eq(signal)
        return later

    def _cover(self, m):
        """Two stages: place the beat in its frame, then mask it."""
        beat = Signal(PacketLayout(self.data_width))
        info = Signal(IcrcInfo)
        final = Signal(14)  # offset of the last covered byte
        index = Signal(14 - self.beat_log)
        valid = Signal()
        m.d.sync += [
            valid.eq(self.valid), beat.eq(self.beat), info.eq(self.info), index.eq(self.index),
            final.eq(self.info.end - (self.tail + 1)),
        ]
        with m.If(self.valid):
            # It stops at its greatest value, so that a frame of any length ends wrong, not anew.
            m.d.sync += self.index.eq(Mux(
                self.beat.last, 0, Mux(self.index.all(), self.index, self.index + 1)))

        lane, final_index = final[:self.beat_log], final[self.beat_log:]
        beat_bytes = self.data_width // 8
        keep = Signal(beat_bytes)
        m.d.comb += keep.eq(Mux(index == final_index, ~(Const(-2, beat_bytes + 1) << lane), -1))
        ones, seed, after = self._constants(m, info, index)

        covered = Signal(self.data_width)
        used, first, later = Signal(), Signal(), Signal()
        result = Signal(_Result)
        m.d.sync += [
            covered.eq(((beat.data | ones) ^ seed) & after & _bytes(keep)),
            later.eq(valid), used.eq(index <= final_index), first.eq(index == 0),
            result.last.eq(beat.last), result.error.eq(beat.error),
            result.complete.eq(
                (index > final_index) | ((index == final_index) & (lane <= ~beat.empty))),
            result.zeros.eq(~lane),
            result.payload.eq(info.payload), result.sequence.eq(info.sequence),
        ]
        return covered, used, first, later, result

    @staticmethod
    def _changed(info, at):
        """Whether byte `at` is BTH byte 4 (FECN, BECN, reserved) or of the UDP checksum."""
        fecn, checksum = at - 4, at + 2 - at % 4
        if fecn in _BTH_OFFSETS:
            return info.bth_offset == fecn
        if at % 4 < 2 and checksum in _BTH_OFFSETS:
            return (info.bth_offset == checksum) & ~info.roce1
        return Const(0)

    def _constants(self, m, info, index):
        """Bits to set, bits to flip, bits to keep, by where the headers lie in this beat."""
        width, beat_bytes = self.data_width, self.data_width // 8
        ones, variant, seed = Signal(width), Signal(width), Signal(width)
        after = Signal(width, init=-1)
        m.d.comb += ones.eq(variant)
        with m.Switch(index):
            for beat in range(-(-260 // beat_bytes)):
                start = beat * beat_bytes

                def cut(whole, start=start):
                    return whole >> 8 * start & (1 << width) - 1

                changed = Signal(beat_bytes)  # a signal, since `_bytes` would repeat an expression
                m.d.comb += changed.eq(Cat(
                    self._changed(info, at) for at in range(start, start + beat_bytes)))
                with m.Case(beat):
                    m.d.comb += ones.eq(variant | _bytes(changed))
                    with m.Switch(info.l3_offset):
                        for l3 in L3_OFFSETS:
                            with m.Case(l3):
                                m.d.comb += [
                                    seed.eq(cut(SEED << 8 * l3)), after.eq(cut(-1 << 8 * l3))]
                                with m.Switch(info.ip_version):
                                    for version, masks in VARIANT.items():
                                        whole = sum(mask << 8 * (l3 + at)
                                                    for at, mask in masks.items())
                                        with m.Case(version):
                                            m.d.comb += variant.eq(cut(whole))
        return ones, seed, after
