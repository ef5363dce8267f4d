"""Where figures come from: each machine's fingerprint, the command behind every row, and the file
and lines of the records behind every figure. PURE."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Sequence

from envbench.model import Fingerprint, Plan
from envbench.report.escape import code, markdown
from envbench.report.tables.footnotes import hardware
from envbench.report.tables.subjects import Subject, in_order
from envbench.report.tables.table import Entry, Table
from envbench.results.archive import lines_by_file

RECORDS = "Each figure's runs: their lines in a file of the results, one record a line."

_Rows = dict[str, dict[str, None]]  # subject's heading -> labels, in order


def tables(subjects: Iterable[Subject]) -> list[Table]:
    """One a machine: its commands, the rows that each gave, when, and by which envbench; then
    one a subject: where its runs stand."""
    groups: dict[str, list[Subject]] = defaultdict(list)
    for subject in subjects:
        if subject.measured or subject.ceiling:
            groups[subject.machine].append(subject)
    commands = [_table(machine, group) for machine, group in groups.items()]
    records = [_records(subject) for group in groups.values() for subject in group]
    return [*commands, *(each for each in records if each.rows)]


def _records(subject: Subject) -> Table:
    """The shape of the subject's table, a row for each file: the lines of each figure's runs."""
    found = in_order(subject)
    numenvs = sorted({each.summary.cell.numenv for each in found})
    rows: dict[tuple[str, str], dict[int, Entry]] = defaultdict(dict)
    for each in found:
        for file, lines in lines_by_file(each.origins).items():
            entry = Entry(written=", ".join(map(str, lines)), of=each)
            rows[each.label, file][each.summary.cell.numenv] = entry
    return Table(
        heading=markdown(f"Records - {subject.heading}"),
        columns=["File", *map(str, numenvs)],
        rows=[
            (
                markdown(label),
                [Entry(written=code(file)), *(entries.get(n, Entry()) for n in numenvs)],
            )
            for (label, file), entries in rows.items()
        ],
        note=RECORDS,
    )


def _table(machine: str, group: Sequence[Subject]) -> Table:
    plans: dict[str, Plan] = {}
    rows: dict[str, _Rows] = defaultdict(lambda: defaultdict(dict))
    machines: dict[str, None] = {}
    for subject in group:
        for each in in_order(subject):
            plans[each.plan_id] = each.plan
            rows[each.plan_id][subject.heading.partition(" - ")[0]][each.label] = None
            if each.fingerprint is not None:
                machines[_machine(each.fingerprint)] = None
    order = sorted(plans, key=lambda plan_id: (plans[plan_id].started_utc, plan_id))
    return Table(
        heading=markdown(f"Commands - {machine}"),
        first="command",
        columns=["Rows", "Begun", "envbench"],
        rows=[
            (
                code(shlex.join(plans[plan_id].command)),
                [
                    Entry(written=_told(rows[plan_id])),
                    Entry(written=markdown(plans[plan_id].started_utc, 40)),
                    Entry(written=markdown(_version(plans[plan_id]), 80)),
                ],
            )
            for plan_id in order
        ],
        note=f"{markdown(machine)} is {'; '.join(machines) or 'unknown hardware'}.",
    )


def _told(rows: _Rows) -> str:
    return "; ".join(f"{markdown(name)}: {', '.join(map(markdown, rows[name]))}" for name in rows)


def _version(plan: Plan) -> str:
    changed = " with changes" if plan.git_dirty else ""
    commit = f", commit {plan.git_commit[:12]}{changed}" if plan.git_commit else ""
    return f"{plan.envbench_version}{commit}"


def _machine(found: Fingerprint) -> str:
    words = [hardware(found), f"{found.memory_gib} GiB", found.system, found.kernel]
    return ", ".join(markdown(word) for word in [*words, found.architecture] if word)
