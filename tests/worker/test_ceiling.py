"""ceiling: the engine alone on every core, counted twice, and above the backends it is for."""

from __future__ import annotations

import sys

import pytest

from envbench import backends, families, testing
from envbench.model import Family
from envbench.process.reply import Reply
from envbench.testing import BackendContract

CEILING = backends.get("ceiling")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="processes share a POSIX file"),
]


class TestCeilingAtari(BackendContract):
    backend = CEILING
    family = "atari"
    task = "Pong-v5"


class TestCeilingMujoco(BackendContract):
    backend = CEILING
    family = "mujoco"
    task = "Ant-v3"


def verified(family: Family, task: str, calls: int) -> Reply:
    return testing.verified(CEILING, family, task, lock_steps=10, calls=calls)


@pytest.mark.parametrize(
    ("family", "task", "calls"), [("atari", "Breakout-v5", 1500), ("mujoco", "Ant-v3", 2100)]
)
def test_frames_counted_by_the_engine_agree_across_episode_ends(
    family: Family, task: str, calls: int
) -> None:
    reply = verified(family, task, calls)
    audit = reply.audit
    assert audit is not None
    assert audit.resets >= 2
    assert audit.steps + audit.resets == audit.calls * 2
    assert audit.frames == pytest.approx(audit.steps * families.get(family).frames_per_step(task))
    assert reply.trace is None  # nothing is observed


@pytest.mark.parametrize("family", ["atari", "mujoco"])
def test_nothing_is_observed_and_each_process_has_a_core(family: Family) -> None:
    facts = verified(family, families.default_task(family), 1).facts
    assert (facts["observation_shape"], facts["observation_dtype"]) == ([], "none")
    assert [process["numenv"] for process in facts["processes"]] == [1, 1]
    assert all("-" not in process["cores"] for process in facts["processes"])
