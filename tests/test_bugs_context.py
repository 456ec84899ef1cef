"""Faults that caches like this one have had (E01 to E15), each by its condition.

E13 is about accesses that bypass a cache: this one has none. That E07's stalled update of the
policy touches no other set is the timing model's to see (tests/test_context_timing.py): it predicts
the way that every entry takes.
"""

import pytest

from rtl.config import CacheConfig
from tests.test_context_cache import run

ONE_WAY = CacheConfig(sets=1, ways=1, entry_bytes=64, misses=4, targets=4, write_buffer=2)
CASES = {
    "E01": ("dirty_bit_seen_by_next_access", ONE_WAY),
    "E03": ("dirty_way_alone_is_written_back",
            CacheConfig(sets=1, ways=4, entry_bytes=64, misses=4, write_buffer=2)),
    "E05": ("read_after_granted_write", ONE_WAY),
    "E07": ("flush_sees_the_write_before", ONE_WAY),
    "E09": ("refill_in_the_cycle_of_an_invalidate", ONE_WAY),
    "E11": ("write_behind_a_pending_flush", ONE_WAY),
    "E15": ("retried_writeback_leaves_the_line_alone", ONE_WAY),
}


@pytest.mark.parametrize("number", CASES)
def test_fault_is_not_here(number):
    case, cache = CASES[number]
    run(cache, simulator="icarus", testcase=case, module="tb.context_cache_bugs")
