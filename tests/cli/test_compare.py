"""``envbench compare``: which sides it accepts, and what it prints. The pairs and their ratios are
tested in ``tests/report/test_comparison.py``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from helpers.command_line import Place
from helpers.record_factories import (
    LAPTOP,
    OTHER,
    make_cell,
    make_refusal,
    measured_plan,
    new_results_file,
    plan_of_rounds,
    varied_plan,
    write,
)

from envbench.model import digest

SLOW = (100, 101, 99, 100, 102)
FAST = (200, 202, 198, 201, 199)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--env", "nope"], "Known: atari"),
        (["--machine", "nope"], "for-loop has no results on nope"),
        (["--machine", "nope"], "Machines with results: laptop."),
        (["--env", "gym"], "for-loop has no results of gym: there is nothing to compare"),
        (["--env", "gym", "--machine", "laptop"], "no results of gym on laptop"),
        (["--env", "atari", "--env", "gym"], "given more than once: 'atari' and 'gym'"),
        (["--machine", "a", "--machine", "b"], "given more than once: 'a' and 'b'"),
    ],
)
def test_a_side_without_results_is_an_error_and_prints_no_table(
    place: Place, words: list[str], says: str
) -> None:
    path = new_results_file(place.results, "laptop", "2025-11-20T10:00:00Z")
    write(path, [*plan_of_rounds("a", SLOW), *plan_of_rounds("b", FAST, "envpool-sync")])
    done = place.run("compare", "for-loop", "envpool-sync", *words)
    assert (done.code, done.out) == (2, "")
    assert says in done.err


@pytest.mark.parametrize(
    "words",
    [
        ("for-loop", "for-loop"),
        ("for-loop", "For-loop"),
        ("laptop", "laptop"),
        ("results", "results/../results"),
        ("nothing", "nothing"),
    ],
)
def test_a_side_is_not_compared_with_itself(place: Place, words: tuple[str, str]) -> None:
    path = new_results_file(place.results, "laptop", "2025-11-20T10:00:00Z")
    write(path, plan_of_rounds("a", SLOW))
    done = place.run("compare", *words)
    assert (done.code, done.out) == (2, "")
    assert f"Error: both sides are the same: {' and '.join(dict.fromkeys(words))}." in done.err


def test_a_recorded_family_can_be_selected_without_its_plugin(place: Place) -> None:
    path = new_results_file(place.results, "laptop", "2025-11-20T10:00:00Z")
    own = {"cell": {"env": "revfam"}}
    for name, speeds, backend in (("a", SLOW, "for-loop"), ("b", FAST, "envpool-sync")):
        write(
            path,
            [
                *plan_of_rounds(name, speeds, backend),
                *plan_of_rounds(f"{name}2", speeds, backend, **own),
            ],
        )
    done = place.run("compare", "for-loop", "envpool-sync", "--env", "revfam", "--json")
    assert done.code == 0, done.err
    assert [cell["a"]["env"] for cell in done.document["cells"]] == ["revfam"]
    refused = place.run("compare", "for-loop", "envpool-sync", "--env", "revfan")
    assert (refused.code, refused.out) == (2, "")
    assert "unknown env family 'revfan'" in refused.err


# ---------------------------------------------------------------- the command


def put(place: Place, machine: str, records: Sequence[Any]) -> str:
    path = new_results_file(place.results, machine, "2025-11-20T10:00:00Z")
    write(path, records)
    return str(path)


def test_files_machines_backends_and_rows_can_be_compared(place: Place) -> None:
    first = put(
        place, "laptop", [*plan_of_rounds("a", SLOW), *plan_of_rounds("b", FAST, "envpool-async")]
    )
    there: dict[str, Any] = {"cell": {"machine": "other"}, "fingerprint": digest(OTHER)}
    second = put(place, "other", plan_of_rounds("c", FAST, **there))
    for words in (
        (first, str(place.results)), ("laptop", "other"), ("for-loop", "envpool-async"),
        ("For-loop", "EnvPool (async)"),
    ):  # fmt: skip
        done = place.run("compare", *words)
        assert done.code == 0, done.err
        assert "geometric mean" in done.out
    assert place.run("compare", first, second).code == 2  # no cell in common
    whole = place.run("compare", "laptop", "other", "--json").document
    (cell,) = whole["cells"]
    assert whole["geometric_mean"] == pytest.approx(cell["ratio"]) == pytest.approx(1000 / 502)
    # No cell was measured in two sessions of one host.
    assert (cell["verdict"], cell["interval"], whole["only_in_a"]) == ("?", None, 1)
    assert whole["only_in_b"] == 0
    for machine, task, host in (("laptop", "B-v5", LAPTOP), ("other", "C-v5", OTHER)):
        cell = {"task": task, "machine": machine}
        days = [
            plan_of_rounds(f"{task}{k}", [100 + k % 2] * 5, cell=cell, fingerprint=digest(host))
            for k in range(6)
        ]
        put(place, machine, [record for records in days for record in records])
    whole = place.run("compare", "laptop", "other", "--json").document
    (cell,) = whole["cells"]
    assert cell["ratio"] == pytest.approx(1000 / 502)
    low, high = cell["interval"]
    assert 1.9 < low < cell["ratio"] < high < 2.1
    assert (cell["verdict"], whole["only_in_a"], whole["only_in_b"]) == ("faster", 2, 1)


def test_a_ratio_without_an_interval_is_explained(place: Place) -> None:
    records = [*plan_of_rounds("a", SLOW), *plan_of_rounds("b", FAST, "envpool-sync")]
    put(place, "laptop", records)
    done = place.run("compare", "for-loop", "envpool-sync")
    assert "1,610 ±1 %" in done.out
    assert done.out.startswith("EnvPool (sync) is 1.99 × For-loop: no interval in 1 of 1 cell.")
    assert "?: there is no interval. A side has fewer than five processes, or two" in done.err
    assert "1 of 1 pair were measured in different sessions" in done.err


def test_cells_that_alternated_are_compared_by_the_block_model(place: Place) -> None:
    """The two differ by 2 % in every block, and the blocks by far more."""
    machine = (1000, 2000, 1300, 1700, 1500)
    faster = (1021, 2038, 1326, 1735, 1529)
    put(place, "laptop", varied_plan({("for-loop", 8): machine, ("envpool-sync", 8): faster}))
    document = place.run("compare", "for-loop", "envpool-sync", "--json").document
    (pair,) = document["cells"]
    assert (pair["verdict"], pair["notes"]) == ("faster", [])
    assert 1.01 < pair["interval"][0] < pair["ratio"] < pair["interval"][1] < 1.03
    # Each side is a cell of `run --json`, with its place in its session.
    assert (pair["a"]["rank"], pair["b"]["rank"]) == (2, 1)
    ratio = pair["b"]["adjusted_fps"] / pair["a"]["adjusted_fps"]
    assert ratio == pytest.approx(pair["ratio"])
    shown = place.run("compare", "for-loop", "envpool-sync").out
    first = "EnvPool (sync) is 1.02 × For-loop (1.02 to 1.02): faster in 1 of 1 cell."
    assert shown.startswith(first)
    assert "±" in shown


def test_a_quick_figure_is_marked_beside_the_others(place: Place) -> None:
    quick = measured_plan({("envpool-sync", 8): 200}, plan_id="b", quick=True, repeats=1)
    put(place, "laptop", [*plan_of_rounds("a", SLOW), *quick])
    done = place.run("compare", "for-loop", "envpool-sync")
    assert " 3,200 (quick) " in done.out
    assert done.out.count("(quick)") == 1
    assert "1 of 1 pair have a figure that was measured quickly" in done.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("for-lop", "envpool-async"), "Did you mean 'for-loop'"),
        (("laptop", "for-loop"), "of different kinds"),
        (("brax", "for-loop"), "brax has no results: there is nothing to compare"),
    ],
)
def test_sides_that_cannot_be_compared_are_wrong_usage(
    place: Place, words: tuple[str, str], says: str
) -> None:
    put(place, "laptop", plan_of_rounds("a", SLOW))
    done = place.run("compare", *words)
    assert done.code == 2
    assert says in done.err


def test_a_refusal_in_another_file_of_the_folder_counts(place: Place) -> None:
    paths = [new_results_file(place.results, "laptop", f"2025-11-2{k}T10:00:00Z") for k in range(3)]
    write(paths[0], plan_of_rounds("a", SLOW))
    write(paths[1], plan_of_rounds("b", FAST))
    both = [str(path) for path in paths[:2]]
    (pair,) = json.loads(place.run("compare", *both, "--json").out)["cells"]
    assert pair["ratio"] == pytest.approx(1000 / 502)
    assert pair["verdict"] == "?"  # without a kernel, nothing relates two sessions of one host
    write(paths[2], [make_refusal(make_cell("for-loop", 8))])
    (pair,) = json.loads(place.run("compare", *both, "--json").out)["cells"]
    assert (pair["a"]["fps"], pair["b"]["fps"], pair["ratio"]) == (None, None, None)
