"""What travels from the two engines to the arbiter of the request port."""

from amaranth.hdl import unsigned
from amaranth.lib import data
from amaranth.utils import ceil_log2

from rtl.dma.interface import TAG_BITS
from rtl.pcie.tlp import TlpLayout


class BeatNote(data.Struct):
    """Rides beside a request beat and stays inside the NIC."""

    writer: unsigned(4)
    tag: unsigned(TAG_BITS)  # the client's
    done: unsigned(1)  # with the last beat: the request is complete
    null: unsigned(1)  # a request of length 0: no TLP
    bytes: unsigned(13)  # of the TLP's payload


class RequestBeat(data.StructLayout):
    """A TLP beat whose data is still to be rotated right by `rotate` bytes, and its note."""

    def __init__(self, data_width: int):
        super().__init__({
            "tlp": TlpLayout(data_width),
            "rotate": unsigned(ceil_log2(data_width // 8)),
            "note": BeatNote,
        })
        self.data_width = data_width


class OutputBeat(data.StructLayout):
    """A TLP beat as it leaves the port, and its note."""

    def __init__(self, data_width: int):
        super().__init__({"tlp": TlpLayout(data_width), "note": BeatNote})
        self.data_width = data_width
