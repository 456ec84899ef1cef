"""Single error correction, double error detection for what lies in memories."""

from itertools import combinations
from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Signal, Value

WORD_BITS = 64  # entries are coded by words of so many bits


class Checked(NamedTuple):
    """A word as it is used, and what was wrong with it as it was stored."""

    data: Signal
    corrected: Value
    uncorrectable: Value


class Secded:
    """Hsiao's code for words of `data_bits`: each column of its check matrix has an odd number of
    ones, so an odd syndrome is one flipped bit, and an even one that is not 0 is two (M. Y. Hsiao,
    "A Class of Optimal Minimum Odd-weight-column SEC-DED Codes", 1970).

    The code word is the data, and above it `check_bits` bits. All is combinational.
    """

    def __init__(self, data_bits: int):
        self.data_bits = data_bits
        self.check_bits = next(
            bits for bits in range(1, 64) if (1 << bits - 1) - bits >= data_bits)
        self.bits = data_bits + self.check_bits
        self.columns = self._columns()
        self.rows = [sum(1 << place for place, column in enumerate(self.columns)
                         if column >> row & 1) for row in range(self.check_bits)]

    def _columns(self) -> list[int]:
        """One a data bit: the lightest first. The check bits have the columns with a single one."""
        found: list[int] = []
        for ones in range(3, self.check_bits + 1, 2):
            found += (sum(1 << row for row in rows)
                      for rows in combinations(range(self.check_bits), ones))
        return found[:self.data_bits]

    def encode(self, data: Value) -> Value:
        data = data[:self.data_bits]
        return Cat(data, *((data & Const(row, self.data_bits)).xor() for row in self.rows))

    def decode(self, m: Module, word: Value) -> Checked:
        """The data with a flipped bit set right; more than two flipped bits may pass for one."""
        stored, check = word[:self.data_bits], word[self.data_bits:]
        syndrome = Signal(self.check_bits)
        flipped = Signal(self.data_bits)
        data = Signal(self.data_bits)
        in_check = Cat(syndrome == 1 << row for row in range(self.check_bits)).any()
        m.d.comb += [
            syndrome.eq((self.encode(stored)[self.data_bits:]) ^ check),
            flipped.eq(Cat(syndrome == column for column in self.columns)),
            data.eq(stored ^ flipped),
        ]
        corrected = flipped.any() | in_check
        return Checked(data, corrected, syndrome.any() & ~corrected)
