"""./rnic prove, and the proofs themselves: the cheap ones; the rest and all faults are slow."""

import dataclasses
import json

import pytest
from amaranth.hdl import Signal

import formal
from cli.main import main
from formal import run
from formal.proof import Proof, to_rtlil
from formal.stream import PROOFS as STREAM
from tools.cache import BuildError

ALL = [(unit, proof) for unit in formal.UNITS for proof in formal.proofs(unit)]
SKID = next(proof for proof in STREAM if proof.name == "skid")


def name(value) -> str:
    return value if isinstance(value, str) else value.name


@pytest.mark.parametrize("unit, proof", [pair for pair in ALL if pair[1].quick], ids=name)
def test_proof(unit, proof):
    results = run.prove(unit, proof)
    assert results
    assert [result for result in results if not result.ok] == []


@pytest.mark.slow
@pytest.mark.parametrize("unit, proof", [pair for pair in ALL if not pair[1].quick], ids=name)
def test_long_proof(unit, proof):
    assert [result for result in run.prove(unit, proof) if not result.ok] == []


@pytest.mark.slow
@pytest.mark.parametrize("unit, proof, mutant", [
    (unit, proof, mutant) for unit, proof in ALL for mutant in proof.mutants], ids=name)
def test_fault_is_noticed(unit, proof, mutant):
    assert run.caught(unit, proof, mutant)


@pytest.mark.parametrize("unit", formal.UNITS)
def test_every_unit_has_covers_and_two_faults(unit):
    assert sum(len(proof.mutants) for proof in formal.proofs(unit)) >= 2
    for proof in formal.proofs(unit):
        assert {"assert", "cover"} <= set(to_rtlil(proof)[1].values())


def test_fault_in_skid_buffer_is_noticed():
    failed = run.caught("stream", SKID, SKID.mutants[0])
    assert [result.result for result in failed] == [run.FAILED]


def counter(p):
    """At most 5 if it starts at 0, but not from 6 on: true, and not inductive."""
    count = Signal(3)
    p.m.d.sync += count.eq(count + (count != 5))
    p.check("below 7", count != 7)
    p.cover("6", count == 6)


def test_not_inductive_is_not_proved():
    proof = Proof(name="counter", build=counter, depth=1, induction=True)
    assert [result.result for result in run.prove("test", proof)] == [
        run.UNKNOWN, run.UNREACHED]


def test_bounded_is_proved_to_its_depth():
    proof = Proof(name="counter", build=counter, depth=4)
    result = run.prove("test", proof)[0]
    assert (result.result, result.depth, result.ok) == (run.HELD, 4, True)


def test_command(tmp_path, capfd):
    path = tmp_path / "rows.json"
    assert main(["prove", "--quick", "stream", "--json", str(path)]) == 0
    rows = json.loads(path.read_text())
    assert rows["mutants"] == []
    assert {row["proof"] for row in rows["properties"]} == {proof.name for proof in STREAM}
    assert all(row["ok"] for row in rows["properties"])
    captured = capfd.readouterr()
    assert "rnic: stream skid: 9 of 9 properties" in captured.err
    assert "proved" in captured.out


def test_command_tells_what_failed(capfd, monkeypatch):
    def wrong(p):
        counter(p)
        p.check("below 3", p.register(1, "one") == 0)

    proof = dataclasses.replace(SKID, name="wrong", build=wrong, depth=4, induction=False)
    monkeypatch.setattr(formal, "proofs", lambda unit, quick: (proof,))
    assert main(["prove", "stream", "-q"]) == 1
    said = capfd.readouterr().err
    assert "rnic: stream wrong: 'below 3' failed (trace: " in said
    assert "below_3.vcd" in said
    assert "rnic: stream wrong: '6' not reached" in said


def test_unknown_unit(capfd):
    assert main(["prove", "nothing"]) == 2
    assert "no such unit: nothing; there are stream, deparser" in capfd.readouterr().err


def test_missing_tool(capfd, monkeypatch):
    monkeypatch.setitem(run.TOOLS, "no-such-solver", "no-such-solver")
    assert main(["prove", "stream"]) == 2
    said = capfd.readouterr().err
    assert said.startswith("rnic: error: proofs need no-such-solver: ")
    assert said.count("\n") == 1
    with pytest.raises(BuildError):
        run.check_tools()
