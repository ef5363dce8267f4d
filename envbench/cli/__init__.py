"""The command line: parse options, show results, choose the exit code.

No other room prints or exits. Data goes to stdout, progress and messages to stderr. The file of a
command is imported when the command is called: ``envbench --help`` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from envbench import __version__
from envbench.cli.error_handling import check_surroundings, errors_shown, raise_on_signals
from envbench.errors import UnknownName

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
# The files of commands that are not in the file of their name.
_FILES = {
    "baseline": "check",
    "import": "import_export",
    "export": "import_export",
    "setup": "backends",
}


class Commands(click.Group):
    """The commands, each imported when it is called. Shows every ``EnvbenchError``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"envbench.cli.{_FILES.get(cmd_name, cmd_name)}")
        variable = "import_csv" if cmd_name == "import" else cmd_name  # ``import`` cannot be one
        command: click.Command = getattr(module, variable)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with errors_shown():
            for word in args:
                word.encode()  # results record it as UTF-8
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise UnknownName("command", args[0], list(COMMANDS))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with errors_shown(), raise_on_signals():
            check_surroundings()
            return super().invoke(ctx)


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
