"""Rows of benchmarks as the page bench/RESULTS.md."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

from bench.row import Row

RESULTS = Path(__file__).resolve().parent / "RESULTS.md"
COLUMNS = ("bench", "config", "metric", "unit", "value", "target", "ok")
HEAD = """# Benchmark results

A section is what its command wrote, with `--write`. Figures in seconds are of the machine named;
all others hold anywhere.
"""


def results_page(rows: list[Row], command: str, before: str = "") -> str:
    """The page with a section for each bench of `rows`, made by `command`; of the page `before`
    the sections of other benches stay."""
    sections = {part.partition("\n")[0]: part for part in before.split("\n## ")[1:]}
    for bench in dict.fromkeys(row["bench"] for row in rows):
        sections[bench] = _section(bench, [row for row in rows if row["bench"] == bench], command)
    return "\n## ".join([HEAD, *(part.rstrip("\n") + "\n" for part in sections.values())])


def _section(bench: str, rows: list[Row], command: str) -> str:
    lines = [bench, "", f"`{command}` on {machine()}.", "",
             "| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    lines += ["| " + " | ".join(cell(row[name]) for name in COLUMNS) + " |" for row in rows]
    return "\n".join(lines)


def cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "**no**"
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def machine() -> str:
    return (f"{platform.system()} {platform.machine()}, {_processor()}, {os.cpu_count()} cores, "
            f"Python {platform.python_version()}, cocotb {version('cocotb')}")


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "processor not known"
