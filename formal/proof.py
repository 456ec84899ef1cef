"""What is to be proved of a block: a description that formal/run.py carries out."""

import contextlib
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from amaranth.back import rtlil

from formal.properties import Properties

TOP = "top"


@dataclass(frozen=True)
class Mutant:
    """A fault put into one function of the RTL; the proof must fail."""

    name: str
    function: str  # dotted, such as rtl.stream.skid.SkidBuffer.elaborate
    right: str  # text in the function's source
    wrong: str  # that takes its place


@dataclass(frozen=True, kw_only=True)
class Proof:
    """`build` puts the block and its properties into the module that it is given.

    By induction the assertions hold for ever, else in the first `depth` cycles after the reset.
    `constants` are set while the block is built: the same RTL with less room.
    """

    name: str
    build: Callable[[Properties], None]
    depth: int
    induction: bool = False
    cover_depth: int | None = None  # `depth` if not given
    quick: bool = True  # part of `./rnic prove --quick`
    constants: dict[str, object] = field(default_factory=dict)  # dotted name → value
    mutants: tuple[Mutant, ...] = ()

    @property
    def method(self) -> str:
        return "induction" if self.induction else "bounded"


def to_rtlil(proof: Proof, mutant: Mutant | None = None) -> tuple[str, dict[str, str]]:
    """The text for Yosys, and the kind of each property by name."""
    with contextlib.ExitStack() as stack:
        for name, value in proof.constants.items():
            stack.enter_context(patch(name, value))
        if mutant:
            stack.enter_context(_broken(mutant))
        p = Properties()
        proof.build(p)
        text = rtlil.convert(p.m, name=TOP, emit_src=False, ports=[p.domain.clk, p.domain.rst])
    return _name_cells(text), p.kinds


_CHECK = re.compile(r'cell \$check \S+\n(?P<rest>    parameter \\FORMAT "(?P<name>[^"]*)"\n)')


def cell_name(name: str) -> str:
    """A property's name as Yosys can have it."""
    return re.sub(r"[^\w.]+", "_", name)


def _name_cells(text: str) -> str:
    """Amaranth gives a property's name as its message only; Yosys tells results by cell."""
    return _CHECK.sub(lambda found: f"cell $check \\{cell_name(found['name'])}\n{found['rest']}",
                      text)


@contextlib.contextmanager
def _broken(mutant: Mutant) -> Iterator[None]:
    path, function = mutant.function.rsplit(".", 1)
    owner = _resolve(path)
    source = textwrap.dedent(inspect.getsource(getattr(owner, function)))
    if source.count(mutant.right) != 1:
        raise ValueError(f"{mutant.name}: {mutant.function} must hold {mutant.right!r} once")
    module = inspect.getmodule(owner)
    space = dict(vars(module)) if module else {}
    exec(compile(source.replace(mutant.right, mutant.wrong), mutant.name, "exec"), space)
    made: Any = space[function]
    with patch.object(owner, function, made):
        yield


def _resolve(path: str) -> Any:
    """A module, or a class in one."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        return getattr(_resolve(module), name)
