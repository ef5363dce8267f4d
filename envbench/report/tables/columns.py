"""The columns of a table that are not a number of environments. Pure.

* with a ceiling: each row's best share of it;
* for accelerators and physics: the costs at the row's largest numenv;
* after ``envbench verify``: a badge per row.
"""

from __future__ import annotations

from collections.abc import Iterable

from envbench.report.tables.machine_results import MachineResults
from envbench.results.shown import Measured
from envbench.stats.summary import Costs

CEILING = "Of ceiling"
EQUAL_WORK = "Equal work"
FIRST_STEP = "Compile and first step"  # not every record separates them
COSTS = ("Start-up", FIRST_STEP, "Host memory", "GPU memory")
NAMES = frozenset({CEILING, EQUAL_WORK, *COSTS})

Columns = dict[str, dict[str, str]]  # heading -> row label -> text


def other_columns(results: MachineResults) -> Columns:
    """These columns in order, without empty ones."""
    made: Columns = {}
    if results.ceiling is not None and results.ceiling.fps:
        top = results.ceiling.fps
        best = {
            label: max(found.fps or 0.0 for found in row)
            for label, row in _rows(results.measured).items()
        }
        made[CEILING] = {label: f"{100 * fps / top:.0f} %" for label, fps in best.items()}
    if results.section:
        made |= cost_columns(results.measured)
    measured = {found.label for found in results.measured}
    made[EQUAL_WORK] = {
        label: found.verdict.badge for label, found in results.verified.items() if label in measured
    }
    return {name: texts for name, texts in made.items() if texts}


def cost_columns(measured: Iterable[Measured]) -> Columns:
    """The costs of each row at its largest numenv, without empty columns."""
    columns: Columns = {name: {} for name in COSTS}
    for label, found in largest(measured).items():
        if costs := found.summary.costs:
            texts = cost_texts(costs)
            for name in filter(texts.get, COSTS):
                columns[name][label] = texts[name]
    return {name: texts for name, texts in columns.items() if texts}


def cost_texts(costs: Costs) -> dict[str, str]:
    """The text for each of ``COSTS``, "" where it is unknown.

    The first step is a range where one process took twice as long as another (a cache).
    """
    low, high = costs.first_steps_s or (0.0, 0.0)
    is_range = high > 2 * low and high >= 1.0
    span = f"{_seconds(low)} to {_seconds(high)}"
    return {
        "Start-up": _seconds(costs.start_s),
        FIRST_STEP: span if is_range else _seconds(costs.first_step_s),
        "Host memory": _memory(costs.memory_bytes),
        "GPU memory": _memory(costs.gpu_memory_bytes),
    }


def largest(measured: Iterable[Measured]) -> dict[str, Measured]:
    """For each row with figures, by label, its measurement with the most environments."""
    return {label: max(row, key=lambda each: each.numenv) for label, row in _rows(measured).items()}


def _rows(measured: Iterable[Measured]) -> dict[str, list[Measured]]:
    rows: dict[str, list[Measured]] = {}
    for found in measured:
        if found.fps is not None:
            rows.setdefault(found.label, []).append(found)
    return rows


def _seconds(seconds: float | None) -> str:
    """In milliseconds below a tenth of a second."""
    if seconds is None:
        return ""
    if seconds >= 0.0995:
        return f"{seconds:.1f} s"
    milliseconds = 1e3 * seconds
    if milliseconds >= 9.95:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds:.1f} ms" if milliseconds >= 0.05 else "under 0.1 ms"


def _memory(size: int | None) -> str:
    return "" if size is None else f"{size / 2**20:,.0f} MiB"
