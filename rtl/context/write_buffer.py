"""Dirty entries on their way to the host."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from rtl.context.interface import KEY_BITS, CacheTable
from rtl.dma.interface import DmaStatus, WriteClient
from rtl.stream import WordSender
from rtl.stream.free_list import following


class WriteBuffer(wiring.Component):
    """Up to `depth` entries, written in order, each kept until the host has it.

    `push` (only while `available`) takes the key; its data is `data` in the next cycle. If that is
    `spoiled`, it is written as poisoned, and `spoiling` pulses. `pending` says whether `key` is
    still on its way; with `peek` its newest data is `peeked` from the next cycle on, until the
    next `peek`, and `peeked_spoiled` if it is. A write leaves 2 cycles after its data at the
    earliest; one entry every ⌈entry / beat⌉ + 2 cycles. `ended` pulses with each `done`.
    """

    def __init__(self, depth: int, entry_bytes: int, data_width: int):
        super().__init__({
            "table": In(CacheTable),
            "available": Out(1), "empty": Out(1),
            "push": In(1), "pushed": In(KEY_BITS), "data": In(8 * entry_bytes), "spoiled": In(1),
            "key": In(KEY_BITS), "pending": Out(1),
            "peek": In(1), "peeked": Out(8 * entry_bytes), "peeked_spoiled": Out(1),
            "writeback": Out(WriteClient(data_width)),
            "ended": Out(1), "failed": Out(1), "spoiling": Out(1),
        })
        self.depth = depth
        self.entry_bytes = entry_bytes
        self.data_width = data_width

    def elaborate(self, platform):
        m = Module()
        m.submodules.store = store = memory.Memory(
            shape=unsigned(8 * self.entry_bytes + 1), depth=max(self.depth, 2), init=[])
        write, read = store.write_port(), store.read_port()
        newest = store.read_port(transparent_for=(write,))
        keys = [Signal(KEY_BITS, name=f"key_{i}") for i in range(self.depth)]
        held, latest = Signal(self.depth), Signal(self.depth)  # latest: of those of the same key
        put, send, done = (Signal(range(self.depth), name=n) for n in ("put", "send", "done"))
        waiting = Signal(range(self.depth + 1))  # stored, not yet being sent
        storing = Signal()
        found = Signal(self.depth)
        taken = Signal()
        m.d.comb += [
            self.available.eq(~held.all()),
            self.empty.eq(~held.any()),
            found.eq(Cat(held[i] & latest[i] & (keys[i] == self.key) for i in range(self.depth))),
            self.pending.eq(found.any()),
            newest.en.eq(self.peek), Cat(self.peeked, self.peeked_spoiled).eq(newest.data),
            write.addr.eq(Mux(put == 0, self.depth - 1, put - 1)),
            write.data.eq(Cat(self.data, self.spoiled)),
            write.en.eq(storing),
            self.spoiling.eq(storing & self.spoiled),
            self.ended.eq(self.writeback.done.valid),
            self.failed.eq(self.ended & (self.writeback.done.p.status != DmaStatus.OK)),
            self.writeback.done.ready.eq(1),
        ]
        m.d.sync += [storing.eq(self.push), waiting.eq(waiting + storing - taken)]
        with m.If(self.ended):
            m.d.sync += [held.bit_select(done, 1).eq(0), done.eq(following(done, self.depth))]
        with m.If(self.push):
            m.d.sync += [held.bit_select(put, 1).eq(1), put.eq(following(put, self.depth))]
        for number, key in enumerate(keys):
            with m.If(found[number]):
                m.d.comb += newest.addr.eq(number)
            with m.If(self.push & (put == number)):
                m.d.sync += [key.eq(self.pushed), latest[number].eq(1)]
            with m.Elif(self.push & (key == self.pushed)):
                m.d.sync += latest[number].eq(0)
        self._send(m, read, keys, waiting, send, taken)
        return m

    def _send(self, m, read, keys, waiting, send, taken):
        m.submodules.sender = sender = WordSender(self.data_width, self.entry_bytes)
        request, packet = self.writeback.request, self.writeback.data
        key = Signal(KEY_BITS)
        number = Signal.like(send)
        asking, sending = Signal(), Signal()
        m.d.comb += [
            read.addr.eq(send),
            read.en.eq(taken),
            request.valid.eq(asking),
            request.p.address.eq(self.table.base + key * self.entry_bytes),
            request.p.length.eq(self.entry_bytes),
            request.p.tag.eq(number),
            sender.i.valid.eq(sending),
            Cat(sender.i.payload, request.p.poisoned).eq(read.data),
            packet.valid.eq(sender.o.valid),
            packet.payload.eq(sender.o.payload),
            sender.o.ready.eq(packet.ready),
            taken.eq((waiting != 0) & ~asking & ~sending),
        ]
        with m.If(request.ready):
            m.d.sync += asking.eq(0)
        with m.If(sender.i.ready & sending):
            m.d.sync += sending.eq(0)
        with m.If(taken):
            m.d.sync += [asking.eq(1), sending.eq(1), number.eq(send),
                         send.eq(following(send, self.depth))]
            for index, stored in enumerate(keys):
                with m.If(send == index):
                    m.d.sync += key.eq(stored)
