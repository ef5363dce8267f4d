"""What every command refuses, and how the system's own errors are reported: in one place.

- ``check_surroundings``: the working directory exists, and enough files may be open.
- ``check_utf8``: every word of the command line is UTF-8, because it is recorded as such.
- ``refuse_empty``: no option or argument that names something may be empty. In CI, a variable that
  is not set would otherwise turn an option off without a word.
- ``explained``: an ``OSError`` that no code expected becomes one line instead of a traceback.
- ``if_too_long``: a path that is too long has one exit code and one hint, wherever it is met.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from typing import Any

import click

from envbench.errors import MORE_FILES, EnvbenchError, UsageError
from envbench.text import cut, names_cut, spelt_out

FEWEST_FILES = 64  # open at once: a worker, its guardian, their pipes, the results, the libraries
_SHORTER = "Give a shorter path."
_OUTPUT_FAILED = {errno.EPIPE, errno.ENOSPC, errno.EIO}


# ---------------------------------------------------------------- before a command


def check_surroundings() -> None:
    """Raise where no command can work: no working directory, or too few open files allowed."""
    try:
        os.getcwd()
    except OSError as error:
        raise UsageError(
            f"the working directory cannot be used: {error.strerror}. It was probably deleted.",
            hint="Change to a folder that exists, and give the command again.",
        ) from error
    allowed = os.sysconf("SC_OPEN_MAX") if hasattr(os, "sysconf") else FEWEST_FILES
    if 0 <= allowed < FEWEST_FILES:
        raise EnvbenchError(
            f"only {allowed} files may be open at once here; envbench needs {FEWEST_FILES}.",
            hint=MORE_FILES,
        )


def check_utf8(words: Sequence[str]) -> None:
    """Raise ``UsageError`` for a word of the command line that holds bytes that are not UTF-8."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UsageError(
                f"{_spelt(word)} is not valid UTF-8.",
                hint="envbench records names as UTF-8. Rename it, or name it by a link.",
            ) from None


# ---------------------------------------------------------------- empty values


class NotEmpty(click.ParamType[Any]):
    """What another type makes of a text; an empty or blank text is refused."""

    def __init__(self, inner: click.ParamType[Any]) -> None:
        self.inner = inner
        self.name = inner.name

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if isinstance(value, str) and not value.strip():
            raise click.UsageError(
                f"{_name(param)} is empty. Give it a value, or leave it out. "
                "If the value comes from a variable, the variable is not set.",
                ctx,
            )
        return self.inner(value, param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        return self.inner.get_metavar(param, ctx)

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str | None:
        return self.inner.get_missing_message(param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> Any:
        return self.inner.shell_complete(ctx, param, incomplete)


def refuse_empty(command: click.Command) -> click.Command:
    """The command, with ``NotEmpty`` around each type that would take an empty text.

    The other types (numbers, choices, lists) refuse it themselves and say what they take.
    """
    for _, each in subcommands(command):
        for param in each.params:
            if isinstance(param.type, click.types.StringParamType | click.Path):
                param.type = NotEmpty(param.type)
    return command


def subcommands(
    command: click.Command, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The command and, where it is a group, all below it; each with the words that name it."""
    yield words, command
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from subcommands(each, (*words, name))


def _name(param: click.Parameter | None) -> str:
    if param is None:
        return "a value"
    return param.opts[0] if isinstance(param, click.Option) else param.human_readable_name


# ---------------------------------------------------------------- the system's errors


def is_of_output(error: OSError) -> bool:
    """Could stdout not be written? The process's entry point reports that."""
    return error.errno in _OUTPUT_FAILED and error.filename is None


def explained(error: OSError | UnicodeEncodeError) -> EnvbenchError:
    """The error as one line that says what is wrong, and a hint that says what to do."""
    if isinstance(error, UnicodeEncodeError):
        text = error.object[max(0, error.start - 40) : error.end + 40]
        return UsageError(f"{_spelt(text)} is not valid UTF-8.", hint="Rename it.")
    reason = error.strerror or str(error)
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return EnvbenchError(f"too many files are open ({reason}).", hint=MORE_FILES)
    place = "" if error.filename is None else f"{_spelt(os.fsdecode(error.filename))}: "
    if error.errno == errno.ENAMETOOLONG:
        return UsageError(f"{place}{reason}.", hint=_SHORTER)
    return EnvbenchError(
        f"the system refused a file operation: {place}{reason}.",
        hint="Check that the path exists, that you may use it, and that the disk works.",
    )


def if_too_long(error: EnvbenchError) -> EnvbenchError:
    """The error; where a path was too long, it is wrong usage, whatever was to be done with it."""
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.errno == errno.ENAMETOOLONG:
        return UsageError(str(error), hint=_SHORTER)
    return error


def with_names_cut(error: click.UsageError) -> click.UsageError:
    """Click's own refusal, with the long names in it cut."""
    text = error.format_message()
    short = names_cut(text)
    return error if short == text else click.UsageError(short, error.ctx)


def _spelt(text: str) -> str:
    """The text in quotes, its odd characters written as escapes, cut where it is long."""
    return f"'{spelt_out(cut(text))}'"
