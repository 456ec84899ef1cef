"""What the cache keeps about an entry, and how a key is split."""

from amaranth.hdl import Cat, Const, unsigned
from amaranth.lib import data, enum

from rtl.context.interface import KEY_BITS


class LineState(enum.Enum, shape=2):
    """What a line and what is known of its fetch come to; see `LineLayout`."""

    EMPTY = 0
    PENDING = 1  # being fetched
    PRESENT = 2
    FAILED = 3  # the fetch failed; stays until each waiting request has its answer


class LineLayout(data.StructLayout):
    """One way of one set, as requests leave it; `Arrived` is how fills leave it.

    Each miss flips `phase`, and its fill sets the `phase` of `Arrived` to the same: where the two
    differ, the line is PENDING. So requests and fills write memories of their own, each one word
    a cycle. The waiting requests are a linked list from `head` to `tail`; the request that started
    the miss is not among them.
    """

    def __init__(self, tag_bits: int, slot_bits: int, miss_bits: int):
        super().__init__({
            "valid": unsigned(1), "phase": unsigned(1), "dirty": unsigned(1),
            "locked": unsigned(1),  # from the miss of an ACQUIRE on, if it does not fail
            "hinted": unsigned(1),  # brought in by a PREFETCH, and not used yet
            "waiting": unsigned(1), "tag": unsigned(tag_bits),
            "miss": unsigned(miss_bits),  # while PENDING
            "head": unsigned(slot_bits), "tail": unsigned(slot_bits),
        })


class Arrived(data.Struct):
    phase: unsigned(1)
    failed: unsigned(1)


class SetLayout(data.StructLayout):
    """The word of the tag memory: every way of a set and the age the policy keeps."""

    def __init__(self, line: LineLayout, ways: int, age_bits: int):
        super().__init__({
            "lines": data.ArrayLayout(line, ways),
            "age": unsigned(age_bits),
        })


class KeySplit:
    """Key ↔ (set, tag). The tag is the upper part of the key with either index.

    `hash` folds the upper part into the set number, so that strides spread over the sets; since
    the upper part is kept as tag, the lower part can be had back.
    """

    def __init__(self, sets: int, index: str):
        self.set_bits = (sets - 1).bit_length()
        self.tag_bits = KEY_BITS - self.set_bits
        self.hashed = index == "hash"

    def _fold(self, tag):
        folded = Const(0, self.set_bits)
        if self.hashed and self.set_bits:
            for start in range(0, self.tag_bits, self.set_bits):
                folded = folded ^ tag[start:start + self.set_bits]
        return folded[:self.set_bits]

    def tag(self, key):
        return key[self.set_bits:]

    def set(self, key):
        return (key[:self.set_bits] ^ self._fold(self.tag(key)))[:self.set_bits]

    def key(self, number, tag):
        return Cat((number ^ self._fold(tag))[:self.set_bits], tag)
