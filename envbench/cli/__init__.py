"""The command line: parse options, show results, choose the exit code.

No other package of envbench prints or exits. Data goes to stdout, progress and messages to stderr.
The file of a command is imported when the command is called: ``envbench --help`` is quick. This
file has what surrounds every command: refusals before it, signals during it, its errors after it.

``COMMANDS`` names the file of each command. Commands share ``options`` and ``value_types``, which
read the command line, ``terminal``, which writes, and ``conduct`` and ``progress``, which carry out
an experiment and show its progress. ``run_figures`` shows the outcome of ``run``, and
``check_verdicts`` and ``check_sentences`` that of ``check``.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from envbench import __version__
from envbench.errors import MORE_FILES, EnvbenchError, UnknownName, UsageError
from envbench.process.signals import raise_on_signals
from envbench.text import cut, names_cut, printable, spelt_out

COMMANDS = {  # each with its file and its help
    "run": ("run", "Measure how fast environments step: one cell, or all cells of a profile."),
    "verify": ("verify", "Find out whether backends do the same work and count it correctly."),
    "check": ("check", "Find out whether a change made environments slower."),
    "baseline": ("check", "Save a baseline for `check --against`."),
    "doctor": ("doctor", "Show how noisy this machine is, and how small a slowdown a check finds."),
    "plans": ("plans", "List finished and unfinished plans; abandon or delete one."),
    "report": ("report", "Fill the tables of results/README.md, or of another document."),
    "compare": ("compare", "Compare two results files, machines or backends, cell by cell."),
    "import": ("import_export", "Add published figures from a CSV file to the results."),
    "export": ("import_export", "Write the measurements as CSV, JSON or Parquet."),
    "backends": ("backends", "List the backends, what each one needs, and their settings."),
    "setup": ("backends", "Create the isolated runtime of a backend."),
    "cache": ("cache", "List the isolated runtimes and their sizes; remove them."),
    "machines": ("machines", "List machine profiles, show this machine, or create its profile."),
}
FEWEST_FILES = 64  # open at once: a worker, its guardian, their pipes, the results, the libraries
_OUTPUT_FAILED = {errno.EPIPE, errno.ENOSPC, errno.EIO}


class Commands(click.Group):
    """The commands, each imported when it is called. Shows every ``EnvbenchError``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            if ctx.resilient_parsing:  # a shell completes what follows it
                return None
            raise UnknownName("command", cmd_name, list(COMMANDS))
        module = import_module(f"envbench.cli.{COMMANDS[cmd_name][0]}")
        variable = "import_csv" if cmd_name == "import" else cmd_name  # a Python keyword
        command: click.Command = getattr(module, variable)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with errors_shown():
            for word in args:
                word.encode()  # results record it as UTF-8
        return super().parse_args(ctx, args)

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
    envbench run --plan                                           what a whole profile would take
    envbench run                                                  all cells of the machine's profile
    envbench report                                               fill results/README.md

    Exit codes: 0 success; 1 a failed cell, a regression, unequal work, an outdated report, a full
    disk, a held lock; 2 wrong usage; 3 a named backend cannot run here; 4 inconclusive check; 129,
    130 and 143 interrupted.
    """


def check_surroundings() -> None:
    """Raise where no command can work: no working directory, or too few open files allowed."""
    try:
        os.getcwd()
    except OSError as error:
        raise UsageError(
            f"the working directory cannot be used: {error.strerror}. It was probably deleted.",
            hint="Change to a folder that exists, and run the command again.",
        ) from error
    allowed = os.sysconf("SC_OPEN_MAX") if hasattr(os, "sysconf") else FEWEST_FILES
    if 0 <= allowed < FEWEST_FILES:
        raise EnvbenchError(
            f"only {allowed} files may be open at once here; envbench needs {FEWEST_FILES}.",
            hint=MORE_FILES,
        )


class _Shown(click.ClickException):
    """An error as click shows it: a message, a hint and an exit code."""

    def __init__(self, error: EnvbenchError) -> None:
        super().__init__(str(error))
        self.exit_code = error.exit_code  # type: ignore[misc]  # click declares a ClassVar
        self.hint = error.hint

    def show(self, file: Any = None) -> None:
        click.echo(f"Error: {printable(names_cut(self.message))}", err=True)
        if self.hint:
            click.echo(printable(names_cut(self.hint)), err=True)


@contextmanager
def errors_shown() -> Iterator[None]:
    """In the block, an expected error or an error of the system becomes a message.

    An error of writing to stdout stays as it is: the entry point of the process reports it.
    """
    try:
        yield
    except click.UsageError as error:
        short = names_cut(error.format_message())
        if short == error.format_message():
            raise
        raise click.UsageError(short, error.ctx) from error
    except (EnvbenchError, OSError, UnicodeEncodeError) as error:
        if isinstance(error, OSError) and error.errno in _OUTPUT_FAILED and not error.filename:
            raise
        raise _Shown(explained(error)) from error


def explained(error: EnvbenchError | OSError | UnicodeEncodeError) -> EnvbenchError:
    """Return the error as one line that says what is wrong, and a hint that says what to do."""
    if isinstance(error, UnicodeEncodeError):
        text = error.object[max(0, error.start - 40) : error.end + 40]
        return UsageError(
            f"{_spelt(text)} is not valid UTF-8.",
            hint="envbench records names as UTF-8. Rename the file, or use a link to it.",
        )
    cause = error.__cause__ if isinstance(error, EnvbenchError) else error
    if isinstance(cause, OSError) and cause.errno in (errno.EMFILE, errno.ENFILE):
        return _of_system(cause)
    found = error if isinstance(error, EnvbenchError) else _of_system(error)
    if isinstance(cause, OSError) and cause.errno == errno.ENAMETOOLONG:
        return UsageError(str(found), hint="Give a shorter path.")
    return found


def _of_system(error: OSError) -> EnvbenchError:
    reason = error.strerror or str(error)
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return EnvbenchError(f"too many files are open ({reason}).", hint=MORE_FILES)
    place = "" if error.filename is None else f"{_spelt(os.fsdecode(error.filename))}: "
    return EnvbenchError(
        f"the system refused a file operation: {place}{reason}.",
        hint="Check that the path exists, that you may use it, and that the disk works.",
    )


def _spelt(text: str) -> str:
    """The text in quotes, with unprintable characters as escapes, cut where it is long."""
    return f"'{spelt_out(cut(text))}'"
