"""Figures that others have published: from the text of a CSV file to records. Pure.

The file has exactly the columns ``COLUMNS``, in any order. ``fps`` already includes frame_skip. A
machine needs no profile, but family and backend must be known. A bad line is a ``UsageError`` that
names file, line and reason; then nothing is imported.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator

from envbench import backends, families
from envbench.errors import UnknownName, UsageError
from envbench.model import LARGEST_FPS, LARGEST_SKIP, Published
from envbench.text import one_line

COLUMNS = ("machine", "env", "task", "backend", "numenv", "fps", "frame_skip", "source")
LONGEST = 500  # characters of any text
LARGEST_NUMENV = 10**9
_MACHINE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def parse(text: str, name: str) -> list[Published]:
    """The figures of a CSV file in its order. ``name`` names the file in messages."""
    seen: dict[tuple[object, ...], int] = {}
    figures: list[Published] = []
    for line, row in _rows(text, name):
        try:
            figure = _figure(row)
        except UsageError as error:
            raise UsageError(
                f"{name}:{line}: {error} Nothing was imported.", hint=error.hint
            ) from error
        key = figure.machine, figure.env, figure.task, figure.backend, figure.numenv, figure.source
        if key in seen:
            raise UsageError(f"{name}:{line}: duplicates line {seen[key]}. Nothing was imported.")
        seen[key] = line
        figures.append(figure)
    if not figures:
        raise UsageError(f"{name} has a header but no figures.")
    return figures


def _rows(text: str, name: str) -> Iterator[tuple[int, dict[str, str]]]:
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    try:
        rows = ([each.strip() for each in row] for row in reader if row)
        header = next(rows, None)
        if header is None:
            raise UsageError(f"{name} is empty.", hint=f"Its first line is {','.join(COLUMNS)}")
        _check_header(header, name)
        for row in rows:
            if len(row) != len(header):
                raise UsageError(
                    f"{name}:{reader.line_num}: the line has {len(row)} values, the header has "
                    f"{len(header)}. Nothing was imported."
                )
            yield reader.line_num, dict(zip(header, row, strict=True))
    except csv.Error as error:
        raise UsageError(f"{name}:{reader.line_num}: not valid CSV: {error}.") from error


def _check_header(names: list[str], name: str) -> None:
    if sorted(names) == sorted(COLUMNS):
        return
    missing = [each for each in COLUMNS if each not in names]
    other = [one_line(each, 40) for each in names if each not in COLUMNS]
    twice = [each for each in COLUMNS if names.count(each) > 1]
    problems = [
        f"{what} {', '.join(map(repr, found))}"
        for what, found in (("lacks", missing), ("has unknown", other), ("has twice", twice))
        if found
    ]
    raise UsageError(
        f"{name}:1: the header {' and '.join(problems)}.",
        hint=f"Its columns are {','.join(COLUMNS)}",
    )


def _figure(row: dict[str, str]) -> Published:
    if not _MACHINE.fullmatch(row["machine"]):
        raise UsageError(
            f"{one_line(row['machine'], 80)!r} is not a machine name: it has at most 64 letters, "
            "digits, dots, - and _."
        )
    family = row["env"]
    if family not in families.names():
        raise UnknownName("env", one_line(family, 80), families.names())
    backend = backends.get(row["backend"])
    if backend.kind != "env":
        raise UsageError(f"{backend.name} does not run environments, so it has no such table.")
    if family not in backend.families:
        runs = " and ".join(backend.families)
        raise UsageError(f"{backend.name} does not run {family}: it runs {runs}.")
    skip = _positive(row, "frame_skip", LARGEST_SKIP)
    return Published(
        machine=row["machine"],
        env=family,
        task=_text(row, "task"),
        backend=backend.name,
        numenv=_numenv(row["numenv"]),
        fps=_positive(row, "fps", LARGEST_FPS),
        frame_skip=int(skip) if skip == int(skip) else skip,
        source=_text(row, "source"),
    )


def _text(row: dict[str, str], column: str) -> str:
    if not row[column] or len(row[column]) > LONGEST or not row[column].isprintable():
        raise UsageError(f"{column} must be one line of text with at most {LONGEST} characters.")
    return row[column]


def _numenv(text: str) -> int:
    if not re.fullmatch("[0-9]{1,10}", text) or not 1 <= int(text) <= LARGEST_NUMENV:
        raise UsageError(f"numenv must be a positive whole number, not {one_line(text, 40)!r}.")
    return int(text)


def _positive(row: dict[str, str], column: str, largest: float) -> float:
    text = row[column]
    number = float(text) if re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,15})?", text) else math.nan
    if not number > 0:
        raise UsageError(
            f"{column} must be a positive number such as 4745.54, not {one_line(text, 40)!r}."
        )
    if number > largest:
        raise UsageError(f"{column} must be at most {largest:,.0f}, not {one_line(text, 40)}.")
    return number
