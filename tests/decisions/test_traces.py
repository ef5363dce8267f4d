"""Traces of two backends compared: whole episodes, and steps that are counted twice."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from envbench import families
from envbench.decisions import responses, starts, traces
from envbench.decisions.agreement import compared
from envbench.decisions.trace_file import Trace, read_trace
from envbench.families import Standard

EPISODES = Standard(reference="for-loop", episodes=2)


def played(lengths: list[int], reward: float = 1.0) -> Trace:
    """One environment with episodes of these lengths, and the same reward in every step."""
    steps = sum(lengths)
    ended = np.zeros((steps, 1), bool)
    ended[np.cumsum(lengths) - 1] = True
    return Trace(
        observations=np.zeros((steps, 1, 2)),
        rewards=np.full((steps, 1), reward),
        ended=ended,
        start=np.zeros((1, 1, 2)),
    )


def test_a_trace_may_have_the_observations_of_its_first_steps_only() -> None:
    arrays = {"rewards": np.zeros((5, 2)), "ended": np.zeros((5, 2), bool)}
    for shape in [(3, 2, 8), (5, 2), (0, 2, 8)]:
        start = np.zeros((1, *shape[1:]))
        assert read_trace(saved(observations=np.zeros(shape), start=start, **arrays))
        with pytest.raises(ValueError, match="not one observation per environment"):
            read_trace(saved(observations=np.zeros(shape), start=start[0], **arrays))
    for shape in [(6, 2, 8), (3, 1, 8), (5,), ()]:
        with pytest.raises(ValueError, match="differ in steps or environments"):
            read_trace(saved(observations=np.zeros(shape), start=0, **arrays))


def test_a_step_begins_an_episode_after_or_with_the_end_of_the_one_before() -> None:
    next_step, same_step = played([2, 3]), replace(played([2, 3]), same_step=True)
    assert next_step.begins[:, 0].tolist() == [False, False, True, False, False]
    assert same_step.begins[:, 0].tolist() == [False, True, False, False, True]


def test_rows_in_which_envbench_reset_begin_episodes_and_are_no_steps() -> None:
    where = np.array([False, False, False, True, False])
    for same_step in (False, True):
        cut = replace(played([2, 3]), same_step=same_step, restarted=where)
        assert cut.begins[3, 0]
        assert not cut.stepped[3, 0]
        assert cut.stepped.sum() == (4 if same_step else 3)


def landers(seed: int, actions: Any, copies: bool = False, deaf: bool = False) -> Trace:
    """Three environments whose observations add up their actions, (steps, environments)."""
    start = np.random.default_rng(seed).normal(size=(1, 3, 1))
    moved = np.zeros_like(actions) if deaf else actions[:, :1] * np.ones(3) if copies else actions
    steps = len(actions)
    return Trace(
        observations=start + np.cumsum(moved, axis=0)[:, :, None],
        rewards=np.zeros((steps, 3)),
        ended=np.zeros((steps, 3), bool),
        start=start,
        actions=actions,
        at=np.arange(steps),
    )


@pytest.mark.parametrize(
    ("given", "seed", "says"),
    [
        ({}, 0, True),
        ({"deaf": True}, 0, False),  # a tape
        ({"copies": True}, 0, False),  # one environment, returned for all
        ({}, 1, None),  # unknown, because it does not repeat
    ],
)
def test_with_one_seed_only_environments_with_other_actions_may_differ(
    given: dict[str, Any], seed: int, says: bool | None
) -> None:
    drawn = np.random.default_rng(5).normal(size=(40, 3))
    together = np.repeat(drawn[:, :1], 3, axis=1)
    trace, again = landers(0, drawn, **given), landers(seed, together, **given)
    rows = np.array([0, 3, 4, 17])  # calls of several steps
    fewer = replace(again, at=rows, observations=again.observations[rows],
                    rewards=again.rewards[rows], ended=again.ended[rows])  # fmt: skip
    for each in (again, fewer):
        assert responses.repeated(trace, each) is says
    assert responses.repeated(trace, replace(again, actions=drawn)) is None


def walked(differs: slice, ends: list[int]) -> Trace:
    """One environment, 1,000 steps of the bank and 1,000 others, which differ by 1 in some."""
    observations, ended = np.zeros((2000, 1, 2)), np.zeros((2000, 1), bool)
    observations[differs], ended[ends] = 1.0, True
    return Trace(
        observations=observations,
        rewards=np.zeros((2000, 1)),
        ended=ended,
        start=np.zeros((1, 1, 2)),
        chosen=1000,
    )


NONE, EVERY = slice(0, 0), Standard(steps=1, tolerance=0.1)


@pytest.mark.parametrize(
    ("differs", "ends", "says"),
    [
        (NONE, [50, 1999], "equal exactly"),
        (slice(100, 190), [50, 1999], "equal exactly"),  # in under a tenth of the first part
        (slice(100, 250), [50, 1999], "differs"),  # in under a tenth of all steps
        (slice(1100, 1250), [50, 1999], "differs"),
        (NONE, [50], "time limit"),  # one of two ends, where one may be on one side only
        (NONE, [1999], "equal exactly"),
    ],
)
def test_the_steps_that_lead_to_the_time_limit_are_judged_by_themselves(
    differs: slice, ends: list[int], says: str
) -> None:
    standard = Standard(steps=900, tolerance=0.1, reward_tolerance=0.1, agreeing=0.9)
    found = traces.compare(standard, walked(NONE, [50, 1999]), walked(differs, ends))
    assert says in compared(standard, found)[1]


def test_a_trace_may_not_say_that_its_last_part_begins_outside_of_it() -> None:
    arrays = {"rewards": np.zeros((5, 2)), "ended": np.zeros((5, 2), bool)}
    arrays |= {"observations": np.zeros((5, 2, 8)), "start": np.zeros((1, 2, 8))}
    assert read_trace(saved(**arrays, chosen=4)).chosen == 4
    for outside in (5, -1, np.inf, [1, 2]):
        with pytest.raises(ValueError, match="trace"):
            read_trace(saved(**arrays, chosen=outside))


def saved(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, same_step=False, **arrays)
    return file.getvalue()


def test_an_episode_has_its_own_length_wherever_it_began() -> None:
    """The same episodes in another order have the same distribution of lengths, but begin at other
    steps."""
    many, fewer = played([5, 50] * 20), played([50] * 20 + [5] * 20)
    found = traces.compare(EPISODES, many, fewer)
    assert (found.ends, found.reference_ends) == (40, 40)
    assert found.p_values == {"length": 1.0, "return": 1.0}


def test_without_a_whole_episode_on_both_sides_nothing_counts_as_alike() -> None:
    endless = played([50])
    endless.ended[:] = False
    found = traces.compare(EPISODES, played([5] * 10), endless)
    assert (found.ends, set(found.p_values.values())) == (0, {0.0})


# ---------------------------------------------------------------- distributions of episodes

BOX2D = Standard(reference="for-loop", episodes=200)


def played_by_chance(seed: int, length: float, reward: float = -1.0, steps: int = 6000) -> Trace:
    """Two environments whose episodes last about ``length`` steps."""
    chance = np.random.default_rng(seed)
    return Trace(
        observations=np.zeros((steps, 2, 8)),
        rewards=reward + chance.normal(0, 1, (steps, 2)),
        ended=chance.random((steps, 2)) < 1 / length,
        start=np.zeros((1, 2, 8)),
    )


def test_equal_distributions_of_episodes_count_as_equal() -> None:
    found = traces.compare(BOX2D, played_by_chance(1, 20), played_by_chance(2, 20))
    assert compared(BOX2D, found)[0] is True
    assert min(found.p_values.values()) > 0.001


@pytest.mark.parametrize(
    ("length", "reward"), [(27, -1.0), (20, -0.5)], ids=["longer episodes", "higher rewards"]
)
def test_different_lengths_or_returns_count_as_unequal(length: float, reward: float) -> None:
    found = traces.compare(BOX2D, played_by_chance(1, 20), played_by_chance(2, length, reward))
    assert compared(BOX2D, found)[0] is False


@pytest.mark.parametrize(("chance", "same"), [(0.00011, True), (0.00009, False)])
def test_distributions_are_equal_above_a_chance_of_one_in_ten_thousand(
    chance: float, same: bool
) -> None:
    found = traces.compare(BOX2D, played_by_chance(1, 20), played_by_chance(2, 20))
    found = msgspec.structs.replace(found, p_values={"length": 0.5, "return": chance})
    assert compared(BOX2D, found)[0] is same


def test_too_few_episodes_decide_nothing() -> None:
    found = traces.compare(
        BOX2D, played_by_chance(1, 20, steps=300), played_by_chance(2, 20, steps=300)
    )
    assert compared(BOX2D, found)[0] is None


def test_in_comparisons_of_episodes_too_the_loop_that_was_compared_is_recorded() -> None:
    own = replace(played_by_chance(2, 20), by_run=False, reused=True)
    found = traces.compare(BOX2D, played_by_chance(1, 20), own)
    assert not found.by_run
    same, text = compared(BOX2D, found)
    assert (same, "overwrite the results" in text) == (False, True)


# ---------------------------------------------------------------- ends within a call


def in_calls(resets: list[int] | None, same_step: bool = False) -> Trace:
    """Two calls of several steps each; the backend counted these resets in them."""
    whole = played([9])
    return replace(
        whole,
        observations=whole.observations[:2],
        rewards=whole.rewards[:2],
        ended=whole.ended[:2],
        same_step=same_step,
        at=np.array([4, 8]),
        resets=None if resets is None else np.array(resets),
    )


@pytest.mark.parametrize(
    ("counted", "not_reset"), [([1, 2], 0), ([2, 2], 0), ([0, 3], 1), ([0, 0], 3)]
)
def test_each_end_within_a_call_has_to_be_counted_as_a_reset(
    counted: list[int], not_reset: int
) -> None:
    found = traces.compare(Standard(), in_calls([1, 2]), in_calls(counted))
    assert (found.within, found.not_reset) == (3, not_reset)
    same, text = compared(Standard(), found)
    assert (same is False) == (not_reset > 0)
    says = "1 is not reset there" if not_reset == 1 else f"{not_reset} are not reset there"
    assert (says in text) == (not_reset > 0)


def test_another_build_may_end_an_episode_a_little_later() -> None:
    standard = Standard(agreeing=0.9)
    assert [standard.not_reset(ends) for ends in (0, 4, 12, 40)] == [2, 2, 3, 10]


def test_ends_within_a_call_are_not_compared_where_resets_are_unknown() -> None:
    found = traces.compare(Standard(), in_calls([1, 2]), in_calls(None))
    assert (found.within, found.not_reset) == (0, 0)


@pytest.mark.parametrize(("counted", "not_reset"), [([1, 3], 0), ([0, 2], 2), ([1, 2], 1)])
def test_where_the_step_of_an_end_also_resets_the_ends_of_the_last_step_count_too(
    counted: list[int], not_reset: int
) -> None:
    ended = np.array([[False], [True]])
    own = replace(in_calls(counted, same_step=True), ended=ended)
    found = traces.compare(Standard(), in_calls([1, 2]), own)
    assert (found.within, found.not_reset) == (3, not_reset)


# ---------------------------------------------------------------- actions

CHANCE = np.random.default_rng(0)
DRAWN = CHANCE.integers(0, 2, (1024, 4))
TORQUES = CHANCE.uniform(-1, 1, (1024, 4, 8))


@pytest.mark.parametrize(
    "actions",
    [
        np.repeat(DRAWN[:16], 64, axis=0),
        np.repeat(DRAWN[:512], 2, axis=0),
        np.repeat(DRAWN[:, :1], 4, axis=1),
        np.repeat(np.arange(1024)[:, None] % 2, 4, axis=1),
        np.repeat(TORQUES[:512], 2, axis=0) * np.resize([1, -1], 1024)[:, None, None],
        np.repeat(TORQUES[..., :1], 8, axis=2),
        np.repeat(TORQUES[..., :1], 8, axis=2) * CHANCE.choice([-1, 1], (1024, 4, 8)),
    ],
    ids=[
        "kept for 64 steps",
        "kept for 2",
        "the same for all",
        "alternating",
        "every other negated",
        "one number for a whole action",
        "one size for a whole action",
    ],
)
def test_actions_that_depend_on_each_other_are_found(actions: Any) -> None:
    trace = replace(played([4]), actions=actions)
    same, text = compared(Standard(), traces.compare(Standard(), trace, trace))
    assert (same, "depend on each other" in text) == (False, True)


@pytest.mark.parametrize("actions", [DRAWN, TORQUES, DRAWN[:60, :1], TORQUES[:20]])
def test_actions_drawn_at_random_do_not_depend_on_each_other(actions: Any) -> None:
    trace = replace(played([4]), actions=actions)
    found = traces.compare(Standard(), trace, trace)
    assert found.actions_related == 0.0
    cycled = replace(trace, actions=np.concatenate([DRAWN, DRAWN, DRAWN]))
    assert traces.compare(Standard(), cycled, cycled).actions_related == 0.0
    assert traces.compare(Standard(), trace, replace(trace, actions=None)).actions_related is None


def test_constant_actions_have_no_relation() -> None:
    trace = replace(played([4]), actions=np.ones((50, 2)))
    assert traces.compare(Standard(), trace, trace).actions_related is None


# ---------------------------------------------------------------- numbers that are none


def test_the_same_infinity_and_two_values_that_are_no_numbers_are_equal() -> None:
    one = replace(played([4]), observations=np.array([[[np.nan, np.inf]]] * 4))
    assert compared(Standard(), traces.compare(Standard(), one, one))[0] is True
    other = replace(one, observations=np.array([[[0.0, np.inf]]] * 4))
    same, text = compared(Standard(), traces.compare(Standard(), one, other))
    assert same is False
    assert "by a value that is not a number" in text


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_a_task_may_repeat_its_observations_or_have_no_numbers_in_them(value: float) -> None:
    still = replace(played([4]), observations=np.full((4, 1, 2), value))
    assert responses.responds(still, 0) is None
    assert responses.responds(still, 2) is False
    assert responses.responds(still, 0, again=True) is False


def test_a_trace_that_begins_in_the_middle_says_which_episodes_had_just_ended() -> None:
    arrays = {
        "observations": np.zeros((3, 2, 1)),
        "rewards": np.zeros((3, 2)),
        "ended": np.zeros((3, 2), bool),
        "start": np.zeros((1, 2, 1)),
    }
    found = read_trace(saved(over=np.array([True, False]), **arrays))
    assert found.begins.tolist() == [[True, False], [False, False], [False, False]]
    assert not replace(found, same_step=True).begins.any()
    with pytest.raises(ValueError, match="how each environment begins"):
        read_trace(saved(over=np.zeros(3, bool), **arrays))


def test_rows_after_steps_without_a_row_show_where_environments_are_and_are_no_steps() -> None:
    between = {
        "ended": np.array([[False, False], [True, False], [False, False]]),
        "entered": np.array([False, True, False]),
    }
    for same_step in (False, True):
        cut = replace(walked(NONE, []), **between, same_step=same_step)
        assert cut.begins[1].all()
        assert not cut.stepped[1].any()
        assert cut.begins[2].tolist() == [not same_step, False]


def test_steps_that_the_reference_could_not_follow_are_no_compared_steps() -> None:
    own = replace(walked(NONE, []), chosen=None)
    steps = len(own.rewards)
    lost = np.zeros(own.rewards.shape, bool)
    lost[: steps - 3] = True
    found = traces.compare(EVERY, replace(own, lost=lost), own)
    assert found.steps == 3
    assert traces.compare(EVERY, own, own).steps == steps


def test_starts_after_the_end_of_an_episode_are_also_compared_by_themselves() -> None:
    chance, count = np.random.default_rng(0), 60
    usual, honest = chance.integers(1, 31, (100, 1)), chance.integers(1, 31, (count, 1))
    automatic = np.arange(count) % 6 == 0
    cheap = np.where(automatic[:, None], 1, honest)  # always one no-op after an end
    own = walked(NONE, [])
    chances = []
    for begun in (honest, cheap):
        theirs = replace(own, begun=begun, starts=usual, automatic=automatic)
        chances.append(traces.compare(EVERY, theirs, own).p_values)
    assert set(chances[0]) == {"start", "automatic start"}
    assert min(chances[0].values()) > 0.001
    assert chances[1]["automatic start"] < 1e-6
    only = replace(own, begun=honest, starts=usual, automatic=np.ones(count, bool))
    assert set(traces.compare(EVERY, only, own).p_values) == {"start"}


@pytest.mark.parametrize("ahead", [-4, -1, 0, 3])
def test_environments_that_begin_alike_are_found_if_one_is_some_episodes_ahead(ahead: int) -> None:
    chance = np.random.default_rng(1)
    usual, shared = chance.integers(1, 31, (100, 1)), chance.integers(1, 31, (24, 1))
    other = np.roll(shared, ahead, axis=0)
    apart = chance.integers(1, 31, (24, 1))
    by = np.repeat([0, 1], 24)
    assert starts.probability(np.concatenate([shared, other]), usual, by, None) < 1e-6
    assert starts.probability(np.concatenate([shared, apart]), usual, by, None) > 0.001


def test_starts_that_spread_half_as_far_are_found() -> None:
    chance = np.random.default_rng(1)
    mine, usual = (chance.uniform(-0.05, 0.05, (count, 4)) for count in (50, 100))
    by = np.arange(50) % 4
    assert starts.probability(mine, usual, by, None) > 0.01
    assert starts.probability(0.5 * mine, usual, by, None) < 1e-4


def test_two_equal_starts_are_chance_where_a_start_is_one_rounded_number() -> None:
    """MountainCar begins at one float32 number from -0.6 to -0.4: in about one of a thousand
    verifications, two of 68 are equal."""
    chance = np.random.default_rng(1)
    one = [chance.uniform(-0.6, -0.4, (count, 1)).astype(np.float32) for count in (68, 100)]
    four = [chance.uniform(-0.05, 0.05, (count, 4)).astype(np.float32) for count in (68, 100)]
    for (mine, usual), once in ((one, 0.001), (four, 0.0)):
        mine[5] = mine[9]
        assert starts.probability(mine, usual, None, None) > once
        assert (starts.probability(mine, usual, None, None) < 1e-4) is (once == 0.0)
        mine[15] = mine[19]
        assert starts.probability(mine, usual, None, None) < 1e-4


# ---------------------------------------------------------------- fewer digits


def stepped(observations: Any, rewards: Any) -> Trace:
    """Two environments, with these observations and rewards in each step."""
    shape = (*rewards.shape, 1)
    return Trace(
        observations=observations.reshape(shape),
        rewards=rewards,
        ended=np.zeros(rewards.shape, bool),
        start=observations.reshape(shape)[:1],
    )


def test_numbers_of_float32_are_compared_as_such() -> None:
    gym = families.get("gym").standards["env"]
    numbers = np.random.default_rng(0).normal(size=(300, 2))
    reference = stepped(numbers, numbers / 3)
    single = stepped(numbers.astype(np.float32), (numbers / 3).astype(np.float32).astype(float))
    assert compared(gym, traces.compare(gym, reference, single))[0] is True
    assert compared(gym, traces.compare(gym, reference, reference))[0] is True
    off = replace(single, rewards=single.rewards * 1.001)
    assert compared(gym, traces.compare(gym, reference, off))[0] is False
    frozen = replace(single, rewards=np.zeros_like(single.rewards))
    assert compared(gym, traces.compare(gym, reference, frozen))[0] is False
    wrong = replace(single, observations=single.observations + np.float32(1e-3))
    assert compared(gym, traces.compare(gym, reference, wrong))[0] is False


def test_two_traces_are_identical_if_rewards_and_ends_are_too() -> None:
    one = stepped(np.ones((4, 2)), np.ones((4, 2)))
    assert traces.identical(one, replace(one, rewards=one.rewards.copy()))
    assert not traces.identical(one, replace(one, rewards=one.rewards + 1e-9))
    assert not traces.identical(one, replace(one, ended=~one.ended))
    assert not traces.identical(one, replace(one, truncated=one.ended))


# ---------------------------------------------------------------- numbers after the state


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({}, False),
        ({"same_engine": False}, True),  # another build's contacts differ
        ({"rounded": True}, True),  # then the reference does not start from the same state
        ({"beside": 1e-9}, True),
        ({"beside": None}, True),  # a record of an older version, or no such numbers
    ],
)
def test_with_the_same_engine_the_numbers_after_the_state_are_compared_too(
    changes: dict[str, Any], *, same: bool
) -> None:
    state = families.get("mujoco").standard("env", "Ant-v3")
    assert state is not None
    some = np.random.default_rng(0).normal(size=(800, 2, 111))
    reference = Trace(
        observations=some,
        rewards=np.zeros((800, 2)),
        ended=np.zeros((800, 2), bool),
        start=some[:1],
    )
    stale = some.copy()
    stale[..., 27:] = some[0, 0, 27:]
    found = traces.compare(state, reference, replace(reference, observations=stale))
    assert found.beside is not None
    assert found.beside > 1
    found = msgspec.structs.replace(found, **changes)
    text = compared(state, found)[1]
    assert ("in the numbers that follow the state" not in text) == same, text
