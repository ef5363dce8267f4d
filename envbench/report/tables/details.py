"""Details per machine, family and task: costs, equal work, commands, and the records. Pure."""

from __future__ import annotations

import math
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from envbench.model import Fingerprint, Plan
from envbench.report.tables.build import cost_columns, largest
from envbench.report.tables.footnotes import hardware, quick
from envbench.report.tables.machine_results import MachineResults, in_order
from envbench.report.tables.table import Entry, Table, entries, grid, note_once
from envbench.results.measured_cells import lines_by_file
from envbench.text import code, markdown

# ---------------------------------------------------------------- costs

NUMENV = "Environments"
Columns = dict[str, dict[str, str]]  # heading -> row label -> text
_COSTS_NOTE = (
    "Each row shows its largest number of environments. Start-up is import and build; the first "
    "step includes compilation. Both are medians over processes. A first step is shown as a range "
    "where one process took more than twice as long as another: a library may have cached compiled "
    "code on disk. Memory is the sum of the largest memory of a worker and of its processes. A "
    "reset is of all environments. CPU seconds are those of all processes of the worker."
)
_LATENCY_NOTE = (
    "Each row shows its largest number of environments. The times are those of single vector "
    "steps, in slices of their own. The slowest 1 % is their share of the total time: 1 % if all "
    "steps take equally long."
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
    return [
        *note_once([_cost_table("Costs", *each, _COSTS_NOTE) for each in costs if each[1]]),
        *note_once([_cost_table("Latency", *each, _LATENCY_NOTE) for each in latencies if each[1]]),
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


# ---------------------------------------------------------------- equal work

_EQUAL_WORK_NOTE = (
    "From `envbench verify`. Audit: the steps are counted a second way. Lock-step: the row gets "
    "the reference's start and actions. Differs in: settings that differ from the requested task. "
    "✓: counted twice and equal; ≠: counted twice, but different work or another engine; ✗: "
    "refused, no figure is shown; –: not shown to do equal work (docs/verify.md lists the reasons)."
)


def equal_work_tables(every: Iterable[MachineResults]) -> list[Table]:
    """A table for each group of results with a verified row."""
    return [_equal_work_table(results) for results in every if results.verified]


def _equal_work_table(results: MachineResults) -> Table:
    rows = []
    for label in sorted(results.verified, key=results.place):
        found, verdict = results.verified[label], results.verified[label].verdict
        differences = ", ".join(verdict.differences) or "nothing"
        texts = [verdict.badge, verdict.audit, verdict.lock_step, differences]
        record = code(found.location.place) if found.location else ""
        rows.append((markdown(label), entries([*(markdown(text, 900) for text in texts), record])))
    return Table(
        heading=markdown(f"Equal work - {results.heading}"),
        columns=["", "Audit", "Lock-step", "Differs in", "Record"],
        rows=rows,
        note=_EQUAL_WORK_NOTE,
    )


# ---------------------------------------------------------------- commands and records

_RECORDS_NOTE = (
    "The numbers are line numbers in the named results file. Each line is the record of one run."
)


def command_tables(every: Iterable[MachineResults]) -> list[Table]:
    """A table of commands for each machine, then a table of records for each group of results."""
    machines: dict[str, list[MachineResults]] = defaultdict(list)
    for results in every:
        if results.measured or results.ceiling:
            machines[results.title].append(results)
    commands = [_command_table(title, group) for title, group in machines.items()]
    records = [_record_table(results) for group in machines.values() for results in group]
    return [*commands, *(each for each in records if each.rows)]


def _record_table(results: MachineResults) -> Table:
    labels: dict[tuple[str, str], str] = {}  # the label of each (label, file)
    known: dict[tuple[tuple[str, str], str], Entry] = {}
    for each in in_order(results):
        for file, lines in lines_by_file(each.locations).items():
            row = each.label, file
            labels[row] = each.label
            known[row, "File"] = Entry(text=code(file))
            known[row, str(each.numenv)] = Entry(text=", ".join(map(str, lines)), measured=each)
    numenvs = sorted({each.numenv for each in in_order(results)})
    columns = ["File", *map(str, numenvs)]
    return Table(
        heading=markdown(f"Records - {results.heading}"),
        columns=columns,
        rows=grid(labels, columns, known),
        note=_RECORDS_NOTE,
    )


def _command_table(machine: str, group: Sequence[MachineResults]) -> Table:
    found = [(results, each) for results in group for each in in_order(results)]
    plans = {each.plan_id: each.plan for _, each in found}
    rows: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for results, each in found:
        rows[each.plan_id][results.heading.partition(" - ")[0]].append(each.label)
    machines = dict.fromkeys(_machine(each.fingerprint) for _, each in found if each.fingerprint)
    ordered = sorted(plans.values(), key=lambda plan: (plan.started_utc, plan.plan_id))
    return Table(
        heading=markdown(f"Commands - {machine}"),
        first="command",
        columns=["Rows", "Started", "envbench"],
        rows=[
            (code(shlex.join(plan.command)), _command(plan, rows[plan.plan_id])) for plan in ordered
        ],
        note=f"{markdown(machine)} is {'; '.join(machines) or 'unknown hardware'}.",
    )


def _command(plan: Plan, rows: Mapping[str, list[str]]) -> list[Entry]:
    """``rows``: the labels that the plan measured, by the heading without the machine."""
    measured = "; ".join(
        f"{markdown(name)}: {', '.join(map(markdown, dict.fromkeys(labels)))}"
        for name, labels in rows.items()
    )
    changed = " with changes" if plan.git_dirty else ""
    commit = f", commit {plan.git_commit[:12]}{changed}" if plan.git_commit else ""
    version = markdown(f"{plan.envbench_version}{commit}", 80)
    return entries([measured, markdown(plan.started_utc, 40), version])


def _machine(found: Fingerprint) -> str:
    words = [hardware(found), f"{found.memory_gib} GiB", found.system, found.kernel]
    words += [found.architecture, found.host and f"host {found.host}"]
    return ", ".join(markdown(word) for word in words if word)
