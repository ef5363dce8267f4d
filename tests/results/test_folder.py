"""A folder of results in memory: what is kept of runs that no report shows."""

from __future__ import annotations

from pathlib import Path

from helpers.record_factories import make_windows, measured_plan, write

from envbench.model import Run
from envbench.results.folder import load_files


def test_only_the_runs_of_shown_cells_keep_their_warm_up(tmp_path: Path) -> None:
    """So a hundred thousand runs fit into the memory."""
    given = {"warmup": make_windows([5, 6]), "peak_memory_bytes": 2**20}
    for day in ("old", "new"):
        plan = measured_plan({("for-loop", 1): 50, ("for-loop", 8): 40}, plan_id=day, run=given)
        write(tmp_path / f"{day}.jsonl", plan)
    files = sorted(tmp_path.glob("*.jsonl"))
    loaded = load_files(files, list)
    shown = [run for found in loaded.selection.measured for run in found.runs]
    assert len(shown) == 10
    assert all(run.warmup.ns for run in shown)
    kept = [each for each in loaded.records if isinstance(each, Run)]
    assert len(kept) == 20
    assert not any(run.warmup.ns for run in kept)
    every = load_files(files, list, every_window=True)
    assert all(run.warmup.ns for run in every.records if isinstance(run, Run))
    summaries = [[found.summary for found in each.selection.measured] for each in (loaded, every)]
    assert summaries[0] == summaries[1]
    assert all(each.costs for each in summaries[0])
