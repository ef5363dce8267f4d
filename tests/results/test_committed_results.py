"""The committed results: every record is readable, and every table in the repository matches."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from envbench.model import (
    BlockRecord,
    FactsRecord,
    MachineFact,
    Plan,
    Published,
    Run,
    RuntimeFact,
    Verification,
)
from envbench.results import store
from envbench.results.joining import joined

ROOT = Path(__file__).parents[2]


def test_every_committed_record_is_read_without_a_warning() -> None:
    files = store.files(ROOT / "results")
    assert files
    for path in files:
        reading = store.read(path)
        assert reading.warnings == []
        kinds = {type(record) for _, record in reading.records}
        if path.parent.name == "published":
            assert kinds == {Published}
            continue
        assert kinds >= {MachineFact, RuntimeFact, Plan, BlockRecord}
        joint = joined(reading.records)
        assert joint.warnings == []
        kinds = {type(record) for record in joint.records}
        assert kinds >= {Plan, Run} or Verification in kinds


def test_every_committed_run_has_a_recorded_machine_and_runtime() -> None:
    for path in store.files(ROOT / "results"):
        records = joined(store.read(path).records).records
        machines = {record.hash for record in records if isinstance(record, MachineFact)}
        runtimes = {record.hash for record in records if isinstance(record, RuntimeFact)}
        for run in (record for record in records if isinstance(record, Run | Verification)):
            assert run.fingerprint in machines
            assert run.failure is not None or run.runtime in runtimes


def test_every_committed_run_refers_to_recorded_facts() -> None:
    for path in store.files(ROOT / "results"):
        records = [record for _, record in store.read(path).records]
        known = {record.hash for record in records if isinstance(record, FactsRecord)}
        trials = [each for r in records if isinstance(r, BlockRecord) for each in r.trials]
        assert {each.facts for each in trials if each.facts} == known


def test_a_page_of_two_families_has_few_words_outside_its_tables(
    tmp_path: Path,
) -> None:
    for path in (ROOT / "results").glob("epyc-vm/*.jsonl"):
        plans = (each for _, each in store.read(path).records if isinstance(each, Plan))
        if {cell.env for plan in plans for cell in plan.cells} <= {"atari", "mujoco"}:
            folder = tmp_path / "results" / path.parent.name
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, folder)
    command = [sys.executable, "-m", "envbench", "report", "--results", tmp_path / "results"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "results" / "README.md").read_text().splitlines()
    assert any(line.startswith("| Mujoco - EPYC VM") for line in lines)
    texts = [line for line in lines if not line.startswith(("|", "<!--", "!["))]
    assert sum(len(line.split()) for line in texts) <= 1700


@pytest.mark.parametrize("words", [[], ["--into", "README.md"]], ids=["results", "readme"])
def test_the_tables_in_the_repository_match_the_results(words: list[str]) -> None:
    command = [sys.executable, "-m", "envbench", "report", "--check", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", ["README.md", "results/README.md"])
def test_every_picture_of_a_page_exists(page: str) -> None:
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", (ROOT / page).read_text())
    assert pictures
    folder = (ROOT / page).parent
    assert [each for each in pictures if not (folder / each).is_file()] == []


def test_every_committed_by_product_is_named_by_a_record() -> None:
    for folder in (ROOT / "results").glob("*/by-products"):
        records = "".join(path.read_text() for path in folder.parent.glob("*.jsonl"))
        assert [each.name for each in folder.iterdir() if each.stem not in records] == []


@pytest.mark.parametrize(
    ("words", "explained"),
    [
        (" in 97 of 100 steps", '"In 97 of 100 steps": another build'),
        (" of half of the environments", '"Of half of the environments": without resets'),
        ("(length p = ", "Where no single step is compared, whole episodes are."),
    ],
)
def test_words_of_equal_work_are_explained_below_the_first_table_that_has_them(
    words: str, explained: str
) -> None:
    tables = (ROOT / "results" / "README.md").read_text().split("| Equal work - ")
    place = next(i for i, each in enumerate(tables) if words in each)
    assert [i for i, each in enumerate(tables) if explained in each] == [place]
