"""Flipped bits in the context cache's memories (docs/context-cache.md, Flipped bits)."""

import functools

import pytest

from rtl.config import CacheConfig
from rtl.context import ContextCache, cache, decide, secded
from rtl.context.arrays import SetArray
from tb.build import simulate
from tb.context_upset_top import upset_verilog
from tests.broken import broken

SMALL = CacheConfig(sets=2, ways=2, entry_bytes=64, misses=4, targets=2, write_buffer=2)
GEOMETRIES = {
    "small": SMALL,
    "one entry": CacheConfig(sets=1, ways=1, entry_bytes=64, misses=1, targets=1, write_buffer=1),
    "lru": CacheConfig(sets=2, ways=4, entry_bytes=128, misses=4, policy="lru"),
}
SIMULATORS = {"small": "icarus", "one entry": "icarus", "lru": "verilator"}
WIDTH, PORTS = 128, 2


def run(test, config=SMALL, *, simulator="icarus", variant="", **job):
    lines, age = shapes(config)
    job |= {"entry_bytes": config.entry_bytes, "width": WIDTH, "ports": PORTS,
            "ways": config.ways, "line": lines, "age": age}
    return simulate("context_cache", ("upsets", config, WIDTH, PORTS, variant),
                    lambda: upset_verilog(config, WIDTH, PORTS), "tb.context_upset_tb", simulator,
                    job=job, testcase=test)


def shapes(config):
    """Bits of the code words of a line and of the age."""
    found = []

    class Seen(SetArray):
        def __init__(self, *args):
            super().__init__(*args)
            found.append((self.line_code.bits, self.age_code.bits if self.age_code else 0))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rtl.context.cache.SetArray", Seen)
        ContextCache(config, WIDTH, PORTS).elaborate(None)
    return found[0]


@pytest.mark.parametrize("name", GEOMETRIES)
def test_single_upsets(name):
    result = run("single_upsets", GEOMETRIES[name], simulator=SIMULATORS[name], keys=12)
    assert result["counters"]["corrected"] > 20
    assert result["counters"]["uncorrectable"] == 0


@pytest.mark.parametrize("name", GEOMETRIES)
def test_double_upsets(name):
    result = run("double_upsets", GEOMETRIES[name], simulator=SIMULATORS[name], keys=12)
    counters, answers = result["counters"], result["answers"]
    assert counters["refetches"] and counters["spoiled_writebacks"] and answers["CORRUPT"]


@pytest.mark.parametrize("test", [
    "lost_ages", "clean_entry_is_refetched", "those_who_wait_for_a_struck_entry",
    "changed_entry_is_lost", "lost_line", "lost_line_of_a_locked_entry"])
def test_upset(test):
    run(test)


FAULTS = {
    "nothing is corrected": (
        secded, "data.eq(stored ^ flipped)", "data.eq(stored)", "Secded",
        "rtl.context.arrays.Secded", "single_upsets"),
    "what follows an error is decided": (
        cache, "item.valid & ~self.failing\n", "item.valid\n", "ContextCache",
        "tb.context_upset_top.ContextCache", "double_upsets"),
    "a changed entry is fetched again": (
        decide, "with m.If(line.dirty):\n            self._answer(m, CacheStatus.CORRUPT",
        "with m.If(0):\n            self._answer(m, CacheStatus.CORRUPT", "Decision._recover",
        "rtl.context.decide.Decision._recover", "double_upsets"),
    "a lost entry is written back as if it were right": (
        cache, "self.buffer.spoiled.eq(self.entries.uncorrectable)", "self.buffer.spoiled.eq(0)",
        "ContextCache", "tb.context_upset_top.ContextCache", "double_upsets"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_caught(fault, monkeypatch):
    module, right, wrong, part, user, test = FAULTS[fault]
    name, *path = part.split(".")
    wrong_one = functools.reduce(getattr, path, broken(module, right, wrong)[name])
    monkeypatch.setattr(user, wrong_one)
    with pytest.raises(AssertionError, match="tests failed"):
        run(test, variant=fault, keys=12)
