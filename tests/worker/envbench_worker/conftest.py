"""A fixture of the tests of the worker's own modules."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from envbench.process.code_hash import WORKER_PATH


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The worker's modules, imported into this process as the worker imports them."""
    monkeypatch.syspath_prepend(WORKER_PATH)
    import envbench_worker.actions
    import envbench_worker.after_steps
    import envbench_worker.energy
    import envbench_worker.measure
    import envbench_worker.sensors
    import envbench_worker.spot_check

    yield envbench_worker
    for name in [name for name in sys.modules if name.startswith("envbench_")]:
        del sys.modules[name]
