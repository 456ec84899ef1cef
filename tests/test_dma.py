"""The DMA engine against the host agent."""

import pytest

from rtl.config import load, override
from rtl.dma import Dma, read, split, write
from rtl.verilog import to_verilog
from tb.build import simulate
from tests.broken import broken

ORDERED = (True, False, False)
WRITERS = 3


def bench(test, preset, settings=(), *, writers=WRITERS, ordered=ORDERED, simulator="verilator",
          seed=1, variant="", module="tb.dma_tb", writer_weights=(), reader_weights=(), **job):
    """Build the engine of a configuration and run one test of the bench on it.

    `variant` names an engine that was changed on purpose.
    """
    config = override(load(preset), list(settings))
    weights = tuple(writer_weights), tuple(reader_weights)
    key = (repr(config), writers, ordered, variant, weights)
    job = {"preset": preset, "settings": list(settings), "writers": writers,
           "readers": len(ordered), "ordered": ordered, **job}
    return simulate(
        "dma", key,
        lambda: to_verilog(Dma(config, writers, len(ordered), ordered, *weights), "dma"),
        module, simulator, job=job, testcase=test, seed=seed)


STALLS = {"none": (0.0, 0.0), "idle": (0.5, 0.0), "back_pressure": (0.0, 0.5), "both": (0.4, 0.4)}


@pytest.mark.parametrize("preset", ("tiny", "asic400g"))
@pytest.mark.parametrize("stalls", STALLS)
def test_random_traffic(preset, stalls):
    idle, stall = STALLS[stalls]
    result = bench("random_traffic", preset, count=120 if preset == "tiny" else 300,
                   longest=2000 if preset == "tiny" else 10240, idle=idle, stall=stall)
    assert result["write_tlps"] > 300
    assert result["read_tlps"] > 300


def speed(**job):
    return bench("speed", "asic400g", module="tb.dma_speed_tb", writers=1, ordered=(True,), **job)


@pytest.mark.parametrize("skew", (0, 1, 37))
def test_write_rate(skew):
    tlps = speed(writes={"length": 4096, "skew": skew, "count": 40})["tlps"]
    cycles = tlps[-1][0] - tlps[0][0] + tlps[0][2]
    assert sum(beats for *_, beats in tlps) >= 0.98 * cycles


@pytest.mark.parametrize("latency", (100, 400, 1000))
def test_read_rate(latency):
    size, mrrs, tags = 64, 512, 64
    cycles = speed(latency=latency, reads={"length": mrrs, "skew": 0, "count": 600})["read_beats"]
    skip = len(cycles) // 4
    bound = min(1.0, tags * mrrs / size / latency)
    assert len(cycles) - 1 - skip >= 0.95 * bound * (cycles[-1] - cycles[skip])


def test_weights():
    """Context reads beside three ports that write and three that read payload. Bound with weight w:
    w of every 3 × 4 beats, 3 reads, and w."""
    def rate(weight):
        taken = bench("speed", "asic400g", module="tb.dma_speed_tb", writers=4,
                      ordered=(False, True, True, True), reader_weights=(weight, 1, 1, 1), bulk=3,
                      latency=200, reads={"length": 256, "skew": 0, "count": 200},
                      writes={"length": 4096, "skew": 0, "count": 80})["reads_taken"]
        return (len(taken) - 65) / (taken[-1] - taken[64])  # the first find an empty engine

    assert rate(4) > 2 * rate(1)


MUTANTS = {
    "byte enables of the start": ("low.eq(0xF << skip)", "low.eq(0xF)"),
    "room up to the boundary": ("room.eq(limit - address[:exact_log2(limit)])", "room.eq(limit)"),
}


def broken_splitter(name, monkeypatch, **job):
    """Run the random test on an engine whose splitter is wrong on purpose."""
    splitter = broken(split, *MUTANTS[name])["Splitter"]
    for module in (read, write):
        monkeypatch.setattr(module, "Splitter", splitter)
    bench("random_traffic", "tiny", variant=name, count=60, longest=600, **job)


@pytest.mark.parametrize("name", MUTANTS)
def test_broken_splitter_is_caught(name, monkeypatch):
    with pytest.raises(AssertionError, match="random_traffic"):
        broken_splitter(name, monkeypatch)


@pytest.mark.parametrize("settings", (
    ("data_width=128", "dma.mps=128", "dma.mrrs=4096", "dma.rcb=128"),
    ("data_width=256", "dma.mps=4096", "dma.mrrs=128"),
    ("dma.mps=512", "dma.mrrs=256", "dma.tags=4"),
), ids=" ".join)
def test_limits_and_widths(settings):
    bench("random_traffic", "tiny", settings, count=60, longest=6000, stall=0.2)


def test_on_icarus():
    bench("random_traffic", "tiny", simulator="icarus", count=20, longest=600, stall=0.3, idle=0.3)
