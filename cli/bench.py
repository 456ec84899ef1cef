"""rnic bench: the figures that the RTL reaches, against their targets."""

from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from cli import options, output
from rtl.config import DEFAULT_PRESET, PRESETS


@click.command("bench")
@click.argument("names", nargs=-1, metavar="[NAME]…")
@click.option("--config", "config_names", multiple=True, metavar="NAME|FILE.toml",
              help=f"Preset ({', '.join(PRESETS)}) or file; may be given again. "
                   f"[default: {DEFAULT_PRESET}]")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
              help="Change one field of the configuration.")
@options.simulator
@options.seed
@click.option("--quick", is_flag=True, help="Under a minute a benchmark.")
@click.option("--write", is_flag=True, help="Write them into bench/RESULTS.md.")
@options.json_file("Write the rows")
@options.quiet
def command(names: tuple[str, ...], config_names: tuple[str, ...], settings: tuple[str, ...],
            simulator: str, seed: int, quick: bool, write: bool, json_path: Path | None,
            quiet: bool) -> int:
    """Run the benchmarks NAME, or all. A target missed is shown, and no error."""
    configs = [options.resolve(name, settings) for name in config_names or (DEFAULT_PRESET,)]
    from bench import AGREED, BENCHES, Settings
    from bench.results import RESULTS, results_page
    for name in names:
        if name not in BENCHES:
            raise click.BadParameter(f"no such benchmark: {name}; there are {', '.join(BENCHES)}")
    rows = []
    for name in names or tuple(BENCHES):
        for config in configs:
            if not quiet:
                click.echo(f"rnic: bench {name}, {config.name} …", err=True)
            rows += BENCHES[name](Settings(config=config, simulator=simulator, seed=seed,
                                           quick=quick))
    output.write_json(json_path, rows)
    if write:
        before = RESULTS.read_text() if RESULTS.exists() else ""
        output.write_text(RESULTS, results_page(rows, _command(names, config_names, settings,
                                                               simulator, seed, quick), before))
    if not quiet and str(json_path) != "-":
        _print(rows)
    return 0 if all(row["ok"] for row in rows if row["metric"] == AGREED) else 1


def _command(names: tuple[str, ...], config_names: tuple[str, ...], settings: tuple[str, ...],
             simulator: str, seed: int, quick: bool) -> str:
    """What to type for the same rows."""
    words = ["./rnic bench", *names, *(f"--config {name}" for name in config_names),
             *(f"--set {setting}" for setting in settings)]
    if simulator != "verilator":
        words.append(f"--simulator {simulator}")
    if seed != 1:
        words.append(f"--seed {seed}")
    return " ".join([*words, *(["--quick"] if quick else [])])


def _print(rows: list[dict[str, Any]]) -> None:
    from bench.results import COLUMNS, cell
    table = Table()
    for name in COLUMNS:
        table.add_column(name, justify="right" if name in ("value", "target") else "left")
    for row in rows:
        table.add_row(*(cell(row[name]) for name in COLUMNS))
    Console().print(table)
