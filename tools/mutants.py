"""Small faults in a component, all in one Verilog file, of which a run turns on one.

Yosys chooses them evenly over the design: a bit of a cell's input or output that is inverted, stuck
at 0 or 1, or inverted when another bit is 0 or 1. Which one is on is the plusarg `+mutant=N`;
without it, or with 0, the design is as it was.
"""

import hashlib
import inspect
import json
import re
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from amaranth.back import rtlil
from amaranth.lib import wiring

from rtl.verilog import wake_constants
from tools import cache, process
from tools.cache import BuildError
from tools.synth import PACKAGE, RUN, check_yosys

SPARE = 2  # more are asked for than wanted, since some are left out
SELECT = "mutsel"
# Memories' initial words must stay constant.
PREPARE = ("read_rtlil unit.il", "hierarchy -check -top {top}", "proc", "flatten",
           "opt_expr -mux_undef", "opt_clean")
CANDIDATES = "t:$* t:$meminit* %d"


@dataclass(frozen=True)
class Mutant:
    """`what` happens in the cell or wire `where`, which comes from the line `source`."""

    number: int
    what: str
    where: str
    source: str
    command: str  # yosys' own


@dataclass(frozen=True)
class Mutated:
    """`verilog` holds all `mutants`."""

    verilog: Path
    mutants: list[Mutant]


def mutated(top: str, component: wiring.Component, count: int, seed: int) -> Mutated:
    """`count` mutants of `component`, cached by its text."""
    check_yosys()
    text = rtlil.convert(component, name=top, emit_src=True).replace(f"{cache.ROOT}/", "")
    recipe = inspect.getsource(sys.modules[__name__])
    key = hashlib.sha256(repr((text, count, seed, recipe, version(PACKAGE))).encode())
    folder = cache.CACHE / "mutants" / f"{top}-{key.hexdigest()[:16]}"
    with cache.locked(folder):
        if not folder.exists():
            work = Path(tempfile.mkdtemp(prefix="rnic-mutants-"))
            try:
                _make(work, top, text, count, seed)
                folder.parent.mkdir(parents=True, exist_ok=True)
                shutil.copytree(work, folder.with_suffix(".part"), dirs_exist_ok=True)
                folder.with_suffix(".part").rename(folder)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    mutants = [Mutant(**fields) for fields in json.loads((folder / "mutants.json").read_text())]
    return Mutated(folder / f"{top}.v", mutants)


def _make(work: Path, top: str, text: str, count: int, seed: int) -> None:
    (work / "unit.il").write_text(text)
    prepare = [line.format(top=top) for line in PREPARE]
    _yosys(work, [*prepare, f"mutate -list {SPARE * count} -seed {seed} -o list.txt {CANDIDATES}"])
    # A register's output has its reset value, which yosys would then find twice.
    lines = [line for line in (work / "list.txt").read_text().splitlines()
             if " -port Q " not in line and " -mode " in line][:count]
    mutants = [_read(number, line) for number, line in enumerate(lines, 1)]
    width = (len(mutants) + 1).bit_length()
    apply = [f"mutate -ctrl {SELECT} {width} {mutant.number} {mutant.command}"
             for mutant in mutants]
    _yosys(work, [*prepare, *apply, "opt_clean", "write_verilog -noattr mutated.v"])
    verilog = _selected_by_plusarg((work / "mutated.v").read_text(), width)
    (work / f"{top}.v").write_text(wake_constants(verilog))
    (work / "mutants.json").write_text(json.dumps([asdict(mutant) for mutant in mutants]))


def _read(number: int, line: str) -> Mutant:
    """yosys' line: mutate -mode MODE -module M -cell C -port P -portbit N … -src FILE:LINE …"""
    fields = dict(re.findall(r"-(mode|cell|port|portbit|ctrlbit|wire|wirebit) (\S+)", line))
    ours = [source for source in re.findall(r"-src (\S+)", line) if source.startswith("rtl/")]
    if "wire" in fields:
        where = f"{fields['wire']}[{fields['wirebit']}]"
    else:
        where = f"{fields['cell']}.{fields['port']}[{fields['portbit']}]"
    control = f" by bit {fields['ctrlbit']}" if "ctrlbit" in fields else ""
    return Mutant(number, fields["mode"] + control, where.replace("\\", ""),
                  ours[-1] if ours else "", line.split(" ", 1)[1])


def _selected_by_plusarg(text: str, width: int) -> str:
    """The control is a variable of the top, so that its ports stay what they are."""
    declared = f"  reg [{width - 1}:0] {SELECT} = 0;\n" \
        f'  initial if (!$value$plusargs("mutant=%d", {SELECT})) {SELECT} = 0;\n'
    text, found = re.subn(rf"  input \[\d+:0\] {SELECT};\n  wire \[\d+:0\] {SELECT};\n",
                          lambda _: declared, text)
    text, ports = re.subn(rf"(?<=[(,]) ?{SELECT},|, {SELECT}(?=\))", "", text, count=1)
    if (found, ports) != (1, 1):
        raise BuildError(f"yosys wrote the port {SELECT} in an unknown way")
    return text


def _yosys(work: Path, lines: list[str]) -> None:
    """In a folder of its own: the tool is WebAssembly and sees no other."""
    said: list[str] = []
    (work / "script.ys").write_text("\n".join(lines) + "\n")
    try:
        process.run([sys.executable, "-c", RUN, "-q", "script.ys"], cwd=work, heard=said.append)
    except RuntimeError as error:
        raise BuildError(f"yosys: {error}: {' | '.join(said[-3:])}") from None
