"""The beat of a packet stream; ports are `stream.Signature(PacketLayout(width))`."""

from amaranth.hdl import unsigned
from amaranth.lib import data
from amaranth.utils import ceil_log2, exact_log2


class PacketLayout(data.StructLayout):
    """One beat of a packet.

    `data`   bits; byte 0 of the wire is in bits 7:0 (as AXI-Stream has it)
    `last`   the packet ends with this beat
    `empty`  number of invalid bytes at the top of the last beat, 0 elsewhere
    `error`  valid with `last`: the packet is damaged (the MAC's FCS error, for instance)

    Every beat but the last is full. A packet has at least one byte.
    """

    def __init__(self, data_width: int):
        if data_width % 8 or not 64 <= data_width <= 2048:
            raise ValueError(f"data width must be 64 to 2048 bits, a power of 2, not {data_width}")
        exact_log2(data_width)
        super().__init__({
            "data": unsigned(data_width),
            "last": unsigned(1),
            "empty": unsigned(ceil_log2(data_width // 8)),
            "error": unsigned(1),
        })
        self.data_width = data_width

