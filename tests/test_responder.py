"""The responder and the completer against the golden model, row by row and at random."""


import pytest
from amaranth.hdl import Const, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out, connect, flipped
from amaranth.utils import exact_log2

from rtl.config import NicConfig
from rtl.context import CachePort
from rtl.dma import WriteClient
from rtl.host.completion import Completer, CompleterCounters
from rtl.host.layout import CQC_BYTES, RESPONDER_FIELDS
from rtl.responder import Responder
from rtl.responder.protect import Protect
from rtl.verilog import to_verilog
from tb.build import simulate
from tb.responder_cases import CASES

ROWS = [row for row in range(1, 32) if row != 23]  # that one is in test_failed_fetches
MUTANT_CASES = ("24_send_last_imm", "15_wrap", "18_then_posted", "08_once", "09_wrap",
                "24_flow_entropy", "15_read_rights", "10_atomic_last_but_one", "24_read_of_257",
                "25_uc_whole_one_after_a_broken_one", "26_ud_header", "28_ud_qkey")


class ResponderUnit(wiring.Component):
    """A responder with the completer that takes its completions."""

    def __init__(self, config: NicConfig):
        self.responder = Responder(config)
        self.completer = Completer(config.data_width)
        ports = {name: port for name, port in self.responder.signature.members.items()
                 if name != "completion"}
        super().__init__({**ports, "cqc": Out(CachePort(CQC_BYTES)),
                          "cqe_write": Out(WriteClient(config.data_width)),
                          "completer_counters": Out(CompleterCounters)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.responder, m.submodules.completer = self.responder, self.completer
        connect(m, self.responder.completion, self.completer.i)
        for name, member in self.responder.signature.members.items():
            if name == "completion":
                continue
            inner, outer = getattr(self.responder, name), getattr(self, name)
            if member.is_port:
                m.d.comb += outer.eq(inner)
            else:
                connect(m, flipped(outer), inner)
        connect(m, flipped(self.cqc), self.completer.cqc)
        connect(m, flipped(self.cqe_write), self.completer.write)
        m.d.comb += self.completer_counters.eq(self.completer.counters)
        return m


def run(test, width=64, simulator="verilator", key="", **job):
    config = NicConfig(data_width=width)

    def generate():
        return to_verilog(ResponderUnit(config), "responder_unit")

    return simulate("responder_unit", (width, key), generate, "tb.responder_tb", simulator,
                    testcase=test, job={"width": width, **job})


@pytest.mark.parametrize("row", ROWS)
def test_row(row):
    names = [name for name in CASES if name.startswith(f"{row:02d}_")]
    assert len(names) >= 2
    run("directed", cases=names, all=True)


@pytest.mark.parametrize("stall", (0, 0.4))
@pytest.mark.parametrize("width", (64, 512))
def test_all_rows(width, stall):
    run("directed", width, cases=list(CASES), stall=stall, all=True)


def test_failed_fetches():
    run("failures")


@pytest.mark.parametrize("stall", (0, 0.4))
def test_random_traffic(stall):
    results = run("at_random", count=250, stall=stall)["results"]
    assert {"31", "41", "96"} <= results.keys()  # ACK, RNR NAK, sequence NAK


def test_on_icarus():
    run("directed", simulator="icarus", cases=list(MUTANT_CASES))


def test_back_to_back():
    assert run("back_to_back", 512, size=64)["cycles"] == 28


# Deliberate faults: the bench must see each.

def _unchanged(field):
    """A responder that never changes `field` of a context."""
    original = Responder._context_after

    def context_after(self, m, headers, qpc, after, *rest):
        original(self, m, headers, qpc, after, *rest)
        m.d.comb += after[field].eq(qpc[field])
    return context_after


def _caught(key):
    with pytest.raises(AssertionError, match="1 of 1 tests failed"):
        run("directed", simulator="icarus", key=key, cases=list(MUTANT_CASES))


@pytest.mark.parametrize("field", ("msn", "epsn", "r_nak"))
def test_a_field_that_stays_is_caught(field, monkeypatch):
    monkeypatch.setattr(Responder, "_context_after", _unchanged(field))
    _caught(field)


def test_a_source_port_that_is_not_folded_is_caught(monkeypatch):
    monkeypatch.setattr("rtl.responder.answer.source_port", lambda qpc: qpc.udp_sport)
    _caught("source port")


def test_a_wrong_ip_header_is_caught(monkeypatch):
    monkeypatch.setattr("rtl.responder.grh.ICRC_BYTES", 0)
    _caught("IP header")


def test_a_right_that_is_not_asked_for_is_caught(monkeypatch):
    monkeypatch.setattr(Protect, "_right", staticmethod(lambda m, right, entry: Const(1)))
    _caught("right")


def test_a_lost_atomic_result_is_caught(monkeypatch):
    """The ring's place stays, so that each result overwrites the one before."""
    monkeypatch.setattr("rtl.responder.responder.RESPONDER_FIELDS", tuple(
        name for name in RESPONDER_FIELDS if name != "r_atomic"))
    _caught("ring")


def test_a_wrong_end_of_a_read_response_is_caught(monkeypatch):
    monkeypatch.setattr("rtl.responder.read.exact_log2", lambda width: exact_log2(width) + 1)
    _caught("read")


def test_a_range_that_wraps_is_caught(monkeypatch):
    monkeypatch.setattr(Protect, "_wraps", staticmethod(lambda access: Const(0)))
    _caught("wraps")
