"""What a report shows of a verification: badges, notes, and which rows may be the best."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from helpers.record_factories import (
    make_agreement,
    make_cell,
    make_verification,
    measured_plan,
    varied_plan,
)

from envbench import families
from envbench.decisions.equal_work import judge
from envbench.model import Apart, Audit, Run, Verification
from envbench.report.by_machine import machine_results
from envbench.report.markdown.table_text import parse, render
from envbench.report.tables.build import build
from envbench.results.selection import select

FASTEST, SECOND = "**3,200.0 ±0 %**", "**1,600.0 ±0 %**"


SPEEDS = {("subprocess", 1): 200, ("for-loop", 1): 100, ("envpool-sync", 1): 50}


def table(*verified: Verification, existing: str = "") -> str:
    """The table of a session: Subprocess is twice as fast as For-loop, EnvPool half as fast."""
    return table_of([*measured_plan(SPEEDS), *verified], existing)


def table_of(records: list[Any], existing: str = "") -> str:
    (subject,) = (s for s in machine_results(select(records), {}).values() if s.measured)
    return render(build(subject, parse(existing)))


def test_the_report_has_a_badge_for_each_verified_row_and_explains_it_once() -> None:
    text = table(make_verification())
    assert "| Equal work" in text.splitlines()[0]
    assert "| ✓ " in text
    assert "Equal work: ✓ same work as the reference, – not shown to be equal." in text
    assert FASTEST in text


def test_a_badge_of_a_family_whose_episodes_alone_are_compared_says_so() -> None:
    lander = {"env": "box2d", "task": "LunarLander-v3", "frame_skip": 1}
    work = dict(families.get("box2d").work["env"])
    audit = Audit(calls=20, steps=20, resets=0, frames=20.0, counted_by="simulated time")
    verified = make_verification(
        make_cell("for-loop", 1, **lander), audit=audit, work=work, agreement=None
    )
    text = table_of([*measured_plan(SPEEDS, cell=lander), verified])
    assert "as far as lengths and returns of episodes show" in text


def test_a_refused_row_has_no_figures_and_another_is_the_best() -> None:
    text = table(make_verification(audit=Audit(calls=40, steps=40, resets=0, frames=80.0)))
    assert "3,200" not in text
    assert SECOND in text
    assert (
        "No figure: its counts are wrong. It claims 160 frames, its environments made 80." in text
    )


def test_a_refused_figure_of_an_earlier_report_is_removed() -> None:
    before = table(make_verification())
    refused = make_verification(audit=Audit(calls=40, steps=40, resets=0, frames=80.0))
    assert FASTEST in before
    text = table(refused, existing=before)
    assert "3,200" not in text
    assert text == table(refused, existing=text)
    for old in ("3,110 ±2 %", "≈ 3,110", "3111.00"):
        older = table(refused, existing=before.replace(FASTEST, old))
        assert "311" not in older.replace(",", "")  # an older plan's is refused with its row


def refused_by_a_spot_check() -> list[Any]:
    """The records of ``table``, in which a spot check found that Subprocess does other work."""
    far = make_agreement(steps=60, observations=[Apart(median=9.0, p90=9.0, largest=9.0)])
    work = {"work": dict(families.get("atari").work["env"])}
    return [
        msgspec.structs.replace(each, facts=work, agreement=far if each.round else None)
        if isinstance(each, Run) and each.cell.backend == "subprocess"
        else each
        for each in measured_plan(SPEEDS)
    ]


def test_a_figure_that_a_spot_check_refuses_leaves_a_document_that_has_it() -> None:
    before = table()
    assert FASTEST in before
    text = table_of(refused_by_a_spot_check(), before)
    assert "3,200" not in text
    assert "No figure: its steps in a spot check are not" in text
    assert "no record of this figure" not in text
    assert "1,600" in text


def test_a_row_whose_figure_a_spot_check_refuses_has_its_badge() -> None:
    records = [*refused_by_a_spot_check(), make_verification()]
    (cell,) = (e for e in select(records).measured if e.cell.backend == "subprocess")
    assert (cell.badge, cell.fps) == ("✗", None)
    text = table_of(records)
    assert "✗ refused" in text
    assert "a figure was refused: its steps in a spot check" in text
    assert "0 of 1 cell agreed, not Subprocess at 1." in text


def test_a_figure_of_a_refused_row_is_removed_although_its_record_is_gone() -> None:
    existing = """| Atari - laptop | 1 | 8 |
|---|---|---|
| For-loop | 1600.00 | 77.25 |
| Subprocess | 3200.00 | 88.25 |

FPS is frames per second: steps per second × frame_skip (4)."""
    refused = make_verification(audit=Audit(calls=40, steps=40, resets=0, frames=80.0))
    text = table(refused, existing=existing)
    assert "88.25" not in text
    assert "77.25" in text


def test_a_row_that_differs_from_the_reference_is_never_the_best() -> None:
    text = table(make_verification(agreement=make_agreement(9.0), work={}))
    assert "| 3,200.0 ±0 %" in text
    assert SECOND in text


def test_a_table_has_the_ties_of_its_session_although_not_all_of_its_rows_compete() -> None:
    """Two rows alone would differ. With three others, which do other work, nothing shows it."""
    speeds = {
        ("for-loop", 1): (10000, 10100, 9900, 10060, 9940),
        ("subprocess", 1): (10235, 10033, 10195, 10073, 10134),
        ("envpool-sync", 1): (9900, 10060, 9940, 10000, 10100),
        ("envpool-async", 1): (10060, 9940, 10000, 10100, 9900),
        ("ale-vector", 1): (9940, 10000, 10100, 9900, 10060),
    }
    found = [
        make_verification(
            make_cell(name), verification_id=name, agreement=make_agreement(9.0), work={}
        )
        for name, _ in [*speeds][2:]
    ]
    every = machine_results(select([*varied_plan(speeds), *found]), {}).values()
    (results,) = (each for each in every if each.measured)
    loop, subprocess = (each for each in results.measured if results.competes(each))
    alone = subprocess.session.ranking([loop.cell, subprocess.cell])
    assert (alone.best, alone.ties) == (subprocess.cell.key, ())
    assert loop.cell.key in subprocess.session.standings[subprocess.cell.key].ties
    assert results.leaders[1] == [subprocess, loop]


def test_the_newest_verification_counts_even_if_it_failed() -> None:
    from envbench.model import Failure

    old = make_verification(started_utc="2025-11-20T09:00:00Z", responds=False, worker="older code")
    broken = make_verification(
        started_utc="2025-11-21T10:00:00Z", failure=Failure(reason="stalled", message="it hung")
    )
    newer = make_verification()
    for records, counts in (([newer, old], newer), ([old, broken, newer], broken)):
        (found,) = select(records).verified.values()
        assert found.verification == counts
    assert judge(broken).badge == "–"
    assert FASTEST in table(broken)  # as if it had never been verified


def test_a_note_says_that_other_packages_were_verified() -> None:
    note = "the packages or envbench changed between measuring and verifying"
    assert note in table(make_verification(runtime="another"))
    assert note in table(make_verification(worker="another"))
    same = make_verification(runtime="runtime", worker="worker")
    assert note not in table(same)
    # A verification of these packages counts, whatever a later one of other packages says.
    later = make_verification(runtime="another", started_utc="2025-11-22T10:00:00Z", responds=False)
    for order in ([same, later], [later, same]):
        assert note not in table(*order)
        assert "✓" in table(*order)
    # Of these the newest counts: another worker may check more.
    stricter = make_verification(
        runtime="runtime", worker="another", started_utc="2025-11-22T10:00:00Z", responds=False
    )
    for order in ([same, stricter], [stricter, same]):
        assert "No figure" in table(*order)


@pytest.mark.parametrize(
    "given",
    [
        {"audit": Audit(calls=20, steps=20, resets=0, frames=None)},
        {"audit": None},
        {"agreement": None},
    ],
    ids=["uncounted", "no audit", "another engine"],
)
def test_a_row_that_was_not_counted_twice_or_not_compared_is_never_the_best(given: Any) -> None:
    verdict = judge(make_verification(**given))
    assert (verdict.badge, verdict.refused) in (("–", False), ("≠", False))
    text = table(make_verification(**given))
    assert "| 3,200.0 ±0 %" in text
    assert SECOND in text


def test_settings_that_change_the_work_get_no_tick() -> None:
    cell = make_cell("subprocess", variant={"actions": "constant"})
    assert judge(make_verification(cell)).badge == "≠"


def test_an_unverified_row_is_the_best_only_if_its_backend_is_built_in() -> None:
    records = measured_plan(
        {("for-loop", 1): 100, ("their-backend", 1): 200, ("envpool-sync", 1): 50}
    )
    (subject,) = (s for s in machine_results(select(records), {}).values() if s.measured)
    text = render(build(subject, parse("")))
    assert SECOND in text
    assert "| 3,200.0 ±0 %" in text


def test_a_row_that_was_never_verified_says_so_beside_verified_ones() -> None:
    text = table(make_verification())
    assert text.count("| –<sup>") == 2
    assert "It was never verified." in text
