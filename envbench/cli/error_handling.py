"""What surrounds every command: refusals before it, signals during it, system errors after it.

- ``check_surroundings``: the working directory exists, and enough files may be open.
- ``check_utf8``: every word of the command line is UTF-8, because results record it as UTF-8.
- ``refuse_empty``: no option or argument that names something may be empty. In CI, a variable that
  is not set would otherwise silently turn an option off.
- ``raise_on_signals``: a signal to stop becomes ``Interrupted``.
- ``explained``: an unexpected ``OSError`` becomes one line instead of a traceback.
- ``if_too_long``: a path that is too long always has the same exit code and hint.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial
from types import FrameType
from typing import Any

import click

from envbench.errors import MORE_FILES, EnvbenchError, Interrupted, UsageError
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
    """Raise ``UsageError`` for a word of the command line with bytes that are not UTF-8."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UsageError(
                f"{_spelt(word)} is not valid UTF-8.",
                hint="envbench records names as UTF-8. Rename the file, or use a link to it.",
            ) from None


def refuse_empty(command: click.Command) -> click.Command:
    """The command, which now refuses an empty or blank text for a name or path.

    Other types (numbers, choices, lists) refuse it themselves and say what they take.
    """
    for _, each in subcommands(command):
        for param in each.params:
            text = isinstance(param.type, click.types.StringParamType | click.Path)
            if text and "convert" not in vars(param.type):
                param.type = copy(param.type)  # click shares one value of it between options
                convert = partial(_convert, param.type.convert)
                param.type.convert = convert  # type: ignore[method-assign]
    return command


def _convert(convert: Callable[..., Any], value: Any, param: click.Parameter, ctx: Any) -> Any:
    if isinstance(value, str) and not value.strip():
        name = param.opts[0] if isinstance(param, click.Option) else param.human_readable_name
        raise click.UsageError(
            f"{name} is empty. Give it a value, or leave it out. "
            "If the value comes from a variable, the variable is not set.",
            ctx,
        )
    return convert(value, param, ctx)


def subcommands(
    command: click.Command, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The command and every command below it, each with the words that name it."""
    yield words, command
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from subcommands(each, (*words, name))


# ---------------------------------------------------------------- signals


@contextmanager
def raise_on_signals() -> Iterator[None]:
    """In the block, the first SIGINT, SIGTERM or SIGHUP raises ``Interrupted`` (128 + its number).

    A signal that was already ignored (``nohup``) stays ignored. Later signals are ignored while
    running workers are ended, which takes at most two seconds.
    """
    names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    numbers = [getattr(signal, name) for name in names]
    numbers = [each for each in numbers if signal.getsignal(each) is not signal.SIG_IGN]

    def stop(number: int, frame: FrameType | None) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(128 + number)

    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# ---------------------------------------------------------------- the system's errors


def is_of_output(error: OSError) -> bool:
    """Did writing to stdout fail? The entry point of the process reports that."""
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
    """The error; a ``UsageError`` instead where its cause is a path that is too long."""
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.errno == errno.ENAMETOOLONG:
        return UsageError(str(error), hint=_SHORTER)
    return error


def with_names_cut(error: click.UsageError) -> click.UsageError:
    """Click's own error, with long names in it cut."""
    text = error.format_message()
    short = names_cut(text)
    return error if short == text else click.UsageError(short, error.ctx)


def _spelt(text: str) -> str:
    """The text in quotes, with unprintable characters as escapes, cut where it is long."""
    return f"'{spelt_out(cut(text))}'"
