"""``verify``: do the backends do the same work? One block per backend, with its reference.

The backend steps freely. Before each of its steps, the reference is put into the state that the
backend showed, and then gets the same action (``envbench_worker.traces``). The backend's steps are
counted twice (``envbench_worker.audit``). ``envbench.decisions`` compares the traces and settings.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar

import msgspec

from envbench import families
from envbench.backends.specification import with_role
from envbench.decisions.responses import TOGETHER
from envbench.engine.experiment import Done, Experiment, Facts, Site
from envbench.engine.request import CellRequest, Chosen, choose
from envbench.engine.target import Target
from envbench.model import (
    Block,
    BlockRecord,
    Cell,
    Plan,
    Trial,
    Verification,
    Verify,
    VerifyDesign,
)
from envbench.results.joining import verification_of

MOST_SEEDS = 10**9


@dataclass(frozen=True, kw_only=True)
class VerifyExperiment(Experiment[list[Verification]]):
    """One block per backend, with its reference. ``audit_calls``: vector steps counted twice."""

    cells: CellRequest = CellRequest()
    audit_calls: int = 1000

    name: ClassVar[str] = "verify"
    unit: ClassVar[str] = "backend"
    block_seconds: ClassVar[float] = 20.0
    in_tables: ClassVar[bool] = True
    modes: ClassVar[tuple[str, ...]] = ("measure", "verify")
    missing = "leave out"

    @property
    def named(self) -> bool:
        return not self.cells.takes_all

    def choose(self, site: Site) -> Chosen:
        """The requested cells and their references: references first, then those with defaults."""
        cpus = site.fingerprint.usable_cpus
        chosen = choose(self.cells, site.profile, cpus)
        targets = list(chosen.targets)
        for target in chosen.targets:
            cell, name = target.cell, _reference_name(target)
            if name and not _references(target, targets):
                request = CellRequest(
                    family=cell.env,
                    task=cell.task,
                    backends=[name],
                    numenv=[cell.numenv],
                    frame_skip=self.cells.frame_skip,
                )
                targets += choose(request, site.profile, cpus).targets
        targets.sort(key=lambda each: bool(each.cell.own_settings))
        targets.sort(key=lambda each: each.cell.backend != _reference_name(each))
        return Chosen(targets=targets, notes=chosen.notes)

    def design(self, targets: Sequence[Target], site: Site) -> VerifyDesign:
        verify = Verify(audit_calls=self.audit_calls)
        steps = {
            each.cell.key: each.family.lock_steps if _reference_name(each) else verify.lock_steps
            for each in targets
        }
        return VerifyDesign(
            verify=verify,
            lock_steps=steps,
            together={each.cell.key: _together(each) for each in targets},
            limits={
                each.cell.key: limit
                for each in targets
                if (limit := each.family.time_limit(each.cell.kind, each.cell.task))
            },
            references={
                each.cell.key: references[0]
                for each in targets
                if not each.backend.own_engine  # then states cannot be compared
                and (references := _references(each, targets))
                and each.cell not in references
            },
        )

    def place(self, plan: Plan, block: Block | BlockRecord) -> str:
        return "verifying"

    def remaining(self, plan: Plan, done: Done) -> list[Cell]:
        made = {block.trials[-1].cell.key for block in done}
        return [cell for cell in plan.cells if cell.key not in made]

    def block(self, plan: Plan, todo: Cell) -> Block:
        """Seeds and lengths differ from plan to plan: nothing can be computed in advance."""
        design = plan.design_as(VerifyDesign)
        chance = random.Random(f"{plan.seed} {plan.plan_id} {todo.key}")
        seed, calls = chance.randrange(MOST_SEEDS), design.verify.audit_calls
        steps = design.lock_steps.get(todo.key, design.verify.lock_steps)
        lasting = families.of_record(todo.env).lasting
        amount = msgspec.structs.replace(
            design.verify,
            lock_steps=chance.randint(steps, steps + steps // 10),
            audit_calls=chance.randint(calls, calls + calls // 4),
            together=design.together.get(todo.key, 0),
            limit=design.limits.get(todo.key, 0) if lasting else 0,
            lasting=lasting,
        )
        own = Trial(cell=todo, mode="verify", seed=seed, verify=amount)
        reference = design.references.get(todo.key)
        if reference is None:
            return Block(trials=[own])
        followed = msgspec.structs.replace(amount, audit_calls=1)  # it has a block for its audit
        trials = [Trial(cell=reference, mode="verify", seed=seed, verify=followed), own]
        return Block(trials=trials, reference=0)

    def seconds_left(self, plan: Plan, done: Done, before: Done = ()) -> float:
        """By what each cell took last time, otherwise the others of its family: a game takes ten
        times as long as a cart."""
        ended = [each for each in (*reversed(before), *done) if not self.failures(each)]
        took = {each.trials[-1].cell.key: each for each in ended}
        of_family: dict[str, list[float]] = defaultdict(list)
        for each in took.values():
            of_family[each.trials[-1].cell.env].append(each.seconds)

        def expected(cell: Cell) -> float:
            usual = of_family.get(cell.env, [self.block_seconds])
            return took[cell.key].seconds if cell.key in took else fmean(usual)

        return sum(expected(cell) for cell in self.remaining(plan, done))

    def conclude(self, plan: Plan, done: Done, facts: Facts) -> list[Verification]:
        return [verification_of(plan, block, facts) for block in done]


def _reference_name(target: Target) -> str:
    """The backend that the cell is compared with; "" if there is none."""
    cell, family = target.cell, target.family
    compared = not family.uncompared(cell.kind, cell.task)
    return family.standards[cell.kind].reference if compared else ""


def _references(target: Target, targets: Sequence[Target]) -> list[Cell]:
    """The cells of the same task that the cell can be compared with."""
    cell = target.cell
    wanted = (cell.env, cell.task, cell.kind, cell.frame_skip, _reference_name(target))
    plain = (each.cell for each in targets if not each.cell.own_settings)
    return [it for it in plain if (it.env, it.task, it.kind, it.frame_skip, it.backend) == wanted]


def _together(target: Target) -> int:
    """How many lock-steps share one action, where another engine has nothing to compare its states
    with, and its environments start alike; 0 if actions are constant."""
    setting = with_role(target.backend, "actions")
    constant = setting is not None and target.cell.settings.get(setting.name) == "constant"
    return TOGETHER if target.backend.own_engine and not constant else 0
