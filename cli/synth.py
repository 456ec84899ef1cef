"""rnic synth: area and logic depth of the NIC, or of one block, in cells of an FPGA."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cli import options, output
from rtl.units import UNITS
from tools.synth import TARGETS

Result = dict[str, Any]
JUDGED = {"lut": "LUT", "ff": "flip-flops", "bram": "block RAM", "uram": "UltraRAM", "dsp": "DSP",
          "levels": "levels"}  # what must not grow
PATHS = {"register_to_register": "register to register", "input_to_register": "input to register",
         "register_to_output": "register to output", "input_to_output": "input to output"}


@click.command("synth")
@click.option("--unit", type=click.Choice(tuple(UNITS)), default="nic", show_default=True,
              help="What to synthesize.")
@click.option("--target", type=click.Choice(tuple(TARGETS)), default="xcup", show_default=True,
              help="UltraScale+, 7 series or ECP5.")
@options.configured
@click.option("--compare", "recorded", metavar="FILE", callback=lambda _, __, path: _load(path),
              type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="Show the change against the --json of an earlier run; exit status 1 if a "
                   "figure grew too much.")
@click.option("--allow", type=click.FloatRange(min=0), default=5, show_default=True,
              metavar="PERCENT", help="By how much a figure may grow.")
@options.json_file("Write the result")
@options.quiet
def command(unit: str, target: str, config_name: str, settings: tuple[str, ...],
            recorded: Result | None, allow: float, json_path: Path | None, quiet: bool) -> int:
    """Synthesize a unit with yosys: LUTs, flip-flops, memories, and the longest logic paths in
    levels of LUTs. Nothing is placed or routed, so there is no clock rate."""
    config = options.resolve(config_name, settings)
    if recorded and (recorded["unit"], recorded["target"]) != (unit, target):
        raise click.BadParameter(f"it is of {recorded['unit']} on {recorded['target']}, "
                                 f"not {unit} on {target}", param_hint="'--compare'")
    from tools.synth import synthesize
    with output.progress_bar(f"{unit}, {config.name}, {target}", quiet) as progress:
        result = synthesize(unit, config, target, progress)
    changes = list(compare(recorded, result, allow)) if recorded else []
    output.write_json(json_path, result)
    if not quiet and str(json_path) != "-":
        _print(result, changes)
    return 1 if any(change["grown"] for change in changes) else 0


def compare(before: Result, now: Result, allow: float) -> Iterator[dict[str, Any]]:
    """Each judged figure, and whether it grew by more than `allow` per cent."""
    for key, name in {**JUDGED, "memories_as_registers": "memories in flip-flops"}.items():
        old, new = (len(it[key]) if isinstance(it[key], list) else it[key]
                    for it in (before, now))
        yield {"figure": name, "before": old, "now": new,
               "percent": 100 * (new - old) / old if old else None,
               "grown": 100 * (new - old) > allow * old}


def _load(path: Path | None) -> Result | None:
    if path is None:
        return None
    try:
        found: Result = json.loads(path.read_text())
        missing = {"unit", "target", "memories_as_registers", *JUDGED} - set(found)
    except (ValueError, TypeError):
        missing = {"all"}
    if missing:
        raise click.BadParameter(f"'{path}' is no result of rnic synth --json")
    return found


def rows(result: Result) -> Iterator[tuple[str, str]]:
    yield "unit", (f"{result['unit']}, {result['config']}, {result['data_width']} bits, "
                   f"{result['target']}")
    yield "LUT", f"{result['lut']:,} ({result['lut_ram']:,} of them memory)"
    yield "flip-flops", f"{result['ff']:,}"
    yield "carry cells", f"{result['carry']:,}"
    yield "block RAM", f"{result['bram']:g}"
    if result["target"] == "xcup":
        yield "UltraRAM", str(result["uram"])
    yield "DSP", str(result["dsp"])
    for key, name in PATHS.items():
        path = result["longest"][key]
        yield f"levels, {name}", (f"{path['levels']}: {path['start']} → {path['end']}" if path
                                  else "no such path")
    yield "memories in flip-flops", ", ".join(
        f"{memory['name']} ({memory['words']} × {memory['bits']} bits)"
        for memory in result["memories_as_registers"]) or "none"
    yield "fmax", "not placed"
    yield "yosys", f"{result['yosys']}, {result['wall_s']:.1f} s"


def _print(result: Result, changes: list[dict[str, Any]]) -> None:
    console = Console()
    table = Table(show_header=False)
    for name, value in rows(result):
        table.add_row(name, escape(value))
    console.print(table)
    if not changes:
        return
    table = Table(title="against the recorded run", title_justify="left")
    for name in ("figure", "before", "now", "change"):
        table.add_column(name, justify="left" if name == "figure" else "right")
    for change in changes:
        percent = "" if change["percent"] is None else f"{change['percent']:+.1f} %"
        table.add_row(change["figure"], f"{change['before']:,}", f"{change['now']:,}",
                      f"[red]{percent or 'new'}: grown[/]" if change["grown"] else percent)
    console.print(table)
