"""The settings and the seed of a cell reach the library; they are not only recorded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from envbench import backends, families
from envbench.decisions.trace_file import read_trace
from envbench.model import Family
from envbench.process.code_hash import WORKER_PATH
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
    for name in [name for name in sys.modules if name.startswith("envbench_")]:
        del sys.modules[name]


@pytest.mark.parametrize("name", ["envpool-sync", "envpool-async"])
def test_envpool_gets_the_threads_cores_and_seed_of_the_settings(built: Any, name: str) -> None:
    config = built(name, "mujoco", seed=7, threads="1", affinity="0").pool.spec.config
    assert (config.num_threads, config.thread_affinity_offset, config.seed) == (1, 0, 7)
    config = built(name, "mujoco").pool.spec.config
    assert (config.thread_affinity_offset, config.seed) == (-1, 0)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs Linux")
@pytest.mark.parametrize("name", ["envpool-sync", "ale-vector"])
def test_a_pool_has_a_thread_per_usable_core_and_not_per_core_of_the_machine(
    built: Any, name: str
) -> None:
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(usable)})
    try:
        found = built(name, "atari")
        assert found.facts()["threads"] == 1
        if name == "envpool-sync":
            assert found.pool.spec.config.num_threads == 1
        else:
            assert found._options()["num_threads"] == 1
    finally:
        os.sched_setaffinity(0, usable)


@pytest.mark.parametrize(
    ("name", "module"), [("envpool-sync", "envpool.pool"), ("ale-vector", "ale_vector")]
)
def test_only_as_many_cores_as_threads_have_to_be_usable(
    built: Any, monkeypatch: pytest.MonkeyPatch, name: str, module: str
) -> None:
    """Two environments have two threads. Of 16 cores, 0 to 7 can be used."""
    for place in (f"envbench_adapters.{module}", "envbench_worker.sensors"):
        monkeypatch.setattr(import_module(place), "usable_cores", lambda: list(range(8)))
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    assert built(name, "atari", affinity="6").facts()["threads"] == 2


def test_envpool_gets_the_resize_and_fire_reset_of_the_settings(built: Any) -> None:
    asked = {"resize": "bilinear", "fire_reset": "true"}
    config = built("envpool-sync", "atari", **asked).pool.spec.config
    assert (config.use_inter_area_resize, config.use_fire_reset) == (False, True)
    config = built("envpool-sync", "atari").pool.spec.config
    assert (config.use_inter_area_resize, config.use_fire_reset) == (True, False)


# In a process of its own: multiprocessing leaves a tracker of resources running.
CONTEXT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from envbench_adapters.gymnasium.subprocess_vector import Subprocess
from envbench_worker.contract import Job
adapter = Subprocess(
    Job("measure", "gym", "CartPole-v1", 2, 2, 1.0, json.loads(sys.argv[2]), 0)
)
adapter.build()
print(*{type(process).__name__ for process in adapter.envs.processes})
adapter.close()
"""


@pytest.mark.parametrize("context", ["spawn", "fork", "forkserver"])
def test_subprocesses_start_by_the_method_of_the_setting(context: str) -> None:
    backend = backends.get("subprocess")
    settings, _ = backends.resolve_settings(backend, "gym", {"context": context})
    words = [sys.executable, "-c", CONTEXT, str(WORKER_PATH), json.dumps(settings)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.lower() == f"{context}process\n"


@pytest.mark.slow
def test_another_seed_gives_other_actions() -> None:
    first, other, same = (
        read_trace(
            verified(
                backends.get("envpool-sync"), "mujoco", "Ant-v3",
                lock_steps=5, seed=seed, together=1,  # in the order of the bank
            ).trace or b""
        ).observations[:5].tolist()
        for seed in (1, 2, 1)
    )  # fmt: skip
    assert first == same != other
