"""The sentences under a table: of one entry, of a verification, and of the whole table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from made_records import LAPTOP, OTHER, make_cell, make_failure, make_verification, measured_plan

from envbench.decisions.equal_work import judge
from envbench.machine import Match, Profile, Table
from envbench.model import Audit, Fingerprint, Run
from envbench.report.tables import footnotes
from envbench.report.tables.machine_results import MachineResults, machine_results
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


def note(*records: Any) -> str:
    return footnotes.of_table(results_of(*records))


def plan(day: int, *cells: tuple[str, int], **given: Any) -> list[Any]:
    """A plan measured on that day of November."""
    values = {"plan_id": f"p{day}", "started_utc": f"2025-11-{day}T10:00:00Z", **given}
    return measured_plan(dict.fromkeys(cells, 100), **values)


# ---------------------------------------------------------------- the note under a table


def test_a_table_of_one_session_has_one_date_and_no_list_of_sessions() -> None:
    said = note(*plan(20, ("for-loop", 1), ("envpool-sync", 8)))
    assert said.endswith("12 CPUs, 2025-11-20.")
    assert "sessions" not in said


def test_sessions_are_listed_in_the_order_of_their_days_with_their_rows() -> None:
    said = note(*plan(21, ("envpool-sync", 8)), *plan(20, ("for-loop", 1), ("subprocess", 1)))
    assert "2025-11-20 to 2025-11-21." in said
    rows = "For-loop, Subprocess on 2025-11-20; EnvPool (sync) on 2025-11-21"
    assert f"Measured in 2 sessions ({rows}): {footnotes.DRIFT}." in said


def test_a_row_of_several_sessions_is_listed_with_its_numbers_of_environments() -> None:
    said = note(*plan(20, ("for-loop", 8), ("for-loop", 1)), *plan(21, ("for-loop", 4)))
    assert "(For-loop at 1, 8 on 2025-11-20; For-loop at 4 on 2025-11-21)" in said


def test_a_session_past_midnight_has_the_day_of_its_last_run() -> None:
    records = [
        msgspec.structs.replace(each, started_utc="2025-11-21T00:10:00Z")
        if isinstance(each, Run) and each.cell.backend == "envpool-sync"
        else each
        for each in plan(20, ("for-loop", 1), ("envpool-sync", 8))
    ]
    said = note(*plan(22, ("subprocess", 1)), *records)
    assert "EnvPool (sync), For-loop on 2025-11-21; Subprocess on 2025-11-22" in said


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
    said = note(*plan(20, ("for-loop", 1), ("subprocess", 1)), *findings)
    changed = f"The packages or envbench changed between measuring and verifying {rows}."
    assert changed in said


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
    work[next(iter(work))] = "something else"
    found = Verified(verification=make_verification(work=work))
    (said,) = footnotes.of_verification(found)
    assert f"Differs in {markdown(found.verdict.differences[0])}." in said


def test_a_refusal_says_whether_the_count_or_the_work_is_wrong() -> None:
    claims = make_verification(audit=Audit(calls=10, steps=40, resets=0, frames=80.0))
    deaf = make_verification(responds=False)
    assert {judge(each).badge for each in (claims, deaf)} == {"✗"}
    said = [footnotes.of_refusal(Verified(verification=each)) for each in (claims, deaf)]
    assert said[0].startswith("No figure (accounting audit): claims 160 frames")
    assert said[1].startswith("No figure (equal work): ")
    assert "do not follow the actions" in said[1]
