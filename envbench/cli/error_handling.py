"""What surrounds every command: refusals before it, signals during it, its errors after it."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click

from envbench.errors import MORE_FILES, EnvbenchError, Interrupted, UsageError
from envbench.text import cut, names_cut, printable, spelt_out

FEWEST_FILES = 64  # open at once: a worker, its guardian, their pipes, the results, the libraries
_OUTPUT_FAILED = {errno.EPIPE, errno.ENOSPC, errno.EIO}


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


# ---------------------------------------------------------------- errors


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
    """In the block, an expected error or one of the system becomes a message without a traceback.

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
    """The error as one line that says what is wrong, and a hint that says what to do."""
    if isinstance(error, UnicodeEncodeError):
        text = error.object[max(0, error.start - 40) : error.end + 40]
        return UsageError(
            f"{_spelt(text)} is not valid UTF-8.",
            hint="envbench records names as UTF-8. Rename the file, or use a link to it.",
        )
    cause = error.__cause__ if isinstance(error, EnvbenchError) else error
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
