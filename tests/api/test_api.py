"""Measuring and reading results from Python."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import psutil
import pytest
from helpers.record_factories import measured_plan, new_results_file, write

import envbench
from envbench.errors import UsageError
from envbench.model import Published

slow = pytest.mark.slow


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENVBENCH_LOCK_FILE", str(tmp_path / "lock"))
    return tmp_path


@slow
def test_a_quick_measurement_gives_a_figure_and_a_record(place: Path) -> None:
    found = envbench.measure("CartPole-v1", backend="for-loop", numenv=2, quick=True)
    assert found.fps is not None
    assert found.fps > 100
    assert found.fps == found.steps_per_second
    assert (found.interval, found.failure) == (None, "")
    frame = found.to_frame()
    assert list(frame["backend"]) == ["for-loop"]
    assert frame["fps"][0] == found.fps
    assert "For-loop" in found.sentence
    loaded = envbench.load("results")
    assert loaded.cells["plan"].tolist() == [found.plan]
    assert loaded.slices["ns"].sum() == pytest.approx(2e9, rel=0.3)
    (record,) = (place / "results").rglob("*.jsonl")
    call = "envbench.measure('CartPole-v1', backend='for-loop', numenv=2, quick=True)"
    assert call in record.read_text()


@slow
def test_it_runs_in_a_thread_and_with_several_cells(place: Path) -> None:
    found: list[envbench.Result] = []

    def work() -> None:
        words = {"backend": ["for-loop", "envpool-sync"], "numenv": 2, "quick": True}
        found.append(envbench.measure("CartPole-v1", **words))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(120)
    (result,) = found
    assert len(result.to_frame()) == 2
    assert "provisional" in result.sentence
    assert repr(result).startswith("<envbench.Result: EnvPool (sync) at 2: ")
    assert len(repr(result)) < 200
    assert "<table" in result._repr_html_()
    with pytest.raises(ValueError, match="2 cells were measured: use to_frame"):
        result.fps  # noqa: B018 - a property


@slow
@pytest.mark.skipif(os.name == "nt", reason="sends a signal")
def test_ctrl_c_ends_a_measurement_and_its_workers(place: Path) -> None:
    words = "'CartPole-v1', backend='for-loop', numenv=2, duration=30, progress=False"
    code = f"import envbench; envbench.measure({words})"
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) as own:
        python = psutil.Process(own.pid)
        deadline = time.monotonic() + 60
        while not [each for each in python.children(recursive=True) if each.cpu_times().user > 1]:
            assert time.monotonic() < deadline, "no worker was started"
            time.sleep(0.1)
        workers = python.children(recursive=True)
        own.send_signal(signal.SIGINT)
        _, said = own.communicate(timeout=60)
    assert "KeyboardInterrupt" in said
    _, left = psutil.wait_procs(workers, timeout=10)
    assert left == []


def test_wrong_names_are_errors_before_anything_is_measured(place: Path) -> None:
    with pytest.raises(UsageError, match="Did you mean 'Pong-v5'"):
        envbench.measure("Pong-v4", backend="for-loop", numenv=2)
    with pytest.raises(envbench.EnvbenchError, match="for-lop") as caught:
        envbench.measure("Pong-v5", backend="for-lop", numenv=2)
    assert "Known: for-loop, " in "".join(traceback.format_exception_only(caught.value))
    with pytest.raises(UsageError, match="unknown setting of envpool-sync 'threds'"):
        envbench.measure("Pong-v5", backend="envpool-sync", numenv=2, threds=2)
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    "given",
    [
        {"numenv": []}, {"backend": []}, {"numenv": 0}, {"numenv": True}, {"numenv": "8"},
        {"numenv": 2.5}, {"numenv": [2, -1]}, {"duration": "5"}, {"duration": float("nan")},
        {"duration": -3}, {"repeats": 0}, {"repeats": 1.5}, {"seed": -1}, {"frame_skip": 0},
        {"quick": True, "duration": 5},
    ],
)  # fmt: skip
def test_wrong_numbers_are_refused_before_anything_is_measured(
    place: Path, given: dict[str, Any]
) -> None:
    with pytest.raises(UsageError):
        envbench.measure("Pong-v5", **{"backend": "for-loop", "numenv": 2, **given})
    assert list(place.iterdir()) == []


def test_results_are_frames_of_cells_runs_and_slices(place: Path) -> None:
    records = measured_plan({("for-loop", 1): 50, ("envpool-async", 8): 90})
    write(new_results_file(Path("results"), "laptop", "2025-11-20T10:00:00Z"), records)
    found = envbench.load()
    assert sorted(found.cells["backend"]) == ["envpool-async", "for-loop"]
    assert len(found.runs) == 10
    assert repr(found).startswith("<envbench.Results: 2 cells; ")
    assert "<table" in found._repr_html_()
    slices = found.slices
    assert len(slices) == 40
    assert set(slices.columns) == {
        "run", "plan", "key", "round", "machine", "env", "task", "backend", "numenv",
        "frame_skip", "slice", "start_ns", "ns", "calls", "steps", "resets", "invalid",
    }  # fmt: skip
    assert slices["steps"].sum() == 5 * 4 * (50 + 90)


def test_a_folder_with_only_published_figures_has_them_and_no_cells(place: Path) -> None:
    figure = Published(
        machine="laptop", env="atari", task="Pong-v5", backend="for-loop", numenv=8,
        fps=4893, frame_skip=4, source="A. N. Author, 2022",
    )  # fmt: skip
    write(new_results_file(Path("results"), "laptop", "2025-11-20T10:00:00Z"), [figure])
    found = envbench.load()
    assert (len(found.cells), len(found.runs), len(found.slices)) == (0, 0, 0)
    (row,) = found.published.to_dict("records")
    assert (row["fps"], row["numenv"], row["source"]) == (4893.0, 8, "A. N. Author, 2022")


def test_a_folder_without_results_is_an_error(place: Path) -> None:
    with pytest.raises(envbench.EnvbenchError, match="has no results"):
        envbench.load("nowhere")


def test_unknown_names_of_the_module_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        envbench.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_a_number_of_environments_is_given_once(place: Path) -> None:
    with pytest.raises(UsageError, match="numenv has 8 twice"):
        envbench.measure("Pong-v5", backend="for-loop", numenv=[8, 4, 8])
