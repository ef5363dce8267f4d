"""Equal work: what the comparison of two backends finds, and the verdict on it."""

from __future__ import annotations

import io
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from helpers.record_factories import make_cell, make_verification

from envbench import families
from envbench.decisions import traces
from envbench.decisions.equal_work import compared, differences, judge
from envbench.decisions.traces import (
    Trace,
    agreed,
    compare,
    moves_on,
    read_trace,
    responds,
)
from envbench.families import Standard
from envbench.model import (
    Agreement,
    Audit,
)


def standard(family: str) -> Standard:
    return families.get(family).standards["env"]


def trace(seed: int = 0, steps: int = 100, shape: tuple[int, ...] = (27,)) -> Trace:
    rng = np.random.default_rng(seed)
    observations = rng.normal(size=(steps, 2, *shape))
    observations[: steps // 2] = observations[: steps // 2, :1]
    return Trace(
        observations=observations,
        rewards=rng.normal(size=(steps, 2)),
        ended=np.zeros((steps, 2), np.bool_),
    )


# ---------------------------------------------------------------- comparing


def test_traces_agree_up_to_the_first_step_that_differs() -> None:
    reference, own = trace(), trace()
    same = compare(standard("mujoco"), reference, own)
    assert set(same.distances) == {0.0}
    assert same.same_ends
    assert compared(standard("mujoco"), same)[0] is True
    own.observations[2, 1, 5] += 0.01
    apart = compare(standard("mujoco"), reference, own)
    assert agreed(standard("mujoco"), apart) == 2
    assert compared(standard("mujoco"), apart)[0] is False


def test_contact_forces_are_not_compared() -> None:
    reference, own = trace(shape=(111,)), trace(shape=(111,))
    own.observations[:, :, 27:] = 0.0
    assert max(compare(standard("mujoco"), reference, own).distances) == 0.0


def test_frames_of_a_stack_from_before_the_first_step_are_not_compared() -> None:
    reference, own = trace(shape=(4, 84, 84)), trace(shape=(4, 84, 84))
    own.observations[:3, :, :3] = 0.0  # frames from before the first step: each library has its own
    own.observations[4, 0, 3, 7, 7] += 50.0  # one pixel of the newest frame
    own.observations[6, 1, 0, 7, 7] += 60.0  # one pixel of the oldest frame
    apart = compare(standard("atari"), reference, own)
    assert apart.distances[:4] == [0.0] * 4
    assert apart.distances[4] == pytest.approx(50.0)
    assert apart.distances[6] == pytest.approx(60.0)
    assert agreed(standard("atari"), apart) == 4


def test_an_episode_that_ends_in_another_step_is_different_work() -> None:
    reference, own = trace(), trace()
    own.ended[1, 0] = True
    apart = compare(standard("mujoco"), reference, own)
    assert (apart.same_ends, apart.first_other_end) == (False, 1)
    assert compared(standard("mujoco"), apart)[0] is False
    own.ended[:] = False
    own.ended[10, 0] = True  # later than the steps that must agree
    later = compare(standard("mujoco"), reference, own)
    assert compared(standard("mujoco"), later)[0] is True


def test_a_short_trace_decides_nothing_and_a_narrow_or_empty_one_is_refused() -> None:
    brief = Trace(**{name: array[:2] for name, array in vars(trace()).items()})
    short = compare(standard("atari"), trace(), brief)
    assert compared(standard("atari"), short)[0] is None
    for steps, answer in ((5, None), (99, None), (100, True)):
        found = compare(standard("mujoco"), trace(steps=steps), trace(steps=steps))
        assert compared(standard("mujoco"), found)[0] is answer
    with pytest.raises(ValueError, match="no step"):
        compare(standard("mujoco"), trace(), trace(steps=0))
    narrow = Trace(**{name: array[:, :1] for name, array in vars(trace()).items()})
    with pytest.raises(ValueError, match="1 of 2 environments"):
        compare(standard("mujoco"), trace(), narrow)


def test_every_environment_must_still_move_at_the_end() -> None:
    reference, own = trace(), trace()
    assert moves_on(compare(standard("mujoco"), reference, own))
    own.observations[3:, 1] *= 0.5
    assert not moves_on(compare(standard("mujoco"), reference, own))


def test_a_row_that_equals_the_reference_throughout_need_not_move_as_far_as_the_others() -> None:
    """A car in a valley may lie nearly still, in the reference as well."""
    reference, own = trace(steps=200), trace(steps=200)
    for each in (reference, own):
        each.observations[3:, 1] *= 0.1
    found = compare(standard("classic_control"), reference, own)
    assert found.late_movement is None
    assert moves_on(found)
    own.observations[150:, 1] += 1.0
    assert not moves_on(compare(standard("classic_control"), reference, own))


def test_nan_and_infinity_count_as_the_largest_distance() -> None:
    reference, own = trace(), trace()
    own.observations[0] = np.nan
    own.rewards[1] = np.inf
    apart = compare(standard("mujoco"), reference, own)
    assert apart.distances[0] == apart.reward_distances[1] == 1e308
    msgspec.json.encode(apart)


def test_observations_of_different_shapes_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="cannot be compared"):
        compare(standard("gym"), trace(shape=(3,)), trace(shape=(4,)))


@pytest.mark.parametrize("raw", [b"", b"PK\x03\x04", b"\x80\x04."])
def test_a_file_that_is_not_a_trace_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match="trace"):
        read_trace(raw)


def test_a_trace_is_never_a_pickle() -> None:
    file = io.BytesIO()
    np.savez(file, observations=np.array([object()]), rewards=[0], ended=[0])
    with pytest.raises(ValueError, match=r"allow_pickle|trace"):
        read_trace(file.getvalue())


def test_an_environment_that_does_not_move_or_ignores_actions_does_not_respond() -> None:
    moving = trace()
    assert responds(moving, 50)
    assert not responds(moving, 51)  # the same actions must give the same observations
    still = replace(moving, observations=np.zeros((100, 2, 5)))
    assert not responds(still, 50)
    assert responds(still, 0) is False
    deaf = replace(moving, observations=np.repeat(moving.observations[:, :1], 2, axis=1))
    assert not responds(deaf, 50)
    lost = moving.observations.copy()
    lost[5:] = np.nan
    for none in (lost, moving.observations[:1], moving.observations[:0], lost[:, :, :0]):
        assert not responds(replace(moving, observations=none), 50)


def test_without_equal_actions_nothing_shows_that_observations_follow_them() -> None:
    apart = trace()
    apart.observations[:50, 1] += 1.0  # the environments do not start alike
    assert responds(apart, 0) is None


@pytest.mark.parametrize(
    ("frames", "answer"), [(80.0, True), (80.4, True), (84.0, False), (160.0, False), (None, None)]
)
def test_a_claim_must_equal_what_the_environments_counted(
    frames: float | None, answer: bool | None
) -> None:
    assert traces.counted(Audit(calls=10, steps=20, resets=0, frames=frames), 4) is answer


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
    assert verdict.audit == "80 frames of 1 environment, counted twice"
    assert verdict.lock_step == "equal exactly for 200 of 200 steps (required: 200)"


@pytest.mark.parametrize(
    ("first_end", "says"),
    [
        (16, "16 of 200 steps, until an episode ended (required: 8)"),  # same-step autoreset
        (15, "16 of 200 steps, until an episode ended (required: 8)"),  # next-step autoreset
        (9, "16 of 200 steps (required: 8)"),  # the state diverged long after it
        (None, "16 of 200 steps (required: 8)"),
    ],
)
def test_the_verdict_says_that_an_episode_ended_where_the_comparison_stopped(
    first_end: int | None, says: str
) -> None:
    agreement = Agreement(
        reference="for-loop",
        distances=[0.0] * 16 + [0.3] * 184,
        reward_distances=[0.0] * 200,
        same_ends=True,
        first_end=first_end,
    )
    assert compared(standard("classic_control"), agreement) == (True, f"equal exactly for {says}")


def test_the_first_end_of_both_sides_is_recorded() -> None:
    theirs, own = trace(), trace()
    theirs.ended[3, 0] = own.ended[5, 1] = True  # each on one side only
    assert traces.compare(standard("classic_control"), theirs, own).first_end is None
    theirs.ended[5, 1] = True
    assert traces.compare(standard("classic_control"), theirs, own).first_end == 5


def test_a_lock_step_that_ended_early_decides_nothing() -> None:
    agreement = Agreement(
        reference="for-loop", distances=[0.0] * 2, reward_distances=[0.0] * 2, same_ends=True
    )
    verdict = judge(make_verification(agreement=agreement))
    assert (verdict.badge, verdict.lock_step) == ("–", "compared for 2 steps only (required: 200)")


def test_a_claim_that_differs_is_refused() -> None:
    verdict = judge(make_verification(audit=Audit(calls=10, steps=40, resets=0, frames=80.0)))
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


def test_an_engine_whose_episodes_never_end_is_not_equal() -> None:
    endless = msgspec.structs.replace(make_verification().agreement, ends=0, reference_ends=3)
    verdict = judge(make_verification(agreement=endless))
    assert (verdict.badge, verdict.unequal) == ("≠", True)
    assert verdict.lock_step == "none of its episodes end, but 3 of the reference's do"
    some = msgspec.structs.replace(make_verification().agreement, ends=1, reference_ends=3)
    assert judge(make_verification(agreement=some)).badge == "✓"


def test_another_engine_is_named_and_not_refused() -> None:
    verdict = judge(make_verification(make_cell("brax", env="mujoco"), agreement=None))
    assert (verdict.refused, verdict.unequal) == (False, False)
    assert "not compared: another engine" in verdict.lock_step


def test_a_reference_gets_a_tick_even_if_its_task_has_no_common_start() -> None:
    reference = make_cell("for-loop", env="box2d", task="LunarLander-v3", frame_skip=1)
    audit = Audit(calls=10, steps=20, resets=0, frames=20.0)
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
    audit = Audit(calls=10, steps=20, resets=0, frames=20.0)
    verdict = judge(make_verification(cell=own, agreement=None, audit=audit, responds=None))
    assert (verdict.badge, verdict.unequal) == ("–", False)
    assert verdict.lock_step == (
        "not compared: only episodes of LunarLander-v3, LunarLanderContinuous-v3 and "
        "BipedalWalker-v3 are compared"
    )


def test_too_few_episodes_decide_nothing_and_the_user_learns_how_to_get_more() -> None:
    few = Agreement(
        reference="for-loop",
        distances=[],
        reward_distances=[],
        same_ends=True,
        ends=42,
        reference_ends=64,
    )
    own = make_cell("subprocess", env="box2d", task="BipedalWalker-v3", frame_skip=1)
    audit = Audit(calls=10, steps=20, resets=0, frames=20.0)
    verdict = judge(make_verification(cell=own, agreement=few, audit=audit, responds=None))
    assert (verdict.badge, verdict.unequal) == ("–", False)
    assert verdict.lock_step == (
        "compared for 42 and 64 episodes only (required: 200): "
        "verify it with more environments (--numenv)"
    )


def test_a_missing_comparison_is_not_called_another_engine() -> None:
    verdict = judge(make_verification(agreement=None))
    assert (verdict.badge, verdict.refused, verdict.unequal) == ("–", False, False)
    assert verdict.lock_step == "not compared: its reference for-loop cannot run here"


@pytest.mark.parametrize(
    ("family", "task"), [("classic_control", "Acrobot-v1"), ("dm_control", "WalkerWalk-v1")]
)
def test_a_task_whose_start_cannot_be_set_is_said_not_to_be_compared(
    family: str, task: str
) -> None:
    audit = Audit(calls=10, steps=20, resets=0, frames=20.0)
    reference, other = (
        judge(
            make_verification(
                make_cell(name, env=family, task=task, frame_skip=1), audit=audit, agreement=None
            )
        )
        for name in ("for-loop", "subprocess")
    )
    why = f"not compared: nothing sets a common start of {task}"
    assert (other.badge, other.lock_step) == ("–", why)
    assert reference.lock_step == f"the reference: the others are {why}"
    assert (other.refused, other.unequal) == (False, False)


def test_work_that_differs_from_the_reference_is_unequal() -> None:
    differing = msgspec.structs.replace(make_verification().agreement, distances=[0.0, 3.0, 3.0])
    verdict = judge(make_verification(agreement=differing))
    assert (verdict.badge, verdict.refused, verdict.unequal) == ("≠", False, True)
    assert verdict.lock_step == "differs from step 2 on, by 3 grey levels"


def test_a_difference_in_the_reward_alone_is_named_as_one() -> None:
    agreement = make_verification().agreement
    assert agreement is not None
    rewards = [0.0, 0.0, 1.5, *agreement.reward_distances[3:]]
    verdict = judge(
        make_verification(agreement=msgspec.structs.replace(agreement, reward_distances=rewards))
    )
    assert verdict.lock_step == "differs from step 3 on, by 1.5 in the reward"


def test_a_number_is_not_equal_to_a_boolean() -> None:
    wanted = families.get("atari").work["env"]
    name = next(name for name, value in wanted.items() if isinstance(value, bool))
    found = differences("atari", "env", {**wanted, name: int(wanted[name])})
    assert found == {name: (wanted[name], int(wanted[name]))}
