"""Read a results file that may come from anyone.

``read`` trusts nothing. It is bounded in line and file size and decodes strictly. Each line that it
cannot accept becomes a warning that names the file, the line and the reason; the other lines are
returned. Blank lines are skipped and counted.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import get_args

import msgspec

from envbench.errors import StorageError
from envbench.model import (
    MOST_ROUNDS,
    SCHEMA,
    BlockRecord,
    PairsDesign,
    Plan,
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

DESIGNS = {  # of the experiments that this envbench knows
    "run": RunDesign,
    "verify": VerifyDesign,
    "check": PairsDesign,
    "baseline": PairsDesign,
    "noise": PairsDesign,
}

_DECODER = msgspec.json.Decoder(Stored)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # Windows has none
_BLANK = re.compile(rb"\s*\n")
_TYPES = "|".join(each.__struct_config__.tag for each in get_args(Stored)).encode()
_NO_RECORD = re.compile(  # no object, or one without a name, too short, or of an unknown type
    rb'(?:[^\S\n]*(?:[^\s{][^\n]*|\{(?:[^\n]{0,35}|[^\S\n]*[^\s"][^\n]*'
    rb'|"type":"(?!(?:%s)")[^"\\\n]*"[^\n]*))\n)+' % _TYPES
)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A file's good records with their line numbers (from 1), and a warning per bad line."""

    records: list[tuple[int, Stored]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class _Head(msgspec.Struct):
    schema: int = SCHEMA


def read(path: Path) -> Reading:
    """The good records of one file. Raises ``StorageError`` only where it cannot be opened."""
    reading, bad, skipped = Reading(), 0, 0
    try:
        # Without waiting: opening a pipe would wait for its writer.
        with open(path, "rb", opener=lambda name, how: os.open(name, how | _NO_WAIT)) as file:
            if refusal := _refusal(os.fstat(file.fileno())):
                return Reading(warnings=[f"{path}: not read: it is {refusal}"])
            for number, line in lines(file):
                outcome = _decode(line, explained=bad < MAX_WARNINGS)
                bad += isinstance(outcome, str)
                if not isinstance(outcome, str):
                    reading.records.append((number + skipped, outcome))
                elif bad <= MAX_WARNINGS:
                    reading.warnings.append(f"{path}:{number}: line skipped: {outcome}")
                else:
                    skipped += _skip(file, _NO_RECORD)
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}.") from error
    if bad > MAX_WARNINGS:
        reading.warnings.append(f"{path}: {bad + skipped - MAX_WARNINGS} more lines skipped")
    return reading


def _refusal(info: os.stat_result) -> str:
    if not stat.S_ISREG(info.st_mode):
        return "not a regular file"
    return "larger than 2 GiB" if info.st_size > MAX_FILE_BYTES else ""


def lines(file: BufferedReader) -> Iterator[tuple[int, bytes]]:
    """Each line that is not blank, with its number. A line over the limit is cut to one byte
    more."""
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            rest = line
            while rest and not rest.endswith(b"\n"):
                rest = file.readline(2**20)
        elif not line.strip():
            number += _skip(file, _BLANK)
            continue
        yield number, line


def _skip(file: BufferedReader, those: re.Pattern[bytes]) -> int:
    """Skip the lines ahead that match, one buffer at a time; return their number.

    Line by line, millions of lines would take seconds.
    """
    skipped = 0
    while found := those.match(file.peek()):
        skipped += file.read(found.end()).count(b"\n")
    return skipped


def _decode(line: bytes, *, explained: bool) -> Stored | str:
    """The line's record, or the reason why it has none; finding the exact reason is slow."""
    if len(line) > MAX_LINE_BYTES:
        return f"it is longer than {MAX_LINE_BYTES // 2**20} MiB"
    try:
        record = _DECODER.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return _why(line, error) if explained else "it is not a record"
    if record.schema != SCHEMA:
        return _other_schema(record.schema)
    return _nonsense(record) or record


def _why(line: bytes, error: Exception) -> str:
    if not line.endswith(b"\n"):
        return "it is incomplete, as after a crash or a power cut"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    with suppress(msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        schema = msgspec.json.decode(line, type=_Head).schema
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
    if isinstance(record, BlockRecord):
        return next(filter(None, map(_bad_trial, record.trials)), "")
    if isinstance(record, Plan):
        return _bad_plan(record)
    return out_of_bounds(getattr(record, "facts", None) or getattr(record, "values", None))


def _bad_trial(trial: TrialRecord) -> str:
    windows = (trial.warmup, trial.measured, trial.resets, trial.short_calls)
    if not all(each.whole for each in windows):
        return "the columns of its windows differ in length"
    if trial.latency is not None and not trial.latency.whole:
        return "its latencies are incomplete or negative"
    cell, returns = trial.cell, trial.returns
    if returns is not None and not returns.fits(cell.numenv, cell.env_instances):
        return "its counts of returns do not fit its environments and calls"
    return out_of_bounds(trial.before)


def _bad_plan(plan: Plan) -> str:
    """Why an experiment would fail or never end with this plan; "" if it would not."""
    design, rounds = plan.design, [1] * len(plan.cells)
    if not isinstance(design, DESIGNS.get(plan.experiment, object)):
        return f"its design does not fit the experiment {plan.experiment}"
    if isinstance(design, PairsDesign):
        rounds = [design.pairs] * len(plan.cells)
    if isinstance(design, RunDesign):
        backends = {cell.backend for cell in plan.cells}
        if not backends <= design.repeats.keys() & design.protocol.keys():
            return "a backend of its cells has no repeats or no protocol"
        rounds = [design.repeats[cell.backend] for cell in plan.cells]
    if not 0 < sum(rounds) <= MOST_BLOCKS or max(rounds) > MOST_ROUNDS:
        return f"it requests no block, over {MOST_ROUNDS:,} per cell or over {MOST_BLOCKS:,} in all"
    return ""
