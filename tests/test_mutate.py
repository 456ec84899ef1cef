"""`rnic mutate`, on a unit small enough for a bench of a few lines; and the player under it."""

import json
import random
from collections import deque

import pytest

from cli.main import main
from rtl.stream import SkidBuffer
from rtl.verilog import to_verilog
from tb import context_mutation
from tb.mutation import Bed, Check, plusarg
from tb.player import Player, Row
from tools import cache
from tools.cache import verilog

COUNT = 12


def rows(inputs, cycles=200):
    """Words offered at random to a buffer that is read at random."""
    rng, row = random.Random(1), Row(inputs)
    row.set("rst", 1)
    yield row.word
    row.set("rst", 0)
    for _ in range(cycles):
        row.set("i__valid", rng.getrandbits(1))
        row.set("i__payload", rng.getrandbits(8))
        row.set("o__ready", rng.getrandbits(1))
        yield row.word


def in_order(player, number):
    """What goes in comes out; in each cycle the buffer takes a word or holds two."""
    held, driven = deque(), list(rows(player.inputs))
    for given, seen in zip(driven, player.play(driven, plusarg(number)), strict=True):
        i, o = Row(player.inputs, given), Row(player.outputs, seen)
        if i.get("rst"):
            continue
        assert o.get("o__valid") == bool(held)
        assert o.get("i__ready") == (len(held) < 2)
        if held:
            assert o.get("o__payload") == held[0]
            if i.get("o__ready"):
                held.popleft()
        if i.get("i__valid") and o.get("i__ready"):
            held.append(i.get("i__payload"))


@pytest.fixture
def bed(monkeypatch, tmp_path):
    """A unit "skid" with one check; what it was run with."""
    monkeypatch.setattr(cache, "CACHE", tmp_path)
    tried = []

    def checks(source):
        player = Player("skid", source, "icarus")

        def check(number):
            tried.append(number)
            in_order(player, number)

        return (Check("in order", check),)

    monkeypatch.setattr(context_mutation, "BED", Bed("skid", lambda: SkidBuffer(8), checks))
    return tried


def run(path):
    status = main(["mutate", "context", "--count", str(COUNT), "--seed", "4", "--json", str(path)])
    return status, json.loads(path.read_text())


def test_faults_are_noticed_once(bed, tmp_path, capfd):
    status, result = run(tmp_path / "first.json")
    assert (status, result["count"], result["caught"]) == (0, COUNT, COUNT)
    assert sorted(bed) == list(range(COUNT + 1))  # 0 is the buffer as it is
    assert {row["by"] for row in result["mutants"]} == {"in order"}
    assert all(row["said"] and row["where"] for row in result["mutants"])
    assert "100.0 % of 12" in capfd.readouterr().out
    assert run(tmp_path / "second.json") == (status, result)
    assert len(bed) == COUNT + 1  # what was found out is kept


def test_a_bench_that_sees_nothing_is_told_of(bed, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(Row, "get", lambda self, name: 1)  # always in reset
    status, result = run(tmp_path / "rows.json")
    assert (status, result["caught"]) == (1, 0)
    captured = capfd.readouterr()
    assert "rnic: context: 0.0 % of 12 faults were noticed, fewer than 95 %" in captured.err
    assert "not noticed" in captured.out


def test_a_bench_that_fails_anyway_is_told_of(bed, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(Row, "get", lambda self, name: 0)
    assert main(["mutate", "context", "--count", str(COUNT)]) == 2
    assert "'in order' fails without any fault" in capfd.readouterr().err


def test_unknown_unit(capfd):
    assert main(["mutate", "nothing"]) == 2
    assert "'nothing' is not 'context'" in capfd.readouterr().err


@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
def test_player(simulator):
    source = verilog("skid_player", (), lambda: to_verilog(SkidBuffer(8), "skid_player"))
    in_order(Player("skid_player", source, simulator), 0)
    player = Player("skid_player", source, simulator)
    assert set(player.inputs) == {"rst", "i__payload", "i__valid", "o__ready"}
    with pytest.raises(ValueError, match="i__payload: 256 does not fit 8 bits"):
        Row(player.inputs).set("i__payload", 256)
