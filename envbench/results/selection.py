"""Which measurement of each cell, and which verification of each row, a report shows.

A machine profile shows one computer: the one that it names, or the first that measured with it. A
*complete* measurement of a cell has the runs of one plan in which every round ended (or the cell
failed). Runs of different plans are never pooled. Each cell shows one measurement. In order of
preference:

1. one with an interval (five processes or more);
2. one of fewer processes;
3. a quick one, or one that measured for less time than a quick one does;
4. a failure: a footnote and an empty entry.

Of equally good ones it shows that of the table's session, otherwise the newest. A table's session
is the plan that measured most of its cells; if other plans measured at least half of these again,
the newest of them. Quick plans count only where there are no others. Cells of other sessions have a
footnote, and are never ranked.

An incomplete measurement is never shown: its rounds do not yet cover the machine's drift.
``Selection.warnings`` counts it and says how to finish it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from envbench import backends
from envbench.decisions.session import Session, session
from envbench.model import (
    Cell,
    EndedRecord,
    Fingerprint,
    MachineFact,
    Plan,
    Published,
    Record,
    Run,
    RunDesign,
    RuntimeFact,
    Verification,
)
from envbench.results.measured_cells import (
    REFUSES,
    Location,
    Measured,
    Row,
    TableKey,
    Verified,
    judged,
    row_of,
    without_figures,
)
from envbench.results.memory_lines import with_memory_lines
from envbench.results.plausible import plausible
from envbench.results.relations import Relations, relations
from envbench.results.verifications import newest_verifications, with_refusals
from envbench.stats.summary import summarise, with_costs
from envbench.text import counted, one_line

_ENCODER = msgspec.json.Encoder(order="deterministic")
_Slot = tuple[str, str, str, str, str]  # machine, family, task, label, numenv


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What a report shows: measurements and verifications by row, published figures, and
    warnings about what it does not show."""

    measured: list[Measured] = field(default_factory=list)
    verified: dict[Row, Verified] = field(default_factory=dict)
    relations: Relations = field(default_factory=Relations)
    published: list[Published] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    sessions: dict[TableKey, str] = field(default_factory=dict)  # the plan of each table's session

    def badge(self, cell: Cell) -> str:
        """Of the cell's row, from ``envbench verify``; "" where never verified."""
        found = self.verified.get(row_of(cell))
        return found.verdict.badge if found else ""

    def refuses(self, cell: Cell) -> bool:
        """Did ``envbench verify`` refuse the figures of the cell's row?"""
        return self.badge(cell) == REFUSES


def select(
    records: Iterable[Record],
    locations: Mapping[str, Location] | None = None,
    hosts: Mapping[str, str] | None = None,
    whole: Callable[[Sequence[Run]], Sequence[Run]] = tuple,
) -> Selection:
    """The measurements to show from the records of all files. ``locations``: of each record.
    ``hosts``: the host of each machine profile that names one.

    If ``records`` has runs of a plan, it has the plan, too. Its runs may lack their
    warm-up, resets, latencies and returns: ``whole`` gives them back to those of a shown cell.
    """
    records, locations = list(records), locations or {}
    machines = {each.hash: each.fingerprint for each in records if isinstance(each, MachineFact)}
    runtimes = {each.hash: each for each in records if isinstance(each, RuntimeFact)}
    published = {each.identity: each for each in records if isinstance(each, Published)}
    warnings: list[str] = []
    complete: dict[_Slot, list[Measured]] = defaultdict(list)
    for plan, runs in _complete(records, warnings):
        found = _measured(plan, runs, machines, runtimes, locations)
        complete[*row_of(found.cell), str(found.numenv)].append(found)
    complete = _of_one_host(complete, hosts or {}, warnings)
    main = _main_sessions(complete.values())
    best = _best(complete, main, whole, warnings)
    shown_here = {(each.cell.machine, _host(each)) for each in best}
    verifications = [
        each
        for each in records
        if isinstance(each, Verification)
        and _is_of(each.cell.machine, machines.get(each.fingerprint), shown_here)
    ]
    verified = newest_verifications(verifications, best, runtimes, locations)
    selection = Selection(verified=verified, sessions=main)
    shown = {each.plan_id for each in best}
    sessions = _sessions(records, complete.values(), shown, selection.refuses, runtimes)
    related = relations(
        [
            replace(each, session=sessions.get(each.plan_id, each.session))
            for each in every
            if not selection.refuses(each.cell)
        ]
        for every in complete.values()
    )
    measured = [_judged(each, selection.badge(each.cell), sessions) for each in best]
    credible = plausible(measured, related, (e for s in complete.values() for e in s))
    selection = replace(selection, verified=with_refusals(verified, measured, credible))
    return replace(
        selection,
        measured=[replace(each, badge=selection.badge(each.cell)) for each in credible],
        relations=related,
        published=[published[key] for key in sorted(published)],
        warnings=warnings,
    )


def _best(
    complete: Mapping[_Slot, list[Measured]],
    main: Mapping[TableKey, str],
    whole: Callable[[Sequence[Run]], Sequence[Run]],
    warnings: list[str],
) -> list[Measured]:
    """The measurement that each cell shows, with its costs."""

    def shown_first(found: Measured) -> tuple[object, ...]:
        return found.quality, found.plan_id == main[found.table], found.rank

    best: list[Measured] = []
    newer = 0
    for _, every in sorted(complete.items()):
        found = max(every, key=shown_first)
        figures = [each for each in every if each.fps is not None]
        newer += sum(each.when > found.when for each in figures)
        recorded = tuple(whole(found.runs))
        best.append(
            replace(
                found,
                summary=with_costs(found.summary, recorded),
                runs=recorded,
                times=sum(not each.quick for each in figures),
            )
        )
    if newer:
        warnings.append(
            f"{counted(newer, 'newer measurement')} not shown: a quick or short measurement does "
            "not replace a longer one, and one of fewer than five processes does not replace one "
            "with an interval. A table shows one session if possible"
        )
    summaries = with_memory_lines([(each.plan, each.summary) for each in best])
    return [replace(each, summary=own) for each, own in zip(best, summaries, strict=True)]


def _judged(found: Measured, badge: str, sessions: Mapping[str, Session]) -> Measured:
    """With its session and its row's badge. A refused row has no figures."""
    runs = tuple(map(without_figures, found.runs)) if badge == REFUSES else found.runs
    own, summary = sessions[found.plan_id], judged(found.summary, badge)
    return replace(found, badge=badge, summary=summary, session=own, runs=runs)


def _sessions(
    records: Iterable[Record],
    complete: Iterable[Sequence[Measured]],
    shown: Collection[str],
    refuses: Callable[[Cell], bool],
    runtimes: Mapping[str, RuntimeFact],
) -> dict[str, Session]:
    """The sessions of the shown plans, and of those with the reference kernel, by plan.

    Only complete cells that ``envbench verify`` did not refuse have a place in them.
    """
    runs: dict[str, dict[str, Run]] = defaultdict(dict)
    for each in records:
        if isinstance(each, Run):  # a copied file does not double its runs
            runs[each.plan_id].setdefault(each.run_id, each)
    plans: dict[str, tuple[Plan, set[str]]] = {}
    for found in (found for every in complete for found in every):
        plans.setdefault(found.plan_id, (found.plan, set()))[1].add(found.cell.key)
    made = {}
    for name, (plan, keys) in plans.items():
        if name in shown or any(run.arm for run in runs[name].values()):
            cells = {cell.key: cell for cell in plan.cells}
            own = (r for r in runs[name].values() if r.arm or r.cell == cells.get(r.cell.key))
            whole = session(own, plan.behaviour)
            out = {key for key, cell in whole.cells.items() if key not in keys or refuses(cell)}
            made[name] = replace(
                whole.without(out), kernel_packages=_kernel_packages(runs[name].values(), runtimes)
            )
    return made


def _kernel_packages(runs: Iterable[Run], runtimes: Mapping[str, RuntimeFact]) -> str:
    """The Python and NumPy of a plan's kernels; "" where unknown."""
    used = {run.runtime for run in runs if run.arm}
    known = [runtimes[name] for name in sorted(used) if name in runtimes]
    texts = {f"{each.implementation} {each.python} {each.packages.get('numpy')}" for each in known}
    return ", ".join(sorted(texts))


def _of_one_host(
    complete: Mapping[_Slot, list[Measured]], named: Mapping[str, str], warnings: list[str]
) -> dict[_Slot, list[Measured]]:
    """Leave out measurements of other computers. A profile's computer is the one that its file
    names, or the first that was measured with it."""
    measured = [each for every in complete.values() for each in every]
    there = {(each.cell.machine, _host(each)) for each in measured}
    hosts = {name: host for name, host in named.items() if (name, host) in there}
    for found in sorted(measured, key=lambda each: each.when):
        hosts.setdefault(found.cell.machine, _host(found))
    kept = {
        slot: [each for each in every if _host(each) == hosts[each.cell.machine]]
        for slot, every in complete.items()
    }
    left = sum(len(every) for every in complete.values()) - sum(map(len, kept.values()))
    if left:
        warnings.append(
            f"{counted(left, 'measurement')} of another computer left out. A profile shows one "
            "computer: the one that its file names, or the first that was measured. Keep their "
            "file in the folder of another machine profile."
        )
    return {slot: every for slot, every in kept.items() if every}


def _host(found: Measured) -> str:
    return found.fingerprint.host if found.fingerprint else ""


def _is_of(machine: str, found: Fingerprint | None, shown: Collection[tuple[str, str]]) -> bool:
    """Is it of the computer whose figures the machine's profile shows, as far as known?"""
    others = {host for name, host in shown if name == machine}
    return found is None or not others or found.host in others


def _main_sessions(complete: Iterable[Sequence[Measured]]) -> dict[TableKey, str]:
    """The plan of each table's session. Only the best measurements of a cell count. Those of
    quick plans count only in a table without others, and so do ceilings."""
    tables: dict[TableKey, dict[tuple[bool, bool], dict[str, set[str]]]] = defaultdict(dict)
    began: dict[str, tuple[str, str]] = {}
    for every in complete:
        best = max(each.quality for each in every)
        for each in every:
            if each.quality == best:
                kind = each.cell.kind != "ceiling", not each.quick
                plans = tables[each.table].setdefault(kind, defaultdict(set))
                plans[each.plan_id].add(each.cell.key)
                began[each.plan_id] = each.plan.started_utc, each.plan_id
    main: dict[TableKey, str] = {}
    for table, kinds in tables.items():
        plans = kinds[max(kinds)]
        _, largest = max((len(cells), began[name]) for name, cells in plans.items())
        most = plans[largest[1]]
        again = [name for name, cells in plans.items() if 2 * len(cells & most) >= len(most)]
        main[table] = max(again, key=began.__getitem__)
    return main


def _complete(records: list[Record], warnings: list[str]) -> Iterator[tuple[Plan, list[Run]]]:
    """Each complete measurement of a plan; the others become warnings.

    A plan that a user abandoned is never finished. So each of its cells counts as it is."""
    plans = {each.plan_id: each for each in reversed(records) if isinstance(each, Plan)}
    cells = {name: {*map(_ENCODER.encode, plan.cells)} for name, plan in plans.items()}
    measurements: dict[tuple[str, bytes], dict[str, Run]] = defaultdict(dict)
    for each in records:
        if isinstance(each, Run) and not each.arm:  # a copied file does not double its runs
            of_cell = measurements[each.plan_id, _ENCODER.encode(each.cell)]
            of_cell.setdefault(each.run_id, each)
    abandoned = {e.plan_id for e in records if isinstance(e, EndedRecord) and e.how == "abandoned"}
    unfinished = Counter[str]()
    for (plan_id, cell), by_id in measurements.items():
        runs = sorted(by_id.values(), key=lambda run: (run.round, run.started_utc))
        if cell not in cells[plan_id]:
            first = one_line(next(iter(by_id)))
            warnings.append(f"run {first} is left out: its plan has no such cell")
        elif _is_complete(plans[plan_id], runs, plan_id in abandoned):
            yield plans[plan_id], runs
        elif plan_id not in abandoned:
            unfinished[plan_id] += 1
    for plan_id, count in unfinished.items():
        plan = plans[plan_id]
        warnings.append(
            f"{counted(count, 'cell')} of {one_line(plan.cells[0].machine)} (plan "
            f"{one_line(plan_id)}, {one_line(plan.started_utc)}) left out: not finished. The same "
            "`envbench run` command finishes them."
        )


def _is_complete(plan: Plan, runs: Iterable[Run], abandoned: bool) -> bool:
    """Whether the plan has all runs of one cell, or the cell has failed. ``abandoned``: no other
    runs will follow, so one is enough."""
    ended = [run for run in runs if run.failure is None or run.failure.reason != "interrupted"]
    if any(run.failure is not None for run in ended):
        return True
    repeats = plan.design_as(RunDesign).repeats
    rounds = {run.round for run in ended if 0 <= run.round < repeats[run.cell.backend]}
    return bool(rounds) and (abandoned or 0 < repeats[ended[0].cell.backend] <= len(rounds))


def _measured(
    plan: Plan,
    runs: list[Run],
    machines: Mapping[str, Fingerprint],
    runtimes: Mapping[str, RuntimeFact],
    locations: Mapping[str, Location],
) -> Measured:
    cell, last = runs[0].cell, runs[-1]
    found = machines.get(last.fingerprint)
    processes, work = last.facts.get("processes"), last.facts.get("work")
    cpus = len(plan.cores) or (found.logical_cpus if found else 1)
    summary = summarise(runs, cpus=cpus, alone=len(plan.cells) == 1)
    return Measured(
        summary=summary,
        label=backends.row_label(cell.backend, cell.variant),
        plan=plan,
        when=max(run.started_utc for run in runs),
        fingerprint=found,
        runtime=last.runtime,
        interpreter=runtimes.get(last.runtime),
        ran=ran(last),
        pools=len(processes) if isinstance(processes, list) else 0,
        work=work if isinstance(work, dict) else {},
        threads=backends.threads_of(last.facts),
        code=str(last.facts.get("code") or ""),
        spot=next((run.agreement for run in runs if run.agreement and not run.failure), None),
        runs=tuple(runs),
        locations=tuple(locations[name] for name in summary.runs if name in locations),
    )


def ran(run: Run) -> str:
    """The library's task where it replaced the requested one: ``Ant-v4 (use_contact_forces=True)``.

    "" where the library ran the requested task.
    """
    task = run.facts.get("library_task")
    if not isinstance(task, str) or run.cell.task in (task, task.rpartition("/")[2]):
        return ""
    given = run.facts.get("library_arguments")
    arguments = given if isinstance(given, dict) else {}
    listed = ", ".join(f"{key}={value}" for key, value in arguments.items())
    return f"{task} ({listed})" if listed else task
