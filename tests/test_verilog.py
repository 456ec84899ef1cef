"""RTL → Verilog: what Amaranth means is what simulators see."""

import re

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.verilog import to_verilog, wake_constants
from tb import build

READS_NOTHING = re.compile(r"always @\*\n    \S+ = \d+'\w+;")


class Mixed(wiring.Component):
    """Bits of one signal: some constant, some decided by an `If`, some left alone."""

    choose: In(1)
    o: Out(16)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o[4:8].eq(0xA)
        with m.If(self.choose):
            m.d.comb += self.o[8:12].eq(0xB)
        with m.Else():
            m.d.comb += self.o[8:12].eq(0xC)
        return m


@pytest.mark.parametrize("simulator", [
    "icarus", pytest.param("verilator", marks=pytest.mark.slow)])
def test_constant_bits_beside_chosen_ones(simulator):
    result = build.simulate("mixed", 1, lambda: to_verilog(Mixed(), "mixed"), "tb.verilog_tb",
                            simulator)
    assert result["seen"] == ["0000110010100000", "0000101110100000"]


def test_checker_sees_constants_that_are_lost(tmp_path, monkeypatch):
    """Without the wires the same bench sees X."""
    monkeypatch.setattr("rtl.verilog.wake_constants", lambda text: text)
    result = build.simulate("mixed", "as yosys writes it", lambda: to_verilog(Mixed(), "mixed"),
                            "tb.verilog_tb", "icarus")
    assert result["seen"] == ["XXXX1100XXXXXXXX", "XXXX1011XXXXXXXX"]


def test_constant_goes_through_a_wire():
    text = "  always @*\n    \\a.b [3:2] = 2'h1;\n  always @*\n    c = d;\n"
    assert wake_constants(text) == (
        "  wire [1:0] \\$constant1 = 2'h1;\n  always @*\n    \\a.b [3:2] = \\$constant1 ;\n"
        "  always @*\n    c = d;\n")
    assert READS_NOTHING.search("always @*\n    a[3:2] = 2'h1;\n")
    assert not READS_NOTHING.search(to_verilog(Mixed(), "mixed"))
