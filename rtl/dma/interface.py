"""What a client of the DMA engine sees (docs/dma.md)."""

from amaranth.hdl import unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.stream import PacketLayout

TAG_BITS = 10  # of a client's own tags


class DmaStatus(enum.Enum, shape=2):
    """How a request ended."""

    OK = 0
    REFUSED = 1  # completion with UR or CA
    POISONED = 2  # completion data marked as damaged, or a malformed completion
    TIMEOUT = 3


class WriteRequest(data.Struct):
    address: unsigned(64)  # bytes, any alignment
    length: unsigned(32)  # bytes; 0 is answered at once and touches nothing
    tag: unsigned(TAG_BITS)  # comes back in `done`
    attributes: unsigned(3)  # of its TLPs: no snoop, relaxed ordering, ID-based ordering
    poisoned: unsigned(1)  # of its TLPs: EP, the data is known to be bad (error forwarding, 2.7.2)


class ReadRequest(data.Struct):
    address: unsigned(64)
    length: unsigned(32)  # bytes; 0 gives a response of no data, status only
    tag: unsigned(TAG_BITS)
    attributes: unsigned(3)  # as in `WriteRequest`


class Done(data.Struct):
    tag: unsigned(TAG_BITS)
    status: DmaStatus


class ReadBeat(data.StructLayout):
    """One beat of read data, byte 0 in bits 7:0; `tag` and `status` are valid with `last`.

    A request that failed, or of length 0, is answered by one beat with `last` and `none` set,
    perhaps after good beats of the same request.
    """

    def __init__(self, data_width: int):
        packet = PacketLayout(data_width)
        super().__init__({
            "data": unsigned(data_width), "last": unsigned(1),
            "empty": packet["empty"].shape, "none": unsigned(1),
            "tag": unsigned(TAG_BITS), "status": DmaStatus,
        })
        self.data_width = data_width


class WriteClient(wiring.Signature):
    """A write port, seen from the client.

    For each request of length > 0 the client sends exactly one packet of that length on `data`
    (`error` is ignored). `done` comes, in the order of the client's requests, once the last TLP of
    the request has left at the PCIe boundary: whatever the NIC sends there later is behind it.
    """

    def __init__(self, data_width: int):
        super().__init__({
            "request": Out(stream.Signature(WriteRequest)),
            "data": Out(stream.Signature(PacketLayout(data_width))),
            "done": In(stream.Signature(Done)),
        })
        self.data_width = data_width


class ReadClient(wiring.Signature):
    """A read port, seen from the client.

    Answers come as whole requests that don't interleave: in request order, or, where the engine
    was built with `ordered=False` for this client, in any order told by `tag`, with each request
    within one read TLP (no crossing of 4 KB, at most MRRS).
    """

    def __init__(self, data_width: int):
        super().__init__({
            "request": Out(stream.Signature(ReadRequest)),
            "response": In(stream.Signature(ReadBeat(data_width))),
        })
        self.data_width = data_width
