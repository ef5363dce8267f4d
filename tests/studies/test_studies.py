"""The studies of ``check``: other tools' rules, resuming, tables, planted slowdowns."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations_with_replacement
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.command_line import ROOT
from helpers.record_factories import make_cell, make_run, make_windows

from envbench.decisions.session import session
from envbench.experiments import pairs
from envbench.model import ArmFact, Behaviour, BlockRecord, Plan, Rule, TrialRecord

STUDIES = ROOT / "tests" / "studies"
ARMS = [ArmFact(name=name, source="a") for name in ("baseline", "candidate")]


def side(*levels: float) -> list[list[float]]:
    """One process per level, with ten slices that differ a little."""
    return [[level * (1 + k / 1000) for k in range(10)] for level in levels]


STEADY = [1.0 + k / 500 for k in range(10)]


def at(factor: float) -> list[list[float]]:
    """The same ten processes, each slightly different from the others, slower by that factor."""
    return side(*(factor * level + 1e-6 for level in STEADY))


@pytest.mark.parametrize(
    ("name", "factor", "reported"),
    [
        ("pyperf compare_to", 1.0, False),
        ("pyperf compare_to", 1.02, True),
        ("pyperf compare_to", 0.9, False),  # faster is not slower
        ("asv continuous", 1.05, False),  # below its factor, however certain
        ("asv continuous", 1.15, True),
        ("asv continuous", 0.8, False),
        ("benchstat", 1.0, False),
        ("benchstat", 1.05, True),
        ("benchstat", 0.9, False),
    ],
)
def test_the_rules_of_other_tools_report_slowdowns_as_the_tools_do(
    name: str, factor: float, reported: bool
) -> None:
    from other_rules import RULES

    assert RULES[name](at(1.0), at(factor)) is reported


def test_the_score_of_pyperf_is_the_t_test_of_equal_variances() -> None:
    from other_rules import pyperf
    from scipy.stats import ttest_ind

    old = side(1.0, 1.1, 0.9)
    for factor in (1.05, 1.08, 1.1, 1.12, 1.15, 1.3):
        new = side(*(factor * x for x in (1.0, 1.1, 0.9)))
        flat = [[x for each in s for x in each[:3]] for s in (old, new)]
        significant = ttest_ind(*flat, equal_var=True).pvalue < 0.05
        assert pyperf(old, new) is bool(significant)


def test_shared_noise_hides_a_slowdown_from_pyperf_but_not_from_check() -> None:
    from check_traces import Trace, ours
    from other_rules import pyperf

    noise = [1.0, 3.0] * 5
    equal = Trace(old=side(*noise), new=side(*(level * 1.0001 for level in noise)))
    slower = equal.slower(0.05)
    assert not ours(equal, equal)
    assert ours(slower, slower)
    assert not ours(slower, equal)  # the second stage decides
    assert not pyperf(slower.old, slower.new)  # hidden by the noise


def test_equal_checks_are_replayed_cell_by_cell_and_planted_slowdowns_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import check_traces
    from check_live import Made

    cell = make_cell()

    def made(study: str, seed: int) -> Made:
        return Made(study=study, seed=seed, seconds=1.0, whole=True, exit_code=0, file=str(seed))

    def trial(arm: str, seed: int, ns: int) -> TrialRecord:
        measured = make_windows([100] * 8, ns=ns)
        return TrialRecord(trial_id=arm, cell=cell, arm=arm, seed=seed, measured=measured)

    def read(path: Path) -> tuple[Plan, list[BlockRecord]]:
        plan = Plan(
            plan_id=path.name, experiment="check", spec="s", cells=[cell], arms=ARMS,
            design=pairs.design(10, rule=Rule()), seed=0, fingerprint="f", started_utc="x",
            command=[], envbench_version="0",
        )  # fmt: skip
        blocks = [
            BlockRecord(
                block_id=str(k), plan_id=path.name, round=k, started_utc="x",
                trials=[
                    trial("baseline", k, 10**6 * (k + 1)),
                    trial("candidate", k, 10**6 * (k + 1) + k),
                ],
            )
            for k in range(10)
        ]  # fmt: skip
        return plan, blocks[:9] if path.name == "2" else blocks  # the third was stopped

    monkeypatch.setattr(
        check_traces, "all_made", lambda _: [*(made("same", k) for k in range(4)), made("step", 9)]
    )
    monkeypatch.setattr(check_traces, "read", read)
    (traces,) = check_traces.recorded(Path()).values()
    assert len(traces) == 3
    assert traces[0].old[1] == [20_000.0] * 8  # nanoseconds per step
    assert traces[0].slower(0.05).new[1][0] == pytest.approx((2 * 10**6 + 1) / 100 / 0.95)
    checks = check_traces.neighbours({"x": traces})
    assert check_traces.ours_found(checks, 0.0) == (0, 2)
    assert check_traces.ours_found(checks, 0.05) == (2, 2)
    lines = check_traces.recorded_table({"x": traces}).splitlines()
    assert lines[2].startswith("| envbench check")
    assert "100.0 %" in lines[2]
    assert len(lines) == 2 + 1 + 2 * 3  # too few checks for --precise


def test_bounds_are_the_exact_ones_of_clopper_and_pearson() -> None:
    from document import bounds, share

    assert bounds(0, 30) == pytest.approx((0, 0.1157), abs=1e-4)  # from a published table
    assert bounds(19, 20) == pytest.approx((0.7513, 0.9987), abs=1e-4)
    assert share(0, 30, 1) == "0.0 % (0.0–11.6)"
    assert share(0, 0) == "-"


def test_a_table_is_written_between_its_markers(tmp_path: Path) -> None:
    from document import fill

    page = tmp_path / "page.md"
    page.write_text("a\n<!-- study: x -->\nold\n<!-- study: x -->\nb\n")
    for _ in range(2):
        fill("x", "| \\1 |", page)
        assert page.read_text() == ("a\n<!-- study: x -->\n\n| \\1 |\n\n<!-- study: x -->\nb\n")
    with pytest.raises(SystemExit, match="study: y"):
        fill("y", "", page)


def test_the_page_of_studies_has_markers_for_every_table() -> None:
    page = (ROOT / "docs" / "studies.md").read_text()
    for name in (
        "blocks", "check-live", "check-resampled", "check-simulated", "episode-power",
        "honest backends", "held-out", "kills", "overhead", "overhead-together", "ratios",
        "ratios-again", "recovery", "rules-recorded", "rules-simulated", "slice-length",
        "slices-and-lead-ins", "switching", "without-a-stop", "without-stops",
    ):  # fmt: skip
        assert page.count(f"<!-- study: {name} -->") == 2, name


def test_simulated_effects_equal_those_of_the_rule(scripts: None) -> None:
    import numpy as np
    from check_simulated import LINES, effects, slices, usual_effects

    from envbench.decisions.slowdown import effect, usual_effect

    for number, kind in enumerate(LINES):
        times, turns = slices(np.random.default_rng(number), kind, 20, 0.03)
        sides = [
            [row[own == side] for row, own in zip(times, turns, strict=True)] for side in (0, 1)
        ]
        for simulated, of in ((effects, effect), (usual_effects, usual_effect)):
            ours = [of(*(side.tolist() for side in pair)) for pair in zip(*sides, strict=True)]
            assert simulated(times, turns) == pytest.approx(ours), kind


@pytest.mark.parametrize(("lead_ms", "lost"), [(0, 8.0), (5, 5.5), (10, 3.0), (30, 0.0)])
def test_the_time_that_a_slice_loses_after_a_lead_in(lead_ms: float, lost: float) -> None:
    """Windows of 5 ms: the first takes 10 ms, the next one 8 ms, then all take 5 ms."""
    import numpy as np
    from switching import lost_ms

    profile = [10e6, 8e6] + [5e6] * 98
    quiet = [profile] * 3 + [[5 * each for each in profile]]  # another program slows the last one
    assert lost_ms(np.array(quiet), 10, lead_ms) == pytest.approx(lost)


def test_half_widths_of_ratios_are_split_by_whether_a_side_has_several_processes() -> None:
    from ratios import half_widths, shown

    speeds = {"for-loop": 100, "envpool-sync": 200, "subprocess": 300}
    runs = [
        make_run(make_cell(name), [speed + (7 * number + place) % 3] * 4, block=f"b{number}")
        for number in range(5)
        for place, (name, speed) in enumerate(speeds.items())
    ]
    found = session(runs, {"subprocess": Behaviour(steps_in="processes")})
    single, several = (half_widths(found, processes=each) for each in (False, True))
    assert (len(single), len(several)) == (1, 2)
    assert all(0 < each < 10 for each in single + several)
    assert shown([1.0, 2.0, 3.0]).startswith("±2.0 %")
    assert shown([]) == "-"


def test_switching_costs_what_is_neither_slice_nor_lead_in() -> None:
    from switching import Made, switching

    given = {"group": "small", "calls": 10, "lead_ns": [10**7]}
    made = [
        Made(**given, session=session, cell=cell, slice_s=0.1, ns=85 * 10**6, since_ns=10**8)
        for cell in ("for-loop", "envpool-sync", "subprocess")
        for session in range(2)
    ]
    row = switching(made).splitlines()[-1].split("|")
    assert [each.strip() for each in row[1:6]] == ["0.1 s", "6", "5.0 ms", "10.0 %", "5.0 %"]


def test_the_noise_left_in_ratios_excludes_what_all_backends_share() -> None:
    from switching import Made, residuals

    def made(session: int, cell: str, ns: int) -> Any:
        return Made(group="small", session=session, cell=cell, slice_s=0.1, calls=10,
                    lead_ns=[], ns=ns, since_ns=0)  # fmt: skip

    cells = ("for-loop", "envpool-sync", "subprocess")
    shared = [made(n, cell, 10**7 * (1 + n)) for n in range(4) for cell in cells]
    assert [each.value for each in residuals(shared)] == pytest.approx([0.0, 0.0], abs=1e-12)
    slower = [*shared[:-1], made(3, "subprocess", 5 * 10**7)]
    threads, processes = residuals(slower)
    assert threads.value == pytest.approx(0.0, abs=1e-12)
    assert (processes.value > 0.1, threads.degrees, processes.degrees) == (True, 3, 3)


def test_a_slice_length_is_judged_by_how_much_equal_pairs_differ() -> None:
    from slice_length import Stepped, table

    def pair(seed: int, slice_ms: int, theirs: list[float]) -> Stepped:
        ours = [1.0, 1.0, 1.0, 1.0]
        cell = "mujoco/for-loop/1"
        return Stepped(cell=cell, slice_ms=slice_ms, seed=seed, ours=ours, theirs=theirs)

    steady = [pair(k, 10, [1.0, 1.0, 1.0 + k, 1.0]) for k in range(4)]  # one slice was disturbed
    shaken = [pair(k, 100, [1.0 + k / 100] * 4) for k in range(4)]
    heads, _, *rows = table(steady + shaken).splitlines()
    assert [cell.strip() for cell in heads.split("|")[4:7]] == [
        "all slices", "faster halves", "neighbours"
    ]  # fmt: skip
    assert "1.3 %" in rows[0]
    assert (
        rows[1].split("|")[5].split() == rows[1].split("|")[6].split() == ["0.0", "%", "(0.0–0.0)"]
    )


# ---------------------------------------------------------------- the live study


def test_a_recorded_check_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import check_live

    asked: list[tuple[str, int]] = []

    def made(results: Path, study: Any, seed: int, arms: Any) -> Any:
        asked.append((study.name, seed))
        if len(asked) == 4:
            raise SystemExit("Stopped.")
        return check_live.Made(
            study=study.name, seed=seed, seconds=60.0, whole=True, exit_code=0, file="m/f.jsonl"
        )

    monkeypatch.setattr(check_live, "one_check", made)
    monkeypatch.setattr(check_live, "make_arms", lambda *_: ())
    studies = check_live.STUDIES[:2]
    with pytest.raises(SystemExit):
        check_live.make_all(tmp_path, studies, at_most=3)
    assert asked == [("same", 0), ("same", 1), ("same", 2), ("step", 1000)]
    asked.clear()
    check_live.make_all(tmp_path, studies, at_most=3)
    assert asked == [("step", 1000), ("step", 1001), ("step", 1002)]
    asked.clear()
    check_live.make_all(tmp_path, studies, at_most=3)
    assert asked == []


def test_only_a_regression_in_the_planted_quantity_counts_as_found() -> None:
    from check_live import Outcome, Study, row

    study = Study(name="x", title="reset", checks=4, quantities=("reset",))

    def outcome(verdict: str, *slower: str) -> Outcome:
        return Outcome(verdict=verdict, slower=[*slower], ratio=0.7, stages=2, seconds=100.0)

    cells = row(
        study,
        [
            outcome("REGRESSION", "reset"),
            outcome("REGRESSION", "reset", "memory"),
            outcome("REGRESSION", "steps"),  # not what was planted
            outcome("INCONCLUSIVE"),
        ],
    )
    assert cells[1] == "4"
    assert cells[2].startswith("2: 50.0 %")
    assert cells[3:] == ["1 INCONCLUSIVE", "0.700", "memory, steps"]


class VirtualTime:
    """A virtual clock in nanoseconds. A reading advances it by 1,000, a step or reset by more."""

    def __init__(self) -> None:
        self.now = 0

    def read(self) -> int:
        self.now += 1000
        return self.now

    def takes(self, ns: int) -> Callable[[object], None]:
        def passes(_: object) -> None:
            self.now += ns

        return passes


@pytest.mark.parametrize(("step", "reset", "start"), [(0.0, 0.0, 0.0), (0.5, 1.0, 2.0)])
def test_a_planted_slowdown_is_as_large_as_requested(
    step: float, reset: float, start: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    from planted import PACKAGE

    clock = VirtualTime()
    monkeypatch.setattr(time, "perf_counter_ns", clock.read)
    monkeypatch.setattr(time, "process_time", lambda: clock.read() / 1e9)
    members = {"step": clock.takes(1_000_000), "reset": clock.takes(20_000_000)}
    envs = type("SyncVectorEnv", (), members)
    gymnasium = SimpleNamespace(register=lambda **_: None)
    monkeypatch.setitem(sys.modules, "gymnasium", gymnasium)
    monkeypatch.setitem(sys.modules, "gymnasium.vector", SimpleNamespace(SyncVectorEnv=envs))

    def took(call: Callable[[], object]) -> int:
        began = clock.now
        call()
        return clock.now - began

    source = PACKAGE.format(step=step, reset=reset, start=start)
    reads = 4 * 1000
    assert took(lambda: exec(source, {})) == pytest.approx(start * 1e9, abs=reads)
    assert took(envs().step) == pytest.approx((1 + step) * 1e6, abs=reads)
    assert took(envs().reset) == pytest.approx((1 + reset) * 20e6, abs=reads)


@pytest.mark.slow
def test_each_arm_of_a_live_check_has_an_interpreter_and_a_planted_speed(tmp_path: Path) -> None:
    from planted import make_arm

    make_arm(tmp_path / "longer", step=0.5, reset=1.0, start=1.0)
    code = "import time, paced_ant; print(time.process_time(), paced_ant.__file__)"
    asked = subprocess.run(
        [tmp_path / "longer" / "bin" / "python", "-I", "-c", code], capture_output=True, text=True
    )
    assert asked.returncode == 0, asked.stderr
    seconds, file = asked.stdout.split()
    assert float(seconds) > 1.0
    assert file == str(tmp_path / "longer" / "paced" / "paced_ant.py")
    module = tmp_path / "longer" / "paced" / "paced_ant.py"
    written = module.stat().st_mtime_ns
    make_arm(tmp_path / "longer", step=0.5, reset=1.0, start=1.0)
    assert module.stat().st_mtime_ns == written  # so that a stopped check can resume


def test_checks_are_drawn_from_pairs_and_a_slower_candidate_is_found() -> None:
    import numpy as np
    from check_resampled import drawn, slower, verdicts

    pair = ([10.0, 12.0], [11.0, 11.0], ())
    assert slower([pair], 0.5) == [([10.0, 12.0], [22.0, 22.0], ())]
    pairs = [([float(k), k + 1.0], [k + 0.5, k + 0.5], ()) for k in range(1000, 1020)]
    one, two = drawn(np.random.default_rng(1), pairs, 10, 0.0)
    assert all(a[0] % 1 == 0 for a, _, _ in one)
    assert all(b[0] % 1 == 0 for _, b, _ in two)  # the arms of the second stage are exchanged
    seen = [min(*a, *b) for a, b, _ in (*one, *two)]
    assert len(set(seen)) == 20  # without replacement if there are enough
    pairs = [([1000.0] * 2, [1000.0 + k / 5] * 2, ()) for k in range(-10, 10)]
    found, covered = verdicts(np.random.default_rng(1), pairs, 5, 0.0, 40)
    assert found["PASS"] == 40
    assert covered > 30
    found, _ = verdicts(np.random.default_rng(1), pairs, 5, 0.05, 40)
    assert found["REGRESSION"] == 40


def test_a_simulated_session_deals_every_cell_once_per_round() -> None:
    import numpy as np
    from blocks_simulated import NOISES, PLANS, session

    for setup in PLANS.values():
        trials, truth = session(np.random.default_rng(1), setup, NOISES["all of these"])
        cells = [each.cell for each in trials]
        assert {cells.count(cell) for cell in cells} == {setup.rounds}
        assert len(truth.session) == len(set(cells)) == len(setup.classes)
        blocks = [each.block for each in trials]
        assert max(blocks.count(block) for block in blocks) == setup.block


def test_the_two_truths_differ_only_where_classes_react_differently() -> None:
    import numpy as np
    from blocks_simulated import NOISES, PLANS, session

    setup = PLANS["10 cells"]
    for name, differ in (("steps", False), ("lost cores, minutes", True)):
        _, truth = session(np.random.default_rng(1), setup, NOISES[name])
        gaps = [a - b for a, b in zip(truth.session, truth.long_run, strict=True)]
        by_class = dict(zip(setup.classes, gaps, strict=True))
        assert (abs(by_class["pool"] - by_class["processes"]) > 0.001) is differ


def test_blocks_that_were_left_out_are_inside_the_predicted_intervals() -> None:
    import numpy as np
    from blocks_simulated import NOISES, PLANS, leave_one_out, session

    trials, _ = session(np.random.default_rng(1), PLANS["10 cells"], NOISES["drift"])
    found = leave_one_out(trials)
    assert set(found) == set(combinations_with_replacement(("one-thread", "pool", "processes"), 2))
    inside = [each for pair in found.values() for each in pair]
    pairs = [len([x for x in trials if x.block == block]) for block in range(10)]
    assert len(inside) == sum(count * (count - 1) // 2 for count in pairs)
    assert 0.85 < sum(inside) / len(inside) < 1.0
    assert leave_one_out([each for each in trials if each.block == 0]) == {}


def test_a_ratio_far_from_the_predicted_one_is_outside() -> None:
    from blocks_simulated import predicted

    from envbench.stats.block_model import TrialRate, fit

    pair = [TrialRate(cell=cell, block=0, steps_in="pool", rate=1.0) for cell in "ab"]
    rates = (1.01, 0.99, 1.0, 1.02, 0.98)
    model = fit([replace(pair[0], block=k, rate=rate) for k, rate in enumerate(rates)]
                + [replace(pair[1], block=k) for k in range(5)])  # fmt: skip
    assert predicted(model, *pair) == [True]
    assert predicted(model, replace(pair[0], rate=1.1), pair[1]) == [False]
    assert predicted(fit(pair), *pair) == []


@pytest.mark.parametrize(
    "name",
    [
        "blocks_simulated",
        "check_live",
        "check_resampled",
        "check_traces",
        "check_simulated",
        "random_kills",
    ],
)
def test_the_scripts_have_a_help_text(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(STUDIES / f"{name}.py"), run_name="__main__")
    assert ended.value.code == 0
    assert "Usage" in capsys.readouterr().out


def test_the_table_of_honest_backends_counts_accusations_and_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import honest_verify

    def finding(seed: int, badge: str, **more: Any) -> str:
        verdict = {"badge": badge, "refused": badge == "✗", "unequal": badge in "✗≠"}
        found = {"family": "atari", "task": "Pong-v5", "backend": "subprocess", "seed": seed}
        return json.dumps({**found, "seconds": 60, "failure": None, "verdict": verdict, **more})

    monkeypatch.setattr(honest_verify, "FINDINGS", tmp_path / "findings.jsonl")
    lines = [finding(1, "✓"), finding(2, "✗"), finding(3, "–", failure={"reason": "killed"})]
    honest_verify.FINDINGS.write_text("\n".join(lines))
    row = honest_verify.report().splitlines()[-1]
    cells = [each.strip() for each in row.strip("|").split("|")]
    assert cells[:5] == ["atari", "Pong-v5 `subprocess`", "3", "✓ ✗ –", "1"]
    assert cells[6:] == ["1", "1.0 min", "1.0 min"]


def test_a_long_profile_is_compared_with_its_first_slice() -> None:
    from switching import Made, without_a_stop

    fast, slow = [100] * 10, [125] * 30
    made = [
        Made(
            group="long", session=number, cell="envpool-sync", slice_s=0.0, calls=8,
            lead_ns=[*fast, *slow][:-1], ns=slow[-1] + number, since_ns=0,
        )
        for number in (0, 0, 1)
    ]  # fmt: skip
    row = without_a_stop(made).splitlines()[-1].split("|")
    assert [each.strip() for each in row[2:4]] == ["2", "3"]
    assert [each.split()[0] for each in row[4:8]] == ["+0.0", "+0.0", "-20.0", "-20.0"]
    assert row[8].strip() == "100 %"
