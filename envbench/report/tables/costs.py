"""What the rows cost besides their steps: start-up, memory, latency, resets. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable

from envbench.report.tables.build import cost_columns, largest
from envbench.report.tables.footnotes import quick
from envbench.report.tables.machine_results import MachineResults
from envbench.report.tables.table import Entry, Table, grid, note_once
from envbench.text import markdown

NUMENV = "Environments"
Columns = dict[str, dict[str, str]]  # heading -> row label -> text
_COSTS_NOTE = (
    "Each row shows its largest number of environments. Start-up is import and build; the first "
    "step includes compilation. Both are medians over processes. A first step is shown as a range "
    "where one process took more than twice as long as another: a library may have cached compiled "
    "code on disk. Memory is the sum of the largest memory of a worker and of its processes. A "
    "reset is of all environments. CPU seconds are those of all processes of the worker. Joules "
    "are those of the whole machine, as far as it has counters."
)
_LATENCY_NOTE = (
    "Each row shows its largest number of environments. The times are those of single vector "
    "steps, in slices of their own. The slowest 1 % is their share of the total time: 1 % if all "
    "steps take equally long."
)
_SERVICE_NOTE = (
    "Each row shows its largest number of environments. How often each environment in flight was "
    "in a batch: fairness is Jain's index (1 if all were equally often), and the least and the "
    "most served environment are relative to the mean. An age is the number of vector steps from "
    "one return of an environment to its next one."
)
_STARTS_NOTE = (
    "Each row shows its largest number of environments. Cold is the first process of that cell in "
    "its session, warm is the median of its later processes. envbench has imported the library "
    "once before the first process, to see that it works, so files may be in memory already. The "
    "first step includes compilation."
)
_MEMORY_NOTE = (
    "A line through the memory of the row's cells of one session, over the environments that "
    "exist (with those in flight). A cell's memory is the sum of the largest memory of a worker "
    "and of its processes. Shared pages count once per process, so the sum is too high for many "
    "processes. A column *fit* extends the line to the memory that was free when the session began."
)


def cost_tables(every: Iterable[MachineResults]) -> list[Table]:
    """Tables of costs, latency, start-up and memory for each group of results that has them."""
    every = list(every)
    costs = [(each, _costs(each)) for each in every]
    latencies = [(each, _latencies(each)) for each in every]
    starts = [(each, _starts(each)) for each in every]
    memory = [(each, _memory(each)) for each in every]
    service = [(each, _service(each)) for each in every]
    return [
        *note_once([_cost_table("Costs", *each, _COSTS_NOTE) for each in costs if each[1]]),
        *note_once([_cost_table("Latency", *each, _LATENCY_NOTE) for each in latencies if each[1]]),
        *note_once([_cost_table("Service", *each, _SERVICE_NOTE) for each in service if each[1]]),
        *note_once([_cost_table("Start-up", *each, _STARTS_NOTE) for each in starts if each[1]]),
        *note_once([_cost_table("Memory", *each, _MEMORY_NOTE) for each in memory if each[1]]),
    ]


def _costs(results: MachineResults) -> Columns:
    columns = cost_columns(results)
    for label, found in largest(results).items():
        summary = found.summary
        if summary.costs and summary.costs.reset_s is not None:
            columns.setdefault("Reset", {})[label] = duration(summary.costs.reset_s)
        if summary.frames_per_cpu_s is not None and columns:
            text = _three_digits(summary.frames_per_cpu_s)
            columns.setdefault("Frames per CPU second", {})[label] = text
        if summary.costs and summary.costs.energy:
            text = _three_digits(summary.costs.energy.frames_per_joule)
            columns.setdefault("Frames per joule", {})[label] = text
    return columns


def _service(results: MachineResults) -> Columns:
    """Of asynchronous rows that know which environments they return."""
    columns: Columns = {}
    for label, found in largest(results).items():
        served = found.summary.costs.service if found.summary.costs else None
        if served is None:
            continue
        cell = found.cell
        texts = {
            "In flight": str(cell.env_instances),
            "Fairness": f"{served.fairness:.3f}",
            "Least served": f"{served.smallest:.2f}",
            "Most served": f"{served.largest:.2f}",
            "Age if all were equal": f"{cell.env_instances / cell.numenv:.3g}",
            "Median age": "" if served.age_p50 is None else str(served.age_p50),
            "Age, 99 %": "" if served.age_p99 is None else str(served.age_p99),
        }
        for name, text in texts.items():
            columns.setdefault(name, {})[label] = text
    return columns


def _memory(results: MachineResults) -> Columns:
    """Of rows that were measured with three numbers of environments in one session."""
    columns: Columns = {}
    for label, found in largest(results).items():
        line = found.summary.costs.memory if found.summary.costs else None
        if line is None:
            continue
        texts = {
            "Measured with": ", ".join(map(str, line.environments)),
            "Fixed part": _mebibytes(line.fixed_bytes),
            "Per environment": _mebibytes(line.bytes_per_env),
            "Largest deviation": f"{100 * line.misfit:.0f} %",
            "Fit": "" if line.largest is None else _floored(line.largest),
        }
        for name, text in texts.items():
            columns.setdefault(name, {})[label] = text
    return columns


def _mebibytes(size: float) -> str:
    if size <= 0:
        return "none"
    kib = size / 2**10
    return f"{_three_digits(kib)} KiB" if kib < 999.5 else f"{_three_digits(kib / 2**10)} MiB"


def _floored(count: int) -> str:
    """With two digits: an extrapolation supports no more."""
    unit = 10 ** max(0, len(str(count)) - 2)
    return f"{count // unit * unit:,}"


def _starts(results: MachineResults) -> Columns:
    """The phases of the start, cold and warm."""
    columns: Columns = {}
    for label, found in largest(results).items():
        costs = found.summary.costs
        for phase, took in ((costs and costs.start_up) or {}).items():
            name = phase.replace("_", " ").capitalize()
            columns.setdefault(f"{name}, cold", {})[label] = duration(took.cold_s)
            columns.setdefault(f"{name}, warm", {})[label] = duration(took.warm_s)
    return columns


def _latencies(results: MachineResults) -> Columns:
    columns: Columns = {}
    for label, found in largest(results).items():
        latency = found.summary.costs.latency if found.summary.costs else None
        if latency is None:
            continue
        share = latency.slowest_share
        texts = {
            "Median": duration(latency.p50_s),
            "95 %": duration(latency.p95_s),
            "99 %": duration(latency.p99_s),
            "Slowest 1 %": "" if share is None else f"{100 * share:.2g} %",
        }
        for name, text in texts.items():
            columns.setdefault(name, {})[label] = text
    return columns


def duration(seconds: float | None) -> str:
    """With three digits: 12.3 µs, 4.56 ms, 0.789 s. "" for None."""
    if seconds is None:
        return ""
    for unit, factor in (("µs", 1e6), ("ms", 1e3)):
        if seconds * factor < 999.5:
            return f"{_three_digits(seconds * factor)} {unit}"
    return f"{_three_digits(seconds)} s"


def _three_digits(value: float) -> str:
    digits = 2 - math.floor(math.log10(value)) if value > 0 else 0
    return f"{round(value, digits):,.{max(0, digits)}f}"


def _cost_table(name: str, results: MachineResults, columns: Columns, note: str) -> Table:
    columns = {heading: texts for heading, texts in columns.items() if any(texts.values())}
    found = largest(results)
    known = {
        (label, name): Entry(text=text, measured=found[label])
        for name, texts in columns.items()
        for label, text in texts.items()
    }
    known |= {
        (label, NUMENV): Entry(text=str(each.numenv), notes=quick(each))
        for label, each in found.items()
    }
    shown = {label for texts in columns.values() for label in texts}
    return Table(
        heading=markdown(f"{name} - {results.heading}"),
        columns=[NUMENV, *columns],
        rows=grid({row: row for row in results.labels if row in shown}, [NUMENV, *columns], known),
        note=note,
    )
