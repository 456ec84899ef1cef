"""Atomics on host memory, and the results kept for duplicates."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.dma import DmaStatus, ReadClient, WriteClient
from rtl.host.layout import SAVED_ATOMIC_BYTES, SavedAtomic
from rtl.stream import WordSender

OPERAND_BYTES = 8


class AtomicJob(data.Struct):
    repeat: unsigned(1)  # look the result of `psn` up and do nothing else
    add: unsigned(1)  # FETCH_ADD, else COMPARE_SWAP
    address: unsigned(64)  # bus address of the operand
    swap: unsigned(64)  # or what is added
    compare: unsigned(64)
    psn: unsigned(24)
    ring: unsigned(64)  # bus address of the results kept
    place: unsigned(8)  # where the next one goes
    depth: unsigned(8)  # results that the ring holds


class AtomicStatus(enum.Enum, shape=2):
    OK = 0
    MISSING = 1  # `repeat`: the result is not kept any more
    FAILED = 2  # the host's memory did not give it


class AtomicResult(data.Struct):
    status: AtomicStatus
    original: unsigned(64)


class Atomic(wiring.Component):
    """FETCH_ADD and COMPARE_SWAP on 8 bytes of host memory, little-endian there (IBTA 9.4.5).

    One at a time, so that each is atomic among all queue pairs. `o` comes when operand and saved
    result (docs/host-interface.md) are written. A repeat reads the ring entry by entry.
    """

    def __init__(self, data_width: int):
        super().__init__({
            "i": In(stream.Signature(AtomicJob)),
            "o": Out(stream.Signature(AtomicResult)),
            "read": Out(ReadClient(data_width)),
            "write": Out(WriteClient(data_width)),
        })
        self.data_width = data_width

    def elaborate(self, platform):
        m = Module()
        job, result = Signal(AtomicJob), Signal(AtomicResult)
        place = Signal(8)
        word = Signal(8 * SAVED_ATOMIC_BYTES)  # read
        after = Signal(64)  # the operand
        saved, kept = Signal(SavedAtomic), Signal(SavedAtomic)
        entry = job.ring + (place << 4)
        m.d.comb += [
            kept.eq(word),
            saved.psn.eq(job.psn), saved.valid.eq(1), saved.original.eq(result.original),
            self.o.p.eq(result),
            self.read.request.p.address.eq(Mux(job.repeat, entry, job.address)),
            self.read.request.p.length.eq(Mux(job.repeat, SAVED_ATOMIC_BYTES, OPERAND_BYTES)),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += [job.eq(self.i.p), result.eq(0),
                             place.eq(Mux(self.i.p.repeat, 0, self.i.p.place))]
                with m.If(self.i.valid):
                    m.next = "READ"
            with m.State("READ"):
                m.d.comb += self.read.request.valid.eq(1)
                with m.If(self.read.request.ready):
                    m.next = "WORD"
            with m.State("WORD"):
                self._take_word(m, job, result, word)
            with m.State("FOUND"):
                m.d.sync += result.original.eq(kept.original)
                m.next = "GIVE"
                with m.If(~kept.valid[0] | (kept.psn != job.psn)):
                    m.d.sync += place.eq(place + 1)
                    m.next = "READ"
                    with m.If(place == job.depth - 1):
                        m.d.sync += result.status.eq(AtomicStatus.MISSING)
                        m.next = "GIVE"
            with m.State("OPERATE"):
                m.d.sync += result.original.eq(word[:64])
                with m.If(job.add):
                    m.d.sync += after.eq(word[:64] + job.swap)
                with m.Else():
                    m.d.sync += after.eq(Mux(word[:64] == job.compare, job.swap, word[:64]))
                m.next = "OPERAND_REQUEST"
            self._write(m, "OPERAND", job.address, after, "SAVED_REQUEST")
            self._write(m, "SAVED", entry, saved.as_value(), "GIVE")
            with m.State("GIVE"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.next = "IDLE"
        return m

    def _take_word(self, m, job, result, word):
        beat = self.read.response
        bits = len(word)
        m.d.comb += beat.ready.eq(1)
        with m.If(beat.valid):
            if self.data_width >= bits:
                m.d.sync += word.eq(beat.p.data)
            else:  # the operand is one beat, the saved result two
                m.d.sync += word.eq(Mux(job.repeat, Cat(word[self.data_width:], beat.p.data),
                                        beat.p.data))
            with m.If(beat.p.last):
                m.next = "OPERATE"
                with m.If(job.repeat):
                    m.next = "FOUND"
                with m.If(beat.p.none | (beat.p.status != DmaStatus.OK)):
                    m.d.sync += result.status.eq(AtomicStatus.FAILED)
                    m.next = "GIVE"

    def _write(self, m, name, address, value, following):
        """Request, data, done."""
        sender = WordSender(self.data_width, len(value) // 8)
        m.submodules[name.lower()] = sender
        m.d.comb += sender.i.payload.eq(value)
        port = self.write
        with m.State(f"{name}_REQUEST"):
            m.d.comb += [
                port.request.valid.eq(1),
                port.request.p.address.eq(address),
                port.request.p.length.eq(len(value) // 8),
            ]
            with m.If(port.request.ready):
                m.next = f"{name}_DATA"
        with m.State(f"{name}_DATA"):
            m.d.comb += [
                sender.i.valid.eq(1),
                port.data.valid.eq(sender.o.valid),
                port.data.p.eq(sender.o.p),
                sender.o.ready.eq(port.data.ready),
            ]
            with m.If(sender.i.ready):
                m.next = f"{name}_DONE"
        with m.State(f"{name}_DONE"):
            m.d.comb += port.done.ready.eq(1)
            with m.If(port.done.valid):
                m.next = following
