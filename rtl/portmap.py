"""The ports of a component as its Verilog has them: names, directions, widths, fields."""

from typing import Any

from amaranth.hdl import Shape
from amaranth.lib import data, wiring


def port_map(component: wiring.Component) -> list[dict[str, Any]]:
    """A row a port: {name, direction, width, fields}, `clk` and `rst` first.

    `fields` are those of a structured port, each {name, offset, width}, offset from bit 0;
    nested ones are named `outer.inner`. It is empty for a plain port.
    """
    rows = [{"name": name, "direction": "input", "width": 1, "fields": []}
            for name in ("clk", "rst")]
    for path, member, _ in component.signature.flatten(component):
        rows.append({
            "name": "__".join(map(str, path)),
            "direction": "input" if member.flow == wiring.In else "output",
            "width": Shape.cast(member.shape).width,
            "fields": _fields(member.shape, "", 0),
        })
    return rows


def _fields(shape: Any, prefix: str, offset: int) -> list[dict[str, Any]]:
    layout = _layout(shape)
    if layout is None:
        return []
    rows = []
    for name, field in layout:
        full, start = f"{prefix}{name}", offset + field.offset
        rows += _fields(field.shape, f"{full}.", start) or [
            {"name": full, "offset": start, "width": field.width}]
    return rows


def _layout(shape: Any) -> data.Layout | None:
    """The layout behind a Struct or Layout; an array of bytes counts as one plain field."""
    if isinstance(shape, type) and issubclass(shape, data.Struct | data.Union):
        shape = data.Layout.cast(shape)
    return shape if isinstance(shape, data.StructLayout | data.UnionLayout) else None
