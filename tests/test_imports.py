"""The arrows between the rooms (README.md): who may import whom."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Room → what it must not import. A name stands for itself and all below it.
FORBIDDEN = {
    "rtl": {"sim", "tools", "tb", "formal", "cli", "bench", "tests", "cocotb",
            "cocotb_tools", "pytest"},
    "sim": {"rtl", "tools", "tb", "formal", "cli", "bench", "tests", "amaranth", "cocotb",
            "cocotb_tools", "pytest"},
    "tools": {"sim", "tb", "formal", "cli", "bench", "tests", "cocotb", "pytest"},
    "tb": {"formal", "cli", "bench", "tests", "pytest"},
    "formal": {"sim", "tb", "cli", "bench", "tests", "cocotb", "pytest"},
    "bench": {"cli", "tests", "pytest"},
    "cli": {"tests"},
}
ALLOWED = {"sim": {"rtl.config"}}  # in spite of the above
FILES = {"rtl/config.py": {"amaranth"}}  # what single files must not import, besides
NO_FUTURE = {"rtl", "tb", "formal"}  # `annotations` of the future break Structs and Components


def imports(source: str, package: str) -> Iterator[tuple[int, str]]:
    """(line, full name) of everything imported, also in functions and by literal name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[:len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            yield from ((node.lineno, f"{base}.{alias.name}".lstrip(".")) for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = ast.unparse(node.func).rpartition(".")[2]
            if called in ("import_module", "__import__"):
                yield node.lineno, str(node.args[0].value)


def within(name: str, modules: set[str]) -> bool:
    return any(name == module or name.startswith(f"{module}.") for module in modules)


def broken_rules(path: str, source: str) -> list[str]:
    """What the file at `path` (relative to the root) imports and must not."""
    room = path.split("/")[0]
    package = ".".join(path.split("/")[:-1])
    found = []
    for line, name in imports(source, package):
        forbidden = FORBIDDEN.get(room, set()) | FILES.get(path, set())
        if within(name, forbidden) and not within(name, ALLOWED.get(room, set())):
            found.append(f"{path}:{line}: {room} must not import {name}")
        if name == "__future__.annotations" and room in NO_FUTURE:
            found.append(f"{path}:{line}: {room} must not import {name}")
    return found


def test_arrows_between_rooms():
    found = []
    for room in FORBIDDEN:
        for path in sorted((ROOT / room).rglob("*.py")):
            found += broken_rules(path.relative_to(ROOT).as_posix(), path.read_text())
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path, source", [
    ("rtl/nic.py", "import sim.wire.codec"),
    ("rtl/nic.py", "def f():\n    from tb.build import run"),
    ("rtl/parser/parser.py", "from ... import sim"),
    ("rtl/units.py", "importlib.import_module('cli.main')"),
    ("rtl/config.py", "from amaranth.hdl import Signal"),
    ("rtl/headers/layout.py", "from __future__ import annotations"),
    ("sim/golden/nic.py", "from rtl.host.layout import Qpc"),
    ("sim/golden/nic.py", "from rtl import host"),
    ("sim/golden/nic.py", "import cocotb.triggers"),
    ("sim/wire/icrc.py", "from amaranth.lib import crc"),
    ("tb/nic_tb.py", "import pytest"),
    ("tb/nic_run.py", "import cli"),
    ("bench/simulate.py", "from cli.output import write_json"),
])
def test_checker_sees_a_wrong_arrow(path, source):
    assert len(broken_rules(path, source)) == 1


@pytest.mark.parametrize("path, source", [
    ("rtl/parser/parser.py", "from rtl.parser import align"),
    ("rtl/parser/parser.py", "from .align import Align"),
    ("sim/golden/nic.py", "from rtl.config import NicConfig"),
    ("sim/golden/nic.py", "import simpy"),
    ("tb/nic_run.py", "from sim.workload.replay import load"),
    ("cli/main.py", "import tb.build"),
])
def test_checker_lets_a_right_arrow_pass(path, source):
    assert broken_rules(path, source) == []
