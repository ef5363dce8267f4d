"""``envbench verify`` for real: cheats do not get through, and it can be killed at any moment."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import msgspec
import pytest
from helpers.command_line import Place, ended, wait_until
from helpers.record_factories import (
    block_of_verification,
    make_cell,
    make_verification,
    verify_plan,
)
from helpers.virtual_environments import lent_packages, make_interpreter

from envbench import backends
from envbench.cli.progress import Display
from envbench.decisions.equal_work import judge
from envbench.engine.availability import Arm
from envbench.engine.campaign import Campaign
from envbench.engine.experiment import Options, Site
from envbench.engine.local_executor import LocalExecutor
from envbench.engine.request import CellRequest, choose
from envbench.experiments.verify import VerifyExperiment
from envbench.machine import Profile, Table
from envbench.model import (
    BlockRecord,
    Cell,
    Family,
    Fingerprint,
    Plan,
    Verification,
    arm_key,
)
from envbench.results.store import Journal

slow = pytest.mark.slow
CHEATS = Path(__file__).parents[1] / "fixtures" / "cheats"


# ---------------------------------------------------------------- cheats, for real


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cheats") / "venv"
    return make_interpreter(folder, paths=[CHEATS, *lent_packages()])


OF_PHYSICS = {
    "cheaper-integrator": "CheaperIntegrator",
    "longer-time-step": "LongerTimeStep",
    "loose-solver": "LooseSolver",
    "euler-in-contact": "EulerInContact",
    "euler-in-run": "EulerInRun",
    "half-precision": "HalfPrecision",
    "skips-eleventh": "SkipsEleventh",
    "no-contact-forces": "NoContactForces",
    "no-time-limit": "NoTimeLimit",
    "hides-ends": "HidesEndsInLongerCalls",
    "looks-at-last-steps": "LooksAtLastSteps",
    "shows-less": "ShowsLess",
    "same-joints": "SameJoints",
    "narrow-starts": "NarrowStarts",
}

OF_GAMES = {
    "few-noops": "FewNoops",
    "cached-noops": "CachedNoops",
    "blank-at-the-end": "BlankAtTheEnd",
    "stale-stack": "StaleStack",
}


@pytest.fixture
def cheats(monkeypatch: pytest.MonkeyPatch, family: Family) -> dict[str, backends.Backend]:
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
        "writes-its-actions": "WritesItsActions",
        "never-ends": "NeverEnds",
        "takes-no-given-actions": "TakesNoGivenActions",
        "admits-to-less": "AdmitsToLess",
        "follows-for-a-few-steps": "FollowsForAFewSteps",
        "loses-numbers": "LosesNumbers",
        "stale": "Stale",
        "halves-long-runs": "HalvesLongRuns",
        "halves-windows": "HalvesWindows",
        "makes-none": "MakesNone",
        "ends-rarely": "EndsRarely",
        "frozen-rewards": "FrozenRewards",
        "copies-environments": "CopiesEnvironments",
        "replays": "Replays",
        "cached-reset": "CachedReset",
        "reuses-buffers": "ReusesBuffers",
        "aliases-in-run": "AliasesInRun",
        "ring-of-buffers": "RingOfBuffers",
        "recount-lies": "RecountLies",
        "own-counter": "OwnCounter",
        "ignores-at-last": "IgnoresAtLast",
        "ignores-in-longer-calls": "IgnoresActionsInLongerCalls",
        "no-actions": "NoActions",
        "paired-seeds": "PairedSeeds",
        "only-follows": "OnlyFollows",
        "shares-actions": "SharesActions",
        "postpones": "Postpones",
        "long-calls-without-reset": "IgnoresActionsInLongerCallsWithoutReset",
        "weaker-actions": "WeakerActions",
        "reuses-rewards": "ReusesRewards",
        **(OF_GAMES if family == "atari" else OF_PHYSICS),
    }
    made = {
        name: msgspec.structs.replace(honest, name=name, adapter=f"cheats:{attribute}")
        for name, attribute in names.items()
    }
    known = {**backends.registry(), **made}
    monkeypatch.setattr(backends.BACKENDS, "loaded", (known, []))
    return made


LATE = (  # what they do shows late, or in the starts of many episodes
    "never-ends", "ends-rarely", "blank-at-the-end", "ignores-at-last", "admits-to-less",
    "few-noops", "cached-noops", "cached-reset", "paired-seeds", "only-follows", "stale-stack",
)  # fmt: skip
# They show only if an episode ends within a longer call: of Ant, about three do.
BY_CHANCE = ("hides-ends", "looks-at-last-steps")
DIFFERS = ("✗", "differs")
CAUGHT = {
    "claims-more": ("✗", "its calls give at most"),
    "reuses-buffers": ("✗", "overwrite the results"),
    "reuses-rewards": ("✗", "overwrite the results"),
    "long-calls-without-reset": DIFFERS,
    "weaker-actions": ("✗", "its actions are distributed differently"),
    "aliases-in-run": ("✗", "overwrite the results"),
    "ring-of-buffers": ("✗", "overwrite the results"),
    "recount-lies": ("✗", "its environments made"),
    "own-counter": ("✗", "only the adapter counts its steps"),
    "ignores-at-last": DIFFERS,
    "ignores-in-longer-calls": DIFFERS,
    "skips-frames": ("✗", "its environments made"),
    "ignores-actions": DIFFERS,
    "repeats-observations": DIFFERS,
    "raises": ("–", "it takes no given actions"),
    "halves-long-runs": ("✗", "its environments made"),
    "halves-windows": ("✗", "its environments made"),
    "loses-numbers": DIFFERS,
    "ignores-late": DIFFERS,
    "ignores-late-in-all-but-one": DIFFERS,
    "ignores-most": DIFFERS,
    "stale": DIFFERS,
    "acts-on-its-own": DIFFERS,
    "writes-its-actions": DIFFERS,
    "takes-no-given-actions": ("–", "not compared"),
    "admits-to-less": ("≠", "counted again by"),
    "follows-for-a-few-steps": ("–", "compared for 5 steps only"),
    "makes-none": ("✗", "claims 0 frames"),
    "never-ends": ("✗", "on one side only"),
    "ends-rarely": ("✗", "of its episodes and"),
    "frozen-rewards": ("✗", "in the reward"),
    "copies-environments": DIFFERS,
    "replays": DIFFERS,
    "cached-reset": ("✗", "begin differently"),
    "paired-seeds": ("✗", "begin differently"),
    "no-actions": ("✗", "its actions are distributed differently"),
    "only-follows": ("–", "its `follow` was compared"),
    "shares-actions": ("✗", "its actions depend on each other"),
    "postpones": ("✗", "its environments made"),
}
OF_FAMILY = {
    "mujoco": {
        **dict.fromkeys(OF_PHYSICS, DIFFERS),
        "no-contact-forces": ("✗", "all zero"),
        "shows-less": ("≠", "its observations have another shape (27)"),
        "no-time-limit": ("✗", "reach their time limit"),
        "same-joints": ("✗", "its actions depend on each other"),
        "narrow-starts": ("✗", "begin differently"),
        "hides-ends": ("✗", "are not reset there"),
        "looks-at-last-steps": ("✗", "are not reset there"),
    },
    "atari": {
        "few-noops": ("✗", "begin differently"),
        "cached-noops": ("✗", "its environments saw 0"),
        "blank-at-the-end": DIFFERS,
        "stale-stack": DIFFERS,
    },
}


def verify(
    python: Path, folder: Path, family: Family, names: list[str], task: str | None = None
) -> list[Verification]:
    """What the experiment finds, with real workers of that interpreter."""
    table = Table(numenv=[2], rows=["for-loop"])
    profile = Profile(name="here", title="Here", atari=table, mujoco=table)
    machine = Fingerprint(cpu="c", logical_cpus=2, physical_cores=2, usable_cpus=2, memory_gib=8)
    site = Site(profile=profile, fingerprint=machine, options=Options(results=folder))
    experiment = VerifyExperiment(
        cells=CellRequest(family=family, task=task, backends=names, numenv=[4]), audit_calls=60
    )
    targets = experiment.choose(site).targets
    design = experiment.design(targets, site)
    # One cheat needs the steps that lead to the time limit; the others would only take longer. In
    # games every step has to agree, so most cheats show after a few.
    limits = {key: limit for key, limit in design.limits.items() if "no-time-limit" in key}
    steps = {
        each.cell.key: 240
        if family == "atari" and each.backend.name not in LATE
        else design.lock_steps[each.cell.key]
        for each in targets
    }
    plan = Plan(
        plan_id="p",
        experiment="verify",
        spec="s",
        cells=[each.cell for each in targets],
        design=msgspec.structs.replace(design, limits=limits, lock_steps=steps),
        seed=0,
        fingerprint="f",
        started_utc="2026-01-02T03-04-05Z",
        command=["envbench", "verify"],
        envbench_version="0",
    )
    arms = {arm_key("", each.cell): Arm(target=each, python=str(python)) for each in targets}
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
@pytest.mark.parametrize("part", range(6))
@pytest.mark.parametrize("family", ["atari", "mujoco"])
def test_each_cheat_is_caught_and_the_honest_one_is_not(
    cheats: dict[str, backends.Backend], python: Path, family: Family, part: int, tmp_path: Path
) -> None:
    """In six parts, which can run beside each other."""
    found = verify(python, tmp_path, family, ["for-loop", *list(cheats)[part::6]])
    verdicts = {each.cell.backend: judge(each) for each in found}
    assert verdicts.pop("for-loop").badge == "✓"
    assert set(verdicts) == set(list(cheats)[part::6])
    expected = {**CAUGHT, **OF_FAMILY[family]}
    assert expected.keys() == cheats.keys()
    for name, verdict in verdicts.items():
        badge, says = expected[name]
        if verdict.badge == "✓" and name in BY_CHANCE:
            (_, again) = verify(python, tmp_path / "again", family, ["for-loop", name])
            verdict = judge(again)
        assert verdict.badge == badge, (name, verdict)
        assert says in verdict.audit + verdict.lock_step, name


GYM_CHEATS = {
    "ignores-at-last": ("≠", "differ from step"),
    "ignores-in-longer-calls": ("≠", "differ from step"),
    "writes-its-actions": ("≠", "differ from step"),
    "looks-at-last-steps": ("≠", ""),
    "paired-seeds": ("–", "start otherwise with the same seed"),
}


@slow
@pytest.mark.parametrize("family", ["gym"])
def test_a_task_of_the_users_own_is_compared_after_resets_and_in_longer_calls(
    cheats: dict[str, backends.Backend], python: Path, family: Family, tmp_path: Path
) -> None:
    names = ["for-loop", "subprocess", *GYM_CHEATS]
    found = verify(python, tmp_path, family, names, "CartPole-v1")
    verdicts = {each.cell.backend: judge(each) for each in found}
    assert verdicts["subprocess"].badge == "✓"
    assert verdicts["subprocess"].lock_step.startswith("equal exactly, in 1,")
    for name, (badge, says) in GYM_CHEATS.items():
        assert verdicts[name].badge == badge, (name, verdicts[name])
        assert says in verdicts[name].lock_step, name


@slow
def test_a_task_that_does_not_repeat_with_its_seed_is_not_compared(
    python: Path, tmp_path: Path
) -> None:
    names = ["for-loop", "subprocess"]
    _, found = verify(python, tmp_path, "gym", names, "noisy_task:Noisy-v0")
    assert judge(found).badge == "–"
    assert judge(found).lock_step == "not compared: the task does not repeat with its seed"


@slow
@pytest.mark.skipif(sys.platform == "win32", reason="EnvPool has no Windows wheels")
@pytest.mark.parametrize("task", ["Acrobot-v1", "Pendulum-v1"])
def test_a_task_whose_state_cannot_be_set_is_verified_without_a_comparison(
    place: Place, task: str
) -> None:
    words = ["--env", "classic_control", "--task", task, "--backend", "for-loop,envpool-sync"]
    done = place.run("verify", *words, "--total-step", 60, "--json")
    assert done.code == 0, done.err
    rows = {row["backend"]: row for row in json.loads(done.out)["verifications"]}
    assert rows["envpool-sync"]["failure"] is None
    assert rows["envpool-sync"]["responds"] is None  # without a comparison nothing shows it
    says = rows["envpool-sync"]["verdict"]["lock_step"]
    cannot = f"envbench cannot put {task} into the state that an observation shows"
    assert says == f"not compared: {cannot}"


@pytest.mark.parametrize(
    ("task", "steps", "reference"),
    [("LunarLander-v3", 12_000, True), ("CarRacing-v3", 200, False)],
)
def test_many_steps_are_made_only_for_tasks_whose_episodes_are_compared(
    task: str, steps: int, reference: bool
) -> None:
    profile = Profile(name="here", title="Here", box2d=Table(numenv=[2], rows=["for-loop"]))
    request = CellRequest(family="box2d", task=task, backends=["for-loop", "subprocess"])
    machine = Fingerprint(cpu="c", logical_cpus=2, physical_cores=2, usable_cpus=2, memory_gib=8)
    site = Site(profile=profile, fingerprint=machine, options=Options())
    design = VerifyExperiment(cells=request).design(choose(request, profile).targets, site)
    assert set(design.lock_steps.values()) == {steps}
    assert list(design.references) == [f"box2d/{task}/subprocess/2"] * reference


def test_a_row_with_other_frames_per_step_is_compared_with_the_reference() -> None:
    profile = Profile(name="here", title="Here", gym=Table(numenv=[2], rows=["for-loop"]))
    names = ["for-loop", "subprocess"]
    request = CellRequest(family="gym", task="mine:My-v0", backends=names, numenv=[2], frame_skip=4)
    machine = Fingerprint(cpu="c", logical_cpus=2, physical_cores=2, usable_cpus=2, memory_gib=8)
    site = Site(profile=profile, fingerprint=machine, options=Options())
    experiment = VerifyExperiment(cells=request)
    targets = experiment.choose(site).targets
    assert [each.cell.backend for each in targets] == names
    references = experiment.design(targets, site).references
    assert references == {targets[1].cell.key: targets[0].cell}
    assert targets[0].cell.frame_skip == 4


def test_the_time_left_is_what_each_backend_took_last_time() -> None:
    cells = [make_cell(name) for name in ("for-loop", "subprocess", "envpool-sync")]
    plan = msgspec.structs.replace(verify_plan(make_verification(cells[0])), cells=cells)

    def took(seconds: float, cell: Cell) -> BlockRecord:
        return msgspec.structs.replace(
            block_of_verification(make_verification(cell))[1], seconds=seconds
        )

    experiment = VerifyExperiment()
    assert experiment.seconds_left(plan, []) == 60  # nothing is known
    before = [took(5, cells[0]), took(40, cells[1]), took(300, cells[1])]  # the newest first
    assert experiment.seconds_left(plan, [], before) == 5 + 40 + 22.5
    assert experiment.seconds_left(plan, [took(9, cells[0])], before) == 40 + 24.5
    ant = [took(3, make_cell("for-loop", env="mujoco", task="Ant-v3"))]  # says nothing about Pong
    assert experiment.seconds_left(plan, [], ant) == 60


# ---------------------------------------------------------------- the command


@slow
def test_verify_records_its_findings_and_the_report_shows_them(place: Place) -> None:
    place.short = True
    words = ["--env", "mujoco", "--backend", "subprocess", "--total-step", 60]
    done = place.run("verify", *words, "--json")
    assert done.code == 0, done.err
    rows = {row["backend"]: row for row in json.loads(done.out)["verifications"]}
    assert set(rows) == {"for-loop", "subprocess"}  # the reference is always verified, too
    assert rows["subprocess"]["verdict"]["badge"] == "✓"
    apart = rows["subprocess"]["agreement"]["observations"]
    assert max(each["largest"] for each in apart) < 1e-9
    task = ["--env", "mujoco", "--backend", "subprocess", "--numenv", 2]
    assert place.run("run", *task, "--total-step", 50, "--repeats", 1).code == 0
    report = place.run("report", "--output", "-")
    assert "| Equal work" in report.out
    assert "contact\\_forces: yes (not no)" in report.out


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
    assert "counted again by" in done.out


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
    words = ["verify", "--env", "classic_control", "--backend", names, "--total-step", 2000]
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
