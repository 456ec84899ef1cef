"""One write port: from the client's requests and packets to TLP beats, and its `done` answers."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from rtl.dma.beat import BeatNote, RequestBeat
from rtl.dma.interface import TAG_BITS, DmaStatus, WriteClient, WriteRequest
from rtl.dma.realign import Realigner
from rtl.dma.split import Splitter

OPEN_REQUESTS = 32  # of one writer: accepted and their `done` not taken


class WriteLane(wiring.Component):
    """Everything that one writer has for itself.

    Takes the writer's `client` port and gives `o`, the beats for the arbiter; `left` pulses when
    the last beat of a TLP of this writer, with its note, was accepted at the boundary or dropped
    there (`left_dropped`). The last TLP of a request makes its `done`, REFUSED if one was dropped.
    At most 32 requests are open, so a client that leaves `done` alone stops only itself.
    Latency from request to `o`: 2 cycles.
    """

    def __init__(self, data_width: int, mps: int, number: int):
        super().__init__({
            "client": In(WriteClient(data_width)),
            "o": Out(stream.Signature(RequestBeat(data_width))),
            "left": In(1),
            "left_note": In(BeatNote),
            "left_dropped": In(1),
        })
        self.data_width = data_width
        self.mps = mps
        self.number = number

    def elaborate(self, platform):
        m = Module()
        m.submodules.split = split = Splitter(WriteRequest, self.mps)
        m.submodules.realign = realign = Realigner(self.data_width, self.number)
        m.submodules.done = done = SyncFIFOBuffered(width=TAG_BITS + 1, depth=OPEN_REQUESTS)
        wiring.connect(m, split.o, realign.piece)
        wiring.connect(m, wiring.flipped(self.client.data), realign.data)
        wiring.connect(m, realign.o, wiring.flipped(self.o))

        open_requests = Signal(range(OPEN_REQUESTS + 1))
        room = Signal()
        do_accept = Signal()
        do_answer = Signal()
        dropped = Signal()  # of the request whose TLPs are leaving
        broken = Signal()
        left_done = Signal()
        tag = Signal(TAG_BITS)
        refused = Signal()
        m.d.comb += [
            room.eq(open_requests != OPEN_REQUESTS),
            split.i.valid.eq(self.client.request.valid & room),
            split.i.payload.eq(self.client.request.payload),
            self.client.request.ready.eq(split.i.ready & room),
            do_accept.eq(split.i.valid & split.i.ready),
            broken.eq(dropped | self.left_dropped),
            left_done.eq(self.left & self.left_note.done),
            done.w_en.eq(left_done), done.w_data.eq(Cat(self.left_note.tag, broken)),
            Cat(tag, refused).eq(done.r_data),
            self.client.done.valid.eq(done.r_rdy),
            self.client.done.p.tag.eq(tag),
            self.client.done.p.status.eq(Mux(refused, DmaStatus.REFUSED, DmaStatus.OK)),
            done.r_en.eq(self.client.done.ready),
            do_answer.eq(done.r_rdy & done.r_en),
        ]
        with m.If(self.left):
            m.d.sync += dropped.eq(broken & ~left_done)
        m.d.sync += open_requests.eq(open_requests + do_accept - do_answer)
        return m
