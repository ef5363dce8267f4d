"""The plans of a results folder: list them, abandon one, or delete one.

A plan is finished when its outcome was shown. Before that it is measured (no block is left) or
unfinished. An abandoned plan is not resumed; its blocks stay. Deleting a plan removes its file and
the by-products that no other file of the machine refers to.
"""

from __future__ import annotations

import re
import shutil
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
from envbench.experiments.run.rounds import RunExperiment
from envbench.experiments.verify import VerifyExperiment
from envbench.model import Plan
from envbench.results import store
from envbench.results.store import BY_PRODUCTS, PART, Journal
from envbench.text import listed

_BY_PRODUCT = re.compile(r"[0-9a-f]{64}\.[a-z0-9]{1,8}")
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
    failed = [
        each
        for each in recorded.done
        if (each.failure if experiment is None else experiment.failures(each))
    ]
    state = "unknown" if left is None else "unfinished" if left else "measured"
    return Listed(
        plan=plan.plan_id,
        experiment=plan.experiment,
        machine=recorded.path.parent.name,
        state="finished" if recorded.concluded else "abandoned" if recorded.abandoned else state,
        done=len(recorded.done),
        left=left,
        failed=len(failed),
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
    """Remove its file, and the by-products that no other file needs; returns what was removed."""
    with Journal.open(recorded.path):  # another lock file may let it be measured just now
        if len(resume.read(recorded.path)[0]) > 1:
            raise UsageError(
                f"{recorded.path} holds more than one plan: envbench does not delete it.",
                hint="Someone joined several plans in this file. Split it first.",
            )
        try:
            removed = [recorded.path, *_unreferenced(recorded.path)]
            for path in removed:
                shutil.rmtree(path) if path.name.startswith(PART) else path.unlink(missing_ok=True)
            with suppress(OSError):  # it is missing, or other plans need it
                (recorded.path.parent / BY_PRODUCTS).rmdir()
        except OSError as error:
            raise StorageError(f"cannot delete {error.filename}: {error.strerror}.") from error
    return removed


def _unreferenced(path: Path) -> set[Path]:
    """The by-products, whole or not, that no other file of the machine refers to.

    While another of its plans is measured, only those of this file: the record that refers to a new
    by-product may still be to come.
    """
    folder = path.parent / BY_PRODUCTS
    # In this order: names, locks, references. So a by-product that is written now is kept.
    there = [each.name for each in folder.glob("*")]
    names = {each for each in there if each.startswith(PART) or _BY_PRODUCT.fullmatch(each)}
    files = store.files(path.parents[1], path.parent.name)
    busy = any(store.is_open(each) for each in files if each != path)
    # On any line: that of an interrupted block, or one that cannot be decoded, refers to them, too.
    found = {each: _BY_PRODUCT.findall(each.read_text("latin-1")) for each in files}
    own = {f"{PART}{path.name}", *found.pop(path)}
    return {folder / each for each in (names & own if busy else names).difference(*found.values())}
