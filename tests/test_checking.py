"""Verdicts of a check from its pairs: steps, costs, broken arms, two stages."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from made_records import make_cell, make_failure, make_windows

from envbench.backends import registry
from envbench.check.checking import FLOORS, CellVerdict, findings, overall, verdict
from envbench.check.procedure import (
    DEFAULT_PAIRS,
    MOST_PRECISE_PAIRS,
    pair_seconds,
    sizes,
    slicing,
)
from envbench.check.regression import Rule
from envbench.cli.verdicts import document, exit_code, markdown
from envbench.errors import UsageError
from envbench.model import ArmFact, Cell, Check, Pair, Side, Times

CELL = make_cell("for-loop", 4)
ARM = ArmFact(source="the current interpreter", worker="w")
CHECK = Check(
    check_id="c", cells=[CELL], baseline=ARM, candidate=ARM, pairs=8, blocks=2, slice_s=0.25,
    margin=0.01, tolerance=0.05, cost_tolerance=0.25, false_alarm=0.001, seed=0,
    fingerprint="f", started_utc="2026-01-01T00-00-00Z", command=["envbench", "check"],
    envbench_version="0",
)  # fmt: skip
MS = 1_000_000


def side(step: float = 1.0, start: float = 1.0, reset: float = 1.0, **given: Any) -> Side:
    """A process of four slices; factors of what it takes."""
    times = Times(
        import_ns=int(900 * MS * start), build_ns=int(100 * MS * start), first_step_ns=MS,
        warmup_ns=1000 * MS, measured_ns=1000 * MS,
    )  # fmt: skip
    resets = make_windows([0] * 2, ns=int(250 * MS * reset), calls=[10] * 2, resets=[40] * 2)
    values: dict[str, Any] = {"times": times, "resets": resets, "peak_memory_bytes": 2**28}
    values["measured"] = make_windows([1000] * 4, ns=int(250 * MS * step))
    return Side(runtime="r", **{**values, **given})


def pairs(stage: int = 1, cell: Cell = CELL, **candidate: Any) -> list[Pair]:
    """Eight pairs that differ by a thousandth from each other."""
    made = []
    for number in range(8):
        wobble = 1 + (number % 2 - 0.5) / 1000
        made.append(
            Pair(
                pair_id=f"p{stage}-{number}", check_id="c", stage=stage, number=number, cell=cell,
                seed=0, turns=[0, 1, 1, 0], started_utc="2026-01-01T00:00:00Z",
                baseline=side(step=wobble), candidate=side(**candidate),
            )
        )  # fmt: skip
    return made


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
def test_what_got_slower_is_named(candidate: dict[str, Any], slower: list[str]) -> None:
    found = verdict(CHECK, [*pairs(1, **candidate), *pairs(2, **candidate)], CELL)
    assert (found.verdict, found.slower) == ("REGRESSION", slower)


def test_what_is_done_seldom_is_found_in_all_steps() -> None:
    slices = [250 * MS] * 3 + [300 * MS]  # every fourth is a fifth longer
    candidate = {"measured": msgspec.structs.replace(side().measured, ns=slices)}
    found = verdict(CHECK, [*pairs(1, **candidate), *pairs(2, **candidate)], CELL)
    assert (found.verdict, found.slower) == ("REGRESSION", ["all steps"])
    assert "all steps ×1.05" in markdown(CHECK, [found], {})


def test_stalls_that_could_hide_a_cost_of_its_tolerance_are_inconclusive() -> None:
    own = pairs()
    own[3] = msgspec.structs.replace(
        own[3],
        candidate=side(
            measured=msgspec.structs.replace(side().measured, ns=[250 * MS] * 3 + [2000 * MS])
        ),
    )
    found = verdict(CHECK, own, CELL)
    assert found.stages[0]["steps"].verdict == "PASS"
    assert found.verdict == "INCONCLUSIVE"
    assert "all steps: could have seen a slowdown of" in markdown(CHECK, [found], {})


def test_a_slice_that_was_spoilt_counts_for_neither_and_is_told() -> None:
    slow = msgspec.structs.replace(side().measured, ns=[250 * MS] * 3 + [2500 * MS])
    spoilt = msgspec.structs.replace(slow, invalid={"3": "steal"})
    own = pairs()
    own[3] = msgspec.structs.replace(own[3], candidate=side(measured=spoilt))
    found = verdict(CHECK, own, CELL)
    assert (found.verdict, found.spoilt) == ("PASS", {"steal": 1})
    assert "slices spoilt by steal: 1" in markdown(CHECK, [found], {})


def test_an_alarm_that_does_not_come_again_is_none() -> None:
    found = verdict(CHECK, [*pairs(1, step=1.05), *pairs(2)], CELL)
    assert found.verdict == "PASS"
    assert len(found.stages) == 2


def test_a_faster_candidate_is_an_improvement() -> None:
    assert verdict(CHECK, pairs(step=0.9), CELL).verdict == "IMPROVEMENT"


def test_an_arm_that_fails_breaks_the_cell_and_no_figure_is_made_of_the_rest() -> None:
    own = pairs()
    own[3] = msgspec.structs.replace(own[3], candidate=side(failure=make_failure()))
    found = verdict(CHECK, own, CELL)
    assert (found.verdict, list(found.failures), found.stages) == ("BROKEN", ["candidate"], [])
    assert "candidate failed: the worker died" in markdown(CHECK, [found], {})
    assert findings(CHECK, own) == {}


def test_pairs_that_know_no_resets_or_memory_have_no_verdict_on_them() -> None:
    own = pairs(resets=make_windows([]), peak_memory_bytes=None)
    assert list(findings(CHECK, own)) == ["steps", "all steps", "start-up", "first step"]


@pytest.mark.parametrize(
    ("verdicts", "gravest", "code"),
    [
        (["PASS", "PASS"], "PASS", 0),
        (["PASS", "IMPROVEMENT"], "IMPROVEMENT", 0),
        (["IMPROVEMENT", "INCONCLUSIVE"], "INCONCLUSIVE", 4),
        (["INCONCLUSIVE", "REGRESSION"], "REGRESSION", 1),
        (["REGRESSION", "BROKEN"], "BROKEN", 1),
    ],
)
def test_the_gravest_cell_decides(verdicts: list[Any], gravest: str, code: int) -> None:
    found = [CellVerdict(cell=CELL, verdict=each) for each in verdicts]
    assert (overall(found), exit_code(found)) == (gravest, code)


def test_verdicts_are_told_to_programs_and_to_pull_requests() -> None:
    cell = make_cell("for-loop", 4, task="Evil|<b>-v0")
    own = [*pairs(1, cell, reset=1.5), *pairs(2, cell, reset=1.5)]
    found = [verdict(CHECK, own, cell)]
    whole = msgspec.json.decode(document(CHECK, found, {"for-loop": ["numpy 1 → 2"]}))
    assert (whole["schema"], whole["verdict"]) == (1, "REGRESSION")
    (told,) = whole["cells"]
    assert (told["task"], told["slower"]) == ("Evil|<b>-v0", ["reset"])
    assert told["stages"][1]["reset"]["ratio"] == pytest.approx(1 / 1.5)
    text = markdown(CHECK, found, {"for-loop": ["numpy 1 → 2"]})
    assert "### envbench check: REGRESSION" in text
    assert "reset ×1.50" in text
    assert "numpy 1 → 2" in text
    assert whole["differences"] == {"for-loop": ["numpy 1 → 2"]}
    assert "Evil|<b>" not in text


# ---------------------------------------------------------------- the plan


def test_a_budget_is_filled_with_pairs_and_too_small_a_one_refused() -> None:
    cells = [CELL, make_cell("envpool-sync", 4)]
    default = sizes(cells, Rule(), pairs=None, budget=None, precise=False)
    assert default.pairs == DEFAULT_PAIRS
    longer = sizes(cells, Rule(), pairs=None, budget=40 * pair_seconds(), precise=False)
    assert longer.pairs == 20
    assert longer.detectable[CELL.key] < default.detectable[CELL.key]
    with pytest.raises(UsageError, match="5 pairs of 2 cells take about"):
        sizes(cells, Rule(), pairs=None, budget=9 * pair_seconds(), precise=False)


def test_the_help_names_the_numbers_of_pairs() -> None:
    from click.testing import CliRunner

    from envbench.cli import envbench

    told = CliRunner().invoke(envbench, ["check", "--help"]).output
    assert f"[default: {DEFAULT_PAIRS}, or by" in " ".join(told.split())
    assert f"{MOST_PRECISE_PAIRS} at most" in " ".join(told.split())
    told = CliRunner().invoke(envbench, ["baseline", "save", "--help"]).output
    assert f"[default: {DEFAULT_PAIRS}]" in told


def test_precise_is_refused_where_its_slowdown_is_within_the_margin() -> None:
    with pytest.raises(UsageError, match="which is none by --margin"):
        sizes([CELL], Rule(margin=0.02), pairs=None, budget=None, precise=True)


def test_a_default_check_of_a_clean_cell_fits_seventy_five_seconds() -> None:
    found = sizes([CELL], Rule(), pairs=None, budget=None, precise=False)
    assert found.seconds < 75


def test_half_a_start_up_more_is_seen_even_of_a_short_one() -> None:
    assert FLOORS["start-up"] < 0.5 * 0.15e9  # Gymnasium and MuJoCo import in 0.15 s


def test_precise_takes_the_pairs_that_find_two_per_cent() -> None:
    found = sizes([CELL], Rule(), pairs=None, budget=None, precise=True)
    assert found.detectable[CELL.key] <= 0.02
    assert found.pairs > 3 * DEFAULT_PAIRS


def test_what_steps_in_lots_has_long_slices() -> None:
    lots = {name for name, backend in registry().items() if backend.in_lots}
    assert lots >= {
        "ceiling",
        "sample-factory",
        "brax",
        "mjx",
        "genesis",
        "mujoco-rollout",
        "envpool-numa",
    }
    assert not lots & {"for-loop", "subprocess", "envpool-sync", "envpool-async", "ale-vector"}
    assert slicing(50, 0.01, "for-loop") == (50, 0.01)
    assert slicing(50, 0.01, "brax") == (5, pytest.approx(0.1))
    assert slicing(5, 0.01, "brax")[0] == 1
