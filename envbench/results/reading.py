"""Read a results file that may come from anyone: ``read`` gives its records and its bad lines.

Contract. ``read`` trusts nothing. It is bounded in line and file size and decodes strictly. Each
line that it cannot accept becomes a warning that names the file, the line and the reason; the
other lines are returned. Blank lines are skipped and counted.

Errors: ``StorageError`` where the file cannot be opened or read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path

import msgspec

from envbench.errors import StorageError
from envbench.model import (
    LARGEST_FPS,
    LARGEST_SKIP,
    SCHEMA,
    BlockRecord,
    Cell,
    PairsDesign,
    Plan,
    Published,
    RunDesign,
    Stored,
    TrialRecord,
    VerifyDesign,
    out_of_bounds,
)
from envbench.text import one_line

MAX_LINE_BYTES = 8 * 2**20
MAX_FILE_BYTES = 2 * 2**30
MAX_WARNINGS = 20  # per file; one more warning counts the rest
MOST_BLOCKS = 1_000_000  # of a plan: years of measuring
_TOO_MANY = f"it requests no block, or more than {MOST_BLOCKS:,}"

DESIGNS = {  # of the experiments that this envbench knows
    "run": RunDesign,
    "verify": VerifyDesign,
    "check": PairsDesign,
    "baseline": PairsDesign,
    "noise": PairsDesign,
}

_DECODER = msgspec.json.Decoder(Stored)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A file's good records with their line numbers (from 1), and a warning per bad line."""

    records: list[tuple[int, Stored]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class _Head(msgspec.Struct):
    schema: int = SCHEMA


def read(path: Path) -> Reading:
    """The good records of one file. Raises ``StorageError`` only where it cannot be opened."""
    reading = Reading()
    try:
        with path.open("rb") as file:
            info = os.fstat(file.fileno())
            if info.st_size > MAX_FILE_BYTES or not stat.S_ISREG(info.st_mode):
                reason = "larger than 2 GiB" if stat.S_ISREG(info.st_mode) else "not a regular file"
                reading.warnings.append(f"{path}: not read: it is {reason}")
                return reading
            bad = _read_lines(file, path, reading)
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}.") from error
    if bad > MAX_WARNINGS:
        reading.warnings.append(f"{path}: {bad - MAX_WARNINGS} more lines skipped")
    return reading


def _read_lines(file: BufferedReader, path: Path, reading: Reading) -> int:
    """Add the file's records and warnings to ``reading``; return the number of bad lines."""
    bad = 0
    for number, line in lines(file):
        outcome = _decode(line)
        if not isinstance(outcome, str):
            reading.records.append((number, outcome))
            continue
        bad += 1
        if bad <= MAX_WARNINGS:
            reading.warnings.append(f"{path}:{number}: line skipped: {outcome}")
    return bad


def lines(file: BufferedReader) -> Iterator[tuple[int, bytes]]:
    """Each line that is not blank, with its number.

    A line over the limit is cut to one byte more than the limit.
    """
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            rest = line
            while rest and not rest.endswith(b"\n"):
                rest = file.readline(2**20)
        elif not line.strip():
            number += _skip_blank(file)
            continue
        yield number, line


def _skip_blank(file: BufferedReader) -> int:
    """Skip the following blank lines, one buffer at a time; return their number.

    Line by line, millions of blank lines would take seconds.
    """
    skipped = 0
    while ahead := file.peek():
        blank = len(ahead) - len(ahead.lstrip())
        end = ahead.rfind(b"\n", 0, blank) + 1
        if not end:
            break
        skipped += ahead.count(b"\n", 0, end)
        file.read(end)
        if blank < len(ahead):
            break
    return skipped


def _decode(line: bytes) -> Stored | str:
    """The line's record, or the reason why it has none."""
    if len(line) > MAX_LINE_BYTES:
        return f"it is longer than {MAX_LINE_BYTES // 2**20} MiB"
    try:
        record = _DECODER.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return _why(line, error)
    if record.schema != SCHEMA:
        return _other_schema(record.schema)
    return _nonsense(record) or record


def _why(line: bytes, error: Exception) -> str:
    if not line.endswith(b"\n"):
        return "it is torn, as after a crash or a power cut"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    try:
        schema = msgspec.json.decode(line, type=_Head).schema
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        schema = SCHEMA
    if schema != SCHEMA:
        return _other_schema(schema)
    # Decoders quote their input, which must not reach a terminal raw.
    return one_line(str(error), 200)


def _other_schema(schema: int) -> str:
    if schema < SCHEMA:
        return f"an envbench before 1.0 wrote it (schema {schema}): it cannot be read"
    return f"a newer envbench wrote it (schema {schema}, this one reads {SCHEMA}): update envbench"


def _nonsense(record: Stored) -> str:
    """Why a correctly typed record makes no sense; "" where it does."""
    free = getattr(record, "facts", None) or getattr(record, "values", None)
    if why := out_of_bounds(free):
        return why
    if isinstance(record, BlockRecord):
        if not record.trials:
            return "its block has no trial"
        return next(filter(None, (_bad_trial(each) for each in record.trials)), "")
    if isinstance(record, Published) and not (
        record.numenv >= 1
        and 0 < record.fps <= LARGEST_FPS
        and 0 < record.frame_skip <= LARGEST_SKIP
    ):
        return f"numenv, fps and frame_skip must be positive, fps at most {LARGEST_FPS:g}"
    return _bad_plan(record) if isinstance(record, Plan) else ""


def _bad_trial(trial: TrialRecord) -> str:
    if not (trial.warmup.whole and trial.measured.whole):
        return "the columns of its windows differ in length"
    return out_of_bounds(trial.before) or _bad_cell(trial.cell)


def _bad_cell(cell: Cell) -> str:
    if min(cell.numenv, cell.env_instances) < 1 or not cell.frame_skip > 0:
        return "numenv and env_instances must be at least 1, frame_skip positive"
    return ""


def _bad_plan(plan: Plan) -> str:
    design = plan.design
    if bad := next(filter(None, map(_bad_cell, plan.cells)), ""):
        return bad
    if not isinstance(design, DESIGNS.get(plan.experiment, object)):
        return f"its design does not fit the experiment {plan.experiment}"
    if isinstance(design, PairsDesign):
        return "" if 0 < len(plan.cells) * design.pairs <= MOST_BLOCKS else _TOO_MANY
    if not isinstance(design, RunDesign):
        return ""
    used = {cell.backend for cell in plan.cells}
    if not used <= design.repeats.keys() & design.protocol.keys():
        return "a backend of its cells has no repeats or no protocol"
    total = sum(design.repeats[cell.backend] for cell in plan.cells)
    return _TOO_MANY if total > MOST_BLOCKS else ""
