"""Commands that leave nothing behind when the caller is interrupted."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO


def run(command: Sequence[str], *, cwd: str | Path | None = None,
        env: dict[str, str] | None = None, output: TextIO | None = None,
        heard: Callable[[str], None] | None = None) -> None:
    """Run `command`; `RuntimeError` when it fails. `heard` gets each line that it says, or else
    `output` all.

    It leads a process group of its own. Whatever ends the wait (Ctrl-C, a signal turned into an
    exception) ends the whole group: make's compilers and Verilator's children too.
    """
    with subprocess.Popen(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE if heard else output,
                          stderr=subprocess.STDOUT if heard or output else None,
                          process_group=0) as process:
        try:
            if heard and process.stdout:
                for line in process.stdout:
                    heard(line.rstrip("\n"))
            code = process.wait()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    if code:
        raise RuntimeError(f"{Path(command[0]).name} ended with exit status {code}")


def in_groups(runner: Any) -> Any:
    """A cocotb runner whose commands are run by `run`."""
    def execute(commands: Sequence[Sequence[str]], cwd: str | Path,
                stdout: TextIO | None = None) -> None:
        for command in commands:
            run([str(word) for word in command], cwd=cwd, env=runner.env, output=stdout)

    runner._execute_cmds = execute
    return runner


def end_descendants() -> None:
    """End every process that came from this one (where /proc says which): before giving up.

    Libraries start tools of their own, Amaranth its Verilog writer for instance.
    """
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = status.read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(status.parent.name))
    waiting = [os.getpid()]
    while waiting:
        for child in children.get(waiting.pop(), []):
            waiting.append(child)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
