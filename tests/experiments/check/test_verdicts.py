"""Verdicts of a check from its pairs: steps, costs, broken arms, two stages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from helpers.pair_factories import MS, make_pair, make_trial, pairs_plan, targets
from helpers.record_factories import make_cell, make_failure, make_windows

from envbench.backends import registry
from envbench.cli.check_sentences import sentences
from envbench.cli.check_verdicts import EXIT_CODES, document, markdown, show
from envbench.errors import UsageError
from envbench.experiments.check.cells import MOST_PRECISE_PAIRS, Size
from envbench.experiments.check.verdicts import CellVerdict, findings, overall, verdict
from envbench.experiments.pairs import DEFAULT_PAIRS, pair_seconds, slicing
from envbench.model import ArmFact, BlockRecord, Cell, PairsDesign, Protocol, Rule
from envbench.text import markdown as escaped

CELL = make_cell("for-loop", 4)
CHECK = pairs_plan([CELL])
MEASURED = make_trial().measured


def pairs(stage: int = 1, cell: Cell = CELL, **candidate: Any) -> list[BlockRecord]:
    """Eight pairs that differ by a thousandth from each other."""
    return [
        make_pair(
            make_trial("baseline", cell=cell, step=1 + (number % 2 - 0.5) / 1000),
            make_trial("candidate", cell=cell, **candidate),
            stage=stage,
            round=number,
        )
        for number in range(8)
    ]


def with_candidate(pair: BlockRecord, **candidate: Any) -> BlockRecord:
    """The pair with another candidate."""
    trials = [pair.trials[0], make_trial("candidate", cell=CELL, **candidate)]
    return msgspec.structs.replace(pair, trials=trials)


def test_equal_arms_pass_in_every_quantity() -> None:
    found = verdict(CHECK, pairs(), CELL)
    assert found.verdict == "PASS"
    assert list(found.stages[0]) == [
        "steps", "all steps", "start-up", "first step", "reset", "memory"
    ]  # fmt: skip
    assert {each.verdict for each in found.stages[0].values()} == {"PASS"}


@pytest.mark.parametrize(
    ("candidate", "slower"),
    [
        ({"step": 1.05}, ["steps", "all steps"]),
        ({"start": 1.5}, ["start-up"]),
        ({"reset": 1.5}, ["reset"]),
        ({"peak_memory_bytes": 2**29}, ["memory"]),
        ({"step": 1.05, "start": 2.0}, ["steps", "all steps", "start-up"]),
    ],
)
def test_the_slower_quantities_are_named(candidate: dict[str, Any], slower: list[str]) -> None:
    found = verdict(CHECK, [*pairs(1, **candidate), *pairs(2, **candidate)], CELL)
    assert (found.verdict, found.slower) == ("REGRESSION", slower)


def test_a_rare_slowdown_is_found_in_the_time_of_all_steps() -> None:
    slices = [250 * MS] * 3 + [300 * MS]  # every fourth is a fifth longer
    candidate = {"measured": msgspec.structs.replace(MEASURED, ns=slices)}
    found = verdict(CHECK, [*pairs(1, **candidate), *pairs(2, **candidate)], CELL)
    assert (found.verdict, found.slower) == ("REGRESSION", ["all steps"])
    assert "all steps are about 4.8 % slower" in markdown(CHECK, [found], {})


def test_stalls_that_could_hide_a_slowdown_of_the_tolerance_are_inconclusive() -> None:
    own = pairs()
    stalled = msgspec.structs.replace(MEASURED, ns=[250 * MS] * 3 + [2000 * MS])
    own[3] = with_candidate(own[3], measured=stalled)
    found = verdict(CHECK, own, CELL)
    assert found.stages[0]["steps"].verdict == "PASS"
    assert found.verdict == "INCONCLUSIVE"
    assert "all steps: smallest detectable slowdown" in markdown(CHECK, [found], {})


@pytest.mark.parametrize(
    ("most", "says"),
    [
        (1.1, ""),
        (2.5, "start-up: only growth to 3.2 times or more would be found"),
        (20, "start-up: too noisy to judge with 8 pairs"),
        (1e9, "start-up: too noisy to judge with 8 pairs"),
    ],
)
def test_a_note_says_what_growth_of_a_noisy_cost_could_be_found(most: float, says: str) -> None:
    own = [
        with_candidate(pair, start=factor)
        for pair, factor in zip(pairs(), 4 * [1, most], strict=True)
    ]
    found = verdict(CHECK, own, CELL)
    assert found.verdict == "PASS"
    notes = markdown(CHECK, [found], {})
    assert says in notes if says else "start-up" not in notes


def test_steps_too_noisy_for_any_verdict_are_reported_as_such() -> None:
    own = [
        with_candidate(pair, step=step) for pair, step in zip(pairs(), 4 * [0.1, 10], strict=True)
    ]
    notes = markdown(CHECK, [verdict(CHECK, own, CELL)], {})
    assert "steps: too noisy to judge with 8 pairs" in notes
    (row,) = [line for line in notes.splitlines() if line.startswith("| atari")]
    assert "%" not in row


def test_an_invalid_slice_counts_for_neither_arm_and_is_shown() -> None:
    slow = msgspec.structs.replace(MEASURED, ns=[250 * MS] * 3 + [2500 * MS])
    invalid = msgspec.structs.replace(slow, invalid={"3": "steal"})
    own = pairs()
    own[3] = with_candidate(own[3], measured=invalid)
    found = verdict(CHECK, own, CELL)
    assert (found.verdict, found.invalid) == ("PASS", {"steal": 1})
    assert "invalid slices (steal): 1" in markdown(CHECK, [found], {})


def test_an_alarm_that_does_not_repeat_does_not_count() -> None:
    found = verdict(CHECK, [*pairs(1, step=1.05), *pairs(2)], CELL)
    assert found.verdict == "PASS"
    assert len(found.stages) == 2


def test_the_verdict_on_a_cell_is_said_in_a_sentence() -> None:
    slower = verdict(CHECK, [*pairs(1, step=1.05), *pairs(2, step=1.05)], CELL)
    said, uncompared = sentences(CHECK, [slower])
    assert (
        said
        == "On Pong-v5, For-loop at 4 environments: steps are about 4.8 % slower (4.7 to 4.8 %)."
    )
    assert uncompared == (
        "On Pong-v5, For-loop at 4 environments: results not compared (they arrive in any order)."
    )
    _, contains, _ = sentences(CHECK, [replace(slower, steps=50_000, resets=1_000)])
    assert "the automatic resets of 64 (baseline) and 64 (candidate) episodes" in contains
    said, _ = sentences(CHECK, [verdict(CHECK, pairs(step=0.8), CELL)])
    assert (
        said
        == "On Pong-v5, For-loop at 4 environments: steps are about 25 % faster (24.9 to 25.1 %)."
    )
    said, _ = sentences(CHECK, [verdict(CHECK, pairs(), CELL)])
    assert (
        "For-loop at 4 environments: a slowdown of the usual pace by 5.0 % or more is ruled out: "
        "steps are" in said
    )
    said, _ = sentences(CHECK, [verdict(CHECK, pairs(), CELL)] * 2)  # both passed
    assert said.startswith(
        "On Pong-v5, For-loop at 4 environments (the slowest of 2 cells): steps are about "
    )


def test_a_cost_that_grew_is_said_in_the_sentence() -> None:
    grown = verdict(CHECK, [*pairs(1, start=1.5), *pairs(2, start=1.5)], CELL)
    said, _ = sentences(CHECK, [grown])
    assert "start-up is 1.50 times the baseline's" in said


def test_an_alarm_that_did_not_repeat_has_a_line_of_its_own() -> None:
    found = verdict(CHECK, [*pairs(1, step=1.05), *pairs(2)], CELL)
    _, said, _ = sentences(CHECK, [found])
    assert "an alarm did not repeat, so it does not count" in said
    assert "Stage one: steps are about 4.8 % slower" in said
    assert escaped(said, 4000) in markdown(CHECK, [found], {})


def with_results(pair: BlockRecord, *results: list[Any]) -> BlockRecord:
    trials = [
        msgspec.structs.replace(trial, results=own)
        for trial, own in zip(pair.trials, results, strict=True)
    ]
    return msgspec.structs.replace(pair, trials=trials)


def test_slices_with_other_results_or_ends_are_other_work() -> None:
    slices = len(MEASURED.ns)
    same = [[1, 2, 3, 4]] * slices
    equal = [with_results(pair, same, same) for pair in pairs()]
    found = verdict(CHECK, equal, CELL)
    assert (found.compared, found.different) == (8 * slices, 0)
    assert f"equal results after each of {8 * slices} slices" in markdown(CHECK, [found], {})
    other = [with_results(pair, same, [*same[1:], [1, 9, 3, 9]]) for pair in pairs()]
    found = verdict(CHECK, other, CELL)
    assert (found.compared, found.different) == (8 * slices, 8)
    assert found.differing == ["rewards", "ends"]
    arms = [ArmFact(name=name, source=name, place=name) for name in ("baseline", "candidate")]
    first, *more = sentences(msgspec.structs.replace(CHECK, arms=arms), [found])
    assert first.endswith(", and the candidate's results differ (see below).")
    assert any("the candidate's rewards and ends differ from the baseline's" in e for e in more)
    same_code = sentences(CHECK, [found])
    assert any("same code: the task is not reproducible by its seed" in e for e in same_code)


def test_each_step_of_a_part_after_the_slices_is_compared() -> None:
    same = [[1, 2, 3, 4]] * len(MEASURED.ns)
    equal = [with_results(pair, [*same, [5, 6, 7, 8]], [*same, [5, 6, 7, 8]]) for pair in pairs()]
    found = verdict(CHECK, equal, CELL)
    assert (found.compared, found.parts, found.parts_different) == (8 * len(same), 8, 0)
    other = [with_results(pair, [*same, [5, 6, 7, 8]], [*same, [5, 9, 7, 8]]) for pair in pairs()]
    found = verdict(CHECK, other, CELL)
    assert (found.different, found.parts_different, found.differing) == (0, 8, ["rewards"])
    assert "in 8 of 8 parts in which each step was compared" in markdown(CHECK, [found], {})


def test_an_older_record_has_one_checksum_for_all_results() -> None:
    slices = len(MEASURED.ns)
    other = [with_results(pair, [7] * slices, [7] * (slices - 1) + [8]) for pair in pairs()]
    found = verdict(CHECK, other, CELL)
    assert found.different == 8
    assert found.differing == ["observations", "rewards", "ends"]


def test_arms_that_are_not_at_the_same_steps_are_not_compared() -> None:
    slices = len(MEASURED.ns)
    own = [with_results(pair, [7] * slices, [8] * slices) for pair in pairs()]
    more = make_windows([100])
    own = [
        msgspec.structs.replace(
            pair, trials=[pair.trials[0], msgspec.structs.replace(pair.trials[1], warmup=more)]
        )
        for pair in own
    ]
    found = verdict(CHECK, own, CELL)
    assert (found.compared, found.different) == (0, 0)
    assert found.uncompared == "one arm could not make as many steps as the other"


def test_arms_whose_results_arrive_in_any_order_are_not_compared() -> None:
    found = verdict(CHECK, pairs(), CELL)
    assert (found.compared, found.different) == (0, 0)
    assert "results not compared (they arrive in any order)" in markdown(CHECK, [found], {})


def test_the_notes_say_which_part_of_an_episode_was_seen() -> None:
    found = verdict(CHECK, pairs(), CELL)
    ended = " + ".join(map(str, found.ended.values()))
    assert f"{ended} episodes ended in" in markdown(CHECK, [found], {})
    without = msgspec.structs.replace(MEASURED, resets=[0] * len(MEASURED.ns))
    own = [
        msgspec.structs.replace(
            pair, trials=[msgspec.structs.replace(each, measured=without) for each in pair.trials]
        )
        for pair in pairs()
    ]
    assert "no episode ended" in markdown(CHECK, [verdict(CHECK, own, CELL)], {})


def test_a_faster_candidate_is_an_improvement() -> None:
    assert verdict(CHECK, pairs(step=0.9), CELL).verdict == "IMPROVEMENT"


def test_a_failed_arm_makes_the_cell_broken_without_figures() -> None:
    own = pairs()
    own[3] = with_candidate(own[3], failure=make_failure())
    found = verdict(CHECK, own, CELL)
    assert (found.verdict, list(found.failures), found.stages) == ("BROKEN", ["candidate"], [])
    assert "candidate failed: the worker died" in markdown(CHECK, [found], {})
    assert findings(CHECK, own) == {}


def test_pairs_without_resets_or_memory_have_no_verdict_on_them() -> None:
    own = pairs(resets=make_windows([]), peak_memory_bytes=None)
    assert list(findings(CHECK, own)) == ["steps", "all steps", "start-up", "first step"]


@pytest.mark.parametrize(
    ("verdicts", "worst", "code"),
    [
        (["PASS", "PASS"], "PASS", 0),
        (["PASS", "IMPROVEMENT"], "IMPROVEMENT", 0),
        (["IMPROVEMENT", "INCONCLUSIVE"], "INCONCLUSIVE", 4),
        (["INCONCLUSIVE", "REGRESSION"], "REGRESSION", 1),
        (["REGRESSION", "BROKEN"], "BROKEN", 1),
    ],
)
def test_the_worst_cell_decides(verdicts: list[Any], worst: str, code: int) -> None:
    found = [CellVerdict(cell=CELL, verdict=each) for each in verdicts]
    assert (overall(found), EXIT_CODES.get(overall(found), 0)) == (worst, code)


def test_an_open_verdict_says_how_to_decide_it_and_a_failure_whose_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def shown(found: CellVerdict) -> str:
        outcome = SimpleNamespace(
            plan=CHECK, arms={}, journal=SimpleNamespace(path=Path("here.jsonl"))
        )
        show(outcome, [found], as_json=False, summary=None)  # type: ignore[arg-type]
        return capsys.readouterr().out

    own = pairs()
    own[3] = with_candidate(
        own[3], measured=msgspec.structs.replace(MEASURED, ns=[250 * MS] * 3 + [2000 * MS])
    )
    undecided = shown(verdict(CHECK, own, CELL))
    assert "To decide it, use more pairs (`--pairs`), or a quieter machine" in undecided
    failed = CellVerdict(cell=CELL, verdict="BROKEN", failures={"candidate": make_failure()})
    assert "BROKEN: the candidate failed." in shown(failed)


def test_verdicts_are_shown_as_json_and_in_pull_requests() -> None:
    cell = make_cell("for-loop", 4, task="Evil|<b>-v0")
    own = [*pairs(1, cell, reset=1.5), *pairs(2, cell, reset=1.5)]
    found = [verdict(CHECK, own, cell)]
    whole = msgspec.json.decode(
        msgspec.json.encode(document(CHECK, found, {"for-loop": ["numpy 1 → 2"]}))
    )
    assert (whole["schema"], whole["verdict"]) == (1, "REGRESSION")
    (shown,) = whole["cells"]
    assert (shown["task"], shown["slower"]) == ("Evil|<b>-v0", ["reset"])
    assert shown["stages"][1]["reset"]["ratio"] == pytest.approx(1 / 1.5)
    text = markdown(CHECK, found, {"for-loop": ["numpy 1 → 2"]})
    assert "### envbench check: REGRESSION" in text
    assert "reset ×1.50" in text
    assert "numpy 1 → 2" in text
    assert whole["differences"] == {"for-loop": ["numpy 1 → 2"]}
    assert "Evil|<b>" not in text


# ---------------------------------------------------------------- the plan


def test_a_budget_is_filled_with_pairs_and_one_too_small_is_refused() -> None:
    cells = targets(CELL, make_cell("envpool-sync", 4))
    default = Size().of(cells, Rule())
    assert default.pairs == DEFAULT_PAIRS
    longer = Size(budget=40 * pair_seconds()).of(cells, Rule())
    assert longer.pairs == 20
    assert longer.detectable[CELL.key] < default.detectable[CELL.key]
    assert Size(budget=86_400).of(cells[:1], Rule()).pairs == 1000  # as many as --pairs takes
    with pytest.raises(UsageError, match="5 pairs of 2 cells take about"):
        Size(budget=9 * pair_seconds()).of(cells, Rule())


def test_the_help_names_the_numbers_of_pairs() -> None:
    from click.testing import CliRunner

    from envbench.cli import envbench

    shown = CliRunner().invoke(envbench, ["check", "--help"]).output
    assert f"[default: {DEFAULT_PAIRS}, or by" in " ".join(shown.split())
    assert f"at most {MOST_PRECISE_PAIRS}" in " ".join(shown.split())
    shown = CliRunner().invoke(envbench, ["baseline", "save", "--help"]).output
    assert f"[default: {DEFAULT_PAIRS}]" in shown


def test_precise_is_refused_where_its_slowdown_is_within_the_margin() -> None:
    with pytest.raises(UsageError, match="which does not count with --margin"):
        Size(precise=True).of(targets(CELL), Rule(margin=0.02))


def test_a_default_check_of_a_clean_cell_fits_seventy_five_seconds() -> None:
    found = Size().of(targets(CELL), Rule())
    assert found.seconds < 75


@pytest.mark.parametrize(("start", "slower"), [(0.225, ["start-up"]), (0.19, [])])
def test_growth_by_half_of_a_start_up_of_150_ms_is_detected(
    start: float, slower: list[str]
) -> None:
    """Gymnasium and MuJoCo import in 150 ms. A difference of 40 ms is too small to count."""
    made = [
        make_pair(
            make_trial("baseline", cell=CELL, start=0.15),
            make_trial("candidate", cell=CELL, start=start * (1 + number % 2 / 1000)),
            stage=stage,
            round=number,
        )
        for stage in (1, 2)
        for number in range(8)
    ]
    assert verdict(CHECK, made, CELL).slower == slower


def test_precise_makes_enough_pairs_to_find_two_percent() -> None:
    found = Size(precise=True).of(targets(CELL), Rule())
    assert found.detectable[CELL.key] <= 0.02
    assert found.pairs > 3 * DEFAULT_PAIRS


def test_backends_with_large_batches_have_long_slices() -> None:
    large = {name for name, backend in registry().items() if backend.behaviour.large_batches}
    assert large >= {
        "ceiling",
        "sample-factory",
        "brax",
        "mjx",
        "genesis",
        "mujoco-rollout",
        "envpool-numa",
    }
    assert not large & {"for-loop", "subprocess", "envpool-sync", "envpool-async", "ale-vector"}
    usual = PairsDesign(pairs=13, quads=50, slice_s=0.01, protocol=Protocol())
    few = msgspec.structs.replace(usual, quads=5)
    known = {name: backend.behaviour for name, backend in registry().items()}
    assert slicing(usual, known["for-loop"]) == (50, 0.01)
    assert slicing(usual, known["brax"]) == (5, pytest.approx(0.1))
    assert slicing(few, known["brax"])[0] == 1
