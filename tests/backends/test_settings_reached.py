"""What a cell's settings and seed say is what the library gets, and not only what is recorded."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from envbench import backends, families
from envbench.model import Family
from envbench.process.worker_code import WORKER_PATH
from envbench.testing import verified

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="EnvPool has no wheels for Windows")


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Builds adapters in this process, as the worker does for a measurement."""
    monkeypatch.syspath_prepend(WORKER_PATH)
    contract = import_module("envbench_worker.contract")
    adapters: list[Any] = []

    def build(name: str, family: Family, task: str = "", seed: int = 0, **given: str) -> Any:
        backend = backends.get(name)
        settings, _ = backends.resolve_settings(backend, family, given)
        job = contract.Job(
            "measure",
            family,
            task or families.default_task(family),
            2,
            2,
            4.0,
            settings,
            seed,
            families.get(family).worker,
        )
        module, _, attribute = backend.adapter.partition(":")
        adapters.append(getattr(import_module(module), attribute)(job))
        adapters[-1].build()
        return adapters[-1]

    yield build
    for adapter in adapters:
        adapter.close()
    for name in [name for name in sys.modules if name.startswith("envbench_worker")]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize("name", ["envpool-sync", "envpool-async"])
def test_envpool_is_made_with_the_threads_the_cores_and_the_seed_that_were_asked_for(
    built: Any, name: str
) -> None:
    config = built(name, "mujoco", seed=7, threads="1", affinity="0").pool.spec.config
    assert (config.num_threads, config.thread_affinity_offset, config.seed) == (1, 0, 7)
    config = built(name, "mujoco").pool.spec.config
    assert (config.num_threads, config.thread_affinity_offset, config.seed) == (0, -1, 0)


def test_envpools_games_are_shrunk_and_begun_as_asked(built: Any) -> None:
    asked = {"resize": "bilinear", "fire_reset": "true"}
    config = built("envpool-sync", "atari", **asked).pool.spec.config
    assert (config.use_inter_area_resize, config.use_fire_reset) == (False, True)
    config = built("envpool-sync", "atari").pool.spec.config
    assert (config.use_inter_area_resize, config.use_fire_reset) == (True, False)


@pytest.mark.parametrize("context", ["spawn", "fork", "forkserver"])
def test_subprocesses_are_started_as_asked(built: Any, context: str) -> None:
    adapter = built("subprocess", "gym", "CartPole-v1", context=context)
    (kind,) = {type(process).__name__ for process in adapter.envs.processes}
    assert kind.lower() == f"{context}process"


@pytest.mark.slow
def test_another_seed_gives_other_actions() -> None:
    traces = [
        verified(backends.get("envpool-sync"), "mujoco", "Ant-v3", lock_steps=5, seed=seed).trace
        for seed in (1, 2, 1)
    ]
    assert traces[0] is not None
    assert traces[0] == traces[2] != traces[1]
