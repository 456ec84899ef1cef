"""Rows of benchmarks as the page bench/RESULTS.md."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

from bench.row import Row

RESULTS = Path(__file__).resolve().parent / "RESULTS.md"
COLUMNS = ("bench", "config", "metric", "unit", "value", "target", "ok")


def results_page(rows: list[Row]) -> str:
    """The whole page; nothing in it but what the rows and the machine say."""
    lines = ["# Benchmark results", "",
             "Written by `./rnic bench --write`. Figures in seconds are of this machine: "
             f"{machine()}.", "",
             "| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    lines += ["| " + " | ".join(cell(row[name]) for name in COLUMNS) + " |" for row in rows]
    return "\n".join(lines) + "\n"


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
