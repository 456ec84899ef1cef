"""Between an Amaranth layout's fields and the one integer that its Verilog port is."""

import enum
from typing import Any

from amaranth.lib import data

_plans: dict[int, tuple[Any, data.Layout, list[tuple[Any, int, int, Any]]]] = {}


def _plan(layout: Any) -> tuple[data.Layout, list[tuple[Any, int, int, Any]]]:
    """The layout and (name, offset, width, layout of the field or None) of each of its fields."""
    found = _plans.get(id(layout))
    if found is None:
        whole = data.Layout.cast(layout)
        fields = []
        for name, field in whole:
            try:
                inner = data.Layout.cast(field.shape)
            except TypeError:  # a plain number or an enum
                inner = None
            fields.append((name, field.offset, field.width, inner))
        found = _plans[id(layout)] = (layout, whole, fields)  # keeps `layout`, so the id is its own
    return found[1:]


def unpack(layout: Any, word: int) -> Any:
    """The fields of `word` as unsigned integers, nested as the layout is; arrays become lists."""
    whole, fields = _plan(layout)
    values = {name: (word >> offset & ((1 << width) - 1)) if inner is None
              else unpack(inner, word >> offset & ((1 << width) - 1))
              for name, offset, width, inner in fields}
    return list(values.values()) if isinstance(whole, data.ArrayLayout) else values


def pack(layout: Any, values: Any) -> int:
    """The word with the fields given, nested dictionaries or lists; those not given are 0.

    A value that needs more bits than its field has, and a name that the layout has not, raise.
    """
    fields = {name: (offset, width, inner) for name, offset, width, inner in _plan(layout)[1]}
    word = 0
    for name, value in enumerate(values) if isinstance(values, (list, tuple)) else values.items():
        if name not in fields:
            raise KeyError(f"no such field: {name}")
        offset, width, inner = fields[name]
        if isinstance(value, enum.Enum):
            value = value.value
        number = value if isinstance(value, int) else pack(inner, value)
        if not -(1 << width) < 2 * number < 2 << width:
            raise ValueError(f"{name}: {number} does not fit {width} bits")
        word |= (number & ((1 << width) - 1)) << offset
    return word


def number(value: Any) -> int:
    """A port's value; bits that are undefined, which only Icarus has, count as 0.

    Lanes that carry no byte, and the payload while `valid` is low, may be undefined.
    """
    if not hasattr(value, "to_unsigned"):  # a single bit
        return int(value == 1)
    if value.is_resolvable:
        return value.to_unsigned()
    return int("".join(bit if bit == "1" else "0" for bit in str(value)), 2)
