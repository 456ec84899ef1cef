"""One write port: from the client's requests and packets to TLP beats, and its `done` answers."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from rtl.dma.beat import RequestBeat
from rtl.dma.interface import TAG_BITS, DmaStatus, WriteClient, WriteRequest
from rtl.dma.realign import Realigner
from rtl.dma.split import Splitter

OPEN_REQUESTS = 32  # of one writer: accepted and their `done` not taken


class WriteLane(wiring.Component):
    """Everything that one writer has for itself.

    Takes the writer's `client` port and gives `o`, the beats for the arbiter; `left` pulses when
    the last beat of the request with tag `left_tag` was accepted at the boundary, which makes its
    `done`. At most 32 requests are open, so a client that leaves `done` alone stops only itself.
    Latency from request to `o`: 2 cycles.
    """

    def __init__(self, data_width: int, mps: int, number: int):
        super().__init__({
            "client": In(WriteClient(data_width)),
            "o": Out(stream.Signature(RequestBeat(data_width))),
            "left": In(1),
            "left_tag": In(TAG_BITS),
        })
        self.data_width = data_width
        self.mps = mps
        self.number = number

    def elaborate(self, platform):
        m = Module()
        m.submodules.split = split = Splitter(WriteRequest, self.mps)
        m.submodules.realign = realign = Realigner(self.data_width, self.number)
        m.submodules.done = done = SyncFIFOBuffered(width=TAG_BITS, depth=OPEN_REQUESTS)
        wiring.connect(m, split.o, realign.piece)
        wiring.connect(m, wiring.flipped(self.client.data), realign.data)
        wiring.connect(m, realign.o, wiring.flipped(self.o))

        open_requests = Signal(range(OPEN_REQUESTS + 1))
        room = Signal()
        do_accept = Signal()
        do_answer = Signal()
        m.d.comb += [
            room.eq(open_requests != OPEN_REQUESTS),
            split.i.valid.eq(self.client.request.valid & room),
            split.i.payload.eq(self.client.request.payload),
            self.client.request.ready.eq(split.i.ready & room),
            do_accept.eq(split.i.valid & split.i.ready),
            done.w_en.eq(self.left), done.w_data.eq(self.left_tag),
            self.client.done.valid.eq(done.r_rdy),
            self.client.done.p.tag.eq(done.r_data),
            self.client.done.p.status.eq(DmaStatus.OK),
            done.r_en.eq(self.client.done.ready),
            do_answer.eq(done.r_rdy & done.r_en),
        ]
        m.d.sync += open_requests.eq(open_requests + do_accept - do_answer)
        return m
