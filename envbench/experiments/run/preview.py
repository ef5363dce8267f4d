"""What ``run`` would measure: cells, blocks, time, and what has to be built first.

Nothing is started or written, and no backend is imported.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from envbench import runtimes
from envbench.engine import availability, resume
from envbench.engine.availability import Arms, Build
from envbench.engine.carry_out import before, site_of
from envbench.engine.experiment import Options, Site, one_per_arm
from envbench.engine.new_plan import make_plan
from envbench.engine.target import Target
from envbench.errors import Unavailable
from envbench.experiments.run.expected import Expected
from envbench.experiments.run.rounds import RunExperiment
from envbench.machine import kept_to
from envbench.model import Cell, Plan, arm_key


class Lacking(msgspec.Struct, frozen=True, kw_only=True):
    """A backend that cannot run a family here: why, and what to do."""

    backend: str
    env: str
    reason: str
    fix: str


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """``cells`` and, in the same order, the expected seconds of each in the blocks to do.

    ``seconds``: of these blocks, reference kernels included. ``at_least``: they are a lower bound,
    because no record shows how long this many vector steps, or environments, take.
    ``builds``: the runtimes that are built first; without them, their cells are not measured.
    """

    machine: str
    cells: list[Cell]
    cell_seconds: list[float]
    blocks: int
    seconds: float
    at_least: bool
    builds: list[Build]
    lacking: list[Lacking]
    notes: list[str]


def preview(experiment: RunExperiment, options: Options) -> Preview:
    """Return what the command would measure. Raises its usage errors, and ``Unavailable`` if no
    backend can run here."""
    with kept_to(options.cpus):
        return _preview(experiment, options)


def _preview(experiment: RunExperiment, options: Options) -> Preview:
    site = site_of(options, experiment)
    chosen = experiment.choose(site)
    builds = _builds(options, chosen.targets)
    able, planned, lacking = _able(experiment, options, chosen.targets, builds)
    offline = dataclasses.replace(site, options=replace(options, setup=False))
    arms = {each.key: each for each in experiment.arms(planned, offline, lambda _: None)}
    plan = whole = make_plan(experiment, planned, site, arms)
    if planned != able:
        plan = make_plan(experiment, able, site, arms)
    done, notes = [], [*chosen.notes]
    old, changed = (None, []) if options.fresh else _unfinished(experiment, site, whole, arms)
    if old and changed:
        notes.append(
            f"{old.path} is unfinished, but cannot resume; changed: {'; '.join(changed)}. The "
            "command would begin a new plan."
        )
    elif old:
        plan, done = old.plan, old.done
        notes.append(f"The command would resume {old.path}. This is what is left of it.")
    known = before(site, plan)
    left, expected = experiment.remaining(plan, done), Expected(plan, done, known)
    seconds: defaultdict[str, float] = defaultdict(float)
    for cell in (cell for each in left for cell in each.cells):
        seconds[cell.key] += expected.seconds(cell)
    return Preview(
        machine=site.profile.name,
        cells=plan.cells,
        cell_seconds=[seconds[each.key] for each in plan.cells],
        blocks=len(left),
        seconds=experiment.seconds_left(plan, done, known),
        at_least=not all(map(expected.knows, plan.cells)),
        builds=builds,
        lacking=lacking,
        notes=notes,
    )


def _builds(options: Options, targets: Sequence[Target]) -> list[Build]:
    """The runtimes that the command builds first, if it may."""
    if not options.setup:
        return []
    needs = [(each.backend, each.cell.env, each.cell.workload) for each in targets]
    return availability.builds(needs, options.pythons)


def _able(
    experiment: RunExperiment, options: Options, targets: Sequence[Target], builds: list[Build]
) -> tuple[list[Target], list[Target], list[Lacking]]:
    """The targets that can run here, those of the plan, and what the others lack.

    A plan may have targets that cannot run: they are recorded as failures.
    """
    to_build = {each.backend for each in builds}
    unable, left_out = set[str](), set[str]()
    lacking: list[Lacking] = []
    for target in one_per_arm(targets):
        backend, cell = target.backend, target.cell
        place = backend, options.pythons, cell.env, cell.workload
        status = runtimes.status(*place)
        if status.state == "ready" or backend.name in to_build:
            continue
        unable.add(arm_key("", cell))
        not_made = status.state == "needs-setup" and not runtimes.find(*place).ready
        if experiment.missing == "leave out" or not_made:
            left_out.add(arm_key("", cell))
        lacking.append(
            Lacking(backend=backend.name, env=cell.env, reason=status.reason, fix=status.fix)
        )
    able = [each for each in targets if arm_key("", each.cell) not in unable]
    if not able:
        reasons = "; ".join(f"{each.backend}: {each.reason}" for each in lacking)
        raise Unavailable(f"no backend can run this here ({reasons}).", hint=lacking[0].fix)
    planned = [each for each in targets if arm_key("", each.cell) not in left_out]
    return able, planned, lacking


def _unfinished(
    experiment: RunExperiment, site: Site, plan: Plan, arms: Arms
) -> tuple[resume.Recorded | None, list[str]]:
    """The unfinished plan of the same request, and what keeps it from being resumed."""
    every = resume.recorded(site.options.results, site.profile.name, experiment.name)
    same = (each for each in every if each.plan.spec == plan.spec)
    return resume.find(same, plan, experiment, arms, probed=False) or (None, [])
