"""Plans and blocks of pairs made by hand, and simulated workers whose pace is known."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import count
from typing import Any

from envbench.backends.builtin import KERNEL as KERNEL_BACKEND
from envbench.engine.campaign import Experiment
from envbench.engine.target import Target, target_of
from envbench.engine.target import make_cell as resolved_cell
from envbench.model import (
    ArmFact,
    Block,
    BlockRecord,
    Cell,
    Failure,
    PairsDesign,
    Plan,
    Protocol,
    Rule,
    RunDesign,
    RuntimeFact,
    Times,
    TrialRecord,
    Windows,
    digest,
)
from helpers.record_factories import LAPTOP, make_cell, make_windows

_IDS = count(1)
MS = 1_000_000
CELLS = [make_cell("for-loop", 2, machine="m"), make_cell("for-loop", 4, machine="m")]
ARMS = ("baseline", "candidate")
KERNEL = resolved_cell("", "gym", "reference", KERNEL_BACKEND, 1, {})
PACKAGES = RuntimeFact(
    hash=digest(("3.11", "CPython", {})), python="3.11", implementation="CPython", packages={}
)


def pairs_plan(cells: Sequence[Cell] = CELLS, pairs: int = 8, **given: Any) -> Plan:
    """A plan of ``check``: eight pairs per stage, of two groups of four slices."""
    rule = given.pop("rule", Rule())
    design = PairsDesign(pairs=pairs, quads=2, slice_s=0.25, protocol=Protocol(), rule=rule)
    values: dict[str, Any] = {
        "plan_id": "plan",
        "experiment": "check",
        "design": design,
        "behaviour": {each.backend: target_of(each).backend.behaviour for each in cells},
        "arms": [
            ArmFact(name="baseline", source="old", place="p"),
            ArmFact(name="candidate", source="new", place="p"),
        ],
        "cores": [0, 1],
        "seed": 3,
        "fingerprint": digest(LAPTOP),
        "code": {f"{arm}/for-loop/atari/step/measure": "w" for arm in ARMS},
        "places": {f"{arm}/for-loop/atari/step": "p" for arm in ARMS},
        "imports": {f"{arm}/for-loop/atari/step": "i" for arm in ARMS},
        "runtimes": {f"{arm}/for-loop/atari/step": PACKAGES.hash for arm in ARMS},
        "started_utc": "2026-01-01T00-00-00Z",
        "command": ["envbench", "check"],
        "envbench_version": "0",
        **given,
    }
    values.setdefault("spec", digest([list(cells), values["design"], values["seed"]]))
    return Plan(cells=list(cells), **values)


def make_trial(
    arm: str = "", step: float = 1.0, start: float = 1.0, reset: float = 1.0, **given: Any
) -> TrialRecord:
    """A trial of four slices. ``step``, ``start`` and ``reset`` multiply how long each takes."""
    times = Times(
        import_ns=int(900 * MS * start),
        build_ns=int(100 * MS * start),
        first_step_ns=MS,
        warmup_ns=1000 * MS,
        measured_ns=1000 * MS,
    )
    values: dict[str, Any] = {
        "trial_id": f"t{next(_IDS)}",
        "cell": CELLS[0],
        "seed": 0,
        "runtime": PACKAGES.hash,
        "times": times,
        "measured": make_windows([1000] * 4, ns=int(250 * MS * step)),
        "resets": make_windows([0] * 2, ns=int(250 * MS * reset), calls=[10] * 2, resets=[40] * 2),
        "peak_memory_bytes": 2**28,
    }
    return TrialRecord(arm=arm, **{**values, **given})


def make_pair(*trials: TrialRecord, **given: Any) -> BlockRecord:
    values: dict[str, Any] = {
        "block_id": f"b{next(_IDS)}",
        "plan_id": "plan",
        "started_utc": "2026-01-01T00:00:00.000+00:00",
        "turns": [0, 1, 1, 0],
    }
    return BlockRecord(trials=list(trials), **{**values, **given})


def measured_pair(cell: Cell, own: Windows, kernel: Windows, **given: Any) -> BlockRecord:
    """A pair of a ``baseline`` plan: the reference kernel and a cell."""
    trials = (
        make_trial("kernel", cell=KERNEL, measured=kernel),
        make_trial(cell=cell, measured=own),
    )
    return make_pair(*trials, **given)


def run_plan(cells: Sequence[Cell], *, quick: bool = False, **given: Any) -> Plan:
    names = {each.backend for each in cells}
    design = RunDesign(
        repeats=dict.fromkeys(names, 5), protocol=dict.fromkeys(names, Protocol()), quick=quick
    )
    return pairs_plan(cells, experiment="run", design=design, arms=[], **given)


def cycles(count: int, trials: int, seed: int = 1) -> list[int]:
    """The turns of some cycles. In each cycle every trial has one slice, in random order."""
    chance = random.Random(seed)
    return [side for _ in range(count) for side in chance.sample(range(trials), trials)]


# ---------------------------------------------------------------- made-up workers


class Workers:
    """Executes pairs without any process. The candidate takes ``slower`` times as long.

    ``failing`` is the failure of every candidate. The machine is now slow, now fast, by a factor of
    four; both trials of a pair see the same.
    """

    def __init__(self, slower: float = 1.0, failing: Failure | None = None) -> None:
        self.slower = slower
        self.failing = failing
        self.blocks: list[Block] = []

    def __call__(self, plan: Plan, block: Block) -> BlockRecord:
        self.blocks.append(block)
        index = (block.stage - 1) * 16 + block.round
        noise = 1 + 3 * (index % 2) + index / 1e4
        return make_pair(
            *(self.trial(trial, noise, index) for trial in block.trials),
            plan_id=plan.plan_id,
            stage=block.stage,
            round=block.round,
            turns=block.programme.turns,
        )

    def trial(self, trial: Any, noise: float, index: int) -> TrialRecord:
        candidate = trial.arm == "candidate"
        wobble = (1 + (index % 3) / 2000) * self.slower if candidate else 1.0
        return TrialRecord(
            trial_id=f"t{next(_IDS)}",
            cell=trial.cell,
            arm=trial.arm,
            seed=trial.seed,
            cpus=trial.cpus,
            runtime=PACKAGES.hash,
            times=Times(import_ns=MS, build_ns=MS, first_step_ns=MS, warmup_ns=MS, measured_ns=MS),
            measured=make_windows([1000] * 4, ns=int(100 * MS * noise * wobble)),
            failure=self.failing if candidate else None,
        )


def carry_out(
    experiment: Experiment[Any],
    plan: Plan,
    workers: Workers,
    done: Sequence[BlockRecord] = (),
    most: int = 10_000,
) -> list[BlockRecord]:
    """The records of a whole campaign, after those in ``done``; at most ``most`` in all."""
    records = list(done)
    while len(records) < most and (block := experiment.next(plan, records)) is not None:
        records.append(workers(plan, block))
    return records


def targets(*cells: Cell) -> list[Target]:
    return [target_of(each) for each in cells]
