"""The NIC's own TLP streams (docs/dma.md, section Boundary).

Four streams, named as the FPGA hard blocks name theirs:
`rq` requests of the NIC, `rc` their completions, `cq` requests of the host, `cc` our completions.
"""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum
from amaranth.utils import ceil_log2


class TlpType(enum.Enum, shape=2):
    READ = 0  # MRd
    WRITE = 1  # MWr
    COMPLETION = 2  # Cpl without data, CplD with data (`length` > 0)


class CompletionStatus(enum.Enum, shape=3):
    """PCIe base specification 2.2.9."""

    SC = 0
    UR = 1
    CRS = 2
    CA = 4


class TlpHeader(data.Struct):
    """Fields of a TLP header (PCIe base specification 2.2). Unused fields are 0."""

    type: TlpType
    length: unsigned(11)  # DW, 1 to 1024 (written out, not 0 for 1024); 0 in a Cpl
    address: unsigned(64)  # requests: byte address of the first DW, bits 1:0 are 0
    first_be: unsigned(4)
    last_be: unsigned(4)  # 0 when length is 1
    tag: unsigned(10)
    requester_id: unsigned(16)
    completer_id: unsigned(16)
    status: CompletionStatus  # completions
    byte_count: unsigned(13)  # completions: bytes left including this one, 1 to 4096
    lower_address: unsigned(7)  # completions
    traffic_class: unsigned(3)
    attributes: unsigned(3)  # from bit 0: no snoop, relaxed ordering, ID-based ordering
    poisoned: unsigned(1)  # EP


class TlpLayout(data.StructLayout):
    """One beat of a TLP: `header` is the same on every beat; `data` starts with DW 0 in bits 31:0.

    A TLP without data is one beat with `last`. `empty` counts the invalid DWs of the last beat.
    A beat is ⌈DW / (data width / 32)⌉ of a TLP; every beat but the last is full.
    """

    def __init__(self, data_width: int):
        super().__init__({
            "header": TlpHeader,
            "data": unsigned(data_width),
            "last": unsigned(1),
            "empty": unsigned(ceil_log2(data_width // 32) or 1),
        })
        self.data_width = data_width

