"""Results to files and to the terminal."""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


def write_json(path: Path | None, item: Any) -> None:
    """`item` to the file, to stdout for -, nowhere for None."""
    if path is not None:
        write_text(path, json.dumps(item, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    """The file appears whole or not at all."""
    if str(path) == "-":
        sys.stdout.write(text)
        return
    if path.exists() and not path.is_file():  # /dev/stderr, a pipe
        path.write_text(text)
        return
    handle, partial = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.absolute().parent)
    try:
        with open(handle, "w") as file:
            file.write(text)
        os.chmod(partial, 0o666 & ~_umask())
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def progress_bar(what: str, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Gives the callable that moves the bar, None when nobody looks (no terminal, or quiet)."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
               TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=None)

        def move(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield move
