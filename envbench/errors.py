"""Every expected error is an ``EnvbenchError`` with its exit code.

Exit codes: 0 success; 1 a failed cell, a regression, unequal work, an outdated report, or a fault
of the machine (disk, open files, lock); 2 wrong usage, found before anything is measured; 3 a named
backend cannot run here; 4 inconclusive; 129, 130 and 143 interrupted. Only the command line exits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

CELL_FAILED = 1
USAGE = 2
UNAVAILABLE = 3
INCONCLUSIVE = 4

MORE_FILES = "Raise the limit, for example: ulimit -n 4096"  # for too many open files


class EnvbenchError(Exception):
    """An expected error. ``hint`` is what a person can do next."""

    exit_code: int = CELL_FAILED

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@contextmanager
def hints_shown() -> Iterator[None]:
    """In the block, a traceback of an ``EnvbenchError`` shows its hint, too."""
    try:
        yield
    except EnvbenchError as error:
        if error.hint:
            error.add_note(error.hint)
        raise


class UsageError(EnvbenchError):
    """The command line, a profile or an input file is wrong."""

    exit_code = USAGE


class UnknownName(UsageError):
    """An unknown backend, family, task, machine or setting.

    The message suggests the most similar name, ignoring case, if its similarity is at least
    ``closeness`` (0 to 1).
    """

    def __init__(self, what: str, name: str, known: list[str], *, closeness: float = 0.5) -> None:
        from difflib import get_close_matches

        folded = {each.casefold(): each for each in known}
        near = get_close_matches(name.casefold(), folded, n=1, cutoff=closeness)
        suggestion = f" Did you mean {folded[near[0]]!r}?" if near else ""
        shown = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
        super().__init__(
            f"unknown {what} {name!r}.{suggestion}",
            hint=f"Known: {shown}" if known else f"No {what} is known.",
        )


class Unavailable(EnvbenchError):
    """A named backend, its runtime or git cannot be used here."""

    exit_code = UNAVAILABLE


class StorageError(EnvbenchError):
    """Results cannot be written: full disk, read-only folder, no permission."""


class LockHeld(EnvbenchError):
    """Another envbench is measuring on this machine."""


class CodeChanged(EnvbenchError):
    """The code that a plan measures was edited while the plan ran."""


class Interrupted(EnvbenchError):
    """Stopped by SIGHUP (129), SIGINT (130) or SIGTERM (143)."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(
            "interrupted",
            hint="Finished work is kept. The same command resumes from there, or starts again.",
        )
        self.exit_code = exit_code
