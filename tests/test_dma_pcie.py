"""The DMA engine against cocotbext-pcie's root complex, and every place a request can lie."""

import random

import pytest

from tests.test_dma import MUTANTS, bench, broken_splitter

HOSTS = ("plain", "pcie")


@pytest.mark.parametrize("preset, settings", (
    ("tiny", ("dma.mps=128", "dma.rcb=128")),
    ("asic400g", ()),
))
def test_both_hosts_end_with_the_same_memory(preset, settings):
    """Random splits, order and delays of two independent hosts."""
    ends = [bench("random_traffic", preset, settings, seed=7, count=150, longest=3000, stall=0.1,
                  idle=0.1, host=host) for host in HOSTS]
    for name in ("memory", "read_tlps", "write_tlps", "read_bytes", "write_bytes"):
        assert ends[0][name] == ends[1][name], name
    assert ends[0]["read_tlps"] > 400
    assert ends[0]["write_tlps"] > 400


REQUESTS = 10_000  # in all, over 6 ports


@pytest.mark.parametrize("requests", (
    REQUESTS // 5, pytest.param(REQUESTS, marks=pytest.mark.slow),
    pytest.param(100 * REQUESTS, marks=pytest.mark.slow)))
def test_random_requests(requests):
    bench("random_traffic", "asic400g", count=requests // 6 + 1, longest=1200, host="pcie",
          stall=0.05)


LENGTHS = range(301)
BEAT = 64  # bytes, of asic400g
ALL = {
    "alignments": [(offset, length) for offset in range(BEAT) for length in LENGTHS],
    "straddles": [(4096 - before, before + after)
                  for before in range(BEAT + 5) for after in range(BEAT + 5)],
}


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("share", (0.04, pytest.param(1, marks=pytest.mark.slow)))
def test_every_place(kind, host, share):
    """Every alignment with every length of 0 to 300, and every straddle of a 4 KB boundary."""
    spots = random.Random(5).sample(ALL[kind], int(share * len(ALL[kind])))
    result = bench("places", "asic400g", places=spots, host=host)
    assert result["counters"]["write_bytes"] == sum(length for _, length in spots)


@pytest.mark.parametrize("name", MUTANTS)
def test_broken_splitter_is_caught(name, monkeypatch):
    """The library's host, with the checks of the plain one, sees what is wrong on purpose."""
    with pytest.raises(AssertionError, match="random_traffic"):
        broken_splitter(name, monkeypatch, host="pcie")
