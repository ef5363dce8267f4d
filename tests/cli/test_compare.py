"""``envbench compare``: pairs, ratios, what is within the noise, and what does not compare."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from made_records import (
    OTHER,
    make_cell,
    make_failure,
    make_plan,
    make_refusal,
    make_run,
    measured_plan,
    new_results_file,
    write,
)
from place import Place

from envbench.model import Audit, Plan, Run, Verification, digest
from envbench.report.comparison import by_backend, by_cell, by_machine, compare, rows_of
from envbench.results.selection import select


def spread(records: Sequence[Any], speeds: Sequence[int]) -> list[Any]:
    """The records, with each round's speed (steps per window) in place of the plan's."""
    from made_records import make_windows

    return [
        _with(each, make_windows([speeds[each.round]] * 4)) if isinstance(each, Run) else each
        for each in records
    ]


def _with(run: Run, windows: Any) -> Run:
    import msgspec

    return msgspec.structs.replace(run, measured=windows)


def plan(name: str, speeds: Sequence[int], backend: str = "for-loop", **given: Any) -> list[Any]:
    return spread(measured_plan({(backend, 8): 1}, plan_id=name, **given), speeds)


SLOW = (100, 101, 99, 100, 102)
FAST = (200, 202, 198, 201, 199)
NOISY = (60, 150, 100, 80, 140)


def test_a_clear_difference_has_its_ratio_and_interval() -> None:
    found = compare(select(plan("a", SLOW)).measured, select(plan("b", FAST)).measured, by_cell)
    (pair,) = found.pairs
    assert pair.ratio == pytest.approx(1000 / 502)
    assert pair.interval is not None
    assert pair.interval[0] < pair.ratio < pair.interval[1]
    assert pair.verdict == "faster"
    assert pair.notes == ["session"]
    assert found.geometric_mean == pytest.approx(pair.ratio)
    back = compare(select(plan("b", FAST)).measured, select(plan("a", SLOW)).measured, by_cell)
    assert back.pairs[0].verdict == "slower"


@pytest.mark.parametrize(
    ("audit", "verdict", "told"),
    [
        ({"steps": 40, "frames": 80.0}, "", "refused the figures of one"),
        (
            {"steps": 20, "frames": 80.0},
            "?",
            "did not find that they do the same work (not verified",
        ),
    ],
    ids=["refused", "unequal"],
)
def test_the_mean_excludes_refused_and_unequal_figures(
    audit: dict[str, Any], verdict: str, told: str
) -> None:
    finding = Verification(
        verification_id="v", cell=make_cell("envpool-sync", 8), started_utc="2025-11-21T00:00:00Z",
        fingerprint="f", runtime="runtime", worker="worker", seed=0,
        audit=Audit(calls=10, resets=0, **audit), responds=True,
    )  # fmt: skip
    records = [*plan("a", SLOW), *plan("b", FAST, "envpool-sync"), finding]
    measured = select(records).measured
    found = compare(rows_of(measured, "for-loop"), rows_of(measured, "envpool-sync"), by_backend)
    (pair,) = found.pairs
    assert (pair.verdict, found.geometric_mean) == (verdict, None)
    assert told in " ".join(pair.unlike)


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
    write(path, [*plan("a", SLOW), *plan("b", FAST, "envpool-sync")])
    done = place.run("compare", "for-loop", "envpool-sync", *words)
    assert (done.code, done.out) == (2, "")
    assert says in done.err


def test_a_recorded_family_can_be_selected_without_its_plugin(place: Place) -> None:
    path = new_results_file(place.results, "laptop", "2025-11-20T10:00:00Z")
    own = {"cell": {"env": "revfam"}}
    for name, speeds, backend in (("a", SLOW, "for-loop"), ("b", FAST, "envpool-sync")):
        write(path, [*plan(name, speeds, backend), *plan(f"{name}2", speeds, backend, **own)])
    done = place.run("compare", "for-loop", "envpool-sync", "--env", "revfam", "--json")
    assert done.code == 0, done.err
    assert [cell["a"]["env"] for cell in done.document["cells"]] == ["revfam"]
    refused = place.run("compare", "for-loop", "envpool-sync", "--env", "revfan")
    assert (refused.code, refused.out) == (2, "")
    assert "unknown env family 'revfan'" in refused.err


def test_a_difference_within_the_noise_is_neither_faster_nor_slower() -> None:
    found = compare(select(plan("a", SLOW)).measured, select(plan("b", NOISY)).measured, by_cell)
    assert found.pairs[0].verdict == "~"


def test_a_difference_within_the_drift_is_a_tie_only_between_sessions() -> None:
    """8 % apart, and hardly any noise: measured alternately, this would be a difference."""
    ours = select(plan("a", [100 * speed for speed in SLOW])).measured
    theirs = select(plan("b", [108 * speed for speed in SLOW])).measured
    found = compare(ours, theirs, by_cell)
    (pair,) = found.pairs
    assert pair.interval is not None
    assert 1 < pair.interval[0] < pair.interval[1] < 1.2
    assert (pair.verdict, pair.notes) == ("~", ["session"])
    at_once = compare(ours, [replace(theirs[0], plan=ours[0].plan)], by_cell)
    assert at_once.pairs[0].verdict == "faster"


def test_the_interval_of_the_mean_narrows_with_every_ratio_and_needs_all_of_them() -> None:
    def both(count: int) -> list[Any]:
        return [
            record for k in range(count) for record in plan(f"{k}", NOISY, cell={"task": f"T{k}"})
        ]

    widths = []
    for count in (1, 4):
        found = compare(select(both(count)).measured, select(both(count)).measured, by_cell)
        assert found.geometric_mean == pytest.approx(1.0)
        assert found.mean_interval is not None
        low, high = found.mean_interval
        assert low < 1 < high
        widths.append(high / low)
    assert widths[1] ** 1.5 < widths[0]
    few = measured_plan({("for-loop", 8): 300}, plan_id="few", repeats=3, cell={"task": "few"})
    mixed = select([*both(2), *few]).measured
    assert compare(mixed, mixed, by_cell).mean_interval is None


def test_without_an_interval_the_verdict_is_unknown() -> None:
    few = measured_plan({("for-loop", 8): 300}, plan_id="b", repeats=3)
    found = compare(select(plan("a", SLOW)).measured, select(few).measured, by_cell)
    assert (found.pairs[0].interval, found.pairs[0].verdict) == (None, "?")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"cell": {"settings": {"actions": "bank", "threads": 2}}}, "threads is unset and 2"),
        ({"cell": {"frame_skip": 1}}, "4 and 1"),
        ({"cell": {"kind": "physics"}}, "raw physics"),
        ({"run": {"facts": {"library_task": "Pong-v4"}}}, "Pong-v5 and Pong-v4"),
    ],
)
def test_different_work_is_named_and_has_no_verdict(given: dict[str, Any], says: str) -> None:
    first, second = select(plan("a", SLOW)).measured, select(plan("b", FAST, **given)).measured
    by = by_backend if "kind" in given.get("cell", {}) else by_cell
    found = compare(first, second, by)
    (pair,) = found.pairs
    assert any(says in told for told in pair.unlike)
    assert pair.verdict == "?"
    assert found.geometric_mean is None


def test_a_stand_in_that_does_equal_work_is_compared_with_a_note() -> None:
    found = [
        replace(each, badge="✓", ran=ran)
        for each, ran in zip(
            select([*plan("a", SLOW), *plan("b", FAST, "envpool-sync")]).measured,
            ("", "Pong-v4"),
            strict=True,
        )
    ]
    (pair,) = compare(found[1:], found[:1], by_backend).pairs
    assert (pair.unlike, pair.notes) == ([], ["stand-in", "session"])
    assert pair.verdict in ("faster", "slower")


def test_extra_environments_in_flight_are_noted() -> None:
    records = [*plan("a", SLOW), *plan("b", FAST, "envpool-async")]
    measured = select(records).measured
    found = compare(rows_of(measured, "for-loop"), rows_of(measured, "envpool-async"), by_backend)
    assert "in-flight" in found.pairs[0].notes
    same = compare(measured, measured, by_cell)
    assert not any("in-flight" in pair.notes for pair in same.pairs)


def test_machines_are_paired_by_row_and_numenv_with_a_note_on_hardware() -> None:
    there = plan("b", FAST, cell={"machine": "other"}, fingerprint=digest(OTHER))
    found = compare(select(plan("a", SLOW)).measured, select(there).measured, by_machine)
    assert found.pairs[0].notes == ["hardware", "session"]
    assert found.pairs[0].verdict == "faster"
    assert compare(select(plan("a", SLOW)).measured, select(there).measured, by_cell).pairs == []


def test_a_failed_cell_is_a_pair_without_a_ratio() -> None:
    cell = make_cell("for-loop", 8)
    failed: list[Plan | Run] = [
        make_plan([cell], plan_id="b"), make_run(cell, plan_id="b", failure=make_failure())
    ]  # fmt: skip
    found = compare(select(plan("a", SLOW)).measured, select(failed).measured, by_cell)
    assert (found.pairs[0].ratio, found.pairs[0].verdict) == (None, "")
    assert found.geometric_mean is None


# ---------------------------------------------------------------- the command


def put(place: Place, machine: str, records: Sequence[Any]) -> str:
    path = new_results_file(place.results, machine, "2025-11-20T10:00:00Z")
    write(path, records)
    return str(path)


def test_files_machines_backends_and_rows_can_be_compared(place: Place) -> None:
    first = put(place, "laptop", [*plan("a", SLOW), *plan("b", FAST, "envpool-async")])
    there = {"machine": "other"}
    second = put(place, "other", plan("c", FAST, cell=there))
    for words in (
        (first, first), ("laptop", "other"), ("for-loop", "envpool-async"),
        ("For-loop", "EnvPool (async)"), (str(place.results), str(place.results)),
    ):  # fmt: skip
        done = place.run("compare", *words)
        assert done.code == 0, done.err
        assert "geometric mean" in done.out
    assert place.run("compare", first, second).code == 2  # no cell in common
    done = place.run("compare", "laptop", "other", "--json")
    whole = json.loads(done.out)
    (cell,) = whole["cells"]
    assert whole["geometric_mean"] == pytest.approx(cell["ratio"]) == pytest.approx(1000 / 502)
    assert (cell["verdict"], whole["only_in_a"], whole["only_in_b"]) == ("faster", 1, 0)


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
    put(place, "laptop", plan("a", SLOW))
    done = place.run("compare", *words)
    assert done.code == 2
    assert says in done.err


def test_a_refusal_in_another_file_of_the_folder_counts(place: Place) -> None:
    paths = [new_results_file(place.results, "laptop", f"2025-11-2{k}T10:00:00Z") for k in range(3)]
    write(paths[0], plan("a", SLOW))
    write(paths[1], plan("b", FAST))
    both = [str(path) for path in paths[:2]]
    (pair,) = json.loads(place.run("compare", *both, "--json").out)["cells"]
    assert pair["verdict"] == "faster"
    write(paths[2], [make_refusal(make_cell("for-loop", 8))])
    (pair,) = json.loads(place.run("compare", *both, "--json").out)["cells"]
    assert (pair["a"]["fps"], pair["b"]["fps"], pair["ratio"]) == (None, None, None)
