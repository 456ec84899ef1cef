"""Bench of tests/test_verilog.py: both values of `choose`, and what comes of them."""

import cocotb
from cocotb.triggers import Timer

from tb.build import write_result


@cocotb.test()
async def both(dut):
    seen = []
    for choose in (0, 1):
        dut.choose.value = choose
        await Timer(10, "ns")
        seen.append(str(dut.o.value))
    write_result({"seen": seen})
