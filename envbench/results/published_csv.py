"""Figures that others have published: from the text of a CSV file to records. Pure.

The file has exactly the columns ``COLUMNS``, in any order. ``fps`` already includes frame_skip. A
machine needs no profile, but family and backend must be known. A bad line is a ``UsageError`` that
names file, line and reason; then nothing is imported.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

from envbench import backends
from envbench.errors import UsageError
from envbench.model import LARGEST_FPS, LARGEST_SKIP, Published
from envbench.results.store import check_name
from envbench.text import one_line

COLUMNS = ("machine", "env", "task", "backend", "numenv", "fps", "frame_skip", "source")
LONGEST = 500  # characters of any text
LARGEST_NUMENV = 10**9


def parse(text: str, name: str) -> list[Published]:
    """The figures of a CSV file in its order. ``name`` names the file in messages."""
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    lines: dict[object, int] = {}
    figures: list[Published] = []
    try:
        reader.fieldnames = _header(reader.fieldnames or [])
        for row in reader:
            figure = _figure(row)
            first = lines.setdefault(figure.identity, reader.line_num)
            if first != reader.line_num:
                raise UsageError(f"duplicates line {first}.")
            figures.append(figure)
        if not figures:
            raise UsageError("the file has a header but no figures.")
    except csv.Error as error:
        raise UsageError(f"{name}:{reader.reader.line_num}: not valid CSV: {error}.") from error
    except UsageError as error:
        raise UsageError(
            f"{name}:{reader.line_num or 1}: {error} Nothing was imported.", hint=error.hint
        ) from error
    return figures


def _header(names: Sequence[str]) -> list[str]:
    stripped = [each.strip() for each in names]
    if sorted(stripped) != sorted(COLUMNS):
        other = {*COLUMNS} ^ {*stripped} or {each for each in COLUMNS if stripped.count(each) > 1}
        listed = ", ".join(repr(one_line(each, 40)) for each in sorted(other))
        raise UsageError(
            f"columns of the header are missing, unknown or repeated: {listed}.",
            hint=f"Write each of these once: {','.join(COLUMNS)}",
        )
    return stripped


def _figure(row: dict[str, str]) -> Published:
    if None in row or None in row.values():  # how ``csv`` marks surplus and missing values
        raise UsageError("the line has more or fewer values than the header has columns.")
    row = {column: value.strip() for column, value in row.items()}
    check_name(row["machine"])
    backend = backends.get(row["backend"])
    if backend.kind != "env":
        raise UsageError(f"{backend.name} does not run environments, so it has no published FPS.")
    backends.check_family(backend, row["env"])
    return Published(
        machine=row["machine"],
        env=row["env"],
        task=_text(row, "task"),
        backend=backend.name,
        numenv=int(_number(row, "numenv", LARGEST_NUMENV, "whole number")),
        fps=float(_number(row, "fps", LARGEST_FPS)),
        frame_skip=_number(row, "frame_skip", LARGEST_SKIP),
        source=_text(row, "source"),
    )


def _text(row: dict[str, str], column: str) -> str:
    if not row[column] or len(row[column]) > LONGEST or not row[column].isprintable():
        raise UsageError(f"{column} must be one line of text with at most {LONGEST} characters.")
    return row[column]


def _number(row: dict[str, str], column: str, largest: float, kind: str = "number") -> int | float:
    """A positive number, as an ``int`` if it is whole."""
    text = row[column]
    number = float(text) if re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,15})?", text) else 0.0
    if not 0 < number <= largest or (kind == "whole number" and not number.is_integer()):
        raise UsageError(
            f"{column} must be a positive {kind}, at most {largest:,.0f}, "
            f"not {one_line(text, 40)!r}."
        )
    return int(number) if number.is_integer() else number
