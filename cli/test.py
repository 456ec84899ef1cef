"""rnic test: the test suite."""

import os
import sys
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
STATUS = {0: 0, 1: 1}  # of pytest's own; all others mean that it could not judge


@click.command("test", context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]…")
def command(arguments: tuple[str, ...]) -> int:
    """Run the test suite; ARGS are pytest's.

    Tests marked slow are left out; `-m slow` runs those, `-m ""` runs all. One test a core;
    `-n 0` runs one at a time.
    """
    import pytest
    os.chdir(ROOT)  # so that paths in ARGS are those of the project
    status = pytest.main(["-n", "auto", "--dist", "worksteal", *arguments])
    sys.stdout.flush()
    return STATUS.get(int(status), 2)
