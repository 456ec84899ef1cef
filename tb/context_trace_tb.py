"""A trace of LOOKUPs played into the context cache: when each is taken and answered, and how."""

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

from rtl.config import CacheConfig
from sim.timing.interface import Answer, Inputs, Outputs, Request
from sim.timing.trace import Trace, TraceWorld
from tb.bits import number
from tb.build import read_job, write_result
from tb.context_pins import Pins


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
    pins = Pins(lambda name, value: setattr(getattr(dut, name), "value", value),
                lambda name: number(getattr(dut, name).value),
                CacheConfig(**job["cache"]), job["ports"], job["width"])
    Clock(dut.clk, 10, unit="ns").start(start_high=False)
    dut.rst.value = 1
    pins.rest(job["log_entries"])
    for _ in range(3):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    now = 0
    while not world.quiet:
        i = world.drive(now)
        pins.drive(i)
        await RisingEdge(dut.clk)
        out = _seen(pins, i)
        world.settle(now, i, out)
        now += 1
    write_result({"requests": world.times})
