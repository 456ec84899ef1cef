"""rnic mutate: small faults put into a unit by a program, and whether the benches notice."""

from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cli import options, output
from tb.mutation import BEDS, Verdict, judge

LEAST = 95  # per cent


@click.command("mutate")
@click.argument("unit", type=click.Choice(tuple(BEDS)))
@click.option("--count", type=click.IntRange(1, 10_000), default=250, show_default=True,
              help="How many faults.")
@click.option("--least", type=click.FloatRange(0, 100), default=LEAST, show_default=True,
              metavar="PERCENT", help="Exit status 1 if fewer are noticed.")
@options.seed
@options.json_file("Write a row a fault")
@options.quiet
def command(unit: str, count: int, least: float, seed: int, json_path: Path | None,
            quiet: bool) -> int:
    """Put faults into UNIT, each by itself, and run its benches until one notices.

    Yosys chooses the faults evenly over the design: a bit that is stuck, inverted, or wrong when
    another bit says so. What became of each is kept by content: a run that was interrupted, or
    repeated, goes on there.
    """
    verdicts = []
    with output.progress_bar(f"faults in {unit}", quiet) as progress:
        for verdict in judge(unit, count, seed):
            verdicts.append(verdict)
            if progress:
                progress(len(verdicts), count)
    verdicts.sort(key=lambda verdict: verdict.mutant.number)
    caught = sum(verdict.caught for verdict in verdicts)
    share = 100 * caught / len(verdicts)
    output.write_json(json_path, {"unit": unit, "seed": seed, "count": len(verdicts),
                                  "caught": caught, "mutants": [row(one) for one in verdicts]})
    if not quiet and str(json_path) != "-":
        _print(verdicts, share)
    if share < least:
        click.echo(f"rnic: {unit}: {share:.1f} % of {len(verdicts)} faults were noticed, "
                   f"fewer than {least:g} %", err=True)
    return 1 if share < least else 0


def row(verdict: Verdict) -> dict[str, Any]:
    mutant = verdict.mutant
    return {"mutant": mutant.number, "what": mutant.what, "where": mutant.where,
            "source": mutant.source, "by": verdict.by or None, "said": verdict.said}


def _print(verdicts: list[Verdict], share: float) -> None:
    console = Console()
    by = Table()
    by.add_column("noticed by")
    by.add_column("faults", justify="right")
    for name in dict.fromkeys(verdict.by for verdict in verdicts if verdict.caught):
        by.add_row(escape(name), str(sum(verdict.by == name for verdict in verdicts)))
    by.add_section()
    by.add_row("all", f"{share:.1f} % of {len(verdicts)}")
    console.print(by)
    survivors = [verdict.mutant for verdict in verdicts if not verdict.caught]
    if survivors:
        table = Table(title="not noticed", title_justify="left")
        for name in ("fault", "what", "where", "source"):
            table.add_column(name)
        for mutant in survivors:
            table.add_row(str(mutant.number), mutant.what, escape(mutant.where), mutant.source)
        console.print(table)
