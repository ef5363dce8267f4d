"""PURE: the columns of a table that are no number of environments.

With a ceiling: each row's share of it, at its best. For accelerators and physics: what a start
costs, at the row's largest numenv: start-up (import and build), the first step (with any compile:
not every record tells whether there was one), peak memory of the host's processes and of the GPU.
After ``envbench verify``: a badge a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from envbench.equal_work.judge import judge
from envbench.report.tables.subjects import Subject
from envbench.results.shown import Measured
from envbench.stats.summary import Costs

CEILING = "Of ceiling"
EQUAL_WORK = "Equal work"
BOTH = "Compile and first step"  # not every record tells them apart
RENAMED = {"Compile": BOTH, "First step": BOTH}  # as documents have it that were filled before
COSTS: dict[str, Callable[[Costs], str]] = {
    "Start-up": lambda costs: _seconds(costs.start_s),
    BOTH: lambda costs: _first_step(costs),
    "Host memory": lambda costs: _memory(costs.memory_bytes),
    "GPU memory": lambda costs: _memory(costs.gpu_memory_bytes),
}

NAMES = frozenset({CEILING, EQUAL_WORK, *COSTS})

Columns = dict[str, dict[str, str]]  # heading -> row label -> text


def columns(subject: Subject) -> Columns:
    """The extra columns in order; one that would be empty is left out."""
    section, ceiling = subject.section, subject.ceiling
    rows = _rows(subject.measured)
    made: Columns = {}
    if ceiling is not None and ceiling.summary.fps:
        made[CEILING] = {label: _share(row, ceiling.summary.fps) for label, row in rows.items()}
    if section:
        for name, shown in COSTS.items():
            costs = {row: each.summary.costs for row, each in largest(subject.measured).items()}
            texts = {label: shown(each) if each else "" for label, each in costs.items()}
            made[name] = {label: text for label, text in texts.items() if text}
    measured = {found.label for found in subject.measured}
    made[EQUAL_WORK] = {
        label: judge(found).badge for label, found in subject.verified.items() if label in measured
    }
    return {name: texts for name, texts in made.items() if texts}


def largest(measured: Iterable[Measured]) -> dict[str, Measured]:
    """Of each row with figures, by its label, the one of most environments."""
    return {label: max(row, key=_numenv) for label, row in _rows(measured).items()}


def _rows(measured: Iterable[Measured]) -> dict[str, list[Measured]]:
    rows: dict[str, list[Measured]] = {}
    for found in measured:
        if found.summary.fps is not None:
            rows.setdefault(found.label, []).append(found)
    return rows


def _numenv(found: Measured) -> int:
    return found.summary.cell.numenv


def _share(row: Sequence[Measured], ceiling_fps: float) -> str:
    best = max(found.summary.fps or 0.0 for found in row)
    return f"{100 * best / ceiling_fps:.0f} %"


def _seconds(seconds: float | None) -> str:
    """In milliseconds where tenths of a second would say nothing."""
    if seconds is None:
        return ""
    if seconds >= 0.0995:
        return f"{seconds:.1f} s"
    milliseconds = 1e3 * seconds
    if milliseconds >= 9.95:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds:.1f} ms" if milliseconds >= 0.05 else "under 0.1 ms"


def _first_step(costs: Costs) -> str:
    """The median; where one process took twice another's (a cache on disk), from and to."""
    low, high = costs.first_steps_s or (0.0, 0.0)
    if high > 2 * low and high >= 1.0:
        return f"{_seconds(low)} to {_seconds(high)}"
    return _seconds(costs.first_step_s)


def _memory(size: int | None) -> str:
    return "" if size is None else f"{size / 2**20:,.0f} MiB"
