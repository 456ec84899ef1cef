"""What a context cache shows of itself: pulses for benches and traces, counters for software."""

from amaranth.hdl import Module, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.context.interface import KEY_BITS
from rtl.context.queues import Stall


class CacheEvents(data.Struct):
    """Pulses of one cycle; `key` belongs to all but `evict` and `writeback`, which have `victim`.

    `lookup` is a LOOKUP or ACQUIRE of a key inside the table when it is first decided, and comes
    with exactly one of `hit` (the entry is here, perhaps locked), `miss` (a fetch is started for
    it) and `merged` (a fetch is under way). `stall` with `reason`: a request has to be tried again.
    """

    lookup: unsigned(1)
    hit: unsigned(1)
    miss: unsigned(1)
    merged: unsigned(1)
    prefetch: unsigned(1)  # a fetch is started by a hint
    fill: unsigned(1)
    fetch_error: unsigned(1)
    evict: unsigned(1)
    writeback: unsigned(1)
    bad_key: unsigned(1)
    replay: unsigned(1)  # a waiting request is answered
    stall: unsigned(1)
    reason: Stall
    key: unsigned(KEY_BITS)
    victim: unsigned(KEY_BITS)


class CacheCounters(data.Struct):
    """Since reset, modulo 2^32."""

    lookups: unsigned(32)
    hits: unsigned(32)
    misses: unsigned(32)
    merged: unsigned(32)
    fills: unsigned(32)
    evictions: unsigned(32)
    writebacks: unsigned(32)
    fetch_errors: unsigned(32)
    bad_keys: unsigned(32)
    outstanding_max: unsigned(32)  # most fetches in flight at one time
    writeback_errors: unsigned(32)  # the host's memory refused a write-back
    stray_answers: unsigned(32)  # fetch answers that nothing waited for, dropped


class Counters(wiring.Component):
    """Counts `events`; the counters show an event in the next cycle."""

    def __init__(self, misses: int):
        super().__init__({
            "events": In(CacheEvents), "in_flight": In(range(misses + 1)),
            "writeback_error": In(1), "stray": In(1),
            "counters": Out(CacheCounters),
        })

    def elaborate(self, platform):
        m = Module()
        pulses = {
            "lookups": self.events.lookup, "hits": self.events.hit, "misses": self.events.miss,
            "merged": self.events.merged, "fills": self.events.fill,
            "evictions": self.events.evict, "writebacks": self.events.writeback,
            "fetch_errors": self.events.fetch_error, "bad_keys": self.events.bad_key,
            "writeback_errors": self.writeback_error, "stray_answers": self.stray,
        }
        for name, pulse in pulses.items():
            with m.If(pulse):
                m.d.sync += self.counters[name].eq(self.counters[name] + 1)
        with m.If(self.in_flight > self.counters.outstanding_max):
            m.d.sync += self.counters.outstanding_max.eq(self.in_flight)
        return m
