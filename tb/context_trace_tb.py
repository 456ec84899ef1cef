"""A trace of LOOKUPs played into the context cache: when each is taken and answered, and how."""

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from rtl.config import CacheConfig
from sim.timing.interface import Answer, Inputs, Outputs, Request
from sim.timing.trace import Trace, TraceWorld
from tb.build import read_job, write_result
from tb.context_timing_tb import Pins


def _seen(pins: Pins, i: Inputs) -> Outputs:
    """The transfers of a cycle, as the model gives them; of an answer's request only the tag."""
    seen = pins.sample(i)
    out = Outputs([port in seen["taken"] for port in range(pins.ports)], [None] * pins.ports)
    for port, op, key, tag, status, hit in seen["answers"]:
        out.answers[port] = Answer(Request(port, op, key, tag), status, hit)
    out.fetch, out.beat_taken = seen["fetch"], seen["beat"]
    return out


@cocotb.test(timeout_time=200, timeout_unit="ms")
async def play(dut):
    job = read_job()
    fields = job["trace"]
    for name in ("keys", "tenants"):
        if fields[name] is not None:
            fields[name] = np.array(fields[name])
    trace = Trace(**fields)
    world = TraceWorld(trace)
    pins = Pins(dut, job, CacheConfig(**job["cache"]))
    await pins.reset(job["log_entries"])
    now = 0
    while not world.quiet:
        i = world.drive(now)
        pins.drive(i)
        await RisingEdge(dut.clk)
        out = _seen(pins, i)
        world.settle(now, i, out)
        now += 1
    write_result({"requests": world.times})
