"""ale-vector: counted right in synchronous and asynchronous batches, and counted twice."""

from __future__ import annotations

import pytest
from helpers.following import followed

from envbench import backends, families, testing
from envbench.decisions.agreement import compared
from envbench.process.reply import Reply
from envbench.testing import BackendContract

BACKEND = backends.get("ale-vector")
pytestmark = pytest.mark.slow


class TestAleVector(BackendContract):
    single_steps = True
    backend = BACKEND
    family = "atari"
    task = "Pong-v5"


class TestAleVectorAsync(BackendContract):
    backend = BACKEND
    family = "atari"
    task = "Breakout-v5"
    numenv = 4
    settings = {"overcommit": "2", "fire_reset": "true"}


def verified(calls: int, lock_steps: int = 40, task: str = "Pong-v5", **given: str) -> Reply:
    """The reply of one verifying worker with two environments."""
    return testing.verified(
        BACKEND, "atari", task, settings=given, lock_steps=lock_steps, calls=calls, seed=3
    )


@pytest.mark.parametrize("overcommit", ["1", "3"])
def test_frames_counted_by_the_emulators_agree_across_episode_ends(overcommit: str) -> None:
    # random Breakout games last some 150 to 300 steps
    audit = verified(1500, task="Breakout-v5", fire_reset="true", overcommit=overcommit).audit
    assert audit is not None
    assert audit.resets >= 3
    assert audit.steps + audit.resets == audit.calls * 2
    assert audit.frames == audit.steps * 4


def test_the_first_results_of_an_asynchronous_batch_are_resets() -> None:
    # six environments, of which reset() returned two; no game of Pong ends in 400 steps
    audit = verified(400, lock_steps=0, overcommit="3").audit
    assert audit is not None
    assert audit.resets == 4


def test_asynchronous_results_are_those_of_the_reference() -> None:
    found = followed("atari", "ale-vector", 1400, overcommit="3")
    assert compared(families.get("atari").standards["env"], found)[0] is True
    assert found.ends >= 2


def test_agrees_with_gymnasiums_preprocessing_exactly() -> None:
    for overcommit in ("1", "3"):
        found = followed("atari", "ale-vector", 1400, overcommit=overcommit)
        assert max(each.largest for each in (*found.observations, *found.rewards)) == 0.0
        assert (found.start, found.other_ends) == (0.0, 0)
        assert found.ends >= 2
