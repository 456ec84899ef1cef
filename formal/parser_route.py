"""Router: each frame goes to exactly one of RDMA (`frame`, `info`, aligner), host store and void.

The aligner and the host store have proofs of their own; here they may stall as they like, and what
they are given is checked. Skid buffers are queues of two.
"""

from amaranth.asserts import AnySeq
from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from formal.peek import Opened
from formal.proof import Mutant, Proof
from formal.properties import Properties, implies
from formal.queue import AnyQueue, Inside
from formal.rules import Followed, environment, stream_rules
from rtl.parser.align import PayloadAligner
from rtl.parser.host_store import HostStore
from rtl.parser.judge import Route
from rtl.parser.route import Router

SKID = 2
made = {}  # stubs of the router under proof, by class


class AnySkid(wiring.Component):
    """In place of `SkidBuffer`, which is a queue of two by a proof of formal/stream.py."""

    def __init__(self, shape):
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        i, o = self.i, self.o
        m.submodules.queue = queue = AnyQueue(width=len(Value.cast(i.payload)), depth=SKID)
        m.d.comb += [
            queue.w_data.eq(i.payload), queue.w_en.eq(i.valid), i.ready.eq(queue.w_rdy),
            Value.cast(o.payload).eq(queue.r_data), o.valid.eq(queue.r_rdy),
            queue.r_en.eq(o.ready),
        ]
        return m


class AnyAligner(PayloadAligner):
    def elaborate(self, platform):
        made[PayloadAligner] = self
        m = Module()
        m.d.comb += self.ready.eq(AnySeq(1))
        return m


class AnyStore(HostStore):
    def elaborate(self, platform):
        made[HostStore] = self
        m = Module()
        m.d.comb += self.i.ready.eq(AnySeq(1))
        return m


def router(p: Properties) -> None:
    m, block = p.m, Router(64, 64)
    m.submodules.block = inner = Opened(block)
    environment(p, block, leave_out=("host", "host_info", "payload"))
    i, decision, end = block.i, block.decisions.p, block.ends.p
    move = p.signal(i.valid & i.ready, "move")
    ends = p.signal(move & i.p.last, "ends")
    index = Signal(11)
    with m.If(move):
        m.d.sync += index.eq(Mux(i.p.last, 0, index + ~index.all()))
    p.check("done with the frame's last beat", block.done == ends)
    for name in ("decisions", "ends"):
        port = getattr(block, name)
        p.check(f"{name}: one taken for each frame, with its last beat",
                (port.valid & port.ready) == ends)
    p.check("a beat moves when it is known where to", implies(move, block.decisions.valid))
    rdma = p.signal(move & (decision.route == Route.RDMA), "rdma")

    error = p.signal(i.p.last & end.drop, "error")
    _follow(p, inner, "frame", block.frame, rdma,
            Cat(i.p.data, i.p.last, i.p.empty, error))
    _follow(p, inner, "info", block.info, rdma & (index == 0), Value.cast(decision.info))

    store, aligner = made[HostStore], made[PayloadAligner]
    stream_rules(p, store.i, "host.i", p.check)
    p.check("host: every beat of its frames", (store.i.valid & store.i.ready)
            == (move & (decision.route == Route.HOST)))
    p.check("host: as it came, with what is known of it", implies(store.i.valid, (
        (Value.cast(store.i.payload) == Value.cast(i.payload))
        & (Value.cast(store.frame) == Value.cast(decision.host))
        & (Value.cast(store.end) == Value.cast(end)))))
    p.check("aligner: every beat of RDMA frames, while it is ready",
            (aligner.valid == rdma) & implies(aligner.valid, aligner.ready))
    p.check("aligner: as it came, with its place", implies(aligner.valid, (
        (aligner.data == i.p.data) & (aligner.last == i.p.last) & (aligner.index == index)
        & (Value.cast(aligner.place) == Value.cast(decision.place)))))
    p.invariant("index", aligner.index == index)
    p.cover("host after RDMA after dropped", ends & (decision.route == Route.HOST)
            & p.register(rdma, "before_rdma") & p.register(p.register(
                move & (decision.route == Route.DROP), "before_drop"), "before_before"))


def _follow(p: Properties, inner, name: str, port, enters, item) -> None:
    """What enters leaves by `port`, each once and in order, and nothing else does."""
    queue = Inside(p, inner, f"{name}.queue", SKID)
    leaves = p.signal(port.valid & port.ready, f"{name}_leaves")
    sent = Signal(2, name=f"{name}_inside")
    p.m.d.sync += sent.eq(sent + enters - leaves)
    it = Followed(p, enters, sent, leaves, name)
    noted = p.register(item, f"{name}_noted", when=it.choose)
    p.check(f"{name}: nothing but what entered", implies(port.valid, sent != 0))
    p.check(f"{name}: in its place, unchanged", implies(
        it.inside & (it.ahead == 0) & port.valid, Value.cast(port.payload) == noted))
    p.invariant(f"{name}: inside", sent == queue.count)
    p.invariant(f"{name}: it waits in its place", implies(it.inside, (
        (it.ahead < queue.count) & (queue.item(it.ahead[:1]) == noted))))
    if name == "frame":
        p.invariant("frame: only the last beat has empty bytes", queue.count == queue.number(
            lambda waits: waits[64] | (waits[65:68] == 0)))


ROUTE = "rtl.parser.route.Router.elaborate"
PROOFS = (
    Proof(name="router", build=router, depth=2, induction=True, cover_depth=8, mutants=(
        Mutant("the last beat does not wait for its end", ROUTE,
               "self.decisions.valid & (~beat.last | self.ends.valid)", "self.decisions.valid"),
        Mutant("a frame to host and RDMA", ROUTE, "frame.i.valid.eq(move & rdma)",
               "frame.i.valid.eq(move)"),
        Mutant("a fault forgotten", ROUTE, "beat.last & end.drop", "beat.error"),
        Mutant("info with every beat", ROUTE, "move & rdma & first", "move & rdma"),
    ), constants={"rtl.parser.route.SkidBuffer": AnySkid,
                  "rtl.parser.route.PayloadAligner": AnyAligner,
                  "rtl.parser.route.HostStore": AnyStore}),
)
