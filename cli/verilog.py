"""rnic verilog: the NIC, or one block of it, as Verilog."""

import json
from pathlib import Path
from typing import Any

import click

from cli import options, output
from rtl.units import UNITS


@click.command("verilog")
@click.option("--unit", type=click.Choice(tuple(UNITS)), default="nic", show_default=True,
              help="What to write.")
@click.option("--output", "folder", type=click.Path(path_type=Path, file_okay=False),
              default=Path("build"), show_default=True, metavar="DIR", help="Where to.")
@options.configured
@options.quiet
def command(unit: str, folder: Path, config_name: str, settings: tuple[str, ...],
            quiet: bool) -> int:
    """Write UNIT.v, the file list UNIT.f, and its ports as UNIT.ports.json and UNIT.ports.md."""
    config = options.resolve(config_name, settings)
    from rtl.portmap import port_map
    from rtl.verilog import to_verilog
    component = UNITS[unit](config)
    ports = port_map(component)
    files = {
        f"{unit}.v": to_verilog(component, unit),
        f"{unit}.f": f"{unit}.v\n",
        f"{unit}.ports.json": json.dumps(
            {"module": unit, "config": config.name, "ports": ports}, indent=1) + "\n",
        f"{unit}.ports.md": ports_markdown(unit, config.name, ports),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        output.write_text(folder / name, text)
        if not quiet:
            click.echo(f"{folder / name}: {len(text.encode())} bytes")
    return 0


def ports_markdown(unit: str, config: str, ports: list[dict[str, Any]]) -> str:
    """The port map for people: a table of ports, then one for each structured port."""
    lines = [f"# Ports of `{unit}` ({config})", "", "| port | direction | bits |", "|---|---|---|"]
    lines += [f"| `{port['name']}` | {port['direction']} | {port['width']} |" for port in ports]
    for port in ports:
        if port["fields"]:
            lines += ["", f"## `{port['name']}`", "", "| field | bits |", "|---|---|"]
            lines += [f"| {field['name']} | {_bits(field)} |" for field in port["fields"]]
    return "\n".join(lines) + "\n"


def _bits(field: dict[str, Any]) -> str:
    low, width = field["offset"], field["width"]
    return str(low) if width == 1 else f"{low + width - 1}:{low}"
