"""The reference kernels: fixed work, in one thread or in a thread per usable core."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from envbench.process.code_hash import WORKER_PATH


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The adapter's module, imported into this process as the worker imports it."""
    monkeypatch.syspath_prepend(WORKER_PATH)
    from envbench_adapters import reference

    yield reference
    for name in [name for name in sys.modules if name.startswith("envbench_")]:
        del sys.modules[name]


@pytest.fixture
def made(reference: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    from envbench_worker.contract import Job

    kernel = getattr(reference, request.param)(Job("measure", "gym", "reference", 1, 1, 1, {}, 0))
    kernel.build()
    yield kernel
    kernel.close()


both = pytest.mark.parametrize("made", ["Reference", "PooledReference"], indirect=True)
pooled = pytest.mark.parametrize("made", ["PooledReference"], indirect=True)


@both
def test_a_step_of_a_kernel_is_one_call(made: Any) -> None:
    assert made.run(3) == (3, 0)
    assert made.facts()["env_instances"] == 1


@pooled
def test_the_pooled_kernel_has_a_thread_per_usable_core(made: Any, reference: Any) -> None:
    from envbench_worker.sensors import usable_cores

    cores = len(usable_cores())
    assert made.facts()["threads"] == cores
    assert len(made.pieces) == reference.PIECES * cores
    before = threading.active_count()
    made.run(20)
    assert threading.active_count() - before <= cores


@pooled
def test_each_step_of_the_pooled_kernel_does_all_its_pieces(
    made: Any, reference: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[Any] = []
    monkeypatch.setattr(reference, "_piece", done.append)
    made.run(2)
    assert len(done) == 2 * len(made.pieces)
    assert all(np.shares_memory(each, made.pieces) for each in done)


@pooled
def test_a_piece_that_fails_ends_the_kernel(
    made: Any, reference: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(reference, "_piece", broken)
    with pytest.raises(MemoryError):
        made.run(1)
