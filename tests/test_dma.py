"""The DMA engine against the host agent."""

import pytest

from rtl.config import load, override
from rtl.dma import Dma
from rtl.verilog import to_verilog
from tb.build import simulate

ORDERED = (True, False, False)
WRITERS = 3


def bench(test, preset, settings=(), *, writers=WRITERS, ordered=ORDERED, simulator="verilator",
          seed=1, **job):
    """Build the engine of a configuration and run one test of the bench on it."""
    config = override(load(preset), list(settings))
    key = (repr(config), writers, ordered)
    job = {"preset": preset, "settings": list(settings), "writers": writers,
           "readers": len(ordered), "ordered": ordered, **job}
    return simulate(
        "dma", key, lambda: to_verilog(Dma(config, writers, len(ordered), ordered), "dma"),
        "tb.dma_tb", simulator, job=job, testcase=test, seed=seed)


STALLS = {"none": (0.0, 0.0), "idle": (0.5, 0.0), "back_pressure": (0.0, 0.5), "both": (0.4, 0.4)}


@pytest.mark.parametrize("preset", ("tiny", "asic400g"))
@pytest.mark.parametrize("stalls", STALLS)
def test_random_traffic(preset, stalls):
    idle, stall = STALLS[stalls]
    result = bench("random_traffic", preset, count=120 if preset == "tiny" else 300,
                   longest=2000 if preset == "tiny" else 10240, idle=idle, stall=stall)
    assert result["write_tlps"] > 300
    assert result["read_tlps"] > 300
