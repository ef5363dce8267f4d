"""From what was asked to a plan and its jobs: shares, seeds, identity, what is left to do."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbench import backends
from envbench.campaign import order_of
from envbench.model import Cell, Failure, Plan, Run
from envbench.plan import (
    Measure,
    calls_of_round,
    interrupted,
    make_cell,
    make_job,
    make_plan,
    remaining,
    seed_of_round,
)

IDENTITY: dict[str, Any] = {
    "plan_id": "p1",
    "fingerprint": "f",
    "worker": "w",
    "runtimes": {},
    "started_utc": "2026-01-02T03-04-05Z",
    "command": ["envbench", "run"],
    "envbench_version": "0",
}


def cell(backend: str = "for-loop", numenv: int = 2, task: str = "Pong-v5", **given: str) -> Cell:
    return make_cell("laptop", "atari", task, backends.get(backend), numenv, given)


def plan(cells: list[Cell] | None = None, **measure: Any) -> Plan:
    return make_plan(cells or [cell()], Measure(**measure), **IDENTITY)


# ---------------------------------------------------------------- shares of a cell


@given(total=st.integers(1, 10**12), repeats=st.integers(1, 1000))
def test_the_rounds_share_a_cells_steps_evenly_and_without_loss(total: int, repeats: int) -> None:
    shares = [calls_of_round(total, repeats, round_) for round_ in range(repeats)]
    assert sum(shares) == total
    assert max(shares) - min(shares) <= 1


@given(total=st.integers(1, 50), repeats=st.integers(1, 50))
def test_no_run_is_without_a_step(total: int, repeats: int) -> None:
    made = plan(total_steps=total, repeats=repeats)
    jobs = [make_job(made, each, round_, "r") for round_, each in order_of(made)]
    calls = [job.protocol.calls for job in jobs]
    assert all(calls)
    assert sum(c or 0 for c in calls) == total


def test_a_duration_is_of_a_cell_over_all_its_runs() -> None:
    assert plan().protocol["for-loop"].measured_s * plan().repeats["for-loop"] == 40
    assert plan(duration_s=6, repeats=3).protocol["for-loop"].measured_s == 2


def test_a_quick_plan_is_one_run_of_a_second_of_warm_up_and_three_of_windows() -> None:
    quick = plan(quick=True)
    protocol = quick.protocol["for-loop"]
    assert quick.repeats == {"for-loop": 1}
    assert (protocol.warmup_min_s, protocol.warmup_max_s, protocol.measured_s) == (1, 1, 3)


# ---------------------------------------------------------------- seeds


@given(
    a=st.tuples(st.integers(0, 2_147_482), st.integers(0, 999)),
    b=st.tuples(st.integers(0, 2_147_482), st.integers(0, 999)),
)
def test_no_two_rounds_of_any_seeds_share_one(a: tuple[int, int], b: tuple[int, int]) -> None:
    assert (seed_of_round(*a) == seed_of_round(*b)) == (a == b)
    assert 0 <= seed_of_round(*a) < 2**31  # what the libraries keep a seed in


def test_cells_of_a_round_share_its_seed_and_rounds_do_not() -> None:
    made = plan([cell(), cell("envpool-async"), cell(numenv=4)], seed=3)
    seeds = {round_: set[int]() for round_ in range(5)}
    for round_, each in order_of(made):
        seeds[round_].add(make_job(made, each, round_, "r").seed)
    assert all(len(of_round) == 1 for of_round in seeds.values())
    found = sorted(seed for of_round in seeds.values() for seed in of_round)
    # Environment i has the seed + i: thousands of environments of two rounds share none.
    assert min(b - a for a, b in pairwise(found)) > 1_000_000


# ---------------------------------------------------------------- jobs and cells


def test_a_job_orders_exactly_what_its_cell_says() -> None:
    made = plan([cell("envpool-async", 8, overcommit="2.5")], repeats=2, seed=1)
    job = make_job(made, made.cells[0], 1, "run-1")
    assert (job.run_id, job.mode, job.family, job.task) == ("run-1", "measure", "atari", "Pong-v5")
    assert (job.numenv, job.env_instances, job.frame_skip, job.seed) == (
        8,
        20,
        4,
        seed_of_round(1, 1),
    )
    assert job.settings == made.cells[0].settings
    assert job.settings["overcommit"] == 2.5
    assert job.protocol == made.protocol["envpool-async"]


def test_a_cells_key_shows_what_differs_from_the_default_only() -> None:
    assert cell("envpool-async", 8).key == "atari/Pong-v5/envpool-async/8"
    varied = cell("envpool-async", 8, overcommit="2", threads="0")
    assert varied.key == "atari/Pong-v5/envpool-async/8,overcommit=2.0"


def test_a_task_of_ones_own_has_the_frames_that_were_given() -> None:
    loop = backends.get("for-loop")
    own = make_cell("laptop", "gym", "mine:My-v0", loop, 1, {}, 2.0)
    assert (own.frame_skip, type(own.frame_skip)) == (2, int)
    assert make_cell("laptop", "gym", "mine:My-v0", loop, 1, {}).frame_skip == 1
    assert make_cell("laptop", "mujoco", "Ant-v3", loop, 1, {}).frame_skip == 5


# ---------------------------------------------------------------- identity


def test_the_same_question_gives_the_same_spec_whenever_and_wherever_it_is_asked() -> None:
    later = {**IDENTITY, "plan_id": "p2", "started_utc": "later", "fingerprint": "other"}
    assert make_plan([cell()], Measure(), **later).spec == plan().spec


@pytest.mark.parametrize(
    "other",
    [
        {"duration_s": 41.0},
        {"total_steps": 100},
        {"repeats": 4},
        {"quick": True},
        {"seed": 1},
        {"cells": [cell(numenv=3)]},
        {"cells": [cell(task="Breakout-v5")]},
        {"cells": [cell(actions="constant")]},
        {"cells": [cell(), cell("subprocess")]},
    ],
)
def test_another_question_gives_another_spec(other: dict[str, Any]) -> None:
    assert plan(**other).spec != plan().spec


def test_a_spec_does_not_depend_on_the_process_that_computes_it() -> None:
    code = "import test_plan; print(test_plan.plan([test_plan.cell('envpool-async', 8)]).spec)"
    specs = set()
    for seed in ("1", "2"):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        asked = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        specs.add(asked.stdout)
    assert specs == {plan([cell("envpool-async", 8)]).spec + "\n"}


# ---------------------------------------------------------------- what remains


def run(of: Plan, round_: int, which: Cell, reason: str | None = None, **given: Any) -> Run:
    failure = Failure(reason=reason, message="…") if reason else None  # type: ignore[arg-type]
    values = {
        "run_id": f"r{round_}",
        "plan_id": of.plan_id,
        "round": round_,
        "cell": which,
        "seed": 0,
        "started_utc": "now",
        "fingerprint": "f",
        "runtime": "",
        "failure": failure,
    }
    return Run(**{**values, **given})


WHOLE = plan([cell(), cell("subprocess"), cell("envpool-async", 8)], repeats=4)
ORDER = order_of(WHOLE)


@given(done=st.sets(st.integers(0, len(ORDER) - 1)), stopped=st.sets(st.integers(0, 11)))
def test_what_remains_is_what_has_no_finished_run(done: set[int], stopped: set[int]) -> None:
    runs = [run(WHOLE, *ORDER[i]) for i in done]
    runs += [run(WHOLE, *ORDER[i], "interrupted") for i in stopped]
    assert remaining(WHOLE, ORDER, runs) == sorted(set(range(len(ORDER))) - done)


@given(failed=st.sets(st.integers(0, len(ORDER) - 1), max_size=2))
def test_a_failed_run_ends_its_cell_and_no_other(failed: set[int]) -> None:
    runs = [run(WHOLE, *ORDER[i], "signal") for i in failed]
    over = [ORDER[i][1] for i in failed]
    left = [ORDER[i][1] for i in remaining(WHOLE, ORDER, runs)]
    assert left == [each for _, each in ORDER if each not in over]


def test_runs_of_another_plan_count_for_nothing() -> None:
    others = [run(WHOLE, round_, each, plan_id="p0") for round_, each in ORDER]
    assert len(remaining(WHOLE, ORDER, others)) == len(ORDER)


def test_cells_that_differ_in_a_setting_only_are_not_taken_for_one_another() -> None:
    made = plan([cell("envpool-async", 8), cell("envpool-async", 8, threads="1")], repeats=1)
    order = order_of(made)
    (left,) = remaining(made, order, [run(made, 0, made.cells[0])])
    assert order[left][1] == made.cells[1]


def test_a_run_that_was_read_back_from_a_file_is_recognised() -> None:
    written = [msgspec.json.encode(run(WHOLE, round_, each)) for round_, each in ORDER[:3]]
    runs = [msgspec.json.decode(line, type=Run) for line in written]
    assert remaining(WHOLE, ORDER, runs) == list(range(3, len(ORDER)))
    assert not any(interrupted(each) for each in runs)
