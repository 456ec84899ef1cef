"""Tags of the reads, and what each read in flight is for."""

from amaranth.hdl import unsigned
from amaranth.lib import data
from amaranth.utils import ceil_log2

from rtl.dma.interface import TAG_BITS


class ReadRecord(data.Struct):
    """What a read in flight is for."""

    reader: unsigned(4)
    tag: unsigned(TAG_BITS)  # the client's
    skip: unsigned(2)  # bytes before the piece in its first DW
    bytes: unsigned(13)  # 0: nothing was asked of the host
    dw: unsigned(11)
    low: unsigned(5)  # bits 6:2 of the address
    last: unsigned(1)  # of the client's request


def tag_bits(tags: int) -> int:
    return max(1, ceil_log2(tags))
