"""The plans of a results folder: list them, abandon one, or delete one.

A plan is finished when its outcome was shown. Before that it is measured (no block is left) or
unfinished. An abandoned plan is not resumed; its blocks stay. Deleting a plan removes its file and
the by-products that no other plan of the machine refers to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

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
CLOSE = 0.9  # all ids of a day are similar: suggest one only for a typing error
EVERY: tuple[type[Experiment[object]], ...] = (
    RunExperiment,
    CheckExperiment,
    VerifyExperiment,
    BaselineExperiment,
    NoiseExperiment,
)


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """One plan. ``left``: blocks still to come, None if its experiment is not known here.

    ``state``: finished, measured, unfinished, abandoned or unknown.
    """

    plan: str
    experiment: str
    machine: str
    state: str
    done: int
    left: int | None
    failed: int
    started_utc: str
    command: list[str]
    file: str


def listing(results: Path, machine: str | None = None) -> tuple[list[Listed], list[str]]:
    """Every plan of a folder or machine, newest first, and the lines that could not be read."""
    plans, warnings = _recorded(results, machine)
    return [_listed(each) for each in plans], warnings


def _recorded(results: Path, machine: str | None = None) -> tuple[list[Recorded], list[str]]:
    plans: list[Recorded] = []
    warnings: list[str] = []
    for path in store.files(results, machine):
        found, bad = resume.read(path)
        plans += found
        warnings += bad
    return sorted(plans, key=lambda each: each.plan.started_utc, reverse=True), warnings


def _listed(recorded: Recorded) -> Listed:
    plan, experiment = recorded.plan, _experiment(recorded.plan)
    left = None if experiment is None else resume.blocks_left(experiment, recorded)
    state = "unknown" if left is None else "unfinished" if left else "measured"
    return Listed(
        plan=plan.plan_id,
        experiment=plan.experiment,
        machine=recorded.path.parent.name,
        state="finished" if recorded.concluded else "abandoned" if recorded.abandoned else state,
        done=len(recorded.done),
        left=left,
        failed=sum(1 for each in recorded.done if each.failure),
        started_utc=plan.started_utc,
        command=plan.command,
        file=str(recorded.path),
    )


def _experiment(plan: Plan) -> Experiment[object] | None:
    return next((each() for each in EVERY if each.name == plan.experiment), None)


def named(results: Path, plan_id: str) -> Recorded:
    """The plan of that id, or of the beginning of an id; ``UsageError`` unless exactly one fits."""
    known: dict[str, list[Recorded]] = {}
    for each in _recorded(results)[0]:
        known.setdefault(each.plan.plan_id, []).append(each)
    ids = [plan_id] if plan_id in known else [each for each in known if each.startswith(plan_id)]
    if not ids:
        raise UnknownName("plan", plan_id, [*known], closeness=CLOSE)
    if len(ids) > 1:
        raise UsageError(
            f"{plan_id!r} matches {len(ids)} plans.",
            hint="Give more characters: " + ", ".join(ids[:5]),
        )
    first, *copies = known[ids[0]]
    if copies:
        paths = sorted(str(each.path) for each in (first, *copies))
        raise UsageError(
            f"{ids[0]} is in {len(paths)} files: {listed(paths)}.",
            hint="They are copies of one plan. Keep one file, and delete the others by hand.",
        )
    return first


def abandon(recorded: Recorded) -> None:
    """Mark it, so that it is not resumed. Its blocks stay where they are."""
    with Journal.open(recorded.path) as journal:  # this may wait until the plan has ended
        now = named(recorded.path.parents[1], recorded.plan.plan_id)
        if now.concluded:
            raise UsageError(f"{now.plan.plan_id} is finished: there is nothing to abandon.")
        if not now.abandoned:
            journal.end(now.plan.plan_id, "abandoned")


def next_resumed(given_up: Recorded) -> str | None:
    """The id of the plan that ``given_up``'s command resumes now; None if it begins a new one.
    Changes of the machine since ``given_up`` began are not considered."""
    plan, machine = given_up.plan, given_up.path.parent
    experiment = _experiment(plan)
    if experiment is None:
        return None
    every = resume.recorded(machine.parent, machine.name, experiment.name)
    found = resume.find(every, plan, experiment)
    return found[0].plan.plan_id if found and not found[1] else None


def delete(recorded: Recorded) -> list[Path]:
    """Remove its file and its own by-products; returns what was removed."""
    machine = recorded.path.parent
    every, _ = _recorded(machine.parent, machine.name)
    others = [each for each in every if each.path != recorded.path]
    if len(every) - len(others) > 1:
        raise UsageError(
            f"{recorded.path} holds more than one plan: envbench does not delete it.",
            hint="Someone joined several plans in this file. Split it first.",
        )
    own = _by_products([recorded]) - _by_products(others)
    removed = [recorded.path, *(machine / BY_PRODUCTS / name for name in own)]
    try:
        for path in removed:
            path.unlink(missing_ok=True)
        with suppress(OSError):  # it is missing, or other plans need it
            (machine / BY_PRODUCTS).rmdir()
    except OSError as error:
        raise StorageError(f"cannot delete {path}: {error.strerror or error}.") from error
    return removed


def _by_products(plans: Iterable[Recorded]) -> set[str]:
    """The names of the plans' by-products. Paths, which a foreign record may have, are ignored."""
    trials = (trial for each in plans for block in each.done for trial in block.trials)
    names = (name for trial in trials for name in trial.by_products.values())
    return {name for name in names if _BY_PRODUCT.fullmatch(name)}
