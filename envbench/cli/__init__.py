"""The command line: parse options, show results, choose the exit code.

No other room prints or exits. Data goes to stdout, progress and messages to stderr. Each command
is in the file of its name, which is imported when the command is called: ``envbench --help`` is
quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from envbench import __version__
from envbench.cli.error_handling import (
    check_surroundings,
    check_utf8,
    explained,
    if_too_long,
    is_of_output,
    raise_on_signals,
    refuse_empty,
    with_names_cut,
)
from envbench.errors import EnvbenchError, UnknownName
from envbench.text import names_cut, printable

COMMANDS = {
    "run": "Measure how fast environments step: one cell, or all cells of a profile.",
    "verify": "Find out whether the backends do the same work, and as much as they claim.",
    "check": "Find out whether a change made environments slower.",
    "baseline": "Save a baseline for `check --against`.",
    "doctor": "Show what makes this machine noisy, and how small a slowdown it can show.",
    "plans": "List unfinished and finished plans; abandon or delete one.",
    "report": "Fill the tables of results/README.md, or of another document.",
    "compare": "Compare two results files, machines or backends, cell by cell.",
    "import": "Add published figures from a CSV file to the results.",
    "export": "Write the measurements as CSV, JSON or Parquet.",
    "backends": "List the backends, what each one needs, and their settings.",
    "setup": "Create the isolated runtime of a backend.",
    "machines": "List machine profiles, show this machine, or create a profile for it.",
}
_MODULES = {"import": "import_csv"}  # ``import`` cannot be the name of a module


class _Shown(click.ClickException):
    """An ``EnvbenchError`` that click shows, and whose exit code it uses."""

    def __init__(self, error: EnvbenchError) -> None:
        super().__init__(str(error))
        self.exit_code = error.exit_code  # type: ignore[misc]  # click declares a ClassVar
        self.hint = error.hint

    def show(self, file: Any = None) -> None:
        click.echo(f"Error: {printable(names_cut(self.message))}", err=True)
        if self.hint:
            click.echo(printable(names_cut(self.hint)), err=True)


class Commands(click.Group):
    """The commands, each imported when it is called. Shows every ``EnvbenchError``."""

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
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise _Shown(UnknownName("command", args[0], list(COMMANDS)))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
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
    """Measure how fast reinforcement-learning environments step on this machine.

    \b
    envbench run --env atari --backend envpool-async --numenv 8   one cell, about a minute
    envbench run --machine laptop                                 all cells of a profile
    envbench report                                               fill results/README.md

    Exit codes: 0 success; 1 a failed cell, a regression, a full disk, a held lock; 2 wrong usage;
    3 a named backend cannot run here; 4 inconclusive check; 129, 130 and 143 interrupted.
    """
