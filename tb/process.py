"""Commands that leave nothing behind when the caller is interrupted."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO


def run(command: Sequence[str], *, cwd: str | Path | None = None,
        env: dict[str, str] | None = None, output: TextIO | None = None) -> None:
    """Run `command`; `RuntimeError` when it fails.

    It leads a process group of its own. Whatever ends the wait (Ctrl-C, a signal turned into an
    exception) ends the whole group: make's compilers and Verilator's children too.
    """
    with subprocess.Popen(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=output,
                          stderr=subprocess.STDOUT if output else None,
                          process_group=0) as process:
        try:
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
