"""From stored records to what a report reads, and warnings about incomplete ones."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from helpers.record_factories import (
    as_stored,
    make_cell,
    make_fact,
    make_failure,
    make_plan,
    make_refusal,
    make_run,
    measured_plan,
    write,
)

from envbench.model import Histogram, Plan, Returns, Run, Windows
from envbench.results import store
from envbench.results.joining import joined
from envbench.results.reading import read
from envbench.results.selection import select


def joint(records):
    return joined(enumerate(as_stored(records), start=1))


def test_a_report_reads_exactly_the_stored_values():
    facts = {"threads": 4, "before": {"steal_s": 0.5}, "environment": {"OMP_NUM_THREADS": "1"}}
    cell = make_cell("envpool-sync", 8)
    records = [
        *measured_plan({("for-loop", 1): 300, ("subprocess", 1): 200}, run={"facts": facts}),
        make_plan([cell], plan_id="b"),
        make_run(make_cell("reference-kernel"), plan_id="b", block="b-b", arm="kernel"),
        make_run(cell, plan_id="b", block="b-b", failure=make_failure(), facts={}),
        msgspec.structs.replace(make_refusal(cell), work={"frame_skip": 4}),
    ]
    found = joint(records)
    assert found.records == records
    assert found.warnings == []
    runs = [each for each in found.records if isinstance(each, Run)]
    assert Counter(run.block for run in runs) == {
        **{f"plan-b{number}": 2 for number in range(5)}, "b-b": 2,
    }  # fmt: skip


def test_each_run_and_verification_has_its_line(tmp_path):
    path = tmp_path / "x.jsonl"
    records = [*measured_plan({("for-loop", 1): 300}), make_refusal(make_cell())]
    write(path, records)
    found = joined(store.read(path).records)
    lines = path.read_text().splitlines()
    assert len(found.lines) == 6
    for name, line in found.lines.items():
        assert f'"trial_id":"{name}"' in lines[line - 1]


def test_shared_facts_are_stored_once_and_every_run_has_them():
    stored = list(as_stored(measured_plan({("for-loop", 1): 300}, run={"facts": {"threads": 4}})))
    assert [type(record).__name__ for record in stored].count("FactsRecord") == 1
    runs = [each for each in joined(enumerate(stored)).records if isinstance(each, Run)]
    assert [run.facts for run in runs] == [{"threads": 4}] * 5


def test_blocks_without_their_plan_are_left_out_with_one_warning():
    found = joint([make_run(plan_id="lost\x1b"), make_run(plan_id="lost\x1b")])
    assert found.records == []
    assert found.warnings == ["2 blocks of the plan lost� left out: the plan's own line is missing"]


def test_a_report_ignores_plans_of_other_experiments():
    found = joint([make_fact(), make_refusal(make_cell())])
    assert not any(isinstance(each, Plan) for each in found.records)
    assert len(found.records) == 2


def test_a_report_names_a_run_whose_plan_has_no_such_cell():
    foreign = make_run(make_cell("for-loop", 1, frame_skip=10**9))
    selection = select(joint([*measured_plan({("for-loop", 1): 10}), foreign]).records)
    assert [each.summary.cell.frame_skip for each in selection.measured] == [4]
    assert any(foreign.run_id in warning for warning in selection.warnings)


@pytest.mark.parametrize(
    "given",
    [
        {"latency": Histogram(values=[5], counts=[])},
        {"returns": Returns(calls=1, counts=[7], ages=Histogram())},
        {"resets": Windows(ns=[1])},
    ],
    ids=["latency", "returns", "resets"],
)
def test_a_block_with_incomplete_quantities_is_skipped_with_its_line(
    tmp_path: Path, given: dict[str, Any]
) -> None:
    path = tmp_path / "m" / "file.jsonl"
    path.parent.mkdir()
    write(path, [make_run(**given), make_run()])
    reading = read(path)
    assert [number for number, _ in reading.records] == [2]
    assert len(reading.warnings) == 1
    assert f"{path}:1: line skipped" in reading.warnings[0]
