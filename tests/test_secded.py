"""The code of the cache's memories: every flipped bit, every pair of them."""

from itertools import combinations

import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from rtl.context.secded import Secded

WIDTHS = (1, 2, 3, 11, 26, 57, 64)


def run(bits, steps):
    """`steps(encode, decode)` with functions that go through the hardware."""
    code = Secded(bits)
    m = Module()
    data, word = Signal(bits), Signal(code.bits)
    coded = Signal(code.bits)
    m.d.comb += coded.eq(code.encode(data))
    checked = code.decode(m, word)

    async def bench(ctx):
        def encode(value):
            ctx.set(data, value)
            return ctx.get(coded)

        def decode(value):
            ctx.set(word, value)
            return (ctx.get(checked.data), ctx.get(checked.corrected),
                    ctx.get(checked.uncorrectable))

        steps(code, encode, decode)

    sim = Simulator(m)
    sim.add_testbench(bench)
    sim.run()


@pytest.mark.parametrize("bits", WIDTHS)
def test_flipped_bits(bits):
    values = {0, (1 << bits) - 1, 0x9E37_79B9_7F4A_7C15 & (1 << bits) - 1}

    def steps(code, encode, decode):
        for value in values:
            word = encode(value)
            assert word & (1 << bits) - 1 == value
            assert decode(word) == (value, 0, 0)
            for place in range(code.bits):
                assert decode(word ^ 1 << place) == (value, 1, 0), place
        for pair in combinations(range(code.bits), 2):
            _, corrected, uncorrectable = decode(word ^ 1 << pair[0] ^ 1 << pair[1])
            assert (corrected, uncorrectable) == (0, 1), pair

    run(bits, steps)


@pytest.mark.parametrize(("bits", "check"), [(64, 8), (57, 7), (26, 6), (11, 5), (4, 4)])
def test_as_few_check_bits_as_there_can_be(bits, check):
    assert Secded(bits).check_bits == check


def test_columns_are_distinct_and_odd():
    code = Secded(64)
    columns = [*code.columns, *(1 << row for row in range(8))]
    assert len(set(columns)) == 72
    assert all(column.bit_count() % 2 for column in columns)
    # (72, 64): 56 columns of three ones, 8 of five; each row has 26 or 27 ones with its own
    assert sum(column.bit_count() for column in columns) == 216
