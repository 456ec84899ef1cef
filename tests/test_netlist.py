"""Area and depth of netlists written by hand, in the form of yosys' JSON."""

import pytest

from tools.netlist import Netlist

OUTPUTS = {"Q", "O", "CO", "DOUTADOUT", "DO", "SPO", "DPO", "S0", "S1", "COUT", "Z"}


def cell(kind, **connections):
    return {"type": kind, "connections": connections, "port_directions": {
        port: "output" if port in OUTPUTS or port.startswith("DO") else "input"
        for port in connections}}


def netlist(*cells, inputs=None, outputs=None, **registers):
    """Cells joined by numbers of nets; `registers` names nets."""
    ports = {name: {"direction": direction, "bits": bits}
             for direction, some in (("input", inputs or {}), ("output", outputs or {}))
             for name, bits in some.items()}
    names = {name: {"hide_name": 0, "bits": bits, "attributes": {"register": "1"}}
             for name, bits in registers.items()}
    names |= {name: {"hide_name": 0, "bits": port["bits"], "attributes": {}}
              for name, port in ports.items()}
    return Netlist({"cells": dict(enumerate(cells)), "ports": ports, "netnames": names})


def register(d, q):
    return cell("FDRE", C=[1], CE=["1"], R=["0"], D=[d], Q=[q])


def lut(output, *inputs):
    return cell(f"LUT{len(inputs)}", O=[output],
                **{f"I{number}": [bit] for number, bit in enumerate(inputs)})


def deepest(found, **kinds):
    path = found.longest(**kinds)[0]
    return path.levels, path.start, path.end


def test_luts_between_registers():
    found = netlist(register(10, 20), register(11, 21), lut(30, 20, 21), lut(31, 30, 20),
                    lut(32, 31), register(32, 22), inputs={"clk": [1], "d": [10, 11]},
                    a=[20], b=[21], sum=[22])
    assert deepest(found) == (3, "a", "sum (D)")
    assert deepest(found, start="input")[0] == 0  # straight into the registers
    counts = found.counts()
    assert (counts["lut"], counts["ff"], counts["bram"], counts["carry"]) == (3, 3, 0, 0)


def test_paths_from_inputs_and_to_outputs():
    found = netlist(lut(30, 10), lut(31, 30), register(31, 20), lut(40, 20), lut(41, 10, 20),
                    inputs={"clk": [1], "d": [10]}, outputs={"q": [40], "z": [41]}, kept=[20])
    assert deepest(found, start="input") == (2, "d", "kept (D)")
    assert deepest(found, end="output") == (1, "kept", "q")
    assert deepest(found, start="input", end="output") == (1, "d", "z")
    assert found.longest() == []


def test_bits_of_a_vector_are_one_end():
    found = netlist(register(20, 20), register(20, 21), lut(30, 20), lut(31, 30), register(30, 22),
                    register(31, 23), one=[20], two=[22, 23])
    assert [(path.levels, path.end) for path in found.longest()] == [
        (2, "two (D)"), (0, "FDRE (D)"), (0, "one (D)")]  # one register has no name


def test_carry_is_a_wire_and_runs_upwards():
    """A sum bit hangs on the bits below it and on no other."""
    carry = cell("CARRY8", CI=["0"], CI_TOP=["0"], DI=[20, 21], S=[30, 31], O=[40, 41],
                 CO=[50, 51])
    found = netlist(register(40, 20), register(41, 21), lut(30, 20), lut(29, 21), lut(31, 29),
                    carry, low=[20], high=[21])
    assert [(path.levels, path.start, path.end) for path in found.longest()] == [
        (2, "high", "high (D)"), (1, "low", "low (D)")]
    assert found.counts()["carry"] == 1


def test_wide_multiplexer_is_a_wire():
    cells = register(40, 20), lut(30, 20), lut(31, 20)
    joined = netlist(*cells, cell("MUXF7", I0=[30], I1=[31], S=[20], O=[40]), a=[20])
    assert deepest(joined)[0] == 1
    assert netlist(*cells, lut(40, 30, 31, 20), a=[20]).longest()[0].levels == 2


def test_block_ram_ends_a_path_and_starts_one():
    ram = cell("RAMB36E2", ADDRARDADDR=[30], DOUTADOUT=[31])
    found = netlist(register(40, 20), lut(30, 20), ram, lut(40, 31), a=[20], data=[31])
    assert [(path.levels, path.start, path.end) for path in found.longest()] == [
        (1, "data", "a (D)"), (1, "a", "data (ADDRARDADDR)")]
    assert found.counts()["bram"] == 1


def test_half_block_rams():
    assert netlist(cell("RAMB18E2", DOUTADOUT=[31])).counts()["bram"] == 0.5


def test_address_passes_through_lut_ram():
    ram = cell("RAM32X1D", A=[50], DPRA=[30], D=[20], WCLK=[1], WE=[20], SPO=[60], DPO=[31])
    found = netlist(register(40, 20), lut(30, 20), ram, lut(40, 31), a=[20], word=[31])
    assert deepest(found) == (3, "a", "a (D)")  # LUT, memory, LUT
    assert (found.counts()["lut"], found.counts()["lut_ram"]) == (4, 2)


def test_write_port_of_lut_ram_is_an_end():
    ram = cell("RAM32X1D", A=[30], DPRA=["0"], D=[20], WCLK=[1], WE=[29], SPO=[60], DPO=[31])
    found = netlist(register(40, 20), lut(28, 20), lut(29, 28), ram, lut(40, 31), a=[20],
                    word=[31])
    assert ("word (WE)", 2) in [(path.end, path.levels) for path in found.longest()]
    assert deepest(found)[0] == 2


def test_ecp5_counts_the_luts_of_a_carry_cell():
    found = netlist(cell("CCU2C", A0=[20], CIN=["0"], S0=[30]), cell("LUT4", A=[20], Z=[31]))
    assert found.counts()["lut"] == 3


def test_loop_is_refused():
    with pytest.raises(ValueError, match="a loop of combinational logic at "):
        netlist(lut(30, 31), lut(31, 30), register(30, 20)).longest()


def test_unknown_cell_is_refused():
    with pytest.raises(ValueError, match="cells of unknown kind: BUFG"):
        netlist(cell("BUFG", I=[1], O=[2]))
