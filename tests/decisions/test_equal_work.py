"""Equal work: what the comparison of two backends finds, and the verdict on it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from helpers.record_factories import make_agreement, make_cell, make_verification

from envbench import families
from envbench.decisions.agreement import compared
from envbench.decisions.equal_work import counts_agree, judge
from envbench.decisions.ledger import differences
from envbench.decisions.responses import TOGETHER, responds
from envbench.decisions.trace_file import Trace, read_trace
from envbench.decisions.traces import compare
from envbench.families import Standard
from envbench.model import (
    Agreement,
    Apart,
    Audit,
)


def standard(family: str) -> Standard:
    return families.get(family).standards["env"]


def trace(
    seed: int = 0, steps: int = 1200, shape: tuple[int, ...] = (27,), environments: int = 2
) -> Trace:
    rng = np.random.default_rng(seed)
    observations = rng.normal(size=(steps, environments, *shape))
    observations[: steps // 2] = observations[: steps // 2, :1]
    return Trace(
        observations=observations,
        rewards=rng.normal(size=(steps, environments)),
        ended=np.zeros((steps, environments), np.bool_),
        start=np.zeros((1, environments, *shape)),
    )


# ---------------------------------------------------------------- comparing


def test_every_step_of_every_environment_is_compared() -> None:
    predicted, own = trace(), trace()
    same = compare(standard("atari"), predicted, own)
    assert (same.steps, same.first_difference) == (1200, None)
    later = replace(trace(), start=np.full((1, 2, 27), 0.1))
    assert compare(standard("mujoco"), trace(), later).first_difference == -1
    assert {each.largest for each in (*same.observations, *same.rewards)} == {0.0}
    assert compared(standard("atari"), same) == (
        True, "equal exactly, in 1,200 steps of each of 2 environments; no episode ended",
    )  # fmt: skip
    own.observations[700, 1, 5] += 3.0
    apart = compare(standard("atari"), predicted, own)
    assert [each.largest for each in apart.observations] == [0.0, pytest.approx(3.0)]
    assert compared(standard("atari"), apart) == (
        False, "differs from step 701 on, by 3 grey levels, in environment 1 only (of 0 to 1)",
    )  # fmt: skip


def test_a_difference_names_the_environments_if_it_is_not_in_all_of_them() -> None:
    def says(differing: Sequence[int], of: int) -> str:
        own = trace(environments=of)
        own.observations[3:, list(differing), 5] += 3.0
        found = compare(standard("atari"), trace(environments=of), own)
        return compared(standard("atari"), found)[1].partition(" grey levels")[2]

    assert says([0, 1, 2], 3) == ""
    assert says([2], 4) == ", in environment 2 only (of 0 to 3)"
    assert says([0, 3], 4) == ", in environments 0 and 3 only (of 0 to 3)"
    assert says([0, 1, 2, 3], 8) == ", in 4 of 8 environments"


def test_rewards_that_differ_a_little_are_named_beside_equal_observations() -> None:
    predicted, own = trace(), trace()
    own.rewards[:, 1] += 0.003
    assert compared(standard("mujoco"), compare(standard("mujoco"), predicted, own)) == (
        True,
        "observations equal exactly, rewards within 0.003, in 1,200 steps of each of "
        "2 environments; no episode ended",
    )


def test_another_build_of_an_engine_may_differ_in_three_of_a_hundred_steps() -> None:
    for share, answer in ((0.02, True), (0.04, False)):
        predicted, own = trace(), trace()
        own.observations[: round(1200 * share), 1] += 1.0
        found = compare(standard("mujoco"), predicted, own)
        other = msgspec.structs.replace(found, same_engine=False)
        assert compared(standard("mujoco"), other)[0] is answer
        assert compared(standard("mujoco"), found)[0] is False


@pytest.mark.parametrize(("apart", "same"), [(1e-7, True), (1e-5, False)])
def test_with_the_same_build_of_an_engine_every_step_is_almost_exact(
    apart: float, same: bool
) -> None:
    predicted, own = trace(), trace()
    own.observations[700, 1] += apart
    found = compare(standard("mujoco"), predicted, own)
    assert compared(standard("mujoco"), found)[0] is same
    other = msgspec.structs.replace(found, same_engine=False)
    assert compared(standard("mujoco"), other)[0] is True


def test_contact_forces_are_not_compared() -> None:
    predicted, own = trace(shape=(111,)), trace(shape=(111,))
    own.observations[:, :, 27:] = 0.0
    found = compare(standard("mujoco"), predicted, own)
    assert {each.largest for each in found.observations} == {0.0}


def test_frames_of_a_stack_from_before_an_episode_are_zero_or_its_first() -> None:
    predicted, own = (trace(shape=(4, 6, 6), steps=20) for _ in range(2))
    own.start[0, :, :3] = 0.0  # some libraries repeat the first frame, others have zeros
    own.observations[0, :, :2] = 0.0
    own.observations[1, :, :1] = 0.0
    for each in (predicted, own):
        each.ended[9, 0] = True  # the next step resets
    own.observations[10, 0, :3] = own.observations[10, 0, 3]
    own.observations[11, 0, :2] = own.observations[11, 0, 2]
    found = compare(standard("atari"), predicted, own)
    assert {each.largest for each in found.observations} == {0.0}
    stale = replace(own, observations=own.observations.copy())
    stale.observations[11, 0, :2] += 60.0  # of the last game
    assert compare(standard("atari"), predicted, stale).observations[0].largest > 50.0
    own.observations[12, 0, 1, 3, 3] += 60.0  # seen in this episode
    assert compare(standard("atari"), predicted, own).observations[0].largest > 50.0


def test_a_step_that_only_resets_is_not_a_transition() -> None:
    for same_step in (False, True):
        predicted, own = (replace(trace(), same_step=same_step) for _ in range(2))
        predicted.ended[5] = own.ended[5] = True
        predicted.rewards[6] += 1.0
        found = compare(standard("atari"), predicted, own)
        assert (found.ends, found.other_ends, found.steps) == (2, 0, 1199)
        assert found.rewards[0].largest == pytest.approx(1.0 if same_step else 0.0)


def test_an_episode_must_begin_where_the_reference_can_begin() -> None:
    predicted, own = trace(), trace()
    own.start[0, 1] += 1.0
    found = compare(standard("mujoco"), predicted, own)
    assert compared(standard("mujoco"), found) == (
        False, "episodes begin where the reference's cannot: 1 apart",
    )  # fmt: skip


def test_an_episode_that_ends_in_another_step_is_different_work() -> None:
    predicted, own = trace(), trace()
    own.ended[1, 0] = True
    own.ended[50, 1] = predicted.ended[50, 1] = True
    apart = compare(standard("atari"), predicted, own)
    assert (apart.ends, apart.reference_ends, apart.other_ends) == (2, 1, 1)
    assert compared(standard("atari"), apart) == (
        False, "2 of its episodes and 1 of the reference's end, 1 on one side only",
    )  # fmt: skip


def test_of_ten_ends_one_may_be_a_close_call_in_another_build_of_an_engine() -> None:
    for missing, answer in ((1, True), (2, False)):
        predicted, own = trace(), trace()
        predicted.ended[100:1100:100, 0] = own.ended[100:1100:100, 0] = True
        predicted.ended[100 : 100 + 100 * missing : 100, 0] = False
        found = compare(standard("mujoco"), predicted, own)
        found = msgspec.structs.replace(found, same_engine=False)
        assert compared(standard("mujoco"), found)[0] is answer


def test_a_short_trace_decides_nothing_and_a_narrow_or_empty_one_is_refused() -> None:
    short = compare(standard("atari"), trace(steps=999), trace(steps=999))
    assert compared(standard("atari"), short) == (
        None, "compared for 999 steps only (required: 1000)",
    )  # fmt: skip
    with pytest.raises(ValueError, match="no step"):
        compare(standard("mujoco"), trace(steps=0), trace(steps=0))
    with pytest.raises(ValueError, match="has 5 steps, its reference 1200"):
        compare(standard("mujoco"), trace(), trace(steps=5))
    full = trace()
    narrow = replace(
        full, observations=full.observations[:, :1], rewards=full.rewards[:, :1],
        ended=full.ended[:, :1], start=full.start[:, :1],
    )  # fmt: skip
    with pytest.raises(ValueError, match="1 of 2 environments"):
        compare(standard("mujoco"), trace(), narrow)


def test_nan_and_infinity_count_as_the_largest_distance() -> None:
    predicted, own = trace(), trace()
    own.observations[0] = np.nan
    own.rewards[1] = np.inf
    apart = compare(standard("mujoco"), predicted, own)
    assert apart.observations[0].largest == apart.rewards[0].largest == 1e308
    msgspec.json.encode(apart)
    assert compared(standard("mujoco"), apart)[0] is False  # although it is one step of 1,200


def test_observations_of_different_shapes_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="cannot be compared"):
        compare(standard("gym"), trace(shape=(3,)), trace(shape=(4,)))


def begun(own: list[int], seed: int = 0) -> float:
    """The probability of these starts, given by number, where the reference has 100 others."""
    mine = np.stack([np.random.default_rng([seed, each]).normal(size=2) for each in own])
    theirs = np.stack([np.random.default_rng([9, each]).normal(size=2) for each in range(100)])
    predicted = replace(trace(steps=100, shape=(2,)), begun=mine, starts=theirs)
    return compare(standard("mujoco"), predicted, trace(steps=100, shape=(2,))).p_values["start"]


def test_honest_starts_are_as_different_as_the_references() -> None:
    assert min(begun(list(range(8)), seed) for seed in range(100, 150)) > 1e-3


@pytest.mark.parametrize("own", [[1] * 8, [1, 2, 3, 4, 5, 6, 7, 7]])
def test_starts_from_a_cache_are_noticed(own: list[int]) -> None:
    assert begun(own) < 1.1e-4


@pytest.mark.parametrize("raw", [b"", b"PK\x03\x04", b"\x80\x04."])
def test_a_file_that_is_not_a_trace_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match="trace"):
        read_trace(raw)


def test_a_trace_is_never_a_pickle() -> None:
    file = io.BytesIO()
    np.savez(file, observations=np.array([object()]), rewards=[0], ended=[0], start=[0])
    with pytest.raises(ValueError, match=r"allow_pickle|trace"):
        read_trace(file.getvalue())


def test_an_environment_that_does_not_move_or_ignores_actions_does_not_respond() -> None:
    moving = trace(steps=100)
    assert responds(moving, 50)
    assert not responds(moving, 51)  # the same actions must give the same observations
    still = replace(moving, observations=np.zeros((100, 2, 5)))
    assert not responds(still, 50)
    assert responds(still, 0) is None  # it may be a task that repeats its observations
    deaf = replace(moving, observations=np.repeat(moving.observations[:, :1], 2, axis=1))
    assert not responds(deaf, 50)
    lost = moving.observations.copy()
    lost[5:] = np.nan
    for none in (lost, moving.observations[:1], moving.observations[:0], lost[:, :, :0]):
        assert not responds(replace(moving, observations=none), 50)


@pytest.mark.parametrize(
    ("alike", "other", "ok"),
    [(1e-4, 2.0, True), (2.0, 2000.0, True), (2.0, 20.0, False), (9, 9, False)],
)
def test_a_gpu_may_round_differently_in_each_environment(
    alike: float, other: float, ok: bool
) -> None:
    """Distances of Brax's ants on an H100, times 1000: 2 with the same actions after five steps.
    If they ignored their actions, they would be 20 apart after five more."""
    moving = trace(steps=100)
    observations = np.repeat(np.random.default_rng(1).normal(size=(100, 1, 27)), 4, axis=1)
    observations[4, 1:, 3] += np.array([0.1, 0.5, 1.0]) * alike / 1000
    observations[5:, 1:, 3] += np.array([1.0, 2.0, 3.0]) * other / 1000
    assert responds(replace(moving, observations=observations), TOGETHER) is ok


def test_without_equal_actions_nothing_shows_that_observations_follow_them() -> None:
    apart = trace(steps=100)
    apart.observations[:50, 1] += 1.0  # the environments do not start alike
    assert responds(apart, 0) is None


@pytest.mark.parametrize(
    ("audit", "skip", "says"),
    [
        (Audit(calls=20, steps=20, resets=0, frames=80.0), 4, True),
        (Audit(calls=20, steps=20, resets=0, frames=81.0), 4, False),
        (Audit(calls=20, steps=20, resets=0, frames=0.4), 0.01, False),  # 0.2 frames are claimed
        (Audit(calls=10, steps=9, resets=1, frames=36.0), 4, True),
        (Audit(calls=10, steps=9, resets=0, frames=36.0), 4, False),  # a call returned nothing
        (Audit(calls=0, steps=0, resets=0, frames=0.0), 4, False),
        (Audit(calls=20, steps=20, resets=0, frames=None), 4, None),
    ],
)
def test_a_count_is_right_only_if_the_environments_made_as_many_frames(
    audit: Audit, skip: float, says: bool | None
) -> None:
    assert counts_agree(audit, skip) is says


@pytest.mark.parametrize(
    ("frames", "answer"), [(80.0, True), (80.4, True), (84.0, False), (160.0, False), (None, None)]
)
def test_a_claim_must_equal_what_the_environments_counted(
    frames: float | None, answer: bool | None
) -> None:
    assert counts_agree(Audit(calls=20, steps=20, resets=0, frames=frames), 4) is answer


# ---------------------------------------------------------------- the settings of a step


def test_differences_list_other_values_and_unreported_ones() -> None:
    wanted = families.get("atari").work["env"]
    assert differences("atari", "env", wanted) == {}
    other = {**wanted, "fire_reset": True, "sticky": 0.25}
    del other["noop_max"]
    assert differences("atari", "env", other) == {
        "noop_max": (30, "unknown"),
        "fire_reset": (False, True),
        "sticky": (0.0, 0.25),
    }


def test_another_task_is_not_compared_with_the_default_tasks_time_steps() -> None:
    work = {**families.get("mujoco").work["env"], "timestep_s": 0.002, "observation_shape": [17]}
    assert differences("mujoco", "env", work, task="Walker2d-v3") == {}
    assert set(differences("mujoco", "env", work, task="Ant-v3")) == {
        "timestep_s", "observation_shape",
    }  # fmt: skip


# ---------------------------------------------------------------- the verdict


def test_equal_work_gets_a_tick() -> None:
    verdict = judge(make_verification())
    assert (verdict.badge, verdict.refused, verdict.unequal) == ("✓", False, False)
    assert verdict.audit == "80 frames of 1 environment, counted again by the emulator"
    assert verdict.lock_step == "equal exactly, in 1,200 steps of 1 environment; no episode ended"


def test_a_lock_step_that_ended_early_decides_nothing() -> None:
    verdict = judge(make_verification(agreement=make_agreement(steps=2)))
    assert (verdict.badge, verdict.lock_step) == ("–", "compared for 2 steps only (required: 1000)")


def test_observations_of_another_shape_are_other_work_and_no_lie_if_they_are_reported() -> None:
    work = families.get("atari").work["env"]
    unseen = Agreement(reference="for-loop", other_shape=[84, 84])
    verdict = judge(
        make_verification(agreement=unseen, work={**work, "observation_shape": [84, 84]})
    )
    assert (verdict.badge, verdict.refused) == ("≠", False)
    assert verdict.lock_step == (
        "its observations have another shape (84×84): its steps cannot be compared"
    )
    assert verdict.differences == ["observation_shape: 84×84 (not 4×84×84)"]
    lie = judge(make_verification(agreement=unseen, work=dict(work)))
    assert (lie.badge, lie.refused) == ("✗", True)
    followed = make_agreement(other_shape=[27])
    assert compared(standard("mujoco"), followed) == (
        False, "its observations have another shape (27)",
    )  # fmt: skip


def test_small_differences_may_grow_within_a_call_of_several_steps() -> None:
    predicted, own = (replace(trace(), at=np.cumsum([1, 40] * 600) - 1) for _ in range(2))
    own.observations[1::2] += 2e-4  # after calls of 40 steps
    rule = standard("mujoco")
    found = compare(rule, predicted, own)
    assert found.in_calls == pytest.approx(2e-4)
    of_a_spot_check = rule.of(same_engine=True, rounded=False)
    for each in (rule, of_a_spot_check):
        assert compared(each, found)[0] is True
    own.observations[1] += 0.03
    same, text = compared(rule, compare(rule, predicted, own))
    assert (same, text) == (False, "differs by 0.03 after calls of several steps")
    own.observations[2] += 2e-4  # after a call of one
    assert "differs, by 0.0002" in compared(rule, compare(rule, predicted, own))[1]


def test_a_backend_whose_steps_overwrite_its_observations_is_refused() -> None:
    verdict = judge(make_verification(agreement=make_agreement(reused=True)))
    assert (verdict.badge, verdict.refused) == ("✗", True)
    assert "overwrite the results" in verdict.lock_step


def test_more_results_than_the_calls_can_give_are_refused() -> None:
    many = Audit(calls=10, steps=11, resets=0, frames=44.0, counted_by="the emulator")
    verdict = judge(make_verification(audit=many))
    assert verdict.badge == "✗"
    assert verdict.audit == "claims 11 results, and its calls give at most 10"


def test_an_adapter_that_counts_twice_itself_has_no_second_count() -> None:
    own = Audit(calls=20, steps=20, resets=0, frames=80.0)
    verdict = judge(make_verification(audit=own))
    assert (verdict.badge, verdict.audit) == ("–", "only the adapter counts its steps")


def test_a_claim_that_differs_is_refused() -> None:
    verdict = judge(make_verification(audit=Audit(calls=40, steps=40, resets=0, frames=80.0)))
    assert (verdict.badge, verdict.refused) == ("✗", True)
    assert verdict.audit == "claims 160 frames, its environments made 80"


def test_a_backend_without_a_recorded_trace_is_not_verified() -> None:
    verdict = judge(make_verification(agreement=None, responds=None))
    assert (verdict.badge, verdict.refused, verdict.unequal) == ("–", False, False)
    assert "not compared" in verdict.lock_step


def test_a_backend_that_reports_other_work_is_not_equal() -> None:
    work = dict(families.get("atari").work["env"])
    assert judge(make_verification(work=work)).badge == "✓"
    assert judge(make_verification(work={**work, "stack": 1})).badge == "≠"
    reported = {
        **work,
        "autoreset": "same-step",
        "returned_to": "device",
        "observation_dtype": "int8",
    }
    assert judge(make_verification(work=reported)).badge == "✓"
    del work["max_pool"]  # unknown
    assert judge(make_verification(work=work)).badge == "✓"


def test_another_engine_is_named_and_not_refused() -> None:
    verdict = judge(make_verification(make_cell("brax", env="mujoco"), agreement=None))
    assert (verdict.refused, verdict.unequal) == (False, False)
    assert "not compared: another engine" in verdict.lock_step
    assert "a reset repeats the first state" in verdict.lock_step  # Brax's cached auto-reset


def test_a_reference_gets_a_tick_even_if_its_task_has_no_common_start() -> None:
    reference = make_cell("for-loop", env="box2d", task="LunarLander-v3", frame_skip=1)
    audit = Audit(calls=20, steps=20, resets=0, frames=20.0, counted_by="simulated time")
    work = dict(families.get("box2d").work["env"])
    verdict = judge(
        make_verification(cell=reference, agreement=None, audit=audit, responds=None, work=work)
    )
    assert (verdict.badge, verdict.lock_step) == (
        "✓",
        "the reference: the others are compared with it",
    )


def test_a_task_with_long_episodes_is_not_compared_and_the_verdict_says_why() -> None:
    own = make_cell("envpool-sync", env="box2d", task="CarRacing-v3", frame_skip=1)
    audit = Audit(calls=20, steps=20, resets=0, frames=20.0, counted_by="simulated time")
    verdict = judge(make_verification(cell=own, agreement=None, audit=audit, responds=None))
    assert (verdict.badge, verdict.unequal) == ("–", False)
    assert verdict.lock_step == (
        "not compared: only episodes of LunarLander-v3, LunarLanderContinuous-v3 and "
        "BipedalWalker-v3 are compared"
    )


def test_too_few_episodes_decide_nothing_and_the_user_learns_how_to_get_more() -> None:
    few = Agreement(reference="for-loop", ends=42, reference_ends=64)
    own = make_cell("subprocess", env="box2d", task="BipedalWalker-v3", frame_skip=1)
    audit = Audit(calls=20, steps=20, resets=0, frames=20.0, counted_by="simulated time")
    verdict = judge(make_verification(cell=own, agreement=few, audit=audit, responds=None))
    assert (verdict.badge, verdict.unequal) == ("–", False)
    assert verdict.lock_step == (
        "compared for 42 and 64 episodes only (required: 300): "
        "verify it with 8 times as many environments (--numenv)"
    )


def test_a_missing_comparison_is_not_called_another_engine() -> None:
    verdict = judge(make_verification(agreement=None))
    assert (verdict.badge, verdict.refused, verdict.unequal) == ("–", False, False)
    assert verdict.lock_step == "not compared: its reference for-loop cannot run here"


@pytest.mark.parametrize(
    ("family", "task"), [("classic_control", "Acrobot-v1"), ("dm_control", "WalkerWalk-v1")]
)
def test_a_task_whose_state_cannot_be_set_is_said_not_to_be_compared(
    family: str, task: str
) -> None:
    audit = Audit(calls=20, steps=20, resets=0, frames=20.0, counted_by="simulated time")
    reference, other = (
        judge(
            make_verification(
                make_cell(name, env=family, task=task, frame_skip=1), audit=audit, agreement=None
            )
        )
        for name in ("for-loop", "subprocess")
    )
    why = f"not compared: envbench cannot put {task} into the state that an observation shows"
    assert (other.badge, other.lock_step) == ("–", why)
    assert reference.lock_step == f"the reference: the others are {why}"
    assert (other.refused, other.unequal) == (False, False)


def test_other_results_with_the_same_settings_are_refused_as_a_false_claim() -> None:
    verdict = judge(make_verification(agreement=make_agreement(3.0, first_difference=1)))
    assert (verdict.badge, verdict.refused, verdict.unequal) == ("✗", True, True)
    assert verdict.lock_step == (
        "differs from step 2 on, by 3 grey levels, although it reports the reference's engine and "
        "settings"
    )


def test_the_step_is_named_unless_a_few_steps_may_differ() -> None:
    """In MuJoCo, that is so with another build of the engine only."""
    same = make_agreement(11.0, first_difference=3)
    other = msgspec.structs.replace(same, same_engine=False)
    assert compared(standard("mujoco"), same)[1].startswith(
        "differs by more than 0.02 from step 4 on, by 11"
    )
    assert compared(standard("mujoco"), other)[1] == "differs, by 11 in nine of ten steps"


def test_episodes_that_do_not_end_are_not_accused_where_the_steps_differ() -> None:
    for apart, accused in ((0.0, True), (11.0, False)):
        found = make_agreement(apart, first_difference=3, within=15, not_reset=1)
        _, text = compared(standard("atari"), found)
        says = "15 episodes of the reference's end within a call, and 1 is not reset there"
        assert (says in text) == accused


def test_other_results_with_other_or_unknown_settings_are_different_work() -> None:
    work = dict(families.get("atari").work["env"])
    for other in ({**work, "stack": 1}, {k: v for k, v in work.items() if k != "max_pool"}):
        verdict = judge(make_verification(agreement=make_agreement(3.0), work=other))
        assert (verdict.badge, verdict.refused, verdict.unequal) == ("≠", False, True)


def test_a_difference_in_the_reward_alone_is_named_as_one() -> None:
    verdict = judge(make_verification(agreement=make_agreement(reward=1.5)))
    assert verdict.lock_step.startswith("differs by 1.5 in the reward, although")


def test_a_number_is_not_equal_to_a_boolean() -> None:
    wanted = families.get("atari").work["env"]
    name = next(name for name, value in wanted.items() if isinstance(value, bool))
    found = differences("atari", "env", {**wanted, name: int(wanted[name])})
    assert found == {name: (wanted[name], int(wanted[name]))}


def test_a_few_steps_that_differ_are_enough_where_every_step_has_to_agree() -> None:
    few = make_agreement(reward=0.5, steps=5)
    exact = Standard(steps=200, tolerance=1e-9, reward_tolerance=1e-9)
    assert compared(exact, few) == (False, "differs by 0.5 in the reward")
    same, text = compared(exact, make_agreement(steps=5))
    assert (same, text) == (None, "compared for 5 steps only (required: 200)")
    loose = msgspec.structs.replace(exact, agreeing=0.9)
    assert compared(loose, few)[0] is None


def test_calls_of_several_steps_are_compared_although_their_distances_grow() -> None:
    close = [Apart(median=1e-5, p90=1e-4, largest=3.0)] * 4
    standard = families.get("mujoco").standards["env"]
    found = make_agreement(steps=1000, observations=close, same_engine=False, longer=5e-4)
    assert compared(standard, found)[0] is True
    same, text = compared(standard, msgspec.structs.replace(found, longer=0.4))
    assert (same, "after calls of several steps" in text) == (False, True)


def test_most_claimed_resets_have_to_be_seen() -> None:
    audit = {
        "calls": 400,
        "steps": 390,
        "resets": 10,
        "frames": 1560.0,
        "counted_by": "the library",
    }
    for seen, refused in ((56, False), (49, False), (28, True)):
        made = Audit(**audit, resets_claimed=56, resets_seen=seen)
        assert judge(make_verification(audit=made)).refused is refused


def test_the_first_difference_is_named_as_the_usual_rule_found_it() -> None:
    predicted, own = trace(), trace()
    own.observations[500, 1] += 1e-3
    found = compare(standard("mujoco"), predicted, own)
    assert compared(standard("mujoco"), found)[1].startswith("differs, by 0.001")
    own.observations[700, 1] += 1.0
    found = compare(standard("mujoco"), predicted, own)
    named = "differs by more than 0.02 from step 701 on, by 1, in environment 1 only"
    assert compared(standard("mujoco"), found)[1].startswith(named)


def test_without_a_second_count_the_bounds_of_a_claim_still_hold() -> None:
    many = Audit(calls=10, steps=11, resets=0, frames=None)
    assert judge(make_verification(audit=many)).badge == "✗"
    few = Audit(calls=10, steps=10, resets=0, frames=None)
    assert judge(make_verification(audit=few)).badge == "–"


def test_a_reference_whose_observations_do_not_change_is_not_refused() -> None:
    reference = make_cell("for-loop")
    assert judge(make_verification(cell=reference, agreement=None, responds=False)).badge == "✓"
    assert judge(make_verification(agreement=None, responds=False)).badge == "✗"


def test_where_both_start_from_one_seed_the_task_may_be_the_reason_for_a_difference() -> None:
    own = make_cell("subprocess", env="gym", task="my_package:MyEnv-v0", frame_skip=1)
    audit = Audit(calls=20, steps=20, resets=0, frames=20.0, counted_by="simulated time")
    verdict = judge(
        make_verification(cell=own, agreement=make_agreement(3.0), audit=audit, work={})
    )
    assert verdict.lock_step.endswith("(or the task does not repeat with its seed)")


def test_where_both_start_from_one_seed_only_the_first_difference_is_named() -> None:
    own = make_cell("subprocess", env="gym", task="CartPole-v1", frame_skip=1)

    def text(**given: Any) -> str:
        found = make_agreement(3.0, start=2.0, repeats=True, other_ends=5, ends=9, **given)
        return judge(make_verification(cell=own, agreement=found, work={})).lock_step

    seed = "although both started from the same seed"
    differ = "its observations and ends of episodes differ"
    assert text(first_difference=3) == f"{differ} from step 4 on, {seed}"
    begins = f"in step 31, an episode begins differently, {seed}"
    assert text(first_difference=30, begins=True) == begins


def test_a_first_difference_where_an_episode_begins_is_known() -> None:
    predicted, own = trace(), trace()
    for each in (predicted, own):
        each.ended[699] = True
    own.observations[700:] += 3.0
    found = compare(standard("mujoco"), predicted, own)
    assert (found.first_difference, found.begins) == (700, True)
    for each in (predicted, own):
        each.ended[699, 1] = False
    assert not compare(standard("mujoco"), predicted, own).begins


def test_a_reference_that_never_reaches_the_first_states_gives_one_reason() -> None:
    own = replace(trace(), start=np.full((1, 2, 27), 0.9), observations=trace().observations + 0.9)
    own.rewards[:] += 1.0
    found = compare(standard("mujoco"), trace(), own)
    same, text = compared(standard("mujoco"), found)
    elsewhere = "episodes begin where the reference's cannot: 0.9 apart"
    reason = f"{elsewhere}, and no step could be compared"
    assert (same, text) == (False, reason)
    found = compare(standard("mujoco"), trace(), replace(own, reused=True))
    overwrites = "its steps overwrite the results that the steps before them returned"
    assert compared(standard("mujoco"), found) == (False, f"{overwrites}; {reason}")


def test_episodes_that_end_only_within_longer_calls_are_not_enough() -> None:
    """The reason of an end and its last reward are not compared there."""
    exact = Standard(steps=200, tolerance=1e-9, reward_tolerance=1e-9)
    hidden = make_agreement(ends=0, within=16)
    verdict = judge(make_verification(agreement=hidden))
    assert verdict.lock_step == "not decided: episodes ended only within calls of several steps"
    assert (verdict.badge, verdict.refused) == ("–", False)
    assert compared(exact, hidden)[0] is True  # of a spot check, which is short
    same, text = compared(exact, make_agreement(steps=400, ends=4, within=16))
    assert same is True
    assert text.endswith("; 4 episodes ended and 16 more within calls of several steps")


def test_a_setting_that_changes_the_work_is_a_difference() -> None:
    cell = make_cell(settings={"actions": "constant"}, variant={"actions": "constant"})
    assert "actions: constant (not bank)" in judge(make_verification(cell)).differences


def test_97_of_100_steps_have_to_agree_where_the_record_has_this_quantile() -> None:
    standard = families.get("mujoco").standards["env"]
    close = {"median": 0.0, "p90": 1e-4, "largest": 3.0}
    for p97, same, says in (
        (0.5, False, "differs, by 0.5 in 97 of 100 steps"),
        (0.01, True, "equal within 0.01 in 97 of 100 steps"),
        (None, True, "equal within 0.0001 in nine of ten steps"),  # an older record
    ):
        found = make_agreement(
            steps=1000, observations=[Apart(**close, p97=p97)] * 4, same_engine=False
        )
        verdict = compared(standard, found)
        assert verdict[0] is same
        assert verdict[1].startswith(says)
