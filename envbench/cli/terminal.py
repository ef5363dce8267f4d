"""What commands write: messages on stderr, tables and JSON documents on stdout."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import click
import msgspec

from envbench.errors import EnvbenchError
from envbench.model import Cell, Failure
from envbench.text import counted, printable

LONGEST_WORD = 24  # characters that are not broken into lines


def program() -> str:
    """How envbench is called: by its name, if the shell finds it."""
    return "envbench" if shutil.which("envbench") else f"{sys.executable} -m envbench"


def tell(text: str) -> None:
    """Write a message on stderr. If stderr is closed, nothing happens."""
    with suppress(OSError):
        click.echo(printable(text), err=True)


def warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        tell(f"Warning: {warning}")


def tell_error(title: str, error: EnvbenchError) -> None:
    """Write an expected error after a title, and its hint, if there is one, on the next line."""
    tell(f"{title}{error}")
    if error.hint:
        tell(error.hint)


def tell_failure(title: str, failure: Failure) -> None:
    """Write a failure's message after a title, the end of the worker's stderr, and the hint."""
    tell(title + failure.message)
    for line in failure.stderr_tail.splitlines()[-15:]:
        tell(f"  | {line}")
    if failure.hint:
        tell(f"  {failure.hint}")


def tell_failures(failures: Iterable[tuple[Cell, Failure | None]]) -> None:
    """Show the cells that failed. A reason that several cells of a backend share, once."""
    keys = defaultdict(list)
    for cell, failure in failures:
        if failure is not None:
            cause = (cell.env, cell.backend, failure.reason, failure.message)
            keys[cause].append((cell.key, failure))
    for (key, failure), *more in keys.values():
        others = f" (and {counted(len(more), 'more cell')})" if more else ""
        where = f" in {failure.phase}" if failure.phase not in ("", failure.reason) else ""
        after = f" after {failure.step:,} steps" if failure.step else ""
        tell_failure(f"\n{key}{others}: {failure.reason}{where}{after}\n", failure)


def print_json(document: object, *, indent: int = 2) -> None:
    """Write one JSON document on stdout; a negative ``indent`` puts it on one line."""
    click.echo(json_text(document, indent=indent))


def json_text(document: object, *, indent: int) -> str:
    """``print_json``, as a text without a final newline."""
    return msgspec.json.format(msgspec.json.encode(document), indent=indent).decode()


def table(
    rows: Iterable[Sequence[object]],
    heads: Sequence[str],
    *,
    widths: Sequence[int] = (),
    **style: Any,
) -> str:
    """Make a table. ``style`` goes to ``tabulate``. ``widths``: the most characters of a line in
    each column. By default, long columns are wrapped to fit if the output is a terminal. Otherwise
    a row is one line, so that grep works on it."""
    from tabulate import tabulate  # slow to import

    keep = "\n" if widths else ""
    texts = [[printable(str(text), keep) for text in row] for row in rows]
    if not widths and "tablefmt" not in style and sys.stdout.isatty():
        widths = _fitting([heads, *texts], shutil.get_terminal_size().columns)
    if widths:
        heads, *texts = (list(map(_wrapped, row, widths)) for row in (heads, *texts))
    return tabulate(texts, heads, disable_numparse=True, **style)


def _wrapped(text: str, width: int) -> str:
    """``tabulate`` could do this, but its version 0.10 fails at ``20,700``."""
    lines = (textwrap.wrap(each, width, break_on_hyphens=False) for each in text.split("\n"))
    return "\n".join(line for each in lines for line in each or [""])


def _fitting(rows: Sequence[Sequence[str]], columns: int) -> list[int]:
    """The widths of a table's columns in a terminal: the widest are reduced until all fit, but not
    below their longest word."""
    every = list(zip(*rows, strict=True))
    widths = [max(1, *map(len, column)) for column in every]
    words = [max(map(len, " ".join(column).split()), default=1) for column in every]
    while sum(widths) + 2 * (len(widths) - 1) > columns:
        spare = [w - min(word, LONGEST_WORD) for w, word in zip(widths, words, strict=True)]
        able = [i for i, more in enumerate(spare) if more > 0]
        if not able:
            break
        widths[max(able, key=widths.__getitem__)] -= 1
    return widths


def clock(seconds: float) -> str:
    """``48 s``, ``2 min 03 s`` or ``1 h 02 min``."""
    minutes, second = divmod(round(seconds), 60)
    hours = f"{minutes // 60} h {minutes % 60:02} min"
    return hours if minutes >= 60 else f"{minutes} min {second:02} s" if minutes else f"{second} s"


def rate_text(rate: float) -> str:
    """Format a rate without decimals; a slow one with two."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:,.2f}"


def share_text(share: float) -> str:
    """``1.5 %`` for 0.015."""
    return f"{100 * share:.1f} %"


def cell_name(cell: Cell) -> str:
    """``atari Pong-v5 envpool-sync × 8``."""
    return f"{cell.env} {cell.task} {cell.backend} × {cell.numenv}"
