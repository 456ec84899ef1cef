"""rnic prove: formal proofs of the blocks."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cli import options, output

Row = dict[str, Any]


@click.command("prove")
@click.argument("units", nargs=-1, metavar="[UNIT]…")
@click.option("--quick", is_flag=True, help="Leave out the proofs that take long.")
@click.option("--mutants", is_flag=True,
              help="Also put deliberate faults into the RTL: each must make its proof fail.")
@options.json_file("Write a row a property, and a row a fault")
@options.quiet
def command(units: tuple[str, ...], quick: bool, mutants: bool, json_path: Path | None,
            quiet: bool) -> int:
    """Prove the properties of the blocks UNIT, or of all.

    Results are kept by content, so that only what changed is proved again. Exit status 1 if a
    proof failed, a cover was not reached, or a deliberate fault was not noticed.
    """
    import formal
    from formal.run import check_tools
    for unit in units:
        if unit not in formal.UNITS:
            raise click.BadParameter(f"no such unit: {unit}; there are {', '.join(formal.UNITS)}")
    check_tools()
    say = (lambda text: None) if quiet else _say
    chosen = [(unit, proof) for unit in dict.fromkeys(units) or formal.UNITS
              for proof in formal.proofs(unit, quick=quick)]
    rows = [row for unit, proof in chosen for row in _prove(unit, proof, say)]
    faults = [row for unit, proof in chosen if mutants for row in _break(unit, proof, say)]
    output.write_json(json_path, {"properties": rows, "mutants": faults})
    if not quiet and str(json_path) != "-":
        _print(rows, faults)
    wrong = [row for row in rows + faults if not row["ok"]]
    for row in wrong:
        _say(_complaint(row))
    return 1 if wrong else 0


def _prove(unit: str, proof: Any, say: Callable[[str], None]) -> list[Row]:
    from formal.run import prove
    started = time.monotonic()
    results = prove(unit, proof)
    good = sum(result.ok for result in results)
    say(f"{unit} {proof.name}: {good} of {len(results)} properties, "
        f"{time.monotonic() - started:.1f} s")
    return [result.row() for result in results]


def _break(unit: str, proof: Any, say: Callable[[str], None]) -> Iterator[Row]:
    from formal.run import caught
    for mutant in proof.mutants:
        failed = [result.name for result in caught(unit, proof, mutant)]
        say(f"{unit} {proof.name}, fault '{mutant.name}': {'' if failed else 'not '}noticed")
        yield {"unit": unit, "proof": proof.name, "mutant": mutant.name,
               "properties": failed, "ok": bool(failed)}


def _complaint(row: Row) -> str:
    where = f"{row['unit']} {row['proof']}"
    if "mutant" in row:
        return f"{where}: the fault '{row['mutant']}' is not noticed"
    trace = f" (trace: {row['trace']})" if row["trace"] else ""
    return f"{where}: '{row['property']}' {row['result']}{trace}"


def _print(rows: list[Row], faults: list[Row]) -> None:
    console = Console()
    table = Table()
    for name in ("proof", "property", "method", "depth", "result"):
        table.add_column(name, justify="right" if name == "depth" else "left")
    for row in rows:
        table.add_row(f"{row['unit']} {row['proof']}", escape(row["property"]),
                      row["method"], str(row["depth"]), _coloured(row["result"], row["ok"]))
    console.print(table)
    if faults:
        console.print(_fault_table(faults))


def _fault_table(faults: list[Row]) -> Table:
    table = Table(title="deliberate faults", title_justify="left")
    for name in ("proof", "fault", "fails"):
        table.add_column(name)
    for row in faults:
        table.add_row(f"{row['unit']} {row['proof']}", escape(row["mutant"]),
                      _coloured(escape("; ".join(row["properties"])) or "nothing", row["ok"]))
    return table


def _coloured(text: str, good: bool) -> str:
    return text if good else f"[red]{text}[/]"


def _say(text: str) -> None:
    click.echo(f"rnic: {text}", err=True)
