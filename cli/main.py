"""The commands and the exit status: 0 all agreed, 1 a mismatch, 2 bad input or usage."""

import importlib
import io
import sys

import click

from cli.errors import BROKEN_PIPE, end_tidily_on_signals, report

# Each is cli/NAME.py.
COMMANDS = ("simulate", "parse", "verilog", "synth", "bench", "prove", "mutate", "test")


class Commands(click.Group):
    """Loads a command's module when that command is wanted."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"cli.{name}").command
        return command


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def rnic() -> None:
    """A 400G-class RDMA NIC as hardware, beside a model that says what it must do.

    `./rnic simulate` replays a capture into the NIC and compares every packet and every byte
    of memory.
    """


def main(arguments: list[str] | None = None) -> int:
    """Run a command line; what goes wrong becomes one line on stderr and an exit status."""
    end_tidily_on_signals()
    for stream in (sys.stdout, sys.stderr):  # a terminal without µ shall see ?, not a traceback
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        status = rnic.main(arguments, prog_name="rnic", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except SystemExit:  # Click's answer to a broken pipe; nothing else of ours exits
        return BROKEN_PIPE
    except (Exception, KeyboardInterrupt) as error:
        return report(error)
