"""Fields of a byte window whose first wire byte is in bits 7:0."""

from amaranth.hdl import Cat


def cut(window, at: int, count: int):
    """Bytes `at` … `at + count - 1` as they lie: first byte of the wire lowest."""
    return window[8 * at:8 * (at + count)]


def number(window, at: int, count: int):
    """The same bytes as the integer that they hold on the wire, most significant byte first."""
    return Cat(cut(window, i, 1) for i in reversed(range(at, at + count)))
