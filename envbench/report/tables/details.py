"""Details per machine, family and task: equal work, commands, and the records. Pure."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from packaging.utils import canonicalize_name

from envbench import backends, families
from envbench.model import Fingerprint, Plan, RuntimeFact
from envbench.report.machine_results import MachineResults, in_order
from envbench.report.tables.footnotes import hardware
from envbench.report.tables.table import Entry, Table, entries, grid
from envbench.results.measured_cells import Measured, lines_by_file
from envbench.text import code, markdown

# ---------------------------------------------------------------- equal work

_EQUAL_WORK_NOTE = (
    "From `envbench verify`. Audit: steps are counted a second way. Lock-step: the reference "
    "backend is put into each state that the row showed, and gets its action. Other settings: "
    "those that differ from the family's reference, or are not reported. A ✓ can have some. "
    "✓: counted twice and equal; ≠: counted twice, but different work or another engine; "
    "✗: refused; –: not shown to do equal work (docs/verify.md). Record: file and line."
)
_WHERE_SAID = {  # words in a table -> what its note says about them
    " of 100 steps": '"In 97 of 100 steps": another build of an engine differs in a few.',
    " of half of the environments": '"Of half of the environments": without resets, the others can '
    "stay in contacts that the builds resolve differently.",
    " p = ": "Where no single step is compared, whole episodes are. p: how likely so large a "
    "difference is if both are distributed alike. Under 0.0001, they count as different. With 300 "
    "episodes per side, a shift of less than half a standard deviation often stays unseen.",
}


def explained(texts: Iterable[str]) -> list[str]:
    """Sentences about some words in these texts of lock-steps."""
    whole = " ".join(texts)
    return [sentence for words, sentence in _WHERE_SAID.items() if words in whole]


def equal_work_tables(every: Iterable[MachineResults]) -> Iterator[Table]:
    """A table for each group of results with a verified row. A note explains what no table before
    it had."""
    notes: list[str] = []
    for results in (each for each in every if each.verified):
        said = explained(each.verdict.lock_step for each in results.verified.values())
        new = [each for each in (_EQUAL_WORK_NOTE, *said) if each not in notes]
        notes += new
        rows = []
        for label in sorted(results.verified, key=results.place):
            found, verdict = results.verified[label], results.verified[label].verdict
            none = "" if found.verification.failure else "none"
            differences = ", ".join(verdict.differences) or none
            texts = [verdict.badge, verdict.audit, verdict.lock_step, differences]
            cells = [markdown(text, 900) for text in texts]
            record = code(found.location.place) if found.location else ""
            rows.append((markdown(label), entries([*cells, record])))
        yield Table(
            heading=markdown(f"Equal work - {results.heading}"),
            columns=["Badge", "Audit", "Lock-step", "Other settings", "Record"],
            rows=rows,
            note=" ".join(new),
        )


# ---------------------------------------------------------------- commands and records

_SHARED = ("gymnasium", "numpy")  # of every family
_PACKAGES_NOTE = (
    "Only packages that the row's backend, family or task names. The records and the HTML page "
    "have all of them."
)
_RECORDS_NOTE = "The numbers are lines of the named results file: a run or a block of runs each."


def command_tables(every: Iterable[MachineResults]) -> list[Table]:
    """A table of commands for each machine. Then for each group of results, a table of package
    versions, and one of records."""
    machines: dict[str, list[MachineResults]] = defaultdict(list)
    for results in every:
        if results.measured or results.ceiling:
            machines[results.title].append(results)
    commands = [_command_table(title, group) for title, group in machines.items()]
    groups = [results for group in machines.values() for results in group]
    others = [make(results) for make in (_package_table, _record_table) for results in groups]
    return [*commands, *(each for each in others if each.rows)]


def _package_table(results: MachineResults) -> Table:
    """The interpreter of each row, and the packages that its backend, family or task names."""
    rows: dict[str, dict[tuple[str, str], None]] = defaultdict(dict)
    for each in in_order(results):
        if each.interpreter:
            rows[each.label][each.interpreter.python, _packages(each, each.interpreter)] = None
    return Table(
        heading=markdown(f"Packages - {results.heading}"),
        columns=["Python", "Packages"],
        rows=[
            (
                markdown(label),
                entries(
                    markdown("; ".join(dict.fromkeys(e)), 600) for e in zip(*found, strict=True)
                ),
            )
            for label, found in rows.items()
        ],
        note=_PACKAGES_NOTE,
    )


def _packages(found: Measured, runtime: RuntimeFact) -> str:
    """``envpool 1.2.5, numpy 2.4.1``: those that the cell's backend, family or task names."""
    cell, family = found.cell, families.of_record(found.cell.env)
    backend = backends.of_record(cell.backend)
    required = " ".join(backend.requirements_of(cell.env, cell.workload))
    names = re.findall(r"[A-Za-z][\w.-]*", required)  # extras, too: ``gymnasium[box2d]``
    names += [each.partition(".")[0] for each in (backend.library, cell.task.partition(":")[0])]
    if backend.library == "gymnasium" or cell.kind != "env":
        names += family.packages  # EnvPool and Brax have engines and tasks of their own
    named = {canonicalize_name(each) for each in (*names, *_SHARED)}
    known = {canonicalize_name(name): version for name, version in runtime.packages.items()}
    return ", ".join(f"{name} {known[name]}" for name in sorted(named & known.keys()))


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
        rows=[(code(shown_command(plan)), _command(plan, rows[plan.plan_id])) for plan in ordered],
        note=f"{markdown(machine)} is {'; '.join(machines) or 'unknown hardware'}.",
    )


def shown_command(plan: Plan) -> str:
    """The plan's command, without the folder of its results: another one changes no figure."""
    words = list(plan.command)
    if "--results" in words[:-1]:
        place = words.index("--results")
        del words[place : place + 2]
    return shlex.join(word for word in words if not word.startswith("--results="))


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
