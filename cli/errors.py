"""Exceptions to one line on stderr and an exit status."""

import os
import signal
import sys
import traceback
from types import FrameType

import click

BAD_INPUT = 2
INTERRUPTED = 128 + signal.SIGINT  # as shells have it
BROKEN_PIPE = 128 + signal.SIGPIPE


class Ended(KeyboardInterrupt):
    """A signal asked the program to end; tidied up after as Ctrl-C is."""

    def __init__(self, number: int):
        super().__init__()
        self.status = 128 + number


def end_tidily_on_signals() -> None:
    """SIGTERM and SIGHUP unwind the stack, so that the simulator is ended and files removed."""
    def end(number: int, frame: FrameType | None) -> None:
        raise Ended(number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)


def report(error: BaseException) -> int:
    """Say what happened; the exit status."""
    if isinstance(error, KeyboardInterrupt | click.Abort):
        from tools.process import end_descendants
        end_descendants()
        _say("interrupted")
        cause = error if isinstance(error, Ended) else error.__cause__
        return cause.status if isinstance(cause, Ended) else INTERRUPTED
    if isinstance(error, BrokenPipeError):  # as in `rnic parse FILE | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.ctx.get_help() if error.ctx else "", err=True)
    elif isinstance(error, click.UsageError):
        _error(f"{error.format_message().rstrip('.')} (see {_help(error.ctx)})")
    elif isinstance(error, click.ClickException):
        _error(error.format_message())
    elif isinstance(error, _users_errors()):
        _error(str(error))
    elif isinstance(error, OSError):
        _error(f"{error.filename or 'system'}: {error.strerror or error}")
    else:
        summary = next(iter(str(error).splitlines()), "")[:200]
        _error(f"a fault of this program: {type(error).__name__}: {summary} (see {_keep(error)})")
    return BAD_INPUT


def _users_errors() -> tuple[type[Exception], ...]:
    """What the rooms raise when it is the input or the machine that is wrong."""
    from rtl.config import ConfigError
    from sim.wire.capture import CaptureError
    from sim.workload.truth import TruthError
    from tools.cache import BuildError
    return ConfigError, CaptureError, TruthError, BuildError


def _help(ctx: click.Context | None) -> str:
    return f"{ctx.command_path if ctx else 'rnic'} --help"


def _keep(error: BaseException) -> str:
    """The whole story goes to a file, and its name to the user."""
    from tools.cache import CACHE
    path = CACHE / "error.log"
    CACHE.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(traceback.format_exception(error)))
    return str(path)


def _error(text: str) -> None:
    _say(f"error: {text}")


def _say(text: str) -> None:
    print(f"rnic: {' '.join(text.split())}", file=sys.stderr, flush=True)
