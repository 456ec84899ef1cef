"""Faults that the DMA engine meets, with traffic on all clients (docs/dma.md)."""

import pytest

from rtl.dma import engine, inflight, read
from tests.broken import broken
from tests.test_dma import bench

FAULTS = ("ur", "ca", "crs", "poison", "drop", "late", "byte_count_low", "byte_count_high",
          "lower_address", "beats", "unknown")
SETTINGS = ("dma.timeout_cycles=1024", "dma.mps=128")


def strike(kind, test="faults", **job):
    return bench(test, "tiny", SETTINGS, module="tb.dma_faults_tb", kind=kind, count=60, **job)


@pytest.mark.parametrize("kind", FAULTS)
def test_fault_stays_with_its_read(kind):
    """The error reaches the client that asked; all tags are free at the end."""
    strike(kind)


def test_bus_mastering_taken_away():
    strike("", "bus_master")


# name: (module, what it says, what it says then, the class, its user, what finds it)
BROKEN = {
    "a tag is free at its time-out": (
        inflight, "stays.eq(self.forwarded & bit(pending, self.forwarded_tag))", "stays.eq(0)",
        "InFlight", read, "late"),
    "poison is ignored": (
        inflight, "header.poisoned | ~fits", "~fits", "InFlight", read, "poison"),
    "the byte count is trusted": (
        inflight, "header.byte_count != expected_bytes", "header.byte_count == 0",
        "InFlight", read, "byte_count_low"),
    "a read that was not sent is forgotten": (
        inflight, "told.eq(~bit(orphan, self.refuse_tag))", "told.eq(0)", "InFlight", read,
        "bus_master"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_engine_is_caught(name, monkeypatch):
    module, old, new, part, user, kind = BROKEN[name]
    monkeypatch.setattr(user, part, broken(module, old, new)[part])
    test = kind if kind == "bus_master" else "faults"
    with pytest.raises(AssertionError, match=test):
        strike(kind, test, variant=name)


def test_bus_mastering_not_looked_at_is_caught(monkeypatch):
    blind = broken(engine, "Mux(starts, ~self.bus_master & ~shown, dropping)", "0")["Dma"]
    monkeypatch.setattr("tests.test_dma.Dma", blind)
    with pytest.raises(AssertionError, match="bus_master"):
        strike("", "bus_master", variant="no bus mastering")
