"""How two measurements relate: within a session, and across sessions."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from helpers.record_factories import LAPTOP, make_cell, make_fact, make_plan, make_run

from envbench.model import Plan, Record, Run, RuntimeFact
from envbench.results.measured_cells import Measured
from envbench.results.relations import Relation, _of_one_host, common_kernels
from envbench.results.selection import Selection, select

FAST, SLOW = make_cell("envpool-sync", 1), make_cell("for-loop", 1)
KERNELS = [make_cell("reference-kernel", 1), make_cell("pooled-kernel", 1)]


def measured_session(
    name: str, speeds: dict[str, int], *, kernel: bool = True, day: float = 1.0, numenv: int = 1
) -> list[Record]:
    """A plan whose cells alternated in five blocks, with kernels. ``day``: the host's speed."""
    chance = random.Random(name)
    cells = [make_cell(backend, numenv) for backend in speeds]
    runs: list[Run] = []
    started = f"2025-11-20T10:00:0{name}Z"
    for number in range(5):
        block = day * chance.uniform(0.95, 1.05)
        shared: dict[str, Any] = {"plan_id": name, "round": number, "block": f"{name}{number}"}
        shared["started_utc"] = started
        for cell in cells:
            steps = round(1000 * speeds[cell.backend] * block * chance.uniform(0.99, 1.01))
            runs.append(make_run(cell, [steps] * 4, **shared))
        for each in KERNELS if kernel else []:
            steps = round(500_000 * block * chance.uniform(0.99, 1.01))
            runs.append(make_run(each, [steps] * 4, arm="kernel", **shared))
    plan = make_plan(cells, plan_id=name, started_utc=started)
    return [make_fact(), plan, *runs]


def shown(selection: Selection, backend: str, numenv: int = 1) -> Measured:
    return next(
        each for each in selection.measured if (each.cell.backend, each.numenv) == (backend, numenv)
    )


@pytest.mark.parametrize(
    ("interval", "says"),
    [
        ((1.02, 1.1), "faster"), ((0.9, 0.98), "slower"), ((0.99, 1.01), "~"), ((1.0, 1.2), "~"),
        (None, "?"),
    ],
)  # fmt: skip
def test_an_interval_that_contains_one_is_a_tie(
    interval: tuple[float, float] | None, says: str
) -> None:
    assert Relation(ratio=1.05, interval=interval).verdict == says


def test_within_a_session_the_interval_does_not_contain_the_drift() -> None:
    found = select(measured_session("1", {"for-loop": 100, "envpool-sync": 110}))
    relation = found.relations.between(shown(found, "envpool-sync"), shown(found, "for-loop"))
    assert relation is not None
    assert relation.verdict == "faster"
    assert relation.ratio == pytest.approx(1.1, rel=0.02)


def test_between_sessions_nothing_is_known_where_no_cell_was_measured_twice() -> None:
    one = measured_session("1", {"for-loop": 100}, kernel=False)
    found = select([*one, *measured_session("2", {"envpool-sync": 110}, kernel=False, day=1.3)])
    relation = found.relations.between(shown(found, "envpool-sync"), shown(found, "for-loop"))
    assert relation is not None
    assert (relation.interval, relation.verdict) == (None, "?")


def test_between_sessions_the_kernel_shows_the_speed_of_the_host() -> None:
    cells = {"for-loop": 100, "envpool-sync": 110}
    days = [1.0, 1.4, 0.8, 1.2]
    records = [
        record
        for number, day in enumerate(days)
        for record in measured_session(f"{number}", cells, day=day)
    ]
    records += measured_session("8", {"for-loop": 100}, numenv=2, day=0.7)
    found = select(records)
    one, other = shown(found, "envpool-sync"), shown(found, "for-loop", 2)
    assert one.plan_id != other.plan_id
    relation = found.relations.between(one, other)
    assert relation is not None
    assert relation.interval is not None
    assert relation.ratio == pytest.approx(1.1, rel=0.03)  # although the day was half as fast
    assert relation.interval[0] <= 1.1 <= relation.interval[1]
    assert relation.kernel == pytest.approx(1.2 / 0.7, rel=0.06)  # of the days
    assert one.figure is not None
    assert other.figure is not None
    assert relation.ratio * relation.kernel == pytest.approx(one.figure / other.figure, rel=0.03)


def test_a_kernel_of_another_numpy_relates_no_sessions() -> None:
    packages = {"numpy": "2.0"}
    facts = [
        RuntimeFact(hash=name, python="3.11", implementation="CPython", packages=each)
        for name, each in (("runtime", packages), ("newer", {"numpy": "3.0"}))
    ]
    records = [
        record
        for number, day in enumerate([1.0, 1.4, 0.8])
        for record in measured_session(f"{number}", {"for-loop": 100}, day=day)
    ]
    other = measured_session("8", {"for-loop": 100}, numenv=2, day=0.7)
    for wanted in (False, True):
        found = select([*facts, *records, *other])
        one, two = shown(found, "for-loop"), shown(found, "for-loop", 2)
        assert bool(common_kernels(one, two)) is not wanted
        other = [
            msgspec.structs.replace(each, runtime="newer")
            if isinstance(each, Run) and each.arm else each
            for each in other
        ]  # fmt: skip


def test_a_profile_shows_the_host_that_it_names_and_otherwise_the_first() -> None:
    records: list[Record] = []
    for name, host in (("1", "1a2b"), ("2", "3c4d")):
        own = measured_session(name, {"for-loop": 100})
        fact = make_fact(msgspec.structs.replace(LAPTOP, host=host))
        records += [
            fact,
            *(
                msgspec.structs.replace(each, fingerprint=fact.hash)
                if isinstance(each, Run | Plan) else each
                for each in own[1:]
            ),
        ]  # fmt: skip
    machine = KERNELS[0].machine
    for named, plan in (({}, "1"), ({machine: "3c4d"}, "2"), ({machine: "none"}, "1")):
        assert {each.plan_id for each in select(records, hosts=named).measured} == {plan}


def test_a_computer_with_another_version_of_its_system_is_still_one() -> None:
    before, after = (
        msgspec.structs.replace(LAPTOP, host="1a2b", kernel=kernel) for kernel in ("6.1", "6.2")
    )
    other = msgspec.structs.replace(LAPTOP, host="3c4d")
    assert _of_one_host(before, after)
    assert not _of_one_host(before, other)
    assert not _of_one_host(before, LAPTOP)  # of an unknown host
    assert _of_one_host(LAPTOP, LAPTOP)


def test_the_drift_counts_a_session_once_although_it_has_two_kernels() -> None:
    sessions = [measured_session(name, {"for-loop": 100, "envpool-sync": 110}) for name in "12"]
    found = select([record for each in sessions for record in each]).relations
    assert found.figures is not None
    assert found.beside_kernel is not None
    for drift in (found.figures, found.beside_kernel):
        assert (drift.sessions, drift.degrees) == (2, 1)


def test_a_table_shows_the_newest_session_that_measured_about_as_much() -> None:
    whole = {"for-loop": 100, "envpool-sync": 110, "envpool-async": 120}
    again = [*measured_session("1", whole), *measured_session("2", whole)]
    assert {each.plan_id for each in select(again).measured} == {"2"}


def test_a_table_keeps_its_session_where_a_newer_one_measured_few_cells() -> None:
    whole = {"for-loop": 100, "envpool-sync": 110, "envpool-async": 120}
    found = select([*measured_session("1", whole), *measured_session("2", {"for-loop": 200})])
    assert {each.plan_id for each in found.measured} == {"1"}
    assert "1 newer measurement not shown" in found.warnings[0]


def test_a_cell_of_another_session_is_shown_where_the_session_lacks_it() -> None:
    whole = {"for-loop": 100, "envpool-sync": 110, "envpool-async": 120}
    newer = measured_session("2", {"ale-vector": 200})
    found = select([*measured_session("1", whole), *newer])
    assert {each.cell.backend: each.plan_id for each in found.measured} == {
        "for-loop": "1", "envpool-sync": "1", "envpool-async": "1", "ale-vector": "2",
    }  # fmt: skip
