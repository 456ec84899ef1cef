"""Packing fields into the integers of ports and back."""

import random

import pytest
from amaranth.hdl import signed, unsigned
from amaranth.lib import data

from rtl.headers import Headers, Kind
from tb.bits import pack, unpack


class Inner(data.Struct):
    low: unsigned(3)
    pair: data.ArrayLayout(unsigned(2), 2)


LAYOUT = data.StructLayout({"a": unsigned(4), "inner": Inner, "s": signed(4)})


def test_first_field_is_lowest():
    word = pack(LAYOUT, {"a": 0xF, "inner": {"low": 5, "pair": [1, 2]}, "s": -1})
    assert word == 0b1111_10_01_101_1111
    assert unpack(LAYOUT, word) == {"a": 15, "inner": {"low": 5, "pair": [1, 2]}, "s": 15}


def test_what_is_not_given_is_0_and_arrays_take_indices():
    assert pack(LAYOUT, {"inner": {"pair": {1: 3}}}) == 0b11_00_000_0000


def test_headers_survive_both_ways():
    word = random.Random(1).getrandbits(Headers.as_shape().size)
    fields = unpack(Headers, word)
    assert pack(Headers, fields) == word
    assert pack(Headers, {"kind": Kind.CNP}) == Kind.CNP.value


@pytest.mark.parametrize("values", ({"a": 16}, {"inner": {"pair": [0, 0, 1]}}, {"s": -9},
                                    {"none": 0}))
def test_what_does_not_fit_raises(values):
    with pytest.raises((ValueError, KeyError)):
        pack(LAYOUT, values)
