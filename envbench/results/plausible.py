"""Which figures are refused or doubtful, although their measurement succeeded. Pure.

If some steps of a measured process were not the reference's (a spot check), the figure is
refused if the backend claims the reference's settings and engine. Otherwise it is not ranked. A
plugin whose steps could be compared is ranked only if they were: its author decides how it is
measured.

The same applies if its environments reset much less or more often, per measured step, than those
of the reference on the same machine (``stats.reset_rates``). Quick measurements are too short.

A plugin's figure is doubtful, too, if its process steps at another pace where no slice times it
(``decisions.pace``). All its sessions count together, so it does not help to measure it again.

The ceiling is the engine alone, on every core. A backend with the same engine and the same settings
cannot be faster, so such a figure is refused (or in doubt, if its interval is wide). Another build,
fewer iterations or a lower precision can be: then the figure is kept, with a note of what differs.
It is never the best of its column. A GPU has no ceiling.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from envbench import backends, families
from envbench.decisions import pace
from envbench.decisions.equal_work import spot_check
from envbench.decisions.ledger import claims, differences, one_engine
from envbench.families import Standard
from envbench.model import Cell, Failure, Run, RunDesign, arm_key
from envbench.results.measured_cells import Measured, row_of, without_figure
from envbench.results.relations import Relations
from envbench.stats.reset_rates import Resets, differ, per_step, resets

AT_FIRST = (
    "its steps were checked before the first timed one only, because it cannot reset all "
    "environments (docs/verify.md)"
)
UNCHECKED = "none of its steps were checked while it was measured (docs/verify.md)"
OWN_COST = 1.05  # a ceiling can be this much too low: its own loop costs a little
WITHOUT_INTERVAL = 1.5  # two sessions of one host have differed by 1.39
WITHOUT_RESETS = 1.5  # above it, not to reset is no reason (chosen, not measured)
# In the ledger, but not done by the engine in a step.
_BESIDE = ("returned_to", "observation_shape", "observation_dtype", "noop_max")


def plausible(
    measured: Sequence[Measured], relations: Relations, stored: Iterable[Measured] = ()
) -> list[Measured]:
    """The measurements, without the figures that spot checks, resets or ceilings refute. Refused
    cells and those in doubt have no place in their session, so they are never ranked. ``stored``:
    those that are not shown, too. What caught one of them counts for the whole row: to measure
    until no check finds anything does not help."""
    every = [*stored, *measured]
    references = _References(every)
    caught = {_row(each): by for each in every if (by := _refused_by(each, references))}
    resetting = [_resetting(_spotted(each), references) for each in measured]
    judged = _paced(resetting, every)
    ceilings = highest_ceilings(judged)
    checked = [_checked(each, ceilings.get(_task(each)), relations) for each in judged]
    for before, after in zip(judged, checked, strict=True):
        if before.fps is not None and after.fps is None:
            caught.setdefault(_row(after), "the ceiling")
    made = [_beside(each, caught) for each in checked]
    out: dict[str, set[str]] = defaultdict(set)
    for each in made:
        if (each.fps is None or each.doubt) and each.cell.key in each.session.cells:
            out[each.plan_id].add(each.cell.key)
    sessions = {
        each.plan_id: each.session.without(out[each.plan_id])
        for each in made
        if each.plan_id in out
    }
    return [replace(each, session=sessions.get(each.plan_id, each.session)) for each in made]


def _spotted(found: Measured) -> Measured:
    """The measurement, without its figure if its spot check found other work than it claims."""
    if found.fps is None:
        return found
    if found.spot is None:
        unchecked = not found.quick and _evades(found.cell)  # quick figures are never ranked
        return replace(found, doubt=UNCHECKED) if unchecked else found
    if _only_at_first(found):
        return replace(found, doubt=AT_FIRST)
    same, text, refused = spot_check(found.cell, found.work, found.spot)
    message = f"its steps in a spot check are not the reference's: {text}"
    if same is None:
        return replace(found, doubt=f"it could not be checked while it was measured: {text}")
    if refused:
        failure = Failure(reason="invalid-figure", message=message)
        return replace(found, summary=without_figure(found.summary, failure))
    return replace(found, doubt=message) if same is False else found


def _only_at_first(found: Measured) -> bool:
    """Is it of a plugin whose steps could only be checked before the first timed one? If the
    reference follows episodes from their start, that needs a reset of all environments. (One whose
    results arrive in any order makes no short calls.)"""
    family, cell = families.of_record(found.cell.env), found.cell
    standard = family.standard(cell.kind, cell.task)
    from_start = family.follows_by == "state" and standard is not None and standard.stack > 0
    if not from_start or found.quick or not _evades(cell) or cell.env_instances > cell.numenv:
        return False
    design = found.plan.design
    protocol = design.protocol.get(cell.backend) if isinstance(design, RunDesign) else None
    asked = protocol is not None and "short_calls" in protocol.after
    return asked and not any(run.short_calls.ns for run in counted_runs(found))


def _evades(cell: Cell) -> bool:
    """Is it of a plugin that ``envbench verify`` compares with the reference?"""
    family, backend = families.of_record(cell.env), backends.of_record(cell.backend)
    if backends.is_built_in(cell.backend) or backend.own_engine:
        return False
    return not family.uncompared(cell.kind, cell.task)


class _References:
    """How often the environments of each task's reference reset, with its default settings."""

    def __init__(self, every: Iterable[Measured]) -> None:
        self._cells: dict[_Work, dict[str, dict[str, Measured]]] = defaultdict(dict)
        self._known: dict[tuple[_Work, str], _Reference] = {}
        for each in every:
            if _is_reference(each.cell) and each.fps is not None and not each.quick:
                of_plan = self._cells[_work(each.cell)].setdefault(each.plan_id, {})
                of_plan.setdefault(each.cell.key, each)

    def of(self, found: Measured) -> _Reference:
        """The reference in the same session, otherwise in the newest one that has it."""
        work, plans = _work(found.cell), self._cells.get(_work(found.cell))
        if plans is None:
            return _Reference((), ())
        newest = max(plans, key=lambda name: next(iter(plans[name].values())).plan.started_utc)
        plan = found.plan_id if found.plan_id in plans else newest
        if (work, plan) not in self._known:
            cells = plans[plan].values()
            processes = tuple(each for cell in cells for each in _resets(cell))
            self._known[work, plan] = _Reference(processes, tuple(each.work for each in cells))
        return self._known[work, plan]


class _Reference(NamedTuple):
    processes: tuple[Resets, ...]  # of all its numbers of environments
    works: tuple[Mapping[str, Any], ...]  # what its cells report


_Work = tuple[str, str, str, float]  # machine, family, task, frames per step


def _work(cell: Cell) -> _Work:
    return cell.machine, cell.env, cell.task, float(cell.frame_skip)


def _standard(cell: Cell) -> Standard | None:
    """The rule of its task; None if its resets are not compared."""
    family = families.of_record(cell.env)
    known = cell.kind == "env" and not family.own_tasks
    return family.standard(cell.kind, cell.task) if known else None


def _paced(measured: Sequence[Measured], every: Iterable[Measured]) -> list[Measured]:
    """The measurements, in doubt if the pace of a plugin's processes is (``decisions.pace``).
    ``every``: the stored ones, too. Those of the same cell and code count together."""
    sessions: dict[tuple[str, ...], dict[str, list[Run]]] = defaultdict(dict)
    for each in every:
        if each.fps is not None and not (each.quick or backends.is_built_in(each.cell.backend)):
            sessions[*_row(each), each.cell.key][each.plan_id] = counted_runs(each)
    made = []
    for each in measured:
        if each.fps is None or each.doubt or backends.is_built_in(each.cell.backend):
            made.append(each)
            continue
        known = sessions[*_row(each), each.cell.key]
        others = [run for name, runs in known.items() if name != each.plan_id for run in runs]
        made.append(replace(each, doubt=pace.doubt(counted_runs(each), others)))
    return made


def counted_runs(found: Measured) -> list[Run]:
    """Its processes that count."""
    counted = set(found.summary.runs)
    return [run for run in found.runs if run.run_id in counted]


def _resetting(found: Measured, references: _References) -> Measured:
    """The measurement, without its figure if its environments do not reset as often as those of
    the reference, although it claims the same work."""
    cell = found.cell
    comparable = _standard(cell) is not None and backends.same_work(cell)
    if found.fps is None or found.quick or not comparable or _is_reference(cell):
        return found
    own, reference = _resets(found), references.of(found)
    if not differ(own, reference.processes):
        return found
    message = (
        f"its environments reset {1000 * per_step(own):.3g} times in 1,000 steps, "
        f"the reference's {1000 * per_step(reference.processes):.3g} times"
    )
    other = differences(cell.env, cell.kind, found.work, task=cell.task)
    if claims(cell, other, same_engine=one_engine([found.work, *reference.works])):
        failure = Failure(reason="invalid-figure", message=message)
        return replace(found, summary=without_figure(found.summary, failure))
    return found if found.doubt else replace(found, doubt=message)


def _resets(found: Measured) -> list[Resets]:
    """Of each of its processes that counts."""
    return [resets(run) for run in counted_runs(found)]


def _is_reference(cell: Cell) -> bool:
    standard = _standard(cell)
    return standard is not None and cell.backend == standard.reference and not cell.own_settings


def _refused_by(found: Measured, references: _References) -> str:
    """What refuses its figure; "" if nothing does."""
    if found.fps is None:
        return ""
    if _spotted(found).fps is None:
        return "a spot check"
    return "" if _resetting(found, references).fps else "a comparison of resets"


def _row(found: Measured) -> tuple[str, ...]:
    """Its row, with the packages (and a plugin's code) and envbench's code that measured it."""
    worker = found.plan.code.get(f"{arm_key('', found.cell)}/measure", "")
    return *row_of(found.cell), found.runtime, worker


def _beside(found: Measured, caught: Mapping[tuple[str, ...], str]) -> Measured:
    """The measurement, in doubt if another cell of its row was refused."""
    if found.fps is None or found.doubt or not (by := caught.get(_row(found))):
        return found
    return replace(found, doubt=f"another figure of its row was refused by {by}")


def highest_ceilings(measured: Iterable[Measured]) -> dict[tuple[str, str, str], Measured]:
    """The highest measurement of envbench's ceiling, by machine, family and task."""
    found: dict[tuple[str, str, str], Measured] = {}
    for each in sorted(measured, key=lambda each: (each.quality, each.fps or 0.0)):
        if is_ceiling(each.cell) and each.fps is not None:
            found[_task(each)] = each
    return found


def is_ceiling(cell: Cell) -> bool:
    """Is it envbench's own ceiling? An older envbench also took that of a plugin."""
    return cell.kind == "ceiling" and backends.is_built_in(cell.backend)


def _task(found: Measured) -> tuple[str, str, str]:
    return found.cell.machine, found.cell.env, found.cell.task


def _checked(found: Measured, ceiling: Measured | None, relations: Relations) -> Measured:
    if ceiling is None or found.fps is None or is_ceiling(found.cell) or found.on_gpu:
        return found
    accelerator = found.cell.section == "accelerators"
    if accelerator and backends.of_record(found.cell.backend).own_engine:
        return found
    relation = relations.between(found, ceiling)
    if relation is None:
        return found
    interval, ratio = relation.interval, relation.ratio
    sure = interval[0] > OWN_COST if interval else ratio > WITHOUT_INTERVAL
    if not sure and ratio <= WITHOUT_INTERVAL:
        return found
    times = f"{ratio:,.2f} times the ceiling"
    if differences := _differences(found.work, ceiling.work, resets=ratio <= WITHOUT_RESETS):
        return replace(found, doubt=f"{times}: {'; '.join(differences)}")
    if not sure:
        return replace(found, doubt=f"{times}, with an interval too wide to refuse it")
    failure = Failure(
        reason="invalid-figure",
        message=f"{times}, with the same engine and settings: no backend can be that fast",
        hint="Look for steps that the backend counts and does not make.",
    )
    return replace(found, summary=without_figure(found.summary, failure))


def _differences(work: Mapping[str, Any], ceiling: Mapping[str, Any], *, resets: bool) -> list[str]:
    """What its step computes differently from the ceiling's, as both report it. A backend that
    does not report its engine may have another one. ``resets``: can resets that it does not make
    explain its speed?"""
    common = [name for name in ceiling if name in work and name not in _BESIDE]
    if not resets or "none" not in (work.get("autoreset"), ceiling.get("autoreset")):
        common = [name for name in common if name != "autoreset"]  # when it resets costs nothing
    found = [
        f"{name} is {work[name]} (ceiling: {ceiling[name]})"
        for name in common
        if _folded(work[name]) != _folded(ceiling[name])
    ]
    if "engine" in common:
        return found
    whose = "its" if "engine" in ceiling else "the ceiling's"
    return [f"{whose} engine is unknown", *found]


def _folded(value: object) -> object:
    """Libraries write one name in several ways: ``Euler`` and ``EULER``."""
    return value.casefold() if isinstance(value, str) else value
