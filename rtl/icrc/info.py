"""Where the invariant CRC lies in a frame."""

from amaranth.hdl import unsigned
from amaranth.lib import data


class IcrcInfo(data.Struct):
    """One a frame, in frame order. Offsets are bytes from the frame's start."""

    l3_offset: unsigned(8)  # of the IP header or the GRH
    bth_offset: unsigned(8)
    ip_version: unsigned(3)  # a GRH counts as 6
    roce1: unsigned(1)
    end: unsigned(14)  # just past the ICRC
    payload: unsigned(1)  # a packet of payload belongs to it; only `IcrcCheck` asks
    sequence: unsigned(32)  # that of the frame's `Headers`
