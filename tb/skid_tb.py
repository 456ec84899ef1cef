"""Bench of the skid buffer: everything that goes in comes out, in order, under random stalls."""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

from tb.build import read_job, write_result


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def order_is_kept(dut):
    rng = random.Random(cocotb.RANDOM_SEED)
    count = read_job().get("count", 1000)
    Clock(dut.clk, 10, unit="ns").start(start_high=False)
    dut.rst.value = 1
    dut.i__valid.value = 0
    dut.o__ready.value = 0
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)
    dut.rst.value = 0
    words = [rng.getrandbits(16) for _ in range(count)]
    sent = list(words)
    got: list[int] = []
    offering = False
    while len(got) < count:
        if not offering and sent and rng.random() < 0.7:
            dut.i__valid.value = 1
            dut.i__payload.value = sent[0]
            offering = True
        ready = rng.random() < 0.7
        dut.o__ready.value = ready
        await RisingEdge(dut.clk)
        if offering and dut.i__ready.value == 1:
            sent.pop(0)
            offering = False
            dut.i__valid.value = 0
        if ready and dut.o__valid.value == 1:
            got.append(dut.o__payload.value.to_unsigned())
    assert got == words
    write_result({"count": len(got)})
