"""RTL that is wrong on purpose, for checks that must see it."""

import inspect
from types import ModuleType
from typing import Any


def broken(module: ModuleType, right: str, wrong: str) -> dict[str, Any]:
    """The names of `module` with the one place that says `right` saying `wrong`."""
    source = inspect.getsource(module)
    assert source.count(right) == 1
    space: dict[str, Any] = {"__name__": module.__name__}
    exec(compile(source.replace(right, wrong), "mutant", "exec"), space)
    return space
