"""Flow-control credits at `rq` (PCIe base specification 2.6.1), and the attributes of TLPs."""

import pytest

from rtl.dma import arbiter, engine, realign, write
from tests.broken import broken
from tests.test_dma import bench


def run(**job):
    return bench("credits", "tiny", ("dma.mps=128",), module="tb.dma_credits_tb", count=80, **job)


def test_no_tlp_goes_without_credits():
    """400 writes and reads use each field's credits up many times."""
    assert all(count > 10 for count in run()["dry"].values())


BROKEN = {
    "data credits are not counted": (
        arbiter, "header.length) <= gate.posted_data", "header.length) <= 0xFFFF",
        "RequestArbiter", engine),
    "reads need no credits": (arbiter, "gate.nonposted)", "1)", "RequestArbiter", engine),
    "attributes of a write are lost": (
        realign, "header.attributes.eq(piece.attributes)", "header.attributes.eq(0)",
        "Realigner", write),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_engine_is_caught(name, monkeypatch):
    module, old, new, part, user = BROKEN[name]
    monkeypatch.setattr(user, part, broken(module, old, new)[part])
    with pytest.raises(AssertionError, match="credits"):
        run(variant=name)
