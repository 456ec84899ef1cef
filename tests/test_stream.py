"""Stream plumbing."""

import pytest

from rtl.stream import SkidBuffer
from rtl.verilog import to_verilog
from tb.build import SIMULATORS, simulate


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_skid_buffer_keeps_order(simulator):
    result = simulate("skid", 16, lambda: to_verilog(SkidBuffer(16), "skid"), "tb.skid_tb",
                      simulator, job={"count": 500})
    assert result["count"] == 500
