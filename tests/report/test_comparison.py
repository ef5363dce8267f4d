"""Two sets of measurements compared: pairs, ratios, what is within the noise, and what cannot be
compared. ``tests/cli/test_compare.py`` tests the command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import geometric_mean
from typing import Any

import msgspec
import pytest
from helpers.record_factories import (
    DIFFERENT,
    LAPTOP,
    OTHER,
    make_cell,
    make_failure,
    make_plan,
    make_run,
    measured_plan,
    plan_of_rounds,
    varied_plan,
)

from envbench.model import Audit, Plan, Run, Verification, digest
from envbench.report.comparison import by_backend, by_cell, by_machine, compare, rows_of
from envbench.results.measured_cells import Measured
from envbench.results.relations import Relations
from envbench.results.selection import select
from envbench.stats.drift import Drift

SLOW = (100, 101, 99, 100, 102)
FAST = (200, 202, 198, 201, 199)
NOISY = (60, 150, 100, 80, 140)
# Two sessions of one cell differ by up to 6 % in 95 of 100 cases.
DRIFT = Drift(spread=0.02, degrees=20, sessions=21, hosts=frozenset({digest(LAPTOP)}))
KNOWN = Relations(figures=DRIFT)
TWIN = msgspec.structs.replace(LAPTOP, host="1a2b3c4d5e6f")  # another computer of that model


def shown(name: str, speeds: Sequence[int], *backend: str, **fields: Any) -> list[Measured]:
    """What a report shows of a plan of one cell, measured at these speeds."""
    return select(plan_of_rounds(name, speeds, *backend, **fields)).measured


def on_twin(measured: Sequence[Measured]) -> list[Measured]:
    """As if another computer had measured it, with the same drift."""
    return [replace(each, fingerprint=TWIN) for each in measured]


def test_a_clear_difference_has_its_ratio_and_interval() -> None:
    found = compare(shown("a", SLOW), on_twin(shown("b", FAST)), by_cell, KNOWN)
    (pair,) = found.pairs
    assert pair.ratio == pytest.approx(1000 / 502)
    assert pair.interval is not None
    assert pair.interval[0] < pair.ratio < pair.interval[1]
    assert pair.verdict == "faster"
    assert pair.notes == ["host", "session"]
    assert found.geometric_mean == pytest.approx(pair.ratio)
    back = compare(on_twin(shown("b", FAST)), shown("a", SLOW), by_cell, KNOWN)
    assert back.pairs[0].verdict == "slower"


@pytest.mark.parametrize(
    ("audit", "verdict", "message"),
    [
        ({"steps": 40, "frames": 80.0}, "", "refused this row"),
        (
            {"steps": 20, "frames": 80.0},
            "?",
            "did not find that they do the same work (not verified",
        ),
    ],
    ids=["refused", "unequal"],
)
def test_the_mean_excludes_refused_and_unequal_figures(
    audit: dict[str, Any], verdict: str, message: str
) -> None:
    finding = Verification(
        verification_id="v", cell=make_cell("envpool-sync", 8), started_utc="2025-11-21T00:00:00Z",
        fingerprint="f", runtime="runtime", worker="worker", seed=0,
        audit=Audit(calls=20, resets=0, counted_by="the emulator", **audit), responds=True,
        agreement=DIFFERENT,
    )  # fmt: skip
    records = [*plan_of_rounds("a", SLOW), *plan_of_rounds("b", FAST, "envpool-sync"), finding]
    measured = select(records).measured
    found = compare(
        rows_of(measured, "for-loop"), rows_of(measured, "envpool-sync"), by_backend, KNOWN
    )
    (pair,) = found.pairs
    assert (pair.verdict, found.geometric_mean) == (verdict, None)
    assert message in " ".join(pair.unlike)


def test_a_difference_within_the_noise_is_neither_faster_nor_slower() -> None:
    found = compare(shown("a", SLOW), on_twin(shown("b", NOISY)), by_cell, KNOWN)
    assert found.pairs[0].verdict == "~"


def test_a_difference_within_the_drift_is_a_tie_only_between_sessions() -> None:
    """5 % apart, and hardly any noise: measured alternately, this would be a difference."""
    ours = shown("a", [1000 * speed for speed in SLOW])
    theirs = on_twin(shown("b", [1050 * speed for speed in SLOW]))
    (pair,) = compare(ours, theirs, by_cell, KNOWN).pairs
    assert pair.ratio == pytest.approx(1.05)
    assert pair.interval is not None
    assert 0.97 < pair.interval[0] < 1 < pair.interval[1] < 1.15
    assert (pair.verdict, pair.notes) == ("~", ["host", "session"])
    one_session = [replace(theirs[0], plan=ours[0].plan)]  # its cells did not alternate
    assert compare(ours, one_session, by_cell, KNOWN).pairs[0].verdict == "faster"


def test_cells_that_alternated_are_compared_by_the_blocks_they_shared() -> None:
    """2 % apart in every block, while the machine's speed changes by a factor of two."""
    machine = (10_000, 20_000, 13_000, 17_000, 15_000)
    faster = (10_210, 20_380, 13_260, 17_350, 15_290)
    records = varied_plan({("for-loop", 8): machine, ("subprocess", 8): faster})
    measured = select(records).measured
    sides = rows_of(measured, "for-loop"), rows_of(measured, "subprocess")
    (pair,) = compare(*sides, by_backend, Relations()).pairs
    assert pair.ratio == pytest.approx(1.02, rel=2e-3)
    assert pair.interval is not None
    assert 1.01 < pair.interval[0] < pair.interval[1] < 1.03
    assert (pair.verdict, pair.notes) == ("faster", [])
    (back,) = compare(*reversed(sides), by_backend, Relations()).pairs
    assert back.interval == pytest.approx((1 / pair.interval[1], 1 / pair.interval[0]))
    assert back.verdict == "slower"


def test_sessions_have_no_verdict_where_their_drift_is_unknown() -> None:
    sides = shown("a", SLOW), on_twin(shown("b", FAST))
    other = replace(DRIFT, hosts=frozenset({"another host"}))
    for known in (Relations(), Relations(figures=other)):
        (pair,) = compare(*sides, by_cell, known).pairs
        assert pair.ratio == pytest.approx(1000 / 502)
        assert (pair.interval, pair.verdict) == (None, "?")


def test_sessions_of_one_host_without_a_common_kernel_have_no_verdict() -> None:
    (pair,) = compare(shown("a", SLOW), shown("b", FAST), by_cell, KNOWN).pairs
    assert (pair.notes, pair.interval, pair.verdict) == (["session"], None, "?")


def test_the_interval_of_the_mean_supposes_a_common_error_and_needs_all_ratios() -> None:
    def both(count: int) -> list[Any]:
        return [
            record
            for k in range(count)
            for record in plan_of_rounds(f"{k}", NOISY, cell={"task": f"T{k}"})
        ]

    for count in (1, 4):
        sides = select(both(count)).measured, on_twin(select(both(count)).measured)
        found = compare(*sides, by_cell, KNOWN)
        assert found.geometric_mean == pytest.approx(1.0)
        assert found.mean_interval is not None
        every = [pair.interval for pair in found.pairs if pair.interval]
        assert len(every) == count
        for side, bound in enumerate(found.mean_interval):
            assert bound == pytest.approx(geometric_mean(each[side] for each in every))
    few = measured_plan({("for-loop", 8): 300}, plan_id="few", repeats=3, cell={"task": "few"})
    mixed = select([*both(2), *few]).measured
    assert compare(mixed, on_twin(mixed), by_cell, KNOWN).mean_interval is None


def test_without_an_interval_the_verdict_is_unknown() -> None:
    few = measured_plan({("for-loop", 8): 300}, plan_id="b", repeats=3)
    found = compare(shown("a", SLOW), on_twin(select(few).measured), by_cell, KNOWN)
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
    first, second = (
        shown("a", SLOW),
        shown("b", FAST, **given),
    )
    by = by_backend if "kind" in given.get("cell", {}) else by_cell
    found = compare(first, second, by, KNOWN)
    (pair,) = found.pairs
    assert any(says in message for message in pair.unlike)
    assert pair.verdict == "?"
    assert found.geometric_mean is None


def test_a_stand_in_that_does_equal_work_is_compared_with_a_note() -> None:
    found = [
        replace(each, badge="✓", ran=ran)
        for each, ran in zip(
            select(
                [*plan_of_rounds("a", SLOW), *plan_of_rounds("b", FAST, "envpool-sync")]
            ).measured,
            ("", "Pong-v4"),
            strict=True,
        )
    ]
    (pair,) = compare(on_twin(found[1:]), found[:1], by_backend, KNOWN).pairs
    assert (pair.unlike, pair.notes) == ([], ["host", "stand-in", "session"])
    assert pair.verdict in ("faster", "slower")


def test_extra_environments_in_flight_are_noted() -> None:
    records = [*plan_of_rounds("a", SLOW), *plan_of_rounds("b", FAST, "envpool-async")]
    measured = select(records).measured
    found = compare(
        rows_of(measured, "for-loop"), rows_of(measured, "envpool-async"), by_backend, KNOWN
    )
    assert "in-flight" in found.pairs[0].notes
    same = compare(measured, measured, by_cell, KNOWN)
    assert not any("in-flight" in pair.notes for pair in same.pairs)


def test_machines_are_paired_by_row_and_numenv_with_a_note_on_hardware() -> None:
    there = plan_of_rounds("b", FAST, cell={"machine": "other"}, fingerprint=digest(OTHER))
    hosts = frozenset({digest(LAPTOP), digest(OTHER)})
    known = Relations(figures=replace(DRIFT, hosts=hosts))
    found = compare(shown("a", SLOW), select(there).measured, by_machine, known)
    assert found.pairs[0].notes == ["hardware", "session"]
    assert found.pairs[0].verdict == "faster"
    assert compare(shown("a", SLOW), select(there).measured, by_cell, KNOWN).pairs == []


def test_two_computers_of_one_model_are_compared_with_a_note_on_the_host() -> None:
    (pair,) = compare(shown("a", SLOW), on_twin(shown("b", FAST)), by_cell, KNOWN).pairs
    assert pair.notes == ["host", "session"]


def test_a_quick_figure_is_noted() -> None:
    quick = select(measured_plan({("for-loop", 8): 200}, plan_id="b", quick=True, repeats=1))
    (pair,) = compare(shown("a", SLOW), quick.measured, by_cell, KNOWN).pairs
    assert (pair.notes, pair.verdict) == (["quick", "session"], "?")


def test_a_failed_cell_is_a_pair_without_a_ratio() -> None:
    cell = make_cell("for-loop", 8)
    failed: list[Plan | Run] = [
        make_plan([cell], plan_id="b"), make_run(cell, plan_id="b", failure=make_failure())
    ]  # fmt: skip
    found = compare(shown("a", SLOW), select(failed).measured, by_cell, KNOWN)
    assert (found.pairs[0].ratio, found.pairs[0].verdict) == (None, "")
    assert found.geometric_mean is None


def test_a_cell_of_one_side_only_is_listed_and_has_no_pair() -> None:
    ours = select([*plan_of_rounds("a", SLOW), *plan_of_rounds("b", SLOW, "subprocess")]).measured
    theirs = select([*plan_of_rounds("c", FAST), *plan_of_rounds("d", FAST, "envpool-sync")])
    found = compare(ours, theirs.measured, by_cell, KNOWN)
    assert [pair.first.label for pair in found.pairs] == ["For-loop"]
    assert [each.label for each in found.only_first] == ["Subprocess"]
    assert [each.label for each in found.only_second] == ["EnvPool (sync)"]


def test_the_pairs_are_in_the_order_of_the_tables_whatever_the_order_of_the_records() -> None:
    plans = [plan_of_rounds(name, SLOW, cell={"task": name}) for name in ("C", "A", "B")]
    measured = select([record for each in plans for record in each]).measured
    for given in (measured, measured[::-1]):
        pairs = compare(given, measured, by_cell, KNOWN).pairs
        assert [pair.first.cell.task for pair in pairs] == ["A", "B", "C"]


def test_rows_are_found_by_the_name_of_a_backend_without_its_variants() -> None:
    variant = {"settings": {"overcommit": 2}, "variant": {"overcommit": 2}}
    own = plan_of_rounds("a", SLOW, "envpool-async")
    other = plan_of_rounds("b", FAST, "envpool-async", cell=variant)
    measured = select([*own, *other]).measured
    assert [each.plan_id for each in rows_of(measured, "envpool-async")] == ["a"]
    (found,) = rows_of(measured, "EnvPool (async), overcommit=2")
    assert found.plan_id == "b"


def test_a_figure_in_doubt_has_no_verdict() -> None:
    doubtful = [replace(each, doubt="a spot check differs") for each in shown("b", FAST)]
    (pair,) = compare(shown("a", SLOW), doubtful, by_cell, KNOWN).pairs
    assert pair.unlike == ["one figure is in doubt: a spot check differs"]
    assert pair.verdict == "?"
