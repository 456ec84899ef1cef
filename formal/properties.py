"""Named properties, and the module that they are collected in."""

from amaranth.hdl import (
    Assert,
    Assume,
    ClockDomain,
    Cover,
    Module,
    ResetSignal,
    Signal,
    Value,
)
from amaranth.lib import data


class Properties:
    """A module under construction, with its named assertions, assumptions and covers.

    The reset is never asserted: a run starts in the state that the reset leaves. Names are unique;
    results are told by them.
    """

    def __init__(self):
        self.m = Module()
        self.m.domains.sync = self.domain = ClockDomain()
        self.kinds: dict[str, str] = {}  # name → assert, assume or cover
        self.assume("no_reset", ~ResetSignal())

    def check(self, name: str, test) -> None:
        """Holds in every cycle."""
        self._add(Assert, "assert", name, test)

    def assume(self, name: str, test) -> None:
        """What the environment keeps to."""
        self._add(Assume, "assume", name, test)

    def cover(self, name: str, test) -> None:
        """Happens in some run: the proof is not about nothing."""
        self._add(Cover, "cover", name, test)

    def _add(self, statement, kind: str, name: str, test) -> None:
        if name in self.kinds:
            raise ValueError(f"two properties are named {name}")
        self.kinds[name] = kind
        self.m.d.comb += statement(test, name)

    def register(self, value, name: str, *, init: int = 0, when=1) -> Signal:
        """`value` of the last cycle in which `when` was true."""
        out = Signal.like(Value.cast(value), name=name, init=init)
        with self.m.If(when):
            self.m.d.sync += out.eq(value)
        return out

    def signal(self, value, name: str) -> Signal:
        """`value` under a name, for the trace."""
        shape = value.shape()
        out = Signal(shape, name=name)
        self.m.d.comb += out.eq(value)
        return out


def implies(condition, consequence):
    return ~_bool(condition) | _bool(consequence)


def _bool(value):
    value = Value.cast(value.as_value() if isinstance(value, data.View) else value)
    return value if len(value) == 1 else value.any()
