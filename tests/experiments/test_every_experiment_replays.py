"""Every experiment can be replayed: ``next`` and ``left`` depend only on plan and records."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from helpers.virtual_executor import BROKEN
from hypothesis import given, settings
from hypothesis import strategies as st

from envbench import backends
from envbench.engine.experiment import Experiment, Options, Site
from envbench.engine.request import CellRequest
from envbench.engine.target import kernel_target, make_cell, target_of
from envbench.experiments import pairs
from envbench.experiments.recorded_plans import EVERY
from envbench.experiments.run.rounds import Measure, RunExperiment
from envbench.experiments.verify import VerifyExperiment
from envbench.machine import Profile, Table
from envbench.model import (
    Block,
    BlockRecord,
    Cell,
    Design,
    Fingerprint,
    Plan,
    Rule,
    Trial,
    TrialRecord,
    Windows,
)

LADDER = Table(numenv=[2], rows=["for-loop"])
PROFILE = Profile(name="here", title="Here", hardware="two cores", atari=LADDER, mujoco=LADDER)
FINGERPRINT = Fingerprint(cpu="c", logical_cpus=2, physical_cores=2, usable_cpus=2, memory_gib=8)
SITE = Site(profile=PROFILE, fingerprint=FINGERPRINT, options=Options(results=Path("results")))
NAMES = [each.name for each in EVERY]
SLOWER = "for-loop"  # its candidate is a third slower, so that its check has a second stage


def experiment(name: str) -> Experiment[object]:
    return next(each() for each in EVERY if each.name == name)


def cell(backend: str, numenv: int = 2) -> Cell:
    return make_cell("here", "atari", "Pong-v5", backends.get(backend), numenv, {})


def plan(name: str, cells: Sequence[Cell], design: Design) -> Plan:
    return Plan(
        plan_id="p1",
        experiment=name,
        spec="s",
        cells=[*cells],
        design=design,
        behaviour={each.backend: backends.get(each.backend).behaviour for each in cells}
        if name != "noise"
        else {},
        cores=[0, 1],
        logical_cpus=2,
        free_memory=16 * 2**30,
        seed=3,
        fingerprint="f",
        started_utc="2026-01-02T03-04-05Z",
        command=["envbench", name],
        envbench_version="0",
    )


@cache
def plan_of(name: str) -> Plan:
    cells = [cell("for-loop"), cell("subprocess"), cell("envpool-sync", 8)]
    if name == "run":
        cells += [cell("for-loop", numenv) for numenv in range(3, 7)]  # two blocks in each round
        targets = [target_of(each) for each in cells]
        design: Design = RunExperiment(measure=Measure(repeats=4)).design(targets, SITE)
    elif name == "verify":
        names = ["subprocess", "envpool-sync", "brax"]
        request = VerifyExperiment(cells=CellRequest(backends=names, numenv=[2]))
        targets = request.choose(SITE).targets
        cells, design = [each.cell for each in targets], request.design(targets, SITE)
    else:
        cells = [kernel_target("here").cell] if name == "noise" else cells[:2]
        design = pairs.design(7, rule=Rule())
    return plan(name, cells, design)


def executed(block: Block, number: int, failed: bool = False) -> BlockRecord:
    """The record of a block; always the same for the same block."""
    trials = [_executed(block, side, trial, failed) for side, trial in enumerate(block.trials)]
    return BlockRecord(
        block_id=f"b{number}",
        plan_id="p1",
        stage=block.stage,
        round=block.round,
        started_utc="2026-01-02T03:04:05Z",
        turns=block.programme.turns,
        trials=trials,
    )


def _executed(block: Block, side: int, trial: Trial, failed: bool) -> TrialRecord:
    chance = random.Random(f"{trial.seed} {trial.arm} {trial.cell.key}")
    slower = 1.5 if (trial.arm, trial.cell.backend) == ("candidate", SLOWER) else 1.0
    count = block.programme.turns.count(side) or 8
    ns = [round(1e7 * slower * chance.uniform(0.99, 1.01)) for _ in range(count)]
    measured = Windows(
        start_ns=[0] * count, ns=ns, calls=[50] * count, steps=[100] * count, resets=[0] * count
    )
    return TrialRecord(
        trial_id=f"{trial.seed}-{side}",
        cell=trial.cell,
        arm=trial.arm,
        seed=trial.seed,
        measured=measured,
        peak_memory_bytes=chance.randrange(2**30, 2**32),  # so it decides later blocks
        failure=BROKEN if failed and trial is block.trials[-1] else None,
    )


def replay(
    name: str, done: Sequence[BlockRecord] = (), failures: frozenset[int] = frozenset()
) -> list[Block]:
    """The blocks that follow ``done``. The blocks whose numbers are in ``failures`` fail."""
    made: list[Block] = []
    records = [*done]
    while (block := experiment(name).next(plan_of(name), records)) is not None:
        records.append(executed(block, len(records), len(records) in failures))
        made.append(block)
        assert len(records) < 1000, "it never ends"
    return made


@cache
def whole(name: str) -> list[Block]:
    return replay(name)


def records_of(blocks: Sequence[Block]) -> list[BlockRecord]:
    return [executed(block, number) for number, block in enumerate(blocks)]


def copied(value: Any) -> Any:
    """The value as a file would give it back."""
    return msgspec.json.decode(msgspec.json.encode(value), type=type(value))


@pytest.mark.parametrize("name", NAMES)
def test_the_same_plan_and_records_give_the_same_next_block(name: str) -> None:
    plan, blocks = plan_of(name), whole(name)
    done = records_of(blocks)
    for number in range(len(blocks) + 1):
        before = msgspec.json.encode([plan, done[:number]])
        expected = blocks[number] if number < len(blocks) else None
        assert experiment(name).next(plan, done[:number]) == expected
        read_back = [copied(each) for each in done[:number]]
        assert type(experiment(name))().next(copied(plan), read_back) == expected
        assert msgspec.json.encode([plan, done[:number]]) == before  # it changed neither


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_is_complete_when_no_block_is_left(name: str) -> None:
    plan, blocks = plan_of(name), whole(name)
    done = records_of(blocks)
    left = [experiment(name).left(plan, done[:number]) for number in range(len(done) + 1)]
    assert left[-1] == 0
    assert all(count > 0 for count in left[:-1])
    assert experiment(name).next(plan, done) is None


@pytest.mark.parametrize("name", NAMES)
def test_no_block_is_planned_twice(name: str) -> None:
    seen = [
        (block.stage, block.round, tuple(each.cell.key for each in block.trials))
        for block in whole(name)
    ]
    assert len(seen) == len(set(seen)) > 1


def test_the_replayed_plans_cover_stages_rounds_and_references() -> None:
    assert [block.stage for block in whole("check")] == [1] * 14 + [2] * 7
    assert {each.trials[0].cell.backend for each in whole("check")[14:]} == {SLOWER}
    assert {len(block.trials) for block in whole("verify")} == {1, 2}
    assert {block.round for block in whole("run")} >= {0, 1, 2, 3}
    assert {len(block.trials) for block in whole("run")} == {2, 3, 4, 6}


@settings(max_examples=40)
@given(
    name=st.sampled_from(["run", "verify"]),
    data=st.data(),
    failures=st.frozensets(st.integers(0, 11), max_size=3),
)
def test_a_plan_stopped_anywhere_continues_with_the_remaining_blocks(
    name: str, data: st.DataObject, failures: frozenset[int]
) -> None:
    blocks = replay(name, failures=failures)
    done = [executed(block, i, i in failures) for i, block in enumerate(blocks)]
    stop = data.draw(st.integers(0, len(blocks)))
    kept = [copied(each) for each in done[:stop]]
    assert replay(name, kept, failures) == blocks[stop:]


@settings(max_examples=20)
@given(name=st.sampled_from(["check", "baseline", "noise"]), data=st.data())
def test_pairs_stopped_anywhere_continue_with_the_remaining_pairs(
    name: str, data: st.DataObject
) -> None:
    blocks = whole(name)
    stop = data.draw(st.integers(0, len(blocks)))
    assert replay(name, records_of(blocks[:stop])) == blocks[stop:]


@given(data=st.data())
def test_the_order_of_the_lines_in_a_file_does_not_matter(data: st.DataObject) -> None:
    """Users join files by hand."""
    name = data.draw(st.sampled_from(["run", "verify"]))
    stop = data.draw(st.integers(0, len(whole(name))))
    done = data.draw(st.permutations(records_of(whole(name)[:stop])))
    assert replay(name, done) == whole(name)[stop:]
