"""The study of kills: what it finds on disk, which exit codes it accepts, and its table."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest
from helpers.record_factories import (
    add_record,
    make_block,
    make_cell,
    make_failure,
    make_plan,
    new_results_file,
)

from envbench.model import EndedRecord


def test_blocks_that_the_next_call_did_not_use_are_found() -> None:
    from kill_checks import is_concluded, plan_faults

    cells = [make_cell(), make_cell("subprocess")]
    plans = [make_plan(cells, plan_id=name, seed=1) for name in ("first", "second")]
    mine = [make_block(each.backend, plan_id="first", cell=each) for each in cells]
    ended = [EndedRecord(plan_id=p.plan_id, how="concluded", ended_utc="") for p in plans]
    failure = make_failure(reason="interrupted")
    stopped = make_block("stopped", plan_id="first", cell=cells[0], failure=failure)
    whole = [plans[0], stopped, *mine, ended[0]]
    assert plan_faults(whole, 1) == []
    assert is_concluded(whole, 1)
    assert not is_concluded(whole, 2)
    again = make_block("again", plan_id="second", cell=cells[0])
    (begun,) = plan_faults([plans[0], mine[0], plans[1]], 1)
    assert begun == "plan second began although first was not concluded"
    assert not is_concluded([plans[0], mine[0], plans[1]], 1)
    faults = plan_faults([plans[0], mine[0], plans[1], again, ended[1]], 1)
    assert faults[0] == begun
    assert faults[1].startswith("measured 2 times")
    assert faults[2] == "plan second was concluded without 1 complete blocks"
    (twice,) = plan_faults([plans[0], mine[0], mine[0], ended[0]], 1)
    assert twice.startswith("measured 2 times")


def test_complete_lines_that_were_lost_or_changed_are_found(tmp_path: Path) -> None:
    from kill_checks import WatchedResults

    first, second = (new_results_file(tmp_path, "laptop", f"2026-11-2{k}") for k in (0, 1))
    for path in (first, second):
        add_record(path, make_plan([make_cell()], plan_id=path.stem))
    results = WatchedResults(tmp_path)
    assert results.read() == []
    assert [each.plan_id for each in results.records] == [first.stem, second.stem]
    add_record(first, make_block(plan_id=first.stem))
    assert results.read() == []
    whole = first.read_bytes()
    first.write_bytes(whole + b'{"type":')  # killed while it wrote: not a complete line
    assert results.read() == []
    first.write_bytes(whole)
    assert results.read() == []
    first.write_bytes(whole.splitlines(keepends=True)[0])
    second.unlink()
    lost = "lines were lost or changed"
    assert results.read() == [f"{first.name}: {lost}", f"{second.name}: {lost}"]


@pytest.mark.parametrize(
    ("name", "code", "verdict", "may"),
    [
        ("run", 0, "", True),
        ("run", 1, "", False),
        ("verify", 4, "", False),
        ("baseline", 2, "", False),
        ("check", 0, "PASS", True),
        ("check", 1, "REGRESSION", True),
        ("check", 1, "BROKEN", False),
        ("check", 1, "", False),
        ("check", 4, "INCONCLUSIVE", True),
        ("check", 3, "", False),
    ],
)
def test_only_exit_codes_of_calls_without_a_kill_are_accepted(
    name: str, code: int, verdict: str, may: bool
) -> None:
    from kill_checks import may_end_with

    assert may_end_with(name, code, f'{{"verdict": "{verdict}"}}' if verdict else "") is may


def test_the_table_has_a_row_per_session_and_command_and_a_sum() -> None:
    from random_kills import Tally, table

    tallies = {
        "run": asdict(Tally(kills=9, controllers=4, stopped=2, plans=3, blocks=18)),
        "check": asdict(Tally(kills=8, plans=1, blocks=5, faults=["a line was lost"])),
    }
    session = {"utc": "2026-11-20T10:00:00Z", "commit": "abc", "seed": 7, "commands": tallies}
    rows = [row.replace(" ", "") for row in table([session]).splitlines()[2:]]
    assert rows == [
        "|2026-11-20|abc|7|run|9|4|2|3|18|0|",
        "|2026-11-20|abc|7|check|8|0|0|1|5|1|",
        "|all||||17|4|2|4|23|1|",
    ]
