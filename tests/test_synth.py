"""Synthesis of blocks small enough to count by hand, and `rnic synth` on them."""

import json

import pytest
from click.testing import CliRunner

from cli.errors import BAD_INPUT, report
from cli.main import rnic
from cli.synth import JUDGED, compare
from rtl.stream import SkidBuffer
from rtl.units import UNITS
from tools import cache, synth

TREE = """
module tree(input clk, input [15:0] d, output reg parity);
  reg [15:0] kept;
  always @(posedge clk) begin
    kept <= d;
    parity <= ^kept;  // more inputs than a LUT has
  end
endmodule
"""
MIXED = """
module mixed(input clk, input [35:0] d, input [1:0] at, input [3:0] we, input [8:0] wide_at,
             output reg first, output reg [7:0] sum, output reg [7:0] few, output reg [35:0] many);
  reg [35:0] kept;
  always @(posedge clk) begin
    kept <= d;
    first <= kept[0];
    sum <= sum + kept[7:0];  // a level of LUTs into a carry chain
  end
  reg [7:0] ported [0:3];  // three write ports: no RAM of an FPGA
  always @(posedge clk) begin
    if (we[0]) ported[at] <= kept[7:0];
    if (we[1]) ported[at + 2'd1] <= kept[15:8];
    if (we[2]) ported[at + 2'd2] <= kept[23:16];
    few <= ported[at];
  end
  reg [35:0] block [0:511];  // half a block RAM
  always @(posedge clk) begin
    if (we[3]) block[wide_at] <= d;
    many <= block[wide_at];
  end
endmodule
"""


@pytest.fixture(scope="module", autouse=True)
def synthesized(tmp_path_factory):
    """Units of a moment's work: skid buffers in place of the NIC; nothing of it stays in the cache.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "CACHE", tmp_path_factory.mktemp("cache"))
        patch.setitem(UNITS, "nic", lambda config: SkidBuffer(config.data_width))
        yield


def run(*arguments):
    """(exit status, what it printed) of `rnic synth`."""
    done = CliRunner().invoke(rnic, ["synth", *map(str, arguments)], standalone_mode=False)
    if done.exception:
        return report(done.exception), done.output
    return done.return_value, done.output


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    path = tmp_path_factory.mktemp("recorded") / "skid.json"
    status, _ = run("--set", "data_width=64", "--json", path)
    assert status == 0
    return path


def test_skid_buffer(recorded):
    found = json.loads(recorded.read_text())
    assert found["ff"] == 2 * 64 + 2  # payloads and their valid bits
    assert found["levels"] == 1
    assert (found["bram"], found["dsp"], found["memories_as_registers"]) == (0, 0, [])
    assert found["longest"]["register_to_output"]["levels"] == 1  # `ready` is not `spare_valid`
    assert found["fmax_mhz"] is None
    assert {"unit": "nic", "data_width": 64, "target": "xcup"}.items() <= found.items()


def test_table_says_what_was_not_done(recorded):
    status, said = run("--set", "data_width=64")
    assert status == 0
    rows = {line.split("│")[1].strip(): line.split("│")[2].strip()
            for line in said.splitlines() if line.count("│") == 3}
    assert rows["flip-flops"] == "130"
    assert rows["fmax"] == "not placed"
    assert rows["memories in flip-flops"] == "none"


def test_same_text_is_synthesized_once(recorded, monkeypatch):
    monkeypatch.setattr(synth, "_run_yosys", lambda *_: pytest.fail("not from the cache"))
    assert run("--set", "data_width=64", "-q") == (0, "")


def test_depth_of_a_tree(tmp_path):
    source = tmp_path / "tree.v"
    source.write_text(TREE)
    found = synth.figures("tree", source, "xcup")
    assert found["levels"] == 3  # yosys takes LUT2, LUT6, LUT6 where two levels would do


def test_depth_and_memories(tmp_path):
    source = tmp_path / "mixed.v"
    source.write_text(MIXED)
    stages = []
    found = synth.figures("mixed", source, "xcup", lambda done, of: stages.append((done, of)))
    paths = {path["end"]: path["levels"] for path in found["deepest"]}
    assert (paths["first (D)"], paths["sum (D)"]) == (0, 1)
    assert found["memories_as_registers"] == [{"name": "ported", "words": 4, "bits": 8}]
    assert found["ff"] == 24 + 1 + 8 + 8 + 4 * 8  # `many` is in the block RAM
    assert found["bram"] == 0.5
    assert stages[0] == (1, 9)
    assert stages[-1] == (9, 9)


def test_growth_is_caught(recorded):
    assert run("--set", "data_width=64", "--compare", recorded)[0] == 0
    status, said = run("--set", "data_width=128", "--compare", recorded)
    assert status == 1
    assert "+98.5 %: grown" in said  # 130 flip-flops to 258
    assert run("--set", "data_width=128", "--compare", recorded, "--allow", 110, "-q") == (0, "")


@pytest.mark.parametrize("change, grown", [
    ({}, []), ({"lut": 105}, []), ({"lut": 106}, ["LUT"]), ({"levels": 9}, ["levels"]),
    ({"ff": 1, "levels": 1}, []), ({"uram": 1}, ["UltraRAM"]),  # none before
    ({"memories_as_registers": [{}]}, ["memories in flip-flops"]),
])
def test_what_counts_as_grown(change, grown):
    before = {**dict.fromkeys(JUDGED, 100), "uram": 0, "levels": 8, "memories_as_registers": []}
    changes = compare(before, {**before, **change}, 5)
    assert [change["figure"] for change in changes if change["grown"]] == grown


@pytest.mark.parametrize("arguments, message", [
    (["--unit", "alu"], "'alu' is not one of 'nic', 'parser'"),
    (["--target", "asic"], "'asic' is not one of 'xcup', 'xc7', 'ecp5'"),
    (["--compare", "none.json"], "File 'none.json' does not exist"),
    (["--compare", "pyproject.toml"], "'pyproject.toml' is no result of rnic synth --json"),
    (["--set", "data_width=100"], "data_width must be one of 64, 128"),
])
def test_bad_input(capsys, arguments, message):
    assert run(*arguments)[0] == BAD_INPUT
    assert message in one_line(capsys)


def test_record_of_another_unit(recorded, capsys):
    assert run("--unit", "parser", "--compare", recorded)[0] == BAD_INPUT
    assert "it is of nic on xcup, not parser on xcup" in one_line(capsys)


def test_missing_yosys(monkeypatch, capsys):
    monkeypatch.setattr(synth, "PACKAGE", "no-such-yosys")
    assert run("-q")[0] == BAD_INPUT
    assert one_line(capsys).startswith("rnic: error: synthesis needs yosys: ")


def test_verilog_that_yosys_refuses(tmp_path):
    source = tmp_path / "broken.v"
    source.write_text("module broken(input a, output b);\n  assign b = c(a);\nendmodule\n")
    with pytest.raises(cache.BuildError, match="yosys could not synthesize broken for xcup"):
        synth.figures("broken", source, "xcup")
    assert not list(cache.CACHE.glob("synth/broken*.gz"))


def one_line(capsys):
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said
