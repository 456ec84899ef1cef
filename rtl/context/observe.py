"""What a context cache shows of itself: pulses for benches and traces, counters for software."""

from amaranth.hdl import Module, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.context.interface import KEY_BITS
from rtl.context.queues import Stall


class CacheEvents(data.Struct):
    """Pulses of one cycle, of one request and one fill.

    `fill` and `fetch_error` are of `fill_key`, `evict` and `writeback` of `victim`, all else of
    `key`, which is or comes into `way`.

    `lookup` is a LOOKUP or ACQUIRE of a key inside the table when it is first decided, and comes
    with exactly one of `hit` (the entry is here, perhaps locked), `miss` (a fetch is started for
    it) and `merged` (a fetch is under way). `stall` with `reason`: a request has to be tried again.
    """

    lookup: unsigned(1)
    hit: unsigned(1)
    miss: unsigned(1)
    merged: unsigned(1)
    prefetch: unsigned(1)  # a fetch is started by a hint
    useful: unsigned(1)  # the first use of a prefetched entry
    late: unsigned(1)  # that came before the entry did
    useless: unsigned(5)  # prefetched entries forgotten unused, or not to be had
    forward: unsigned(1)  # the miss has its entry from the write buffer
    fill: unsigned(1)
    fetch_error: unsigned(1)
    evict: unsigned(1)
    writeback: unsigned(1)
    bad_key: unsigned(1)
    replay: unsigned(1)  # a waiting request is answered
    corrected: unsigned(1)  # a flipped bit in what was read
    uncorrectable: unsigned(1)  # more than one: the request has its entry from the host, or CORRUPT
    refetch: unsigned(1)  # a fetch is started for that
    stall: unsigned(1)
    reason: Stall
    key: unsigned(KEY_BITS)
    way: unsigned(4)
    victim: unsigned(KEY_BITS)
    fill_key: unsigned(KEY_BITS)


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
    forwards: unsigned(32)  # misses that had their entry from the write buffer
    prefetches: unsigned(32)  # fetches started by a hint, each of which becomes one of:
    prefetches_useful: unsigned(32)  # there when the entry was first used
    prefetches_late: unsigned(32)  # under way when it was
    prefetches_useless: unsigned(32)  # forgotten before it was, or not to be had
    timeouts: unsigned(32)  # fetches never answered; they count as `fetch_errors` too
    outstanding_sum: unsigned(32)  # fetches in flight, summed over the cycles
    corrected: unsigned(32)  # cycles in which a flipped bit was corrected
    uncorrectable: unsigned(32)  # requests that met more flipped bits than can be corrected
    refetches: unsigned(32)  # of these, how many had their entry from the host
    spoiled_writebacks: unsigned(32)  # dirty entries that were lost, written back as poisoned


class Counters(wiring.Component):
    """Counts `events`; the counters show an event in the next cycle."""

    def __init__(self, misses: int):
        super().__init__({
            "events": In(CacheEvents), "in_flight": In(range(misses + 1)),
            "writeback_error": In(1), "stray": In(1), "timed_out": In(1), "spoiled": In(1),
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
            "forwards": self.events.forward, "prefetches": self.events.prefetch,
            "prefetches_useful": self.events.useful, "prefetches_late": self.events.late,
            "prefetches_useless": self.events.useless, "timeouts": self.timed_out,
            "outstanding_sum": self.in_flight, "corrected": self.events.corrected,
            "uncorrectable": self.events.uncorrectable, "refetches": self.events.refetch,
            "spoiled_writebacks": self.spoiled,
        }
        for name, amount in pulses.items():
            m.d.sync += self.counters[name].eq(self.counters[name] + amount)
        with m.If(self.in_flight > self.counters.outstanding_max):
            m.d.sync += self.counters.outstanding_max.eq(self.in_flight)
        return m
