"""The reads in flight: checks each completion against the read it claims to answer."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from rtl.dma.interface import DmaStatus
from rtl.dma.tags import ReadRecord, tag_bits
from rtl.pcie.tlp import CompletionStatus, TlpLayout, TlpType


class ReadErrors(data.Struct):
    """Pulses, one a fault."""

    unexpected: unsigned(1)  # a completion that no read waits for; dropped
    refused: unsigned(1)  # a read that ended with UR, CA or CRS
    poisoned: unsigned(1)  # a completion that is damaged or does not fit its read
    timeout: unsigned(1)  # a read that was given up


class InFlight(wiring.Component):
    """Table of the reads in flight, by PCIe tag.

    `open` enters a read (`open_record`; of length 0: complete at once, allowed when `null_ready`).
    A completion is taken a beat a cycle, always (`rc.ready` is 1: its space is the slot of its
    tag). Its data goes to `write_*`, for the reassembly memory, 1 cycle later. `finish_*` tells in
    the second cycle after the last beat that a read is whole or failed; `complete` and `status`
    of `lookup` say so from the same cycle on.

    A completion is dropped as unexpected unless its tag is in flight and its requester is this
    NIC. One that is poisoned, or whose byte count, lower address, length or number of beats is not
    what the read has left, makes the read fail (POISONED); a status other than SC ends it
    (REFUSED). A failed read still holds its tag until every DW has come, or the time is over.

    After `timeout` cycles (and at most `tags` more) a read is answered TIMEOUT. Its tag stays out
    of use until its late completions have come and were dropped, or the time has passed once
    more. `refuse` (taken with `refuse_ready`) ends a read whose TLP was never sent (REFUSED).
    `forwarded` returns an answered tag; `give` frees one in the pool.

    Clauses: PCIe base specification 2.2.9 (completions), 2.3.2 (handling), 2.7.2 (poison), 2.8
    (time-out). A reset forgets all reads.
    """

    def __init__(self, data_width: int, tags: int, readers: int, timeout: int):
        tag = tag_bits(tags)
        self.lanes = data_width // 32
        super().__init__({
            "requester_id": In(16),
            "rc": In(stream.Signature(TlpLayout(data_width))),
            "open": In(1), "open_tag": In(tag), "open_record": In(ReadRecord),
            "null_ready": Out(1),
            "refuse": In(1), "refuse_tag": In(tag), "refuse_ready": Out(1),
            "write": Out(1), "write_tag": Out(tag), "write_offset": Out(11),
            "write_data": Out(data_width), "write_enable": Out(self.lanes),
            "finish": Out(1), "finish_tag": Out(tag), "finish_reader": Out(4),
            "lookup": Out(wiring.Signature({
                "tag": In(tag), "record": Out(ReadRecord), "complete": Out(1),
                "status": Out(DmaStatus)})).array(readers),
            "forwarded": In(1), "forwarded_tag": In(tag),
            "give": Out(1), "given": Out(tag),
            "completion": Out(1), "errors": Out(ReadErrors),
        })
        self.data_width = data_width
        self.tags = tags
        self.timeout = timeout

    def elaborate(self, platform):
        m = Module()
        tags = self.tags
        tag = len(self.open_tag)
        m.submodules.records = records = Memory(shape=ReadRecord, depth=tags, init=[])
        m.submodules.progress = progress = Memory(shape=11, depth=tags, init=[])
        m.submodules.status = status = Memory(shape=2, depth=tags, init=[])
        stamp_bits = bits_for(4 * (self.timeout + tags))
        m.submodules.stamps = stamps = Memory(
            shape=stamp_bits, depth=tags, init=[])

        # one bit a tag
        pending = Signal(tags)  # DWs are still to come
        started = Signal(tags)  # `progress` is valid
        failed = Signal(tags)  # a completion was bad
        complete = Signal(tags)  # the answer is known
        orphan = Signal(tags)  # timed out, late completions may come
        answered = Signal(tags)  # an orphan whose answer has been forwarded

        def one_hot(name, index, enable):
            mask = Signal(tags, name=f"{name}_mask")
            with m.If(enable):
                m.d.comb += mask.eq(1 << index)
            return mask

        def bit(vector, index):
            return (vector >> index)[0]

        # -- the completion in the input register ------------------------------------------------
        valid = Signal()
        beat = Signal(TlpLayout(self.data_width))
        m.d.comb += self.rc.ready.eq(1)
        m.d.sync += valid.eq(self.rc.valid)
        with m.If(self.rc.valid):
            m.d.sync += beat.eq(self.rc.payload)
        header = beat.header
        rc_tag = Signal(tag)
        record_port = records.read_port(domain="comb")
        progress_port = progress.read_port(domain="comb")
        m.d.comb += [rc_tag.eq(header.tag), record_port.addr.eq(rc_tag),
                     progress_port.addr.eq(rc_tag)]
        record = record_port.data
        known = Signal()
        arrived = Signal(11)
        left = Signal(11)
        expected_bytes = Signal(14)
        expected_low = Signal(7)
        lower = Signal(5)
        fits = Signal()
        success = Signal()
        m.d.comb += [
            known.eq((header.type == TlpType.COMPLETION) & (header.tag < tags)
                     & bit(pending, rc_tag) & (header.requester_id == self.requester_id)),
            arrived.eq(Mux(bit(started, rc_tag), progress_port.data, 0)),
            left.eq(record.dw - arrived),
            expected_bytes.eq(Mux(arrived == 0, record.bytes,
                                  record.bytes + record.skip - (arrived << 2))),
            lower.eq(record.low + arrived),
            expected_low.eq(Cat(Mux(arrived == 0, record.skip, 0), lower)),
            fits.eq((header.length != 0) & (header.length <= left)),
            success.eq(header.status == CompletionStatus.SC),
        ]

        # -- its beats against its length --------------------------------------------------------
        inside = Signal()  # not the first beat
        rest = Signal(11)  # DWs due after the beats seen
        offset = Signal(11)
        torn = Signal()  # a beat before did not fit
        due = Signal(11)
        place = Signal(11)
        ragged = Signal()
        lanes = self.lanes
        m.d.comb += [
            due.eq(Mux(inside, rest, header.length)),
            place.eq(Mux(inside, offset, arrived)),
            ragged.eq((torn & inside) | Mux(beat.last, due != lanes - beat.empty, due <= lanes)),
            self.write.eq(valid & known & success & fits),
            self.write_tag.eq(rc_tag), self.write_offset.eq(place),
            self.write_data.eq(beat.data),
            self.write_enable.eq(Cat(i < due for i in range(lanes))),
        ]
        with m.If(valid):
            m.d.sync += [inside.eq(~beat.last), torn.eq(ragged), offset.eq(place + lanes),
                         rest.eq(Mux(due > lanes, due - lanes, 0))]

        # -- what the completion means for its read ----------------------------------------------
        ends = Signal()
        bad = Signal()
        advance = Signal()
        do_finish = Signal()
        reached = Signal(11)
        m.d.comb += [
            ends.eq(valid & beat.last & known),
            bad.eq(success & (header.poisoned | ~fits | ragged
                              | (header.byte_count != expected_bytes)
                              | (header.lower_address != expected_low))),
            reached.eq(arrived + header.length),
            advance.eq(ends & success & fits),
            do_finish.eq(ends & (~success | (fits & (reached == record.dw)))),
        ]
        progress_write = progress.write_port()
        m.d.comb += [progress_write.addr.eq(rc_tag), progress_write.data.eq(reached),
                     progress_write.en.eq(advance)]
        outcome = Signal(DmaStatus)
        with m.If(~success):
            m.d.comb += outcome.eq(DmaStatus.REFUSED)
        with m.Elif(bad | bit(failed, rc_tag)):
            m.d.comb += outcome.eq(DmaStatus.POISONED)

        # -- entering a read ---------------------------------------------------------------------
        open_null = Signal()
        record_write = records.write_port()
        m.d.comb += [
            self.null_ready.eq(~do_finish),
            open_null.eq(self.open & (self.open_record.bytes == 0)),
            record_write.addr.eq(self.open_tag), record_write.data.eq(self.open_record),
            record_write.en.eq(self.open),
        ]

        # -- a read whose TLP did not leave ------------------------------------------------------
        turned_away = Signal()
        m.d.comb += [
            self.refuse_ready.eq(~do_finish & ~open_null),
            turned_away.eq(self.refuse & self.refuse_ready & bit(pending, self.refuse_tag)),
        ]

        # -- the clock: one tag a cycle ----------------------------------------------------------
        now = Signal(stamp_bits)
        scan = Signal(range(tags))
        stamp_read = stamps.read_port(domain="comb")
        stamp_write = stamps.write_port()
        age = Signal.like(now)
        busy = Signal()  # a completion of this very tag is under way
        expire = Signal()
        forget = Signal()
        m.d.comb += [
            stamp_read.addr.eq(scan),
            stamp_write.addr.eq(self.open_tag), stamp_write.data.eq(now),
            stamp_write.en.eq(self.open),
            age.eq(now - stamp_read.data),
            busy.eq((valid | inside) & (rc_tag == scan)),
            expire.eq(bit(pending, scan) & ~bit(orphan, scan) & (age >= self.timeout)
                      & ~busy & ~do_finish & ~open_null & ~turned_away),
            forget.eq(bit(pending, scan) & bit(orphan, scan) & (age >= 2 * self.timeout) & ~busy),
        ]
        m.d.sync += [now.eq(now + 1), scan.eq(scan + 1)]

        # -- telling the readers -----------------------------------------------------------------
        told = Signal()
        told_tag = Signal(tag)
        told_status = Signal(DmaStatus)
        with m.If(do_finish):
            m.d.comb += [told.eq(~bit(orphan, rc_tag)), told_tag.eq(rc_tag),
                         told_status.eq(outcome)]
        with m.Elif(open_null):
            m.d.comb += [told.eq(1), told_tag.eq(self.open_tag)]
        with m.Elif(turned_away):
            m.d.comb += [told.eq(~bit(orphan, self.refuse_tag)), told_tag.eq(self.refuse_tag),
                         told_status.eq(DmaStatus.REFUSED)]
        with m.Elif(expire):
            m.d.comb += [told.eq(1), told_tag.eq(scan), told_status.eq(
                Mux(bit(failed, scan), DmaStatus.POISONED, DmaStatus.TIMEOUT))]
        status_write = status.write_port()
        finish_record = records.read_port(domain="comb")
        m.d.comb += [
            status_write.addr.eq(told_tag), status_write.data.eq(told_status),
            status_write.en.eq(told),
            finish_record.addr.eq(self.finish_tag),
            self.finish_reader.eq(finish_record.data.reader),
        ]
        m.d.sync += [self.finish.eq(told), self.finish_tag.eq(told_tag)]
        for port in self.lookup:
            found = records.read_port(domain="comb")
            known_status = status.read_port(domain="comb")
            m.d.comb += [
                found.addr.eq(port.tag), port.record.eq(found.data),
                known_status.addr.eq(port.tag), port.status.eq(known_status.data),
                port.complete.eq(bit(complete, port.tag)),
            ]

        # -- freeing the tag ---------------------------------------------------------------------
        stays = Signal()  # the forwarded tag is an orphan
        clean = Signal()
        m.d.comb += [
            stays.eq(self.forwarded & bit(pending, self.forwarded_tag)),
            clean.eq(bit(answered, scan) & ~bit(pending, scan) & ~self.forwarded),
            self.give.eq((self.forwarded & ~stays) | clean),
            self.given.eq(Mux(self.forwarded, self.forwarded_tag, scan)),
        ]

        opened = one_hot("opened", self.open_tag, self.open)
        finished = one_hot("finished", rc_tag, do_finish)
        forgotten = one_hot("forgotten", scan, forget)
        unsent = one_hot("unsent", self.refuse_tag, turned_away)
        expired = one_hot("expired", scan, expire)
        telling = one_hot("telling", told_tag, told)
        advanced = one_hot("advanced", rc_tag, advance)
        spoiled = one_hot("spoiled", rc_tag, ends & bad)
        held = one_hot("held", self.forwarded_tag, stays)
        cleaned = one_hot("cleaned", scan, clean)
        m.d.sync += [
            pending.eq((pending | Mux(open_null, 0, opened)) & ~finished & ~forgotten
                       & ~unsent),
            started.eq((started & ~opened) | advanced),
            failed.eq((failed & ~opened) | spoiled),
            complete.eq((complete & ~opened) | telling),
            orphan.eq((orphan & ~opened) | expired),
            answered.eq((answered | held) & ~cleaned),
        ]
        late = bit(orphan, rc_tag)
        m.d.sync += [
            self.completion.eq(valid & beat.last),
            self.errors.unexpected.eq(valid & beat.last & (~known | late)),
            self.errors.refused.eq((ends & ~success & ~late)
                                   | (turned_away & ~bit(orphan, self.refuse_tag))),
            self.errors.poisoned.eq(ends & bad & ~late),
            self.errors.timeout.eq(expire),
        ]
        return m
