"""A trace of LOOKUPs through the RTL's context cache, beside the timing model."""

import dataclasses
from typing import Any

import numpy as np

from rtl.config import CacheConfig
from rtl.context import ContextCache
from rtl.verilog import to_verilog
from sim.timing import plain
from sim.timing.trace import Trace
from tb.build import simulate

LOG_ENTRIES = 24  # of the host's table: every key is inside


def hardware(cache: CacheConfig, trace: Trace, width: int, simulator: str, seed: int = 1) -> Any:
    """[taken, answered, hit] of each request of each port, as the hardware has it; cycles."""
    job = {"cache": dataclasses.asdict(cache), "ports": trace.ports, "width": width,
           "log_entries": LOG_ENTRIES,
           "trace": dataclasses.asdict(trace) | {"keys": trace.keys.tolist()}}
    return np.array(simulate(
        "context_cache", (dataclasses.asdict(cache), width, trace.ports),
        lambda: to_verilog(ContextCache(cache, width, trace.ports), "context_cache"),
        "tb.context_trace_tb", simulator, job=job, seed=seed)["requests"])


def predicted(found: Any) -> Any:
    """The same of what `sim.timing.trace.predict` gives."""
    return np.stack([found["taken"], found["answered"], found["outcome"] == plain.HIT], axis=2)
