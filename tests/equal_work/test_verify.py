"""Equal work: what the comparison of backends finds, and that cheats do not get through."""

from __future__ import annotations

import io
import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from interpreters import lent_packages, make_interpreter
from made_records import make_cell, make_fact, make_plan, make_run
from place import Place, ended, wait_until

from envbench import backends, families
from envbench.cli.run_experiment import Display
from envbench.engine.availability import Arm
from envbench.engine.campaign import Campaign
from envbench.engine.executor import LocalExecutor
from envbench.engine.experiment import Options, Site
from envbench.engine.request import CellRequest
from envbench.equal_work import traces
from envbench.equal_work.judge import compared, differences, judge
from envbench.equal_work.traces import (
    Trace,
    agreed,
    compare,
    moves_on,
    read_trace,
    responds,
)
from envbench.experiments.verify import VerifyExperiment
from envbench.families import Standard
from envbench.machine import Profile, Table
from envbench.model import (
    Agreement,
    Audit,
    Cell,
    Family,
    Fingerprint,
    Plan,
    Verification,
    arm_key,
)
from envbench.report.markdown.table_text import parse, render
from envbench.report.tables.build import build
from envbench.report.tables.machine_results import machine_results
from envbench.results.selection import select
from envbench.results.store import Journal

slow = pytest.mark.slow
CHEATS = Path(__file__).parents[1] / "fixtures" / "cheats"


def standard(family: str) -> Standard:
    return families.get(family).standards["env"]


def trace(seed: int = 0, steps: int = 100, shape: tuple[int, ...] = (27,)) -> Trace:
    rng = np.random.default_rng(seed)
    observations = rng.normal(size=(steps, 2, *shape))
    observations[: steps // 2] = observations[: steps // 2, :1]
    return Trace(
        observations=observations,
        rewards=rng.normal(size=(steps, 2)),
        ended=np.zeros((steps, 2), np.bool_),
    )


def found(cell: Cell | None = None, **given: Any) -> Verification:
    values: dict[str, Any] = {
        "verification_id": "v",
        "cell": cell or make_cell("subprocess"),
        "started_utc": "2025-11-20T10:00:00Z",
        "fingerprint": "f",
        "runtime": "r",
        "worker": "w",
        "seed": 0,
        "audit": Audit(calls=10, steps=20, resets=0, frames=80.0),
        "agreement": Agreement(
            reference="for-loop",
            distances=[0.0] * 200,
            reward_distances=[0.0] * 200,
            same_ends=True,
        ),
        "responds": True,
        "work": dict(families.get("atari").work["env"]),
    }
    return Verification(**{**values, **given})


# ---------------------------------------------------------------- comparing


def test_traces_agree_up_to_the_first_step_that_differs() -> None:
    led, own = trace(), trace()
    same = compare(standard("mujoco"), led, own)
    assert set(same.distances) == {0.0}
    assert same.same_ends
    assert compared(standard("mujoco"), same)[0] is True
    own.observations[2, 1, 5] += 0.01
    apart = compare(standard("mujoco"), led, own)
    assert agreed(standard("mujoco"), apart) == 2
    assert compared(standard("mujoco"), apart)[0] is False


def test_contact_forces_are_not_compared() -> None:
    led, own = trace(shape=(111,)), trace(shape=(111,))
    own.observations[:, :, 27:] = 0.0
    assert max(compare(standard("mujoco"), led, own).distances) == 0.0


def test_frames_of_a_stack_from_before_the_first_step_are_not_compared() -> None:
    led, own = trace(shape=(4, 84, 84)), trace(shape=(4, 84, 84))
    own.observations[:3, :, :3] = 0.0  # frames from before the first step: each library has its own
    own.observations[4, 0, 3, 7, 7] += 50.0  # one pixel of the newest frame
    own.observations[6, 1, 0, 7, 7] += 60.0  # one pixel of the oldest frame
    apart = compare(standard("atari"), led, own)
    assert apart.distances[:4] == [0.0] * 4
    assert apart.distances[4] == pytest.approx(50.0)
    assert apart.distances[6] == pytest.approx(60.0)
    assert agreed(standard("atari"), apart) == 4


def test_an_episode_that_ends_in_another_step_is_different_work() -> None:
    led, own = trace(), trace()
    own.ended[1, 0] = True
    apart = compare(standard("mujoco"), led, own)
    assert (apart.same_ends, apart.first_other_end) == (False, 1)
    assert compared(standard("mujoco"), apart)[0] is False
    own.ended[:] = False
    own.ended[10, 0] = True  # later than the steps that must agree
    later = compare(standard("mujoco"), led, own)
    assert compared(standard("mujoco"), later)[0] is True


def test_a_short_trace_decides_nothing_and_a_narrow_or_empty_one_is_refused() -> None:
    brief = Trace(**{name: array[:2] for name, array in vars(trace()).items()})
    short = compare(standard("atari"), trace(), brief)
    assert compared(standard("atari"), short)[0] is None
    for steps, answer in ((5, None), (99, None), (100, True)):
        led = compare(standard("mujoco"), trace(steps=steps), trace(steps=steps))
        assert compared(standard("mujoco"), led)[0] is answer
    with pytest.raises(ValueError, match="no step"):
        compare(standard("mujoco"), trace(), trace(steps=0))
    narrow = Trace(**{name: array[:, :1] for name, array in vars(trace()).items()})
    with pytest.raises(ValueError, match="1 of 2 environments"):
        compare(standard("mujoco"), trace(), narrow)


def test_every_environment_must_still_move_at_the_end() -> None:
    led, own = trace(), trace()
    assert moves_on(compare(standard("mujoco"), led, own))
    own.observations[3:, 1] *= 0.5
    assert not moves_on(compare(standard("mujoco"), led, own))


def test_nan_and_infinity_count_as_the_largest_distance() -> None:
    led, own = trace(), trace()
    own.observations[0] = np.nan
    own.rewards[1] = np.inf
    apart = compare(standard("mujoco"), led, own)
    assert apart.distances[0] == apart.reward_distances[1] == 1e308
    msgspec.json.encode(apart)


def test_observations_of_different_shapes_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="cannot be compared"):
        compare(standard("gym"), trace(shape=(3,)), trace(shape=(4,)))


@pytest.mark.parametrize("raw", [b"", b"PK\x03\x04", b"\x80\x04."])
def test_a_file_that_is_not_a_trace_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match="trace"):
        read_trace(raw)


def test_a_trace_is_never_a_pickle() -> None:
    file = io.BytesIO()
    np.savez(file, observations=np.array([object()]), rewards=[0], ended=[0])
    with pytest.raises(ValueError, match=r"allow_pickle|trace"):
        read_trace(file.getvalue())


def test_an_environment_that_does_not_move_or_ignores_actions_does_not_respond() -> None:
    moving = trace()
    assert responds(moving, 50)
    assert not responds(moving, 51)  # the same actions must give the same observations
    still = replace(moving, observations=np.zeros((100, 2, 5)))
    assert not responds(still, 50)
    deaf = replace(moving, observations=np.repeat(moving.observations[:, :1], 2, axis=1))
    assert not responds(deaf, 50)
    lost = moving.observations.copy()
    lost[5:] = np.nan
    for none in (lost, moving.observations[:1], moving.observations[:0], lost[:, :, :0]):
        assert not responds(replace(moving, observations=none), 50)


@pytest.mark.parametrize(
    ("frames", "answer"), [(80.0, True), (80.4, True), (84.0, False), (160.0, False), (None, None)]
)
def test_a_claim_must_equal_what_the_environments_counted(
    frames: float | None, answer: bool | None
) -> None:
    assert traces.counted(Audit(calls=10, steps=20, resets=0, frames=frames), 4) is answer


# ---------------------------------------------------------------- the settings of a step


def test_differences_list_other_values_and_unreported_ones() -> None:
    wanted = families.get("atari").work["env"]
    assert differences("atari", "env", wanted) == {}
    other = {**wanted, "fire_reset": True, "sticky": 0.25}
    del other["noop_max"]
    assert differences("atari", "env", other) == {
        "noop_max": (30, "unknown"),
        "fire_reset": (False, True),
        "sticky": (0.0, 0.25),
    }


def test_another_task_is_not_compared_with_the_default_tasks_time_steps() -> None:
    work = {**families.get("mujoco").work["env"], "timestep_s": 0.002, "observation_shape": [17]}
    assert differences("mujoco", "env", work, task="Walker2d-v3") == {}
    assert set(differences("mujoco", "env", work, task="Ant-v3")) == {
        "timestep_s", "observation_shape",
    }  # fmt: skip


# ---------------------------------------------------------------- the verdict


def test_equal_work_gets_a_tick() -> None:
    verdict = judge(found())
    assert (verdict.badge, verdict.refused, verdict.unequal) == ("✓", False, False)
    assert verdict.audit == "80 frames of 1 environment, counted twice"
    assert verdict.lock_step == "equal exactly for 200 of 200 steps (required: 200)"


def test_a_lock_step_that_ended_early_decides_nothing() -> None:
    agreement = Agreement(
        reference="for-loop", distances=[0.0] * 2, reward_distances=[0.0] * 2, same_ends=True
    )
    verdict = judge(found(agreement=agreement))
    assert (verdict.badge, verdict.lock_step) == ("≠", "compared for 2 steps only (required: 200)")


def test_a_claim_that_differs_is_refused() -> None:
    verdict = judge(found(audit=Audit(calls=10, steps=40, resets=0, frames=80.0)))
    assert (verdict.badge, verdict.refused) == ("✗", True)
    assert verdict.audit == "claims 160 frames, its environments made 80"


def test_a_backend_without_a_recorded_trace_is_not_verified() -> None:
    verdict = judge(found(agreement=None, responds=None))
    assert (verdict.badge, verdict.refused, verdict.unequal) == ("–", False, False)
    assert "not compared" in verdict.lock_step


def test_a_backend_that_reports_other_work_is_not_equal() -> None:
    work = dict(families.get("atari").work["env"])
    assert judge(found(work=work)).badge == "✓"
    assert judge(found(work={**work, "stack": 1})).badge == "≠"
    reported = {
        **work,
        "autoreset": "same-step",
        "returned_to": "device",
        "observation_dtype": "int8",
    }
    assert judge(found(work=reported)).badge == "✓"
    del work["max_pool"]  # unknown
    assert judge(found(work=work)).badge == "✓"


def test_an_engine_whose_episodes_never_end_is_not_equal() -> None:
    endless = msgspec.structs.replace(found().agreement, ends=0, reference_ends=3)
    verdict = judge(found(agreement=endless))
    assert (verdict.badge, verdict.unequal) == ("≠", True)
    assert verdict.lock_step == "none of its episodes end, but 3 of the reference's do"
    some = msgspec.structs.replace(found().agreement, ends=1, reference_ends=3)
    assert judge(found(agreement=some)).badge == "✓"


def test_another_engine_is_named_and_not_refused() -> None:
    verdict = judge(found(make_cell("brax", env="mujoco"), agreement=None))
    assert (verdict.refused, verdict.unequal) == (False, False)
    assert "not applicable: another engine" in verdict.lock_step


def test_a_missing_comparison_is_not_called_another_engine() -> None:
    verdict = judge(found(agreement=None))
    assert (verdict.badge, verdict.refused, verdict.unequal) == ("≠", False, False)
    assert verdict.lock_step == "not compared: its reference for-loop cannot run here"


def test_work_that_differs_from_the_reference_is_unequal() -> None:
    differing = msgspec.structs.replace(found().agreement, distances=[0.0, 3.0, 3.0])
    verdict = judge(found(agreement=differing))
    assert (verdict.badge, verdict.refused, verdict.unequal) == ("≠", False, True)
    assert verdict.lock_step == "differs from step 2 on, by 3 grey levels"


# ---------------------------------------------------------------- the report


def table(*verified: Verification, existing: str = "") -> str:
    fast, slow = make_cell("subprocess", 1), make_cell("for-loop", 1)
    runs = [make_run(cell, [speed] * 4, round=n) for cell, speed in ((fast, 200), (slow, 100))
            for n in range(5)]  # fmt: skip
    records = [make_fact(), make_plan([fast, slow]), *runs, *verified]
    (subject,) = (s for s in machine_results(select(records), {}).values() if s.measured)
    return render(build(subject, parse(existing)))


def test_the_report_has_a_badge_for_each_verified_row_and_explains_it_once() -> None:
    text = table(found())
    assert "| Equal work" in text.splitlines()[0]
    assert "| ✓ " in text
    assert "Equal work: ✓ same work as the reference." in text
    assert "**3200.00**" in text


def test_a_refused_row_has_no_figures_and_another_is_the_best() -> None:
    text = table(found(audit=Audit(calls=10, steps=40, resets=0, frames=80.0)))
    assert "3200" not in text
    assert "**1600.00**" in text
    assert "No figure (accounting audit): claims 160 frames, its environments made 80." in text


def test_a_refused_figure_of_an_earlier_report_is_removed() -> None:
    before = table(found())
    refused = found(audit=Audit(calls=10, steps=40, resets=0, frames=80.0))
    text = table(refused, existing=before)
    assert "3200" not in text
    assert text == table(refused, existing=text)
    own = table(refused, existing=before.replace("**3200.00**", "3111.00"))
    assert "3111.00" in own  # a person wrote it


def test_a_row_that_differs_from_the_reference_is_never_the_best() -> None:
    differing = msgspec.structs.replace(found().agreement, distances=[9.0] * 200)
    text = table(found(agreement=differing))
    assert "3200.00<" not in text.replace("**", "#")
    assert "**3200.00**" not in text
    assert "**1600.00**" in text


def test_the_newest_verification_counts_even_if_it_failed() -> None:
    from envbench.model import Failure

    old = found(started_utc="2025-11-20T09:00:00Z", responds=False)
    broken = found(
        started_utc="2025-11-21T10:00:00Z", failure=Failure(reason="stalled", message="it hung")
    )
    assert next(iter(select([found(), old]).verified.values())).verification == found()
    assert next(iter(select([old, broken, found()]).verified.values())).verification == broken
    assert judge(broken).badge == "–"
    assert "**3200.00**" in table(broken)  # as if it had never been verified


def test_a_note_says_that_other_packages_were_verified() -> None:
    note = "The packages or envbench changed between measuring and verifying"
    assert note in table(found(runtime="another"))
    assert note in table(found(worker="another"))
    same = found(runtime="runtime", worker="worker")
    assert note not in table(same)
    # A verification of these packages counts, whatever a later one of other packages says.
    later = found(runtime="another", started_utc="2025-11-22T10:00:00Z", responds=False)
    for order in ([same, later], [later, same]):
        assert note not in table(*order)
        assert "✓" in table(*order)
    # Of these the newest counts: another worker may check more.
    stricter = found(
        runtime="runtime", worker="another", started_utc="2025-11-22T10:00:00Z", responds=False
    )
    for order in ([same, stricter], [stricter, same]):
        assert "No figure" in table(*order)


@pytest.mark.parametrize(
    "given",
    [
        {"audit": Audit(calls=10, steps=20, resets=0, frames=None)},
        {"audit": None},
        {"agreement": None},
    ],
    ids=["uncounted", "no audit", "another engine"],
)
def test_a_row_that_was_not_counted_twice_or_not_compared_is_never_the_best(given: Any) -> None:
    verdict = judge(found(**given))
    assert (verdict.badge, verdict.refused) in (("–", False), ("≠", False))
    text = table(found(**given))
    assert "3200.00" in text
    assert "**3200.00**" not in text


def test_settings_that_change_the_work_get_no_tick() -> None:
    cell = make_cell("subprocess", variant={"actions": "constant"})
    assert judge(found(cell)).badge == "≠"


def test_an_unverified_row_is_the_best_only_if_its_backend_is_built_in() -> None:
    ours, theirs = make_cell("for-loop", 1), make_cell("their-backend", 1)
    runs = [
        make_run(cell, [speed] * 4, round=n)
        for cell, speed in ((ours, 100), (theirs, 200))
        for n in range(5)
    ]
    (subject,) = (
        s
        for s in machine_results(
            select([make_fact(), make_plan([ours, theirs]), *runs]), {}
        ).values()
        if s.measured
    )
    text = render(build(subject, parse("")))
    assert "**1600.00**" in text
    assert "**3200.00**" not in text


# ---------------------------------------------------------------- cheats, for real


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cheats") / "venv"
    return make_interpreter(folder, paths=[CHEATS, *lent_packages()])


@pytest.fixture
def cheats(monkeypatch: pytest.MonkeyPatch) -> dict[str, backends.Backend]:
    honest = backends.get("for-loop")
    names = {
        "claims-more": "ClaimsMore",
        "skips-frames": "SkipsFrames",
        "ignores-actions": "IgnoresActions",
        "repeats-observations": "RepeatsObservations",
        "raises": "Raises",
        "ignores-late": "IgnoresLate",
        "ignores-late-in-all-but-one": "IgnoresLateInAllButOne",
        "ignores-most": "IgnoresMost",
        "acts-on-its-own": "ActsOnItsOwn",
        "never-ends": "NeverEnds",
        "is-not-led": "IsNotLed",
        "admits-to-less": "AdmitsToLess",
        "led-for-a-few-steps": "LedForAFewSteps",
        "loses-numbers": "LosesNumbers",
        "stale": "Stale",
        "halves-long-runs": "HalvesLongRuns",
        "halves-windows": "HalvesWindows",
        "makes-none": "MakesNone",
    }
    made = {
        name: msgspec.structs.replace(honest, name=name, adapter=f"cheats:{attribute}")
        for name, attribute in names.items()
    }
    known = {**backends.registry(), **made}
    monkeypatch.setattr(backends.BACKENDS, "loaded", (known, []))
    return made


# They betray themselves by counts, errors and lengths, which are read the same way in each family.
IN_ANY_FAMILY = {
    "claims-more": ("✗", "its environments made"),
    "halves-long-runs": ("✗", "its environments made"),
    "makes-none": ("✗", "claims 0 frames"),
    "raises": ("–", "it will not be led"),
    "is-not-led": ("–", "not compared"),
    "led-for-a-few-steps": ("✗", "do not follow the actions"),
}
CAUGHT = {
    "skips-frames": ("✗", "its environments made"),
    "ignores-actions": ("✗", "do not follow the actions"),
    "repeats-observations": ("✗", "do not follow the actions"),
    "halves-windows": ("✗", "its environments made"),
    "loses-numbers": ("✗", "do not follow the actions"),
    "ignores-late": ("✗", "do not follow the actions"),
    "ignores-late-in-all-but-one": ("✗", "do not follow the actions"),
    "acts-on-its-own": ("✗", "do not follow the actions"),
    "admits-to-less": ("≠", "counted twice"),
}
# A game's screen may not change for a while. Then only the reference shows the cheat.
BY_FAMILY = {
    "atari": {
        "ignores-most": ("≠", "differs from step"),
        "stale": ("≠", "differs from step"),
        # No game ends in the 200 steps of lock-step. How far the audit goes depends on the speed of
        # the machine: where it goes past a game's end, the environments make no more frames.
        "never-ends": ("✓✗", " frames"),
    },
    "mujoco": {
        **IN_ANY_FAMILY,
        "ignores-most": ("✗", "do not follow the actions"),
        "stale": ("✗", "do not follow the actions"),
        "never-ends": ("≠", "none of its episodes end"),
    },
}


def verify(python: Path, folder: Path, family: Family, names: list[str]) -> list[Verification]:
    """What the experiment finds, with real workers of that interpreter."""
    table = Table(numenv=[2], rows=["for-loop"])
    profile = Profile(name="here", title="Here", atari=table, mujoco=table)
    machine = Fingerprint(cpu="c", logical_cpus=2, physical_cores=2, usable_cpus=2, memory_gib=8)
    site = Site(profile=profile, fingerprint=machine, options=Options(results=folder))
    experiment = VerifyExperiment(
        cells=CellRequest(family=family, backends=names, numenv=[2]), audit_calls=60
    )
    targets = experiment.choose(site).targets
    plan = Plan(
        plan_id="p",
        experiment="verify",
        spec="s",
        cells=[each.cell for each in targets],
        design=experiment.design(targets),
        seed=0,
        fingerprint="f",
        started_utc="2026-01-02T03-04-05Z",
        command=["envbench", "verify"],
        envbench_version="0",
    )
    arms = {
        arm_key("", each.cell): Arm(cell=each.cell, backend=each.backend, python=str(python))
        for each in targets
    }
    campaign = Campaign(
        Journal.create(folder, "here", plan.started_utc),
        plan,
        experiment,
        arms,
        executor=LocalExecutor(),
        listener=Display(),
    )
    campaign.carry_out()
    return campaign.findings


@slow
@pytest.mark.parametrize("family", ["atari", "mujoco"])
def test_each_cheat_is_caught_and_the_honest_one_is_not(
    cheats: dict[str, backends.Backend], python: Path, family: Family, tmp_path: Path
) -> None:
    expected = {**CAUGHT, **BY_FAMILY[family]}
    assert {*expected, *IN_ANY_FAMILY} == set(cheats)
    found = verify(python, tmp_path, family, ["for-loop", *expected])
    verdicts = {each.cell.backend: judge(each) for each in found}
    assert verdicts.pop("for-loop").badge == "✓"
    assert set(verdicts) == set(expected)
    for name, (badge, says) in expected.items():
        verdict = verdicts[name]
        assert verdict.badge in badge, (name, verdict)
        assert says in verdict.audit + verdict.lock_step, name


# ---------------------------------------------------------------- the command


@slow
def test_the_command_compares_records_and_shows_in_the_report(place: Place) -> None:
    place.brief = True
    words = ["--env", "mujoco", "--backend", "subprocess", "--total-step", 60]
    done = place.run("verify", *words, "--json")
    assert done.code == 0, done.err
    rows = {row["backend"]: row for row in json.loads(done.out)["verifications"]}
    assert set(rows) == {"for-loop", "subprocess"}  # the reference comes along
    assert rows["subprocess"]["verdict"]["badge"] == "✓"
    assert max(rows["subprocess"]["agreement"]["distances"]) == 0.0
    task = ["--env", "mujoco", "--backend", "subprocess", "--numenv", 2]
    assert place.run("run", *task, "--total-step", 50, "--repeats", 1).code == 0
    report = place.run("report", "--output", "-")
    assert "| Equal work" in report.out
    assert "contact\\_forces yes (requested: no)" in report.out


@slow
def test_a_backend_that_cannot_run_here_is_named_and_the_others_are_verified(place: Place) -> None:
    done = place.run(
        "verify", "--env", "mujoco", "--backend", "for-loop,isaac-gym", "--total-step", 20
    )
    assert done.code == 3
    assert "isaac-gym cannot run mujoco here" in done.err
    assert "✓ For-loop" in done.out


@slow
def test_a_ceiling_is_counted_twice_on_request(place: Place) -> None:
    done = place.run("verify", "--env", "mujoco", "--backend", "ceiling", "--total-step", 60)
    assert done.code == 0, done.err
    assert "counted twice" in done.out


@slow
def test_an_unknown_task_is_wrong_usage(place: Place) -> None:
    done = place.run("verify", "--env", "mujoco", "--backend", "for-loop", "--task", "Amt-v3")
    assert done.code == 2
    assert "Did you mean 'Ant-v3'" in done.err


def test_wrong_usage_is_refused_before_anything_starts(place: Place) -> None:
    assert place.run("verify", "--numenv", 1).code == 2
    done = place.run("verify", "--env", "atari", "--backend", "brax")
    assert (done.code, "it runs mujoco" in done.err) == (2, True)


@slow
def test_a_verification_that_is_killed_leaves_nothing_running_and_the_same_command_continues(
    place: Place,
) -> None:
    names = "for-loop,subprocess,envpool-sync"
    words = ["verify", "--env", "mujoco", "--backend", names, "--total-step", 2000]
    process = place.start(*words)
    wait_until(lambda: place.finished() or process.poll() is not None, "a first block")
    wait_until(lambda: len(place.processes()) >= 4 or process.poll() is not None, "both workers")
    process.kill()
    assert ended(process).code == -signal.SIGKILL
    wait_until(lambda: not place.processes(), "its workers to die", timeout_s=10)
    first = place.blocks()
    assert len(first) < 3
    done = place.run(*words, "--json")
    assert done.code == 0, done.err
    assert "Resuming" in done.err
    assert [row["backend"] for row in done.document["verifications"]] == names.split(",")
    blocks = place.blocks()
    assert blocks[: len(first)] == first
    assert [block.trials[-1].cell.backend for block in blocks] == names.split(",")
    assert len(place.plans()) == 1
    assert place.processes() == []
    traces = {trial.by_products["trace"] for block in blocks for trial in block.trials}
    kept = {path.name for path in place.results.glob("*/by-products/*")}
    assert kept == traces
