"""``envbench export``: a flat table of what was measured, safe for a spreadsheet."""

from __future__ import annotations

import io
import json

import pandas as pd
import pytest
from helpers.command_line import Place
from helpers.record_factories import (
    make_cell,
    make_fact,
    make_failure,
    make_plan,
    make_refusal,
    make_run,
    measured_plan,
    new_results_file,
    varied_plan,
    write,
)

from envbench.cli.import_export import _encoded


def put(place: Place, records: list) -> None:
    path = new_results_file(place.results, "laptop", "2025-11-20T10:00:00Z")
    write(path, records)


def test_export_has_a_row_per_cell_with_its_interval(place: Place) -> None:
    put(place, measured_plan({("for-loop", 1): 100, ("envpool-async", 8): 900}))
    done = place.run("export")
    assert done.code == 0, done.err
    frame = pd.read_csv(io.StringIO(done.out)).set_index("backend")
    assert list(frame.index) == ["envpool-async", "for-loop"]
    assert frame.loc["for-loop", "fps"] == pytest.approx(1600)
    assert frame.loc["for-loop", "fps_low"] == pytest.approx(1600)
    assert frame.loc["envpool-async", "env_instances"] == 24
    assert (frame["runs"] == 5).all()


def test_whole_numbers_stay_whole_beside_empty_values() -> None:
    rows = [{"rank": 2, "fps": 1.5, "failure": ""}, {"rank": None, "fps": None, "failure": "exit"}]
    assert _encoded(rows, "csv").decode().splitlines() == ["rank,fps,failure", "2,1.5,", ",,exit"]
    assert [json.loads(each)["rank"] for each in _encoded(rows, "jsonl").splitlines()] == [2, None]


def test_export_has_each_cells_place_in_its_session(place: Place) -> None:
    machine = (1000, 2000, 1300, 1700, 1500)
    faster = (1521, 3038, 1976, 2585, 2279)
    records = varied_plan({
        ("for-loop", 8): machine, ("subprocess", 8): faster, ("envpool-sync", 8): faster,
        ("envpool-async", 1): machine,
    })  # fmt: skip
    put(place, [*records, *measured_plan({("ale-vector", 1): 100}, plan_id="alone")])
    done = place.run("export")
    assert done.code == 0, done.err
    frame = pd.read_csv(io.StringIO(done.out)).set_index("backend")
    keys = frame["key"]
    assert keys["subprocess"] == "atari/Pong-v5/subprocess/8"
    assert dict(frame["rank"]) == {
        "for-loop": 3, "subprocess": 1, "envpool-sync": 1, "envpool-async": 1, "ale-vector": 1,
    }  # fmt: skip
    ties = frame["ties"].fillna("")
    assert (ties["subprocess"], ties["envpool-sync"]) == (keys["envpool-sync"], keys["subprocess"])
    assert set(ties[["for-loop", "envpool-async", "ale-vector"]]) == {""}
    own = frame.drop(index="ale-vector")
    assert (own["adjusted_low"] < own["adjusted_fps"]).all()
    assert (own["adjusted_fps"] < own["adjusted_high"]).all()
    adjusted = own["adjusted_fps"]
    assert adjusted["subprocess"] / adjusted["for-loop"] == pytest.approx(1.52, abs=0.003)
    alone = frame.loc["ale-vector", ["adjusted_fps", "adjusted_low", "adjusted_high"]]
    assert alone.isna().all()


def test_export_as_json_is_a_document_of_cells_and_their_ratios(place: Place) -> None:
    speeds = {("for-loop", 8): 100, ("subprocess", 8): 100, ("envpool-sync", 8): 300}
    put(place, measured_plan(speeds))
    done = place.run("export", "--format", "json")
    assert done.code == 0, done.err
    document, shown = done.document, place.run("report", "--json").document
    assert document["schema"] == 1
    assert document["ratios"] == shown["ratios"] != []
    assert set(document["ratios"][0]) == {"session", "cell", "to", "ratio", "interval"}
    cells = {each["key"]: each for each in document["cells"]}
    for each in shown["cells"]:  # whatever `report --json` has, in its form
        assert {name: cells[each["key"]][name] for name in each} == each
    loop = cells["atari/Pong-v5/for-loop/8"]
    assert (loop["rank"], loop["ties"]) == (2, ["atari/Pong-v5/subprocess/8"])
    low, high = loop["adjusted_interval"]
    assert low < loop["adjusted_fps"] < high
    flat = pd.read_csv(io.StringIO(place.run("export").out)).set_index("key")
    assert set(flat) < set(loop)  # whatever the flat table has, by its name
    assert (low, high) == pytest.approx(
        tuple(flat.loc[loop["key"], ["adjusted_low", "adjusted_high"]])
    )


def test_export_of_runs_as_json_is_a_document_of_runs(place: Place) -> None:
    put(place, measured_plan({("for-loop", 1): 100}))
    document = place.run("export", "--runs", "--format", "json").document
    assert set(document) == {"schema", "runs"}
    assert [each["backend"] for each in document["runs"]] == ["for-loop"] * 5


def test_export_runs_has_a_row_per_run_including_failures(place: Place) -> None:
    cell = make_cell("envpool-sync", 8)
    broken = make_run(cell, plan_id="broken", failure=make_failure())
    put(place, [make_fact(), make_plan([cell], plan_id="broken"), broken])
    put(place, measured_plan({("for-loop", 1): 100}))
    done = place.run("export", "--runs", "--format", "jsonl")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [(row["backend"], row["failure"]) for row in rows].count(("for-loop", "")) == 5
    (failed,) = [row for row in rows if row["failure"]]
    assert (failed["failure"], failed["fps"]) == ("signal", None)


@pytest.mark.parametrize("task", ["=1+1", "+x", "-x", "@sum", "\tx"])
def test_no_exported_text_is_a_formula_in_a_spreadsheet(place: Place, task: str) -> None:
    cell = {"env": "gym", "task": task, "frame_skip": 1}
    put(place, measured_plan({("for-loop", 1): 100}, cell=cell))
    done = place.run("export", "--output", "cells.csv")
    assert "wrote cells.csv (1 row)" in done.err
    frame = pd.read_csv(place.folder / "cells.csv")
    assert frame.loc[0, "task"] == "'" + task


def line_of(place: Place, file: str, line: int) -> dict:
    return json.loads((place.results / file).read_text().splitlines()[line - 1])


def test_rows_name_the_file_and_line_of_their_records(place: Place) -> None:
    put(place, measured_plan({("for-loop", 1): 100, ("envpool-async", 8): 900}))
    runs = pd.read_csv(io.StringIO(place.run("export", "--runs").out))
    assert len(runs) == 10
    for run, file, line in zip(runs["run"], runs["file"], runs["line"], strict=True):
        trials = line_of(place, file, line)["trials"]
        assert run in [trial["trial_id"] for trial in trials]
    cells = pd.read_csv(io.StringIO(place.run("export").out)).set_index("backend")
    (file, lines) = cells.loc["for-loop", "records"].split(":")
    every = [line_of(place, file, int(line))["trials"] for line in lines.split(",")]
    found = [each for trials in every for each in trials if each["cell"]["backend"] == "for-loop"]
    assert [run["trial_id"] for run in found] == cells.loc["for-loop", "run_ids"].split()
    assert len(found) == len(every) == 5


def test_refused_figures_are_not_exported(place: Place) -> None:
    records = measured_plan({("for-loop", 1): 100, ("subprocess", 8): 900})
    put(place, [*records, make_refusal(make_cell("subprocess", 8))])
    frame = pd.read_csv(io.StringIO(place.run("export").out)).set_index("backend")
    refused = frame.loc["subprocess"]
    assert (refused["equal_work"], refused["failure"]) == ("✗", "invalid-figure")
    empty = ["fps", "fps_low", "steps_per_second", "peak_memory_bytes", "adjusted_fps", "rank"]
    assert refused[[*empty, "adjusted_low", "ties"]].isna().all()
    assert frame.loc["for-loop", "rank"] == 1
    assert frame.loc["for-loop", "fps"] == 1600
    runs = pd.read_csv(io.StringIO(place.run("export", "--runs").out)).set_index("backend")
    assert runs.loc["subprocess", "fps"].isna().all()
    assert set(runs.loc["subprocess", "equal_work"]) == {"✗"}
    assert (runs.loc["for-loop", "fps"] == 1600).all()
    (cell,) = [
        cell
        for cell in json.loads(place.run("report", "--json").out)["cells"]
        if cell["backend"] == "subprocess"
    ]
    assert (cell["fps"], cell["failure"]["reason"]) == (None, "invalid-figure")


def test_export_without_results_says_how_to_make_some(place: Place) -> None:
    done = place.run("export")
    assert (done.code, "Make some: envbench run" in done.err) == (2, True)


@pytest.mark.parametrize("ending", ["csv", "json", "jsonl", "parquet"])
def test_every_format_loads_in_pandas_with_the_same_contents(place: Place, ending: str) -> None:
    put(place, measured_plan({("for-loop", 1): 100, ("envpool-async", 8): 900}))
    done = place.run("export", "--output", f"cells.{ending}")
    assert done.code == 0, done.err
    path = place.folder / f"cells.{ending}"
    load = {
        "csv": pd.read_csv,
        "json": lambda name: pd.DataFrame(json.loads(name.read_text())["cells"]),
        "jsonl": lambda name: pd.read_json(name, lines=True),
        "parquet": pd.read_parquet,
    }[ending]
    frame = load(path).set_index("backend")
    assert dict(frame["fps"]) == pytest.approx({"envpool-async": 14400, "for-loop": 1600})


def test_parquet_is_refused_on_stdout(place: Place) -> None:
    put(place, measured_plan({("for-loop", 1): 100}))
    done = place.run("export", "--format", "parquet")
    assert (done.code, "--output" in done.err) == (2, True)


@pytest.mark.parametrize(
    "words",
    [
        ["--output", "cells.xlsx"],
        ["--output", "cells.csv.gz"],
        ["--output", "cells.json", "--format", "csv"],
        ["--output", "cells.xlsx", "--format", "csv"],
        ["--output", "cells.csv", "--format", "parquet"],
    ],
)
def test_an_ending_that_contradicts_the_format_is_refused(place: Place, words: list[str]) -> None:
    done = place.run("export", *words)
    assert done.code == 2
    assert "does not fit the format" in done.err
    assert not list(place.folder.glob("cells.*"))
