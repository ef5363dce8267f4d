"""What the rows cost besides their steps: start-up, memory, latency, resets. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from envbench.report.machine_results import MachineResults
from envbench.report.tables.footnotes import quick
from envbench.report.tables.table import Entry, Table, grid, note_once
from envbench.stats.costs import Costs
from envbench.stats.summary import Summary
from envbench.stats.without_stops import WithoutStops
from envbench.text import duration, markdown, memory, percent, three_digits

NUMENV = "Environments"
FIRST_STEP = "First step"  # with compilation: not every record times it apart
COSTS = ("Start-up", FIRST_STEP, "Host memory", "GPU memory")
Columns = dict[str, dict[str, str]]  # heading -> row label -> text
_LARGEST = "Each row shows its largest number of environments, if possible of the table's session. "
_COSTS_NOTE = (
    f"{_LARGEST}Start-up is import and build; the first "
    "step includes compilation. Both are medians over processes. A first step is shown as a range "
    "where one process took over twice as long as another: compiled code may be cached on disk. "
    "Memory is the sum of the largest memory of a worker and of its processes. A reset is of all "
    "environments. CPU seconds are of all processes of the worker, joules of the whole machine."
)
_LATENCY_NOTE = (
    f"{_LARGEST}The times are those of single vector "
    "steps, in slices of their own. The slowest 1 % is their share of the total time: 1 % if all "
    "steps take equally long."
)
_SERVICE_NOTE = (
    f"{_LARGEST}How often each environment in flight was in a batch: fairness is Jain's index (1 "
    "if all were served equally often), and the least and the most served environment are relative "
    "to the mean. An age is the number of vector steps from one return of an environment to its "
    "next one."
)
_STARTS_NOTE = (
    f"{_LARGEST}Cold is the first process of that cell in "
    "its session, warm is the median of its later processes. envbench has imported the library "
    "before, so files may be in memory already. The first step includes compilation."
)
_MEMORY_NOTE = (
    "A line through the memory of the row's cells of one session, over the environments that "
    "exist (with those in flight). A cell's memory is the sum of the largest memory of a worker "
    "and of its processes. Shared pages count once per process, so the sum is too high for many "
    "processes. A column *fit* extends the line to the memory that was free when the session began."
)
_WITHOUT_STOPS_NOTE = (
    "Cells are stopped between their slices, but not during their warm-up. Speed without stops: of "
    "the warm-up, after its first second / of the slices, with its 95 % interval, over all "
    "processes of the row in the table's session. The first steps of an episode, in the warm-up, "
    "may cost more or less than later ones."
)


def cost_tables(every: Iterable[MachineResults]) -> list[Table]:
    """Tables of costs, latency, service, start-up, memory and stops for each group of results that
    has them."""
    every, tables = list(every), []
    kinds: list[tuple[str, Callable[[MachineResults], Columns], str]] = [
        ("Costs", _costs, _COSTS_NOTE),
        ("Latency", partial(_columns, texts=_latency), _LATENCY_NOTE),
        ("Service", partial(_columns, texts=_service), _SERVICE_NOTE),
        ("Start-up", partial(_columns, texts=_start_up), _STARTS_NOTE),
        ("Memory", partial(_columns, texts=_memory), _MEMORY_NOTE),
    ]
    for name, columns_of, note in kinds:
        found = [(each, columns_of(each)) for each in every]
        made = [_cost_table(name, each, columns, note) for each, columns in found if columns]
        tables += note_once(made)
    return [*tables, *note_once([_without_stops(each) for each in every if each.without_stops])]


def _costs(results: MachineResults) -> Columns:
    """Those of the accelerators' tables and, where a row has any of these, further ones."""
    columns = usual_costs(results)
    return {**columns, **_columns(results, _further)} if columns else {}


def usual_costs(results: MachineResults) -> Columns:
    """``COSTS`` of each row, without empty columns."""
    columns = _columns(results, cost_texts)
    return {name: columns[name] for name in COSTS if name in columns}


def _columns(
    results: MachineResults, texts: Callable[[Costs, Summary], Mapping[str, str]]
) -> Columns:
    """The texts of each row at its largest numenv, without empty columns."""
    columns: Columns = {}
    for label, found in results.largest.items():
        if found.summary.costs:
            for name, text in texts(found.summary.costs, found.summary).items():
                if text:
                    columns.setdefault(name, {})[label] = text
    return columns


def cost_texts(costs: Costs, _: Summary | None = None) -> dict[str, str]:
    """The text for each of ``COSTS``, "" where it is unknown.

    The first step is a range where one process took twice as long as another (a cache).
    """
    low, high = costs.first_steps_s or (0.0, 0.0)
    is_range = high > 2 * low and high >= 1.0
    span = f"{duration(low)} to {duration(high)}"
    return {
        "Start-up": duration(costs.start_s),
        FIRST_STEP: span if is_range else duration(costs.first_step_s),
        "Host memory": memory(costs.memory_bytes),
        "GPU memory": memory(costs.gpu_memory_bytes),
    }


def _further(costs: Costs, summary: Summary) -> dict[str, str]:
    per_cpu_s, energy = summary.frames_per_cpu_s, costs.energy
    return {
        "Reset": duration(costs.reset_s),
        "Frames per CPU second": "" if per_cpu_s is None else three_digits(per_cpu_s),
        "Frames per joule": three_digits(energy.frames_per_joule) if energy else "",
    }


def _latency(costs: Costs, _: Summary) -> dict[str, str]:
    if (found := costs.latency) is None:
        return {}
    share = found.slowest_share
    return {
        "Median": duration(found.p50_s),
        "95 %": duration(found.p95_s),
        "99 %": duration(found.p99_s),
        "Slowest 1 %": "" if share is None else percent(share),
    }


def _service(costs: Costs, summary: Summary) -> dict[str, str]:
    """Of asynchronous rows that know which environments they return."""
    cell, found = summary.cell, costs.service
    if found is None:
        return {}
    return {
        "In flight": str(cell.env_instances),
        "Fairness": f"{found.fairness:.3f}",
        "Least served": f"{found.smallest:.2f}",
        "Most served": f"{found.largest:.2f}",
        "Age if all were equal": f"{cell.env_instances / cell.numenv:.3g}",
        "Median age": "" if found.age_p50 is None else str(found.age_p50),
        "Age, 99 %": "" if found.age_p99 is None else str(found.age_p99),
    }


def _start_up(costs: Costs, _: Summary) -> dict[str, str]:
    return {
        f"{phase.replace('_', ' ').capitalize()}, {state}": duration(seconds)
        for phase, took in (costs.start_up or {}).items()
        for state, seconds in (("cold", took.cold_s), ("warm", took.warm_s))
    }


def _memory(costs: Costs, _: Summary) -> dict[str, str]:
    """Of rows that were measured with three numbers of environments in one session."""
    if (line := costs.memory) is None:
        return {}
    return {
        "Measured with": ", ".join(map(str, line.environments)),
        "Fixed part": memory(line.fixed_bytes),
        "Per environment": memory(line.bytes_per_env),
        "Largest deviation": f"{100 * line.misfit:.0f} %",
        "Fit": "" if line.largest is None else _floored(line.largest),
    }


def _without_stops(results: MachineResults) -> Table:
    known: dict[tuple[str, str], Entry] = {}
    for label, found in results.without_stops.items():
        known[label, "Speed without stops"] = Entry(text=span(found))
        known[label, "Processes"] = Entry(text=str(found.processes))
    columns = ["Speed without stops", "Processes"]
    return Table(
        heading=markdown(f"Without stops - {results.heading}"),
        columns=columns,
        rows=grid({row: row for row in results.without_stops}, columns, known),
        note=_WITHOUT_STOPS_NOTE,
    )


def span(found: WithoutStops) -> str:
    """``0.91 (0.88 to 0.94)``."""
    limits = f" ({found.interval[0]:.2f} to {found.interval[1]:.2f})" if found.interval else ""
    return f"{found.ratio:.2f}{limits}"


def _floored(count: int) -> str:
    """With two digits: an extrapolation supports no more."""
    unit = 10 ** max(0, len(str(count)) - 2)
    return f"{count // unit * unit:,}"


def _cost_table(name: str, results: MachineResults, columns: Columns, note: str) -> Table:
    found = results.largest
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
