"""The plans of a results folder: what is finished, what is not, and how to give one up.

A plan is finished when its outcome was shown. Before that it is measured (no block is left) or
unfinished. One that was abandoned is not resumed; its blocks stay. Deleting a plan removes its file
and the by-products that no other plan of the machine refers to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from envbench.engine import resume
from envbench.engine.experiment import Experiment
from envbench.engine.resume import Recorded
from envbench.errors import StorageError, UnknownName, UsageError
from envbench.experiments.check.baseline import BaselineExperiment
from envbench.experiments.check.stages import CheckExperiment
from envbench.experiments.noise import NoiseExperiment
from envbench.experiments.run import RunExperiment
from envbench.experiments.verify import VerifyExperiment
from envbench.model import Plan
from envbench.results import store
from envbench.results.store import BY_PRODUCTS, Journal
from envbench.text import listed

_BY_PRODUCT = re.compile(r"[0-9a-f]{8,128}(\.[a-z0-9]{1,8})?")
CLOSE = 0.9  # all ids of a day are alike: only a slip of the finger is close
State = Literal["finished", "measured", "unfinished", "abandoned", "unknown"]
EVERY: tuple[type[Experiment[object]], ...] = (
    RunExperiment,
    CheckExperiment,
    VerifyExperiment,
    BaselineExperiment,
    NoiseExperiment,
)


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """One plan. ``left``: blocks still to come, None where its experiment is not known here."""

    plan: str
    experiment: str
    machine: str
    state: State
    done: int
    left: int | None
    failed: int
    started_utc: str
    command: list[str]
    file: str


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """Every plan of a folder, the newest first, and the lines that could not be read."""

    plans: list[Listed]
    warnings: list[str]


def listing(results: Path, machine: str | None = None) -> Listing:
    """What the folder holds; of one machine, where that is named."""
    found, warnings = [], []
    for path in store.files(results):
        if machine not in (None, path.parent.name):
            continue
        plans = resume.read(path)
        warnings += plans[0].warnings if plans else store.read(path).warnings
        found += [_listed(each) for each in plans]
    newest_first = sorted(found, key=lambda each: each.started_utc, reverse=True)
    return Listing(plans=newest_first, warnings=warnings)


def _listed(found: Recorded) -> Listed:
    plan = found.plan
    left = _left(found)
    state: State = "unfinished" if left else "measured"
    if left is None:
        state = "unknown"
    return Listed(
        plan=plan.plan_id,
        experiment=plan.experiment,
        machine=found.path.parent.name,
        state="finished" if found.concluded else "abandoned" if found.abandoned else state,
        done=len(found.done),
        left=left,
        failed=sum(1 for each in found.done if each.failure),
        started_utc=plan.started_utc,
        command=plan.command,
        file=str(found.path),
    )


def _left(found: Recorded) -> int | None:
    experiment = _experiment(found.plan)
    return None if experiment is None else resume.blocks_left(experiment, found)


def _experiment(plan: Plan) -> Experiment[object] | None:
    return next((each() for each in EVERY if each.name == plan.experiment), None)


def _recorded(results: Path, machine: str | None = None) -> list[Recorded]:
    """Every plan, those included that ``resume.recorded`` does not recognise at a look."""
    paths = [path for path in store.files(results) if machine in (None, path.parent.name)]
    found = [plan for path in paths for plan in resume.read(path)]
    return sorted(found, key=lambda each: each.plan.started_utc, reverse=True)


def named(results: Path, plan_id: str) -> Recorded:
    """The plan of that id, or of the beginning of an id; ``UsageError`` where it is not one."""
    every = _recorded(results)
    found = [each for each in every if each.plan.plan_id.startswith(plan_id)]
    found = [each for each in found if each.plan.plan_id == plan_id] or found
    ids = list(dict.fromkeys(each.plan.plan_id for each in found))
    if not found:
        known = dict.fromkeys(each.plan.plan_id for each in every)
        raise UnknownName("plan", plan_id, [*known], closeness=CLOSE)
    if len(ids) > 1:
        raise UsageError(
            f"{plan_id!r} is the beginning of {len(ids)} plans.",
            hint="Give more of it: " + ", ".join(ids[:5]),
        )
    if len(found) > 1:
        raise UsageError(
            f"{ids[0]} is in {len(found)} files: {listed(sorted(str(e.path) for e in found))}.",
            hint="One is a copy of the other. Delete one by hand.",
        )
    return found[0]


def abandon(found: Recorded) -> None:
    """It is not resumed any more. Its blocks stay where they are."""
    if found.concluded:
        raise UsageError(f"{found.plan.plan_id} is finished: there is nothing to abandon.")
    if not found.abandoned:
        with Journal.open(found.path) as journal:
            journal.end(found.plan.plan_id, "abandoned")


def next_resumed(given_up: Recorded) -> str | None:
    """The id of the plan that the command of an abandoned plan resumes now, where there is one.

    What has changed on the machine since ``given_up`` began is not looked at.
    """
    plan, machine = given_up.plan, given_up.path.parent
    experiment = _experiment(plan)
    if experiment is None:
        return None

    def changes(old: Recorded) -> list[str]:
        paused = resume.paused_too_long(old, experiment.longest_pause_s)
        return resume.differences(old.plan, plan) + paused

    every = resume.recorded(machine.parent, machine.name, experiment.name)
    found = resume.find(every, plan, experiment, changes)
    return found.recorded.plan.plan_id if found and not found.changed else None


def delete(found: Recorded) -> list[Path]:
    """Remove its file and its own by-products; what was removed."""
    if len(resume.read(found.path)) > 1:
        raise UsageError(
            f"{found.path} holds more than one plan: envbench does not delete it.",
            hint="Files that were joined by hand have to be taken apart by hand.",
        )
    machine = found.path.parent
    mine = set(_by_products([found]))
    others = [each for each in _recorded(machine.parent, machine.name) if each.path != found.path]
    gone = [found.path, *(machine / BY_PRODUCTS / n for n in mine - set(_by_products(others)))]
    try:
        for path in gone:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"cannot delete {path}: {error.strerror or error}.") from error
    return gone


def _by_products(plans: Iterable[Recorded]) -> list[str]:
    return [
        name
        for each in plans
        for block in each.done
        for trial in block.trials
        for name in trial.by_products.values()
        if _BY_PRODUCT.fullmatch(name)  # a stranger's record names nothing outside the folder
    ]
