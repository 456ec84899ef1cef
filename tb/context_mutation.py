"""What judges the context cache's mutants (tb/mutation.py)."""

import dataclasses
from pathlib import Path
from typing import Any

from rtl.config import CacheConfig
from sim.timing.interface import ACQUIRE, FLUSH_ALL, LOOKUP, PREFETCH
from sim.timing.traffic import Traffic
from tb.build import build, run
from tb.context_timing_run import Script, Setting
from tb.mutation import Bed, Check, plusarg
from tb.player import Player

# Small, with every feature: several ways and sets, tenants, entries of several beats, merging.
CONTEXT = Setting(CacheConfig(sets=4, ways=4, entry_bytes=64, misses=4, targets=2, write_buffer=2,
                              tenants=2, timeout_cycles=1024), width=256,
                  tenant_ways=(0b0011, 0b1110))
KEYS = 24


def _traffic(**fields: Any) -> Traffic:
    return Traffic(keys=KEYS, tenants=CONTEXT.config.tenants, **fields)


def _checks(verilog: Path) -> tuple[Check, ...]:
    """The timing model sees all but the data, which the judge of tb/context_cache_agents.py sees.
    """
    config = CONTEXT.config
    player, folder = Player("context_cache", verilog), build("context_cache", verilog)

    def timing(name: str, log_entries: int, base: int = CONTEXT.base, **fields: Any) -> Check:
        setting = dataclasses.replace(CONTEXT, log_entries=log_entries, base=base)
        script = Script(setting, _traffic(**fields))
        return Check(f"timing, {name}", lambda number: script.compare(player, plusarg(number)))

    def judged(name: str, **fields: Any) -> Check:
        job = {"entry_bytes": config.entry_bytes, "width": CONTEXT.width,
               "ports": CONTEXT.ports, "keys": KEYS, **fields}
        return Check(name, lambda number: run(
            "context_cache", folder, "tb.context_cache_tb", testcase="random_traffic",
            job=job, plusargs=plusarg(number)))

    timeout = config.timeout_cycles
    cut, after = (Script(CONTEXT, _traffic(requests=400, seed=seed)) for seed in (4, 5))
    before = cut.rows(player.inputs)[:len(cut.cycles) // 2]
    return (
        timing("stalls", 6, requests=1000, fail=0.1, idle=0.2, stall=0.3),
        timing("none waits", 20, requests=2000, fail=0.05, seed=2),
        timing("many wait", 11, 0xFFFF_FFFF_FFE0_0000, requests=3000, window=64, stall=0.7,
               weights={LOOKUP: 1}, seed=6),
        timing("hints", 6, 0x8000, requests=2000, seed=7,
               weights={PREFETCH: 40, LOOKUP: 10, FLUSH_ALL: 1}),
        timing("overdue", 11, requests=3000, overdue=0.1, timeout=timeout,
               weights={LOOKUP: 3, ACQUIRE: 1}, seed=3),
        Check("timing, after a reset in the middle",
              lambda number: after.compare(player, plusarg(number), before)),
        judged("random traffic", log_entries=20),
        judged("random traffic, lost answers", lose=0.02, timeout=timeout),
    )


BED = Bed("context_cache", CONTEXT.component, _checks)
