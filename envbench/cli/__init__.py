"""The command line: the only code that prints or exits.

Data goes to stdout, progress and messages to stderr. Each command lives in a file of its name
and is imported only when it is called, so that ``envbench --help`` answers at once.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import Any

import click

from envbench import __version__
from envbench.cli.boundary import (
    check_surroundings,
    check_utf8,
    explained,
    if_too_long,
    is_of_output,
    refuse_empty,
    with_names_cut,
)
from envbench.errors import EnvbenchError
from envbench.text import names_cut, printable

COMMANDS = {
    "run": "Measure environments on this machine: one cell, a plan, or a whole profile.",
    "verify": "Find out whether the backends do the same work, and as much as they claim.",
    "check": "Did it get slower? A baseline and a candidate that step alternately.",
    "baseline": "Save what `check --against` compares with, where no A/B can be run.",
    "doctor": "What makes this machine noisy, and how small a change can be seen here.",
    "plans": "List unfinished and finished plans; abandon or delete one.",
    "report": "Fill the tables of results/README.md, or of any document, from the results.",
    "compare": "Two results files, machines or backends: ratio and interval per cell.",
    "import": "Take figures that others have published from a CSV file into the results.",
    "export": "Write the measurements as CSV, JSON or Parquet, one row per cell or run.",
    "backends": "What can run here, what needs setting up, and what cannot run and why.",
    "setup": "Make the isolated runtime of a backend.",
    "machines": "List machine profiles, show what this machine is, or make a profile for it.",
}


_MODULES = {"import": "import_csv"}  # where the command's name is no name of Python's


class _Shown(click.ClickException):
    """An ``EnvbenchError`` as click shows and exits with it."""

    def __init__(self, error: EnvbenchError) -> None:
        super().__init__(str(error))
        self.exit_code = error.exit_code  # type: ignore[misc]  # click says ClassVar
        self.hint = error.hint

    def show(self, file: Any = None) -> None:
        click.echo(f"Error: {printable(names_cut(self.message))}", err=True)
        if self.hint:
            click.echo(printable(names_cut(self.hint)), err=True)


def tell(text: str) -> None:
    """A message for a person, on stderr. Work continues where no one reads it any more."""
    with suppress(OSError):
        click.echo(printable(text), err=True)


class Commands(click.Group):
    """Imports a command's module when the command is called, and shows our errors."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = _MODULES.get(cmd_name, cmd_name)
        command = getattr(import_module(f"envbench.cli.{module}"), module)
        assert isinstance(command, click.Command)
        return refuse_empty(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            check_utf8(args)
        except EnvbenchError as error:
            raise _Shown(error) from error
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        from envbench.errors import UnknownName

        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise _Shown(UnknownName("command", args[0], list(COMMANDS)))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        from envbench.cli.interrupts import raise_on_signals

        try:
            with raise_on_signals():
                check_surroundings()
                return super().invoke(ctx)
        except EnvbenchError as error:
            raise _Shown(if_too_long(error)) from error
        except click.UsageError as error:
            raise with_names_cut(error) from error
        except (OSError, UnicodeEncodeError) as error:
            if isinstance(error, OSError) and is_of_output(error):
                raise
            raise _Shown(explained(error)) from error


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="envbench")
def envbench() -> None:
    """How fast do reinforcement-learning environments step, on this machine?

    \b
    envbench run --env atari --backend envpool-async --numenv 8   one cell, about a minute
    envbench run --machine laptop                                 a whole profile; resumable
    envbench report                                               fills results/README.md

    Exit codes: 0 fine; 1 a failed cell, a full disk, a held lock; 2 wrong usage; 3 a named
    backend cannot run here; 4 check could not tell; 129, 130 and 143 interrupted.
    """
