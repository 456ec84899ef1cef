"""Reading a block's registers, for the invariants that induction needs."""

from amaranth.hdl import Elaboratable, Fragment, Signal


class Opened(Elaboratable):
    """`block` as a submodule whose internal signals can be read by name."""

    def __init__(self, block):
        self._fragment = Fragment.get(block, None)

    def elaborate(self, platform):
        return self._fragment

    def __getitem__(self, path: str) -> Signal:
        """The signal of that name, in the submodule that the dots before it lead to."""
        *folders, name = path.split(".")
        fragment = self._fragment
        for folder in folders:
            fragment = fragment.find_subfragment(folder)
        found = {id(signal): signal for statements in fragment.statements.values()
                 for statement in statements for signal in statement._lhs_signals()
                 if signal.name == name}
        if len(found) != 1:
            raise KeyError(f"{len(found)} signals are named {path}")
        return next(iter(found.values()))
