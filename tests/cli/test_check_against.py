"""``envbench check --against``: comparison with saved figures, measured with or without the
kernel."""

from __future__ import annotations

import json
import math
import signal
import subprocess
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner, Result
from helpers.command_line import Place, ended
from helpers.pair_factories import make_pair, make_trial, measured_pair, pairs_plan, run_plan
from helpers.record_factories import (
    LAPTOP,
    add_record,
    make_cell,
    make_fact,
    make_failure,
    make_refusal,
    make_windows,
    write,
)
from helpers.short_measurements import shorten_runs, start_short_pairs
from scipy.stats import ttest_ind

from envbench.cli import envbench
from envbench.cli.check_sentences import sentences
from envbench.engine import resume
from envbench.engine.campaign import Executed
from envbench.engine.local_executor import LocalExecutor
from envbench.engine.request import CellRequest
from envbench.errors import Interrupted, StorageError
from envbench.experiments.check import against as stored_rates
from envbench.experiments.check.against import DRIFT, compared, granting_drift
from envbench.experiments.check.baseline import save
from envbench.experiments.pairs import trial_of
from envbench.machine import fingerprint
from envbench.model import Block, BlockRecord, Cell, Rule, Stored, Windows, digest
from envbench.results import store

slow = pytest.mark.slow
CELL = make_cell()
LOOP = ("--env", "gym", "--task", "CartPole-v1", "--backend", "for-loop", "--numenv", "2")


def interrupted_at(process: subprocess.Popen[str], mark: str) -> str:
    """Interrupt the command at that text; returns its messages until it ended."""
    assert process.stderr is not None
    for line in process.stderr:
        if mark in line:
            process.send_signal(signal.SIGINT)
            break
    return process.communicate(timeout=60)[1]


@slow
def test_a_baseline_that_cannot_be_written_says_where_its_records_are(
    tmp_path: Path,
) -> None:
    records = tmp_path / "records.jsonl"
    records.write_text("{}\n")
    (tmp_path / "b.jsonl.partial").mkdir()
    outcome = SimpleNamespace(journal=SimpleNamespace(path=records))
    with pytest.raises(StorageError) as error:
        save(outcome, tmp_path / "b.jsonl")  # type: ignore[arg-type]
    assert "To save it, repeat this with another --output" in error.value.hint


@slow
def test_a_stopped_baseline_and_comparison_resume_and_the_interval_is_welchs(
    place: Place,
) -> None:
    stored = place.folder / "stored.jsonl"
    save = ["baseline", "save", "--output", "stored.jsonl", *LOOP, "--pairs", 5]
    assert "The same command resumes" in interrupted_at(start_short_pairs(place, *save), "[2/5]")
    assert not stored.exists()
    again = ended(start_short_pairs(place, *save))
    assert again.code == 0, again.err
    assert "Resuming" in again.err
    assert "[2/5]" not in again.err
    assert [each.round for each in blocks(stored)] == [0, 1, 2, 3, 4]
    # SIGINT may have come between two blocks, or during one, which is then recorded as interrupted.
    assert sum('"type":"block"' in line for line in stored.read_text().splitlines()) in (5, 6)
    assert not list(place.folder.glob("*.partial"))
    assert len(place.files()) == 1  # where it was measured
    once_more = ended(start_short_pairs(place, *save))
    assert (once_more.code, "never overwritten" in once_more.err) == (2, True)
    (plan,) = place.files()
    plan.write_bytes(b"".join(plan.read_bytes().splitlines(keepends=True)[:-1]))
    killed_after_the_copy = ended(start_short_pairs(place, *save))  # before it was concluded
    assert killed_after_the_copy.code == 0, killed_after_the_copy.err

    advice = ["check", "--against", "stored.jsonl", "--pairs", 5, "--tolerance", 0.5, "--json"]
    assert "The same command resumes" in interrupted_at(start_short_pairs(place, *advice), "[2/5]")
    advised = ended(start_short_pairs(place, *advice))
    assert "Resuming" in advised.err
    assert "Advisory:" in advised.err
    assert "--baseline-ref" in advised.err
    assert advised.document["advisory"] is True
    saved, measured = place.files()
    assert [each.round for each in blocks(saved)] == [0, 1, 2, 3, 4]
    assert [each.round for each in blocks(measured)] == [0, 1, 2, 3, 4]
    then, now = ([beside_kernel(each) for each in blocks(path)] for path in (stored, measured))
    is_what_welch_says(advised.document, now, then, margin=0.01, tolerance=0.5)
    assert advised.code == EXIT[advised.document["verdict"]]
    assert place.processes() == []


class Fails(LocalExecutor):
    """Every block succeeds at once, except those of cells with the numbers in ``failing``."""

    failing: tuple[int, ...] = ()
    stop: int | None = None  # the number of the block that is interrupted
    blocks = 0

    def run(self, block: Block, *_: Any) -> Executed:
        self.blocks += 1
        if self.blocks == self.stop:
            raise Interrupted(130)
        kernel, cell = block.trials
        failure = make_failure() if cell.cell.numenv in self.failing else None
        own = make_trial(cell=cell.cell, step=1 + block.round / 1000, failure=failure)
        return Executed(trials=[make_trial("kernel", cell=kernel.cell), own])


def test_a_comparison_does_not_resume_the_plan_that_was_saved_in_its_file(here: Path) -> None:
    stored = here / "stored.jsonl"
    assert save_two_cells(stored, Fails()).exit_code == 0
    (measured,) = store.files(here / "results")
    measured.write_bytes(stored.read_bytes())  # as if killed after the copy
    executor = Fails()
    done = against(stored, "--pairs", 5, executor=executor)
    assert "everything is measured" not in done.stderr
    assert executor.blocks == 10
    executor = Fails()
    again = save_two_cells(stored, executor)  # it concludes its own plan
    assert "everything is measured" in again.stderr
    assert (again.exit_code, executor.blocks) == (0, 0)


def test_a_comparison_with_an_unfinished_baseline_measures_anew_and_resumes_itself(
    here: Path,
) -> None:
    stopped = Fails()
    stopped.stop = 8
    words = ["baseline", "save", "--output", str(here / "stored.jsonl"), *LOOP, "--pairs", "9"]
    assert CliRunner().invoke(envbench, words, obj=stopped).exit_code == 130
    (path,) = store.files(here / "results")
    first, second = Fails(), Fails()
    first.stop = 3
    assert against(path, "--pairs", 9, executor=first).exit_code == 130
    assert "Resuming" in against(path, "--pairs", 9, executor=second).stderr
    assert (first.blocks, second.blocks) == (3, 7)
    assert [len(blocks(each)) for each in store.files(here / "results")] == [7, 9]
    first.blocks = second.blocks = 0
    assert against(path, "--pairs", 9, executor=first).exit_code == 130
    assert "Resuming" not in against(path, "--pairs", 9, "--fresh", executor=second).stderr
    assert second.blocks == 9


def test_a_stopped_comparison_is_not_resumed_with_another_file(here: Path) -> None:
    stored = [here / "one.jsonl", here / "two.jsonl"]
    for path in stored:
        assert save_two_cells(path, Fails()).exit_code == 0
    stopped, other = Fails(), Fails()
    stopped.stop = 4
    assert against(stored[0], "--pairs", 5, executor=stopped).exit_code == 130
    assert "Resuming" not in against(stored[1], "--pairs", 5, executor=other).stderr
    assert other.blocks == 10


def save_two_cells(stored: Path, executor: Fails) -> Result:
    cells = [*LOOP[:-1], "1,2", "--pairs", "5"]
    words = ["baseline", "save", "--output", str(stored), *cells]
    return CliRunner().invoke(envbench, words, obj=executor)


def test_a_cell_that_fails_is_broken_and_the_others_are_measured(here: Path) -> None:
    stored, executor = here / "stored.jsonl", Fails()
    assert save_two_cells(stored, executor).exit_code == 0
    executor.failing = (2,)
    done = against(stored, "--pairs", 5, "--tolerance", "0.5", "--json", executor=executor)
    assert done.exit_code == 1, done.output
    document = json.loads(done.stdout)
    assert document["verdict"] == "BROKEN"
    one, two = document["cells"]
    assert one["verdict"] == "PASS"
    assert (two["verdict"], list(two["failures"])) == ("BROKEN", ["candidate"])


def test_a_baseline_is_saved_without_the_cells_that_fail(here: Path) -> None:
    stored, executor = here / "stored.jsonl", Fails()
    executor.failing = (2,)
    done = save_two_cells(stored, executor)
    assert done.exit_code == 1, done.output
    assert "without 1 failed cell" in done.stderr
    plans, _ = resume.read(stored)
    assert [each.cell.numenv for each in stored_rates.stored(plans)] == [1]


def test_a_baseline_without_a_good_cell_is_not_saved(here: Path) -> None:
    stored, executor = here / "stored.jsonl", Fails()
    executor.failing = (1, 2)
    done = save_two_cells(stored, executor)
    assert done.exit_code == 1, done.output
    assert "Every cell failed" in done.stderr
    assert not stored.exists()


@slow
def test_plain_results_are_compared_by_rate_with_an_allowance_for_drift(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_runs(monkeypatch.setattr)
    run = ["run", *LOOP, "--duration", "1", "--repeats", "5"]
    assert CliRunner().invoke(envbench, run).exit_code == 0
    (path,) = store.files(here / "results")
    done = against(path, "--pairs", 5, "--tolerance", "0.4", "--summary", "summary.md", "--json")
    assert "slowdowns of up to 10 % are ignored" in done.stderr
    document = json.loads(done.stdout)
    # Not the kernel's. In a run that alternated, disturbed slices count, too.
    then = [pace(undisturbed(each.trials[-1].measured)) for each in blocks(path)]
    (new,) = set(store.files(here / "results")) - {path}
    now = [pace(each.trials[-1].measured) for each in blocks(new)]
    is_what_welch_says(document, now, then, margin=1 - 0.99 * 0.9, tolerance=1 - 0.6 * 0.9)
    assert done.exit_code == EXIT[document["verdict"]]
    assert "(advisory)" in Path("summary.md").read_text()


EXIT = {"PASS": 0, "IMPROVEMENT": 0, "REGRESSION": 1, "INCONCLUSIVE": 4}


def blocks(path: Path) -> list[BlockRecord]:
    every = [record for _, record in store.read(path).records]
    return [each for each in every if isinstance(each, BlockRecord) and not each.interrupted]


def pace(windows: Windows, *others: Windows) -> float:
    """log of steps per second; of the valid slices, or of all where most are invalid."""
    bad = {int(k) for each in (windows, *others) for k in each.invalid}
    kept = [k for k in range(len(windows.ns)) if k not in bad]
    kept = kept if 2 * len(kept) >= len(windows.ns) else list(range(len(windows.ns)))
    return math.log(sum(windows.steps[k] for k in kept) * 1e9 / sum(windows.ns[k] for k in kept))


def undisturbed(windows: Windows) -> Windows:
    return msgspec.structs.replace(windows, invalid={})


def beside_kernel(block: BlockRecord) -> float:
    cell, kernel = block.trials[-1].measured, trial_of(block, "kernel").measured
    return pace(cell, kernel) - pace(kernel, cell)


def is_what_welch_says(
    document: Any, now: list[float], then: list[float], *, margin: float, tolerance: float
) -> None:
    """Ratio, interval and verdict are those that SciPy computes from the records."""
    assert (len(now), len(then)) == (5, 5)
    (cell,) = document["cells"]
    found = cell["stages"][0]["steps"]
    welch = ttest_ind(now, then, equal_var=False)
    assert found["ratio"] == pytest.approx(math.exp(fmean(now) - fmean(then)))
    assert found["interval"] == pytest.approx(np.exp(welch.confidence_interval(0.95)))
    low, high = welch.confidence_interval(1 - 2 * 0.001)
    if high < math.log(1 - margin):
        verdict = "REGRESSION"
    elif low > math.log(1 + margin):
        verdict = "IMPROVEMENT"
    else:
        verdict = "PASS" if low > math.log(1 - tolerance) else "INCONCLUSIVE"
    assert (found["verdict"], document["verdict"]) == (verdict, verdict)


def against(path: Path, *words: object, executor: LocalExecutor | None = None) -> Result:
    asked = ["check", "--against", str(path), *map(str, words)]
    return CliRunner().invoke(envbench, asked, obj=executor)


def written(path: Path, records: list[Stored]) -> Path:
    for record in records:
        add_record(path, record)
    return path


def test_a_file_that_is_not_of_this_machine_is_refused(here: Path) -> None:
    other = written(here / "o.jsonl", [make_fact(LAPTOP), *runs(50)])
    done = against(other)
    assert done.exit_code == 2
    assert f"another machine or system ({LAPTOP.cpu})" in done.stderr
    missing = against(Path("nowhere.jsonl"))
    assert (missing.exit_code, "there is no file" in missing.stderr) == (2, True)
    few = runs(50, count=4, fingerprint=digest(fingerprint()))
    done = against(written(here / "few.jsonl", few))
    assert done.exit_code == 2
    assert "none of these cells with at least five" in done.stderr
    assert "envbench baseline save" in done.stderr
    assert not Path("results").exists()


def test_rates_of_a_row_that_verify_refused_are_no_baseline(here: Path) -> None:
    path = written(here / "mine.jsonl", runs(50, fingerprint=digest(fingerprint())))
    write(here / "verified.jsonl", [make_refusal(CELL)])
    done = against(path)
    assert (done.exit_code, "none of these cells" in done.stderr) == (2, True), done.output
    assert "Warning: 1 cell left out: `envbench verify` refused the figures." in done.stderr


@pytest.mark.parametrize("names", [["all"], ["for-loop"], ["all", "subprocess"], None])
def test_cells_are_chosen_by_backend(here: Path, names: list[str] | None) -> None:
    path = written(here / "o.jsonl", runs(50, fingerprint=digest(fingerprint())))
    wanted = CellRequest(backends=names)
    (cell,) = stored_rates.read(path, wanted, fingerprint(), lambda _: None, lambda _: False)
    assert cell.cell == CELL


@pytest.mark.parametrize(("host", "noted"), [("another", True), ("", True), (None, False)])
def test_a_file_of_another_computer_of_this_hardware_is_used_with_a_note(
    here: Path, host: str | None, noted: bool
) -> None:
    this = fingerprint()
    found = this if host is None else msgspec.structs.replace(this, host=host)
    path = written(here / "o.jsonl", [make_fact(found), *runs(50, fingerprint=digest(found))])
    said: list[str] = []
    (cell,) = stored_rates.read(path, CellRequest(), this, said.append, lambda _: False)
    assert cell.cell == CELL
    assert any("another computer of the same hardware" in each for each in said) is noted


def test_against_refuses_cells_and_options_that_its_file_does_not_support(here: Path) -> None:
    path = written(here / "mine.jsonl", runs(50, fingerprint=digest(fingerprint())))
    for words, said in [
        (["--baseline", "a==1"], "--baseline and --against cannot be combined"),
        (["--plan"], "cannot predict"),
        (["--precise"], "cannot predict"),
        (["--set", "actions=bank"], "with their settings"),
        (["--cost-tolerance", "0.5"], "one stage, of steps only"),
        (["--backend", "subprocess"], "none of these cells"),
        (["--backend", "for-lop"], "Did you mean 'for-loop'?"),
        (["--env", "mujoco"], "none of these cells"),
        (["--numenv", "7"], "none of these cells"),
    ]:
        done = against(path, *words)
        assert (done.exit_code, said in done.stderr) == (2, True), (words, done.output)
    assert not Path("results").exists()


# ---------------------------------------------------------------- the comparison (pure)


def baseline(
    rate: int, kernel: int = 1000, count: int = 6, slices: Windows | None = None
) -> list[Stored]:
    """A plan and its pairs, one per process. ``rate`` and ``kernel`` are steps per slice of the
    cell and of the kernel; the cell's processes differ a little."""
    plan = pairs_plan([CELL], experiment="baseline", plan_id=f"baseline-{rate}")
    made = [
        measured_pair(
            CELL,
            slices or make_windows([rate + k] * 4),
            make_windows([kernel] * 4),
            round=k,
            plan_id=plan.plan_id,
        )
        for k in range(count)
    ]
    return [plan, *made]


def pairs(rate: int, kernel: int = 1000) -> list[BlockRecord]:
    return [each for each in baseline(rate, kernel) if isinstance(each, BlockRecord)]


def runs(
    rate: int, count: int = 6, *, quick: bool = False, cell: Cell = CELL, **given: Any
) -> list[Stored]:
    """A plan of ``run`` and its blocks."""
    plan = run_plan([cell], quick=quick, **given)
    made = [
        make_pair(
            make_trial(cell=cell, measured=make_windows([rate + k] * 4)),
            round=k,
            plan_id=plan.plan_id,
        )
        for k in range(count)
    ]
    return [plan, *made]


def stored(records: list[Stored]) -> list[stored_rates.Stored]:
    return stored_rates.stored(resume.plans_of(records, Path("stored.jsonl"), []))


def test_the_kernel_distinguishes_a_slower_machine_from_slower_code() -> None:
    (then,) = stored(baseline(5000))
    assert compared(pairs(4000, kernel=800), then, Rule()).verdict == "PASS"
    assert compared(pairs(4500), then, Rule()).verdict == "REGRESSION"


@pytest.mark.parametrize(
    ("now", "verdict"),
    [(5000, "PASS"), (4600, "PASS"), (4000, "REGRESSION"), (6000, "IMPROVEMENT")],
)
def test_rates_without_a_kernel_get_an_allowance_for_drift(now: int, verdict: str) -> None:
    (then,) = stored(runs(5000))
    assert not then.beside_kernel
    # Without a kernel in the saved figures, today's kernel must not change the verdict.
    for kernel in (500, 1000):
        assert compared(pairs(now, kernel=kernel), then, Rule()).verdict == verdict


def test_the_allowance_for_drift_is_added_to_margin_and_tolerance() -> None:
    rule = granting_drift(Rule(margin=0.01, tolerance=0.05))
    assert rule.margin == pytest.approx(1 - 0.99 * (1 - DRIFT))
    assert rule.tolerance == pytest.approx(1 - 0.95 * (1 - DRIFT))
    assert rule.margin < rule.tolerance


@pytest.mark.parametrize(
    ("then", "share"), [(baseline(5000), "8.0"), (runs(5000), "17.2")], ids=["baseline", "run"]
)
def test_a_pass_names_the_slowdown_that_its_own_tolerance_rules_out(
    then: list[Stored], share: str
) -> None:
    """Rates of a ``run`` have an allowance for drift: 1 - 0.92 * 0.9."""
    (cell,) = stored(then)
    done: Any = SimpleNamespace(findings={}, done=pairs(5000))
    found = stored_rates.verdict(done, cell, Rule(tolerance=0.08))
    (said,) = sentences(pairs_plan([CELL], experiment="baseline", rule=None), [found])
    assert f"a slowdown of the usual pace by {share} % or more is ruled out" in said


def test_the_newest_measurement_of_a_cell_counts_and_pairs_come_before_runs() -> None:
    old, new = runs(5000, plan_id="old"), runs(6000, plan_id="new")
    (then,) = stored([*old, *new])
    assert then.rates == pytest.approx([math.log((6000 + k) * 4) for k in range(6)])
    (both,) = stored([*old, *baseline(5000)])
    assert both.beside_kernel
    assert stored(runs(5000, count=4)) == []
    assert stored(baseline(5000, slices=make_windows([5000] * 4, ns=0))) == []
    assert stored(runs(5000, quick=True)) == []
    twice = baseline(5000)
    (once,) = stored([*twice, *twice])  # a file that was joined with its copy
    assert len(once.rates) == len(both.rates)
    # The name of the profile does not matter.
    one, moved = runs(5000, 3), runs(5000, 6, cell=make_cell(machine="x"))
    (joined,) = stored([*one, *moved[4:]])
    assert len(joined.rates) == 6
