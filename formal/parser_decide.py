"""The parser's decoders: one decision for every frame, and `headers` that wait to be taken."""

from amaranth.asserts import AnySeq
from amaranth.hdl import Cat, Module, Mux, Signal, Value

from formal.peek import Opened
from formal.proof import Mutant, Proof
from formal.properties import Properties, implies
from formal.rules import accept, drive
from rtl.config import load
from rtl.parser import Parser
from rtl.parser.route import Router
from rtl.parser.transport import TransportDecoder


def decisive(p: Properties) -> None:
    """Looks at frames of any length with anything in them."""
    m, block = p.m, TransportDecoder()
    m.submodules.block = inner = Opened(block)
    valid, first, last = (p.signal(AnySeq(1), name) for name in ("valid", "first", "last"))
    within, decided = Signal(), Signal()  # of a frame; it has had its decisive look
    m.d.comb += [block.valid.eq(valid), Value.cast(block.i).eq(AnySeq(len(Value.cast(block.i))))]
    p.assume("looks come frame by frame", implies(valid, (first == ~within) & (
        Cat(block.i.progress.first, block.i.progress.last) == Cat(first, last))))
    with m.If(valid):
        m.d.sync += within.eq(~last)
    look, at_last = p.register(valid, "look"), p.register(last, "at_last")
    at_first = p.register(first, "at_first")
    before = p.signal(decided & ~at_first, "before")
    o = block.o
    with m.If(look):
        m.d.sync += decided.eq(before | o.decisive)
    p.check("a look comes a cycle later", block.o_valid == look)
    p.check("o: which look it is", implies(look, Cat(o.progress.first, o.progress.last)
                                           == Cat(at_first, at_last)))
    p.check("o: at most one decisive look", implies(look & before, ~o.decisive))
    p.check("o: one at the last, if there was none", implies(look & at_last & ~before, o.decisive))
    p.check("headers: with the decisive look", implies(
        block.headers_valid, look & o.decisive & o.roce & o.complete))
    p.check("headers: with a RoCE frame whose headers are there",
            implies(look & o.decisive & o.roce & o.complete, block.headers_valid))
    p.invariant("what it knows", implies(within, inner["decided"] == Mux(
        look, before | o.decisive, decided)) & implies(look, within == ~at_last))
    p.cover("decided by its second look", look & o.decisive & ~at_first & ~at_last)


class AnyRouter(Router):
    """Takes a frame's beats when its decision and its end are known, and gives nothing."""

    def elaborate(self, platform):
        m = Module()
        known = self.decisions.valid & (~self.i.p.last | self.ends.valid)
        m.d.comb += [
            self.i.ready.eq(known & AnySeq(1)), self.done.eq(self.i.valid & self.i.ready
                                                             & self.i.p.last),
            self.decisions.ready.eq(self.done), self.ends.ready.eq(self.done),
        ]
        return m


def headers(p: Properties) -> None:
    """The decoders stand still while `headers` is not taken."""
    m, block = p.m, Parser(load("tiny"))
    m.submodules.block = block
    drive(p, block.i, "i")
    accept(p, block.headers, "headers")
    p.check("report: none while headers wait",
            implies(block.headers.valid & ~block.headers.ready, ~block.report.valid))
    p.cover("headers that wait", block.headers.valid & ~block.headers.ready)


TRANSPORT = "rtl.parser.transport.TransportDecoder._decisive"
PARSER = "rtl.parser.parser.Parser."
PROOFS = (
    Proof(name="decisive", build=decisive, depth=4, induction=True, cover_depth=6, mutants=(
        Mutant("decided for ever", TRANSPORT, "(decided & ~i.progress.first)", "decided"),
        Mutant("no decision at the last", TRANSPORT, "fresh & (complete | i.progress.last)",
               "fresh & complete"),
    )),
    Proof(name="headers", build=headers, depth=2, induction=True, cover_depth=13, quick=False,
          mutants=(
        Mutant("the decoders run on", PARSER + "elaborate",
               "step.eq(~self.headers.valid | self.headers.ready)", "step.eq(1)"),
    ), constants={"rtl.parser.parser.Router": AnyRouter}),
)
