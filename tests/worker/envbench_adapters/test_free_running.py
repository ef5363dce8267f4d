"""Free-running processes: how long their controller sleeps in a window."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from envbench.process.code_hash import WORKER_PATH


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(WORKER_PATH)
    from envbench_adapters.free_running import processes

    yield processes
    for name in [name for name in sys.modules if name.startswith("envbench_")]:
        del sys.modules[name]


@pytest.mark.parametrize("stopped_s", [0.0, 100.0])
def test_a_window_ends_soon_after_its_last_result_also_after_a_long_stop(
    processes: Any, monkeypatch: pytest.MonkeyPatch, stopped_s: float
) -> None:
    """1,000 results per second. A pause that is estimated from time in which all processes were
    stopped would end far too late."""
    clock = SimpleNamespace(now=0.0, running=0.0)

    def sleep(pause: float) -> list[Any]:
        clock.now += pause
        clock.running += pause
        made.table["received"] = int(1000 * clock.running)
        return []

    made = SimpleNamespace(table=np.zeros(1, processes.ROW), selector=SimpleNamespace(select=sleep))
    monkeypatch.setattr(processes.time, "perf_counter", lambda: clock.now)
    late = []
    for target in (500, 1000, 1500):
        processes.FreeRunning._wait_for(made, target)
        late.append(clock.running - target / 1000)
        clock.now += stopped_s
    assert max(late) < 0.005


def test_what_processes_make_while_no_clock_runs_is_in_no_slice(
    processes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = np.zeros(1, processes.ROW)
    made = object.__new__(type("Split", (processes.FreeRunning,), {"shares": list}))
    made.job = SimpleNamespace(numenv=1)
    made.table, made.freely = row, True
    made.credited = made.credited_resets = made.received = made.received_resets = 0
    made.frames = 0.0
    waited = []
    monkeypatch.setattr(made, "_wait_for", waited.append)
    row["received"] = 105  # 5 beyond the slice, before its clock stopped
    made.run(100)
    row["received"], row["resets"] = 125, 3  # until the processes were stopped, and after that
    made.resume()
    row["received"], row["resets"] = 225, 4
    assert made.run(100) == (99, 1)
    assert waited == [100, 220]  # the 5 belong to the second slice, the 20 to none
