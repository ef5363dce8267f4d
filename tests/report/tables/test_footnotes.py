"""The sentences under a table: of one entry, of a verification, and of the whole table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from helpers.record_factories import (
    LAPTOP,
    OTHER,
    make_cell,
    make_failure,
    make_verification,
    measured_plan,
)

from envbench.decisions.equal_work import judge
from envbench.machine import Match, Profile, Table
from envbench.model import Audit, Fingerprint, Plan, Run, digest
from envbench.report.by_machine import machine_results
from envbench.report.machine_results import MachineResults
from envbench.report.tables import footnotes, note
from envbench.results.measured_cells import Verified
from envbench.results.selection import select
from envbench.text import markdown

PROFILE = Profile(
    name="laptop",
    title="Laptop",
    match=Match(cpu="*i7-8750H*", cores=12),
    atari=Table(numenv=[1, 8], rows=["for-loop", "envpool-async"]),
)


def results_of(*records: Any) -> MachineResults:
    every = machine_results(select(records), {"laptop": PROFILE}).values()
    (found,) = (each for each in every if each.measured)
    return found


def note_of(*records: Any) -> str:
    return note.of_table(results_of(*records))


def plan(day: int, *cells: tuple[str, int], **given: Any) -> list[Any]:
    """A plan measured on that day of November."""
    values: dict[str, Any] = {
        "plan_id": f"p{day}", "started_utc": f"2025-11-{day}T10:00:00Z", **given,
    }  # fmt: skip
    return measured_plan(dict.fromkeys(cells, 100), **values)


# ---------------------------------------------------------------- the note under a table


ALTERNATED = f"{note.ADJUSTED} {note.COMPARES}"
UNKNOWN = note.UNKNOWN_DAY
ALONE = "± is the 95 % interval of the cell alone"


def test_a_table_of_one_session_has_one_date_and_no_figure_of_another_session() -> None:
    records = plan(20, ("for-loop", 1), ("envpool-sync", 8))
    said = note_of(*records)
    assert said.endswith("12 CPUs, 2025-11-20.")
    assert f"{ALTERNATED}; {UNKNOWN} {note.TIES}" in said
    assert ALONE not in said
    found = results_of(*records)
    assert [footnotes.of_entry(each, found) for each in found.measured] == [[], []]


def of_day(day: int) -> str:
    return f"Measured in another session (2025-11-{day}): it is not ranked with the others."


def other_sessions(found: MachineResults) -> dict[tuple[str, int], list[str]]:
    """The footnotes of each entry that has any."""
    every = {(e.label, e.numenv): footnotes.of_entry(e, found) for e in found.measured}
    return {entry: notes for entry, notes in every.items() if notes}


def test_figures_of_other_sessions_have_a_footnote_with_the_day() -> None:
    own = plan(20, ("for-loop", 1), ("subprocess", 1))
    found = results_of(*plan(21, ("envpool-sync", 8)), *own)
    assert found.session == "p20"
    assert other_sessions(found) == {
        ("EnvPool (sync)", 8): [
            "Measured in another session (2025-11-21): it is not ranked with the others."
        ]
    }
    said = note.of_table(found)
    assert "2025-11-20 to 2025-11-21." in said
    assert ALONE not in said  # no interval of another session is shown


def test_a_row_of_several_sessions_has_the_footnote_only_where_it_applies() -> None:
    found = results_of(*plan(20, ("for-loop", 8), ("for-loop", 1)), *plan(21, ("for-loop", 4)))
    assert list(other_sessions(found)) == [("For-loop", 4)]


def test_of_two_sessions_with_as_many_figures_the_newer_one_is_the_tables() -> None:
    first, later = plan(20, ("for-loop", 1)), plan(21, ("subprocess", 1))
    assert list(other_sessions(results_of(*later, *first))) == [("For-loop", 1)]


def test_a_session_past_midnight_has_the_day_of_its_last_run() -> None:
    records = [
        msgspec.structs.replace(each, started_utc="2025-11-21T00:10:00Z")
        if isinstance(each, Run) and each.cell.backend == "envpool-sync"
        else each
        for each in plan(20, ("for-loop", 1), ("envpool-sync", 8))
    ]
    found = results_of(*plan(22, ("subprocess", 1), ("subprocess", 2), ("subprocess", 4)), *records)
    assert other_sessions(found) == {
        ("For-loop", 1): [of_day(20)],
        ("EnvPool (sync)", 8): [
            "Measured in another session (2025-11-21): it is not ranked with the others."
        ],
    }


def test_the_note_says_where_no_cell_alternated() -> None:
    said = note_of(*plan(20, ("for-loop", 1), ("envpool-sync", 8), alternate=False))
    assert f"No cell alternated with another one, so none is ranked. {ALONE}; {UNKNOWN}" in said
    assert "≈" not in said
    assert "Bold" not in said


def test_the_note_says_that_no_figure_has_an_interval() -> None:
    said = note_of(*plan(20, ("for-loop", 1), ("envpool-sync", 8), repeats=4))
    # Blocks of two rounds or more are enough to compare cells that alternated.
    assert ALTERNATED in said
    for alternate in (True, False):
        cells = ("for-loop", 1), ("subprocess", 1)
        once = note_of(*plan(20, *cells, repeats=1, alternate=alternate))
        assert "No figure has an interval." in once
        assert "±" not in once


def three_sessions(*hours: str) -> list[list[Any]]:
    """Three plans of one cell, begun at these hours: 1,000, 1,020 and 1,010 steps per window."""
    return [
        measured_plan({("for-loop", 1): n}, plan_id=f"{n}", started_utc=f"{hour}:00:00Z")
        for n, hour in zip((1000, 1020, 1010), hours, strict=True)
    ]


@pytest.mark.parametrize(
    ("last", "says"),
    [
        ("2025-11-20T10", "Measured again within 1 minute, a figure can differ by up to 6 %"),
        ("2025-11-20T13", "Measured again within 3 hours, a figure can differ by up to 6 %"),
        ("2025-11-21T09", "Measured again within 23 hours, a figure can differ by up to 6 %"),
        ("2025-11-21T10", "Measured on another day, a figure can differ by up to 6 %"),
        ("no time", "Measured again within 1 minute, a figure can differ by up to 6 %"),
    ],
)
def test_sessions_of_a_few_hours_do_not_say_how_much_another_day_differs(
    last: str, says: str
) -> None:
    again = three_sessions("2025-11-20T10", "2025-11-20T10", last)
    assert says in note_of(*again[0], *again[1], *again[2])


def test_the_note_says_how_far_sessions_of_the_host_differ() -> None:
    """A cell whose sessions differ by 2 %: with two degrees of freedom, 6 % are possible."""
    again = three_sessions("2025-11-20T10", "2025-11-20T15", "2025-11-21T11")
    says = "Measured on another day, a figure can differ by up to 6 % (in 95 of 100 cases, "
    assert f"{says}estimated from 3 sessions)." in note_of(*again[0], *again[1], *again[2])
    assert (
        "Between 2 sessions, figures differed by 2 %. These are too few to say how far they can "
        "differ on another day."
    ) in note_of(*again[0], *again[1])
    assert UNKNOWN in note_of(*again[0])
    known = note_of(*again[0], *again[1])
    assert UNKNOWN not in known
    assert note.ONE_SESSION in known or ALONE in known
    # It does not concern another host, whose cells were measured once.
    elsewhere = measured_plan(
        {("for-loop", 1): 9}, cell={"env": "mujoco", "task": "Ant-v3"}, fingerprint=digest(OTHER)
    )
    found = machine_results(
        select([*again[0], *again[1], *again[2], *elsewhere]), {"laptop": PROFILE}
    )
    said = {name: note.of_table(each) for name, each in found.items() if each.measured}
    assert {name: says in each for name, each in said.items()} == {
        "Atari - Laptop": True, "Mujoco - Laptop": False,
    }  # fmt: skip


def test_the_note_says_if_only_other_tasks_were_measured_in_several_sessions() -> None:
    again = three_sessions("2025-11-20T10", "2025-11-20T15", "2025-11-21T11")
    once = measured_plan({("for-loop", 1): 9}, cell={"env": "mujoco", "task": "Ant-v3"})
    records = [*again[0], *again[1], *again[2], *once]
    found = machine_results(select(records), {"laptop": PROFILE})
    said = {name: note.of_table(each) for name, each in found.items() if each.measured}
    assert "estimated from 3 sessions)." in said["Atari - Laptop"]
    assert "estimated from 3 sessions with other tasks)." in said["Mujoco - Laptop"]


def test_the_note_names_its_task_and_a_missing_ceiling_and_which_rows_are_plugins() -> None:
    cells = {("for-loop", 1): 9, ("mine", 1): 8}
    said = note_of(*measured_plan(cells))
    assert "steps per second of Pong-v5 × frame_skip (4)." in said
    assert note.NO_CEILING in said
    assert "mine comes from a plugin, not from envbench." in said
    assert "from a plugin" not in note_of(*measured_plan({("for-loop", 1): 9}))


def test_a_bound_of_more_than_100_per_cent_is_not_shown() -> None:
    again = [measured_plan({("for-loop", 1): n}, plan_id=f"{n}") for n in (1000, 3000, 1500)]
    said = note_of(*again[0], *again[1], *again[2])
    assert "up to" not in said
    assert "These are too few to say how far they can differ on another day." in said


def test_the_note_says_if_no_cell_was_spot_checked() -> None:
    none = "No cell was spot-checked."
    cells = {("for-loop", 1): 9, ("subprocess", 1): 8}
    assert none in note_of(*measured_plan(cells))
    assert none not in note_of(*measured_plan(cells, quick=True, repeats=1))


def test_a_note_of_plain_figures_explains_ties_and_no_intervals() -> None:
    def plain(*records: Any) -> str:
        found = machine_results(select(records), {"laptop": PROFILE}, plain=True)
        return note.of_table(found["Atari - Laptop"])

    said = plain(*plan(20, ("for-loop", 1), ("subprocess", 1)))
    assert f"{note.TIES} {note.PLAIN}" in said
    said = plain(*measured_plan({("for-loop", 1): 10, ("subprocess", 1): 20}))
    assert "≈" not in said
    assert "±" not in said
    assert note.PLAIN in said  # the faster one is bold


@pytest.mark.parametrize(
    ("runtimes", "rows"),
    [
        (("other", "other"), "all rows"),
        (("runtime", "other"), "Subprocess"),
    ],
)
def test_the_note_names_the_rows_verified_with_other_packages(
    runtimes: tuple[str, str], rows: str
) -> None:
    findings = [
        make_verification(make_cell(name), verification_id=name, runtime=runtime, worker="worker")
        for name, runtime in zip(("for-loop", "subprocess"), runtimes, strict=True)
    ]
    said = note_of(*plan(20, ("for-loop", 1), ("subprocess", 1)), *findings)
    changed = f"For {rows}: the packages or envbench changed between measuring and verifying."
    assert changed in said


def ceiling(**given: Any) -> list[Any]:
    """ALE's engine alone on twelve cores: 3,200 FPS."""
    return measured_plan({("ceiling", 12): 200}, plan_id="top", cell={"kind": "ceiling"}, **given)


@pytest.mark.parametrize(("speed", "explained"), [(199, False), (200, False), (201, True)])
def test_only_a_figure_above_the_ceiling_is_explained(speed: int, explained: bool) -> None:
    rows = measured_plan({("for-loop", 1): 100, ("envpool-async", 8): speed})
    said = note_of(*rows, *ceiling())
    assert "Ceiling: ALE alone, on 12 cores: 3,200.0 ±0 % FPS (2025-11-20)." in said
    why = "A share over 100 % can come from another engine, lower precision, drift or noise."
    assert (why in said) is explained


CARTPOLE = {"env": "classic_control", "task": "CartPole-v1", "frame_skip": 1}


@pytest.mark.parametrize(
    ("states", "cell", "says"),
    [
        (1, {}, "ALE alone, on 1 core:"),
        (2048, CARTPOLE, "alone, on 2 cores:"),  # each core steps 1,024 states
    ],
)
def test_the_ceiling_is_said_with_its_cores(states: int, cell: dict[str, Any], says: str) -> None:
    rows = plan(20, ("for-loop", 1), cell=cell)
    top = {("ceiling", states): 200}
    found = measured_plan(top, plan_id="top", cell={**cell, "kind": "ceiling"})
    assert says in note_of(*rows, *found)
    assert "Ceiling" not in note_of(*rows)


def test_a_ceiling_has_all_footnotes_of_a_figure_except_that_it_was_alone_in_its_session() -> None:
    """A ceiling is measured by a command of its own: so it is usually measured without other
    cells."""
    rows = plan(20, ("for-loop", 1))
    top = [
        msgspec.structs.replace(each, cells=each.cells[:1]) if isinstance(each, Plan) else each
        for each in ceiling(run={"steady": False})
    ]
    found = results_of(*rows, *top).ceiling
    assert found is not None
    assert found.summary.flags == ["one-go", "unsteady"]
    said = note_of(*rows, *top)
    assert footnotes.FLAGS["unsteady"] in said
    assert footnotes.FLAGS["one-go"] not in said


@pytest.mark.parametrize(
    ("backend", "processes", "single"),
    [
        ("envpool-numa", [1], True),
        ("envpool-numa", [1, 2], False),
        ("envpool-numa", None, False),  # an older record
        ("envpool-sync", [1], False),  # it never has more
    ],
)
def test_the_note_names_rows_with_one_pool_because_the_machine_has_one_node(
    backend: str, processes: list[int] | None, single: bool
) -> None:
    facts = {"processes": processes} if processes is not None else {}
    said = note_of(*plan(20, (backend, 8), run={"facts": facts}))
    says = "EnvPool (numa+async) uses a single pool: the machine has one NUMA node."
    assert (says in said) is single
    assert ("single pool" in said) is single


# ---------------------------------------------------------------- one entry


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "Some CPU, 2 CPUs"),
        ({"logical_cpus": 1, "usable_cpus": 1}, "Some CPU, 1 CPU"),
        ({"usable_cpus": 1}, "Some CPU, 1 of 2 CPUs"),
        ({"gpus": ["H200", "H200", "A100"]}, "Some CPU, 2 CPUs, H200, A100"),
    ],
)
def test_a_machine_is_described_by_its_cpus_and_each_kind_of_gpu(
    changes: dict[str, Any], text: str
) -> None:
    assert footnotes.hardware(msgspec.structs.replace(OTHER, **changes)) == text


@pytest.mark.parametrize(
    ("fingerprint", "says"),
    [
        (LAPTOP, []),
        (msgspec.structs.replace(LAPTOP, host="another"), []),
        (OTHER, ["Not measured on the profile's hardware: Some CPU, 2 CPUs."]),
        (None, ["The hardware of this measurement is not recorded."]),
    ],
)
def test_an_entry_says_that_its_hardware_is_another_or_unknown(
    fingerprint: Fingerprint | None, says: list[str]
) -> None:
    results = results_of(*plan(20, ("for-loop", 1)))
    entry = replace(results.measured[0], fingerprint=fingerprint)
    assert footnotes.of_entry(entry, results) == says


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"reason": "signal", "signal": "SIGSEGV"}, "(signal, SIGSEGV): the worker died"),
        ({"reason": "stalled", "phase": "first_step"}, "(stalled in first step): the worker died"),
        ({"reason": "import", "phase": "import"}, "(import): the worker died"),
        ({"reason": "signal", "message": ""}, "(signal): no reason was given"),
    ],
)
def test_a_failure_is_said_with_its_phase_and_signal(given: dict[str, Any], text: str) -> None:
    values = {"phase": "", **given}
    assert footnotes.of_failure(make_failure(**values)) == f"No figure {text}"


# ---------------------------------------------------------------- a verification


def test_a_row_of_equal_work_has_no_footnote_unless_it_differs_from_the_request() -> None:
    same = make_verification()
    assert footnotes.of_verification(Verified(verification=same)) == []
    work = dict(same.work)
    work["frame_skip"] = "something else"
    found = Verified(verification=make_verification(work=work))
    (said,) = footnotes.of_verification(found)
    assert said.startswith("Different work: its settings.")
    assert f"Other settings: {markdown(found.verdict.differences[0])}." in said


def test_a_refusal_says_whether_the_count_or_the_work_is_wrong() -> None:
    claims = make_verification(audit=Audit(calls=40, steps=40, resets=0, frames=80.0))
    deaf = make_verification(responds=False)
    assert {judge(each).badge for each in (claims, deaf)} == {"✗"}
    said = [footnotes.of_refusal(Verified(verification=each)) for each in (claims, deaf)]
    assert said[0].startswith("No figure: its counts are wrong. It claims 160 frames")
    assert said[1].startswith("No figure: its observations do not follow")
    assert "do not follow the actions" in said[1]
