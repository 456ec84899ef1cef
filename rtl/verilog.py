"""Amaranth component → Verilog text."""

import re
from itertools import count

from amaranth.back import verilog
from amaranth.lib import wiring

_CONSTANT = re.compile(r"^  always @\*\n    (?P<target>.+) = (?P<value>(?P<width>\d+)'\w+);$",
                       re.MULTILINE)


def to_verilog(component: wiring.Component, name: str) -> str:
    """Verilog of `component` as module `name`: clock `clk`, synchronous reset `rst`.

    Port `a.b` of the signature is named `a__b`; a structured payload is one vector. The same
    component gives the same text.
    """
    return wake_constants(verilog.convert(component, name=name, emit_src=False,
                                          strip_internal_attrs=True))


def wake_constants(text: str) -> str:
    """Constants that are the whole of an `always @*` go through a wire.

    Yosys writes such a block for the constant bits of a signal whose other bits are decided by an
    `if`. It reads nothing, so no simulator ever runs it, and the bits are X or 0. A wire changes
    once at the start, which runs the block; synthesis sees no difference.
    """
    numbers = count(1)

    def through_wire(found: re.Match[str]) -> str:
        wire = f"\\$constant{next(numbers)} "
        return (f"  wire [{int(found['width']) - 1}:0] {wire}= {found['value']};\n"
                f"  always @*\n    {found['target']} = {wire};")

    return _CONSTANT.sub(through_wire, text)
