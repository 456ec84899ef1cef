"""Amaranth component → Verilog text."""

from amaranth.back import verilog
from amaranth.lib import wiring


def to_verilog(component: wiring.Component, name: str) -> str:
    """Verilog of `component` as module `name`: clock `clk`, synchronous reset `rst`.

    Port `a.b` of the signature is named `a__b`; a structured payload is one vector. The same
    component gives the same text.
    """
    return verilog.convert(component, name=name, emit_src=False, strip_internal_attrs=True)
