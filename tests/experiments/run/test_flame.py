"""Flame graphs of measured cells."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from helpers.command_line import SHORT, Place, loop
from helpers.skip_or_fail import not_here

from envbench.errors import UsageError
from envbench.experiments.run import flame


@pytest.mark.slow
def test_a_cell_has_a_flame_graph_that_names_its_step(place: Place, faulty_python: Path) -> None:
    if sys.platform != "linux":
        not_here("Linux")
    place.short = True
    done = place.run("run", *loop(faulty_python), *SHORT, "--profile", "flames")
    if "It needs the right to trace" in done.err:
        not_here("the right to trace processes")
    assert done.code == 0, done.err
    (path,) = (place.folder / "flames").glob("*.svg")
    assert f"wrote {path.relative_to(place.folder)}" in done.err
    assert "step" in path.read_text()
    assert len(place.runs()) == 1  # profiling is not recorded


@pytest.mark.slow
def test_a_cell_that_fails_has_none(place: Place, faulty_python: Path) -> None:
    words = loop(faulty_python, "faulty_envs:RaisesInReset-v0")
    done = place.run("run", *words, *SHORT, "--profile", "flames")
    assert done.code == 1
    assert not (place.folder / "flames").exists()


def test_without_py_spy_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(flame.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="--profile needs py-spy"):
        flame.profiler()
