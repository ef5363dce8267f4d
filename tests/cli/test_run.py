"""``envbench run`` as a person calls it: what it measures, counts, says and how it answers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from helpers.command_line import NORMAL, ROOT, SHORT, Place, loop

from envbench.backends import registry
from envbench.engine.experiment import seed_of_round
from envbench.machine import fingerprint, profile_for_host
from envbench.machine.profile_file import read_profile
from envbench.model import Run
from envbench.stats.summary import rate
from envbench.text import rounded

slow = pytest.mark.slow


@pytest.fixture
def place(place: Place) -> Place:
    """Its runs warm up for 0.2 s: only two tests ask about the warm-up, and these restore it."""
    place.short = True
    return place


# ---------------------------------------------------------------- what it gives


@slow
def test_the_backends_of_a_family_give_figures_in_frames(place: Place) -> None:
    names = "for-loop,subprocess,envpool-sync,envpool-async"
    short = ("--numenv", 2, "--total-step", 40, "--repeats", 1)
    done = place.run("run", "--env", "mujoco", "--backend", names, *short, "--json")
    assert done.code == 0, done.err
    cells = done.document["cells"]
    assert [cell["backend"] for cell in cells] == names.split(",")
    assert all(cell["fps"] > 0 and cell["failure"] is None for cell in cells)
    assert all(cell["fps"] == pytest.approx(5 * cell["steps_per_second"]) for cell in cells)
    assert [cell["env_instances"] for cell in cells] == [2, 2, 2, 6]


@slow
def test_the_json_is_one_document_of_the_documented_shape(
    place: Place, faulty_python: Path
) -> None:
    done = place.run("run", *loop(faulty_python), *SHORT, "--json")
    assert done.code == 0, done.err
    document = done.document
    assert set(document) == {"schema", "plan", "cells", "ratios", "conclusions"}
    assert (document["schema"], document["ratios"]) == (1, [])
    assert document["plan"] == place.plans()[0].plan_id
    (cell,) = document["cells"]
    assert set(cell) == {
        "machine", "env", "task", "backend", "numenv", "env_instances", "settings", "fps",
        "steps_per_second", "frame_skip", "interval", "runs", "flags", "failure", "key",
        "adjusted_fps", "adjusted_interval", "rank", "ties", "doubt", "costs",
        "equal_work", "spot_check",
    }  # fmt: skip
    assert (cell["rank"], cell["ties"], cell["adjusted_fps"]) == (1, [], None)
    assert set(cell["costs"]) == {
        "start_up", "latency", "service", "reset_s", "memory_bytes", "memory", "gpu_memory_bytes",
        "frames_per_cpu_s", "energy", "without_stops",
    }  # fmt: skip
    assert cell["costs"]["latency"] is cell["costs"]["reset_s"] is None  # further steps
    assert cell["costs"]["memory_bytes"] > 10 << 20
    assert cell["runs"] == [run.run_id for run in place.runs()]
    assert (cell["interval"], cell["flags"][0]) == (None, "quick")  # for under two seconds


@slow
def test_a_recorded_run_holds_the_raw_facts(place: Place, faulty_python: Path) -> None:
    place.short = False
    assert place.run("run", *loop(faulty_python), *SHORT, "--seed", 7).code == 0
    (run,) = place.runs()
    assert (run.seed, run.round, run.failure, run.quick) == (seed_of_round(7, 0), 0, None, False)
    assert run.times is not None
    assert run.times.measured_ns == sum(run.measured.ns)
    assert run.times.warmup_ns == sum(run.warmup.ns) >= 1e9
    assert min(run.times.import_ns, run.times.build_ns, run.times.first_step_ns) > 0
    assert run.facts["observation_shape"] == [4]
    assert run.facts["environment"]["OMP_NUM_THREADS"] == "1"
    assert run.peak_memory_bytes is not None
    assert run.peak_memory_bytes > 10 << 20
    assert [type(record).__name__ for record in place.records()] == [
        "MachineFact", "RuntimeFact", "Plan", "FactsRecord", "BlockRecord",
        "EndedRecord",
    ]  # fmt: skip


@slow
def test_a_quick_look_is_one_short_block_and_says_so(place: Place, faulty_python: Path) -> None:
    place.short = False
    done = place.run("run", *loop(faulty_python), "--numenv", 1, "--quick", "--json")
    (cell,) = done.document["cells"]
    assert cell["flags"][0] == "quick"
    latency = cell["costs"]["latency"]
    assert latency["steps"] > 100
    assert 0 < latency["p50_s"] <= latency["p95_s"] <= latency["p99_s"] < 0.3
    assert 0 < cell["costs"]["reset_s"] < 0.3
    kernel, run = place.runs(kernels=True)
    assert (kernel.arm, run.arm, kernel.block) == ("kernel", "", run.block)
    assert run.quick
    assert 2e9 <= sum(run.measured.ns) < 3e9
    (block,) = place.blocks()
    assert [trial.arm for trial in block.trials] == ["kernel", ""]
    switches = sum(after == 1 != before for before, after in pairwise([0, *block.turns]))
    assert sum(run.warmup.ns[:-switches]) < 2e9  # without the lead-ins
    assert sum(run.warmup.ns[-switches:]) < 0.05 * 1e9 * switches


@slow
def test_the_first_run_makes_a_profile_and_report_shows_its_table(
    place: Place, faulty_python: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place.package = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "envbench", place.package / "envbench")
    shutil.copy(ROOT / "pyproject.toml", place.package)
    (place.package / "machines").mkdir()  # ships no profile that fits this machine
    shutil.copy(ROOT / "machines" / "laptop.toml", place.package / "machines")
    assert place.run("run", *loop(faulty_python), *SHORT).code == 0
    (made,) = place.folder.glob("machines/*.toml")
    host = profile_for_host(fingerprint())
    assert (made.stem, read_profile(made)) == (host.name, host)
    report = place.run("report")
    assert report.code == 0, report.err
    (run,) = place.runs()
    fps = rate(run).fps
    assert fps is not None
    page = (place.results / "README.md").read_text().splitlines()
    rows = [line for line in page if line.startswith("| For-loop ")]
    assert any(f" {rounded(fps)}<sup>" in row for row in rows), rows


@slow
def test_backend_all_lists_what_cannot_run_here_and_exits_0(
    place: Place, faulty_python: Path
) -> None:
    words = ("--env", "mujoco", "--numenv", 1, "--total-step", 5, "--repeats", 1)
    nothing_made = place.environment(ENVBENCH_CACHE=str(place.folder / "cache"))
    done = place.run("run", *words, "--backend", "all", "--no-setup", "--json", env=nothing_made)
    assert done.code == 0, done.err
    assert [cell["backend"] for cell in done.document["cells"]] == [
        "for-loop", "subprocess", "envpool-sync", "envpool-async", "envpool-numa", "mujoco-rollout",
    ]  # fmt: skip
    for name in ("sample-factory", "brax", "isaac-gym", "mjx", "mujoco-warp", "genesis"):
        assert f"{name} cannot run mujoco here" in done.err


@slow
def test_backend_all_gives_a_row_for_every_backend_that_can_run_here(place: Place) -> None:
    """Atari only. The backends that only MuJoCo has compile for minutes; all are tested apart."""
    words = ("--env", "atari", "--numenv", 2, "--total-step", 10, "--repeats", 1)
    done = place.run("run", *words, "--backend", "all", "--yes", "--json")
    assert done.code == 0, done.err
    names = [name for name, each in registry().items() if "atari" in each.families]
    cells = done.document["cells"]
    assert [cell["backend"] for cell in cells] == [name for name in names if name != "ceiling"]
    assert all(cell["fps"] == pytest.approx(4 * cell["steps_per_second"]) for cell in cells)


@slow
def test_a_setting_reaches_the_backends_that_have_it(place: Place) -> None:
    words = ("--env", "atari", "--numenv", 2, "--total-step", 10, "--repeats", 1)
    done = place.run(
        "run", *words, "--backend", "for-loop,envpool-async", "--overcommit", "1.5",
        "--set", "threads=1", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    loop, pool = done.document["cells"]
    assert loop["settings"] == {"actions": "bank"}
    assert (pool["settings"]["threads"], pool["env_instances"]) == (1, 3)


@slow
def test_envpools_published_procedure_is_a_row_of_its_own(place: Place) -> None:
    words = ("--env", "atari", "--backend", "envpool-sync", *SHORT[:2], "--total-step", 10)
    done = place.run("run", *words, "--repeats", 1, "--preset", "envpool-published", "--json")
    assert done.code == 0, done.err
    settings = done.document["cells"][0]["settings"]
    assert (settings["resize"], settings["actions"]) == ("bilinear", "constant")
    (run,) = place.runs()
    assert run.facts["library_arguments"]["use_inter_area_resize"] is False
    assert run.facts["action_source"].startswith("one constant")


# ---------------------------------------------------------------- what it counts


@slow
def test_total_steps_are_the_calls_of_a_cell_over_all_its_runs(
    place: Place, faulty_python: Path
) -> None:
    words = ("--numenv", 3, "--total-step", 1003, "--repeats", 2)
    assert place.run("run", *loop(faulty_python), *words).code == 0
    runs = place.runs()
    assert [sum(run.measured.calls) for run in runs] == [502, 501]
    for run in runs:
        assert sum(run.measured.steps) + sum(run.measured.resets) == 3 * sum(run.measured.calls)


def counted(run: Run) -> tuple[int, int]:
    """All transitions and resets of a run; its first vector step is in no window."""
    steps = sum(run.warmup.steps) + sum(run.measured.steps)
    resets = sum(run.warmup.resets) + sum(run.measured.resets)
    return run.cell.numenv + steps, resets


@slow
@pytest.mark.parametrize("backend", ["for-loop", "subprocess"])
def test_transitions_equal_the_environments_own_counts(
    place: Place, faulty_python: Path, backend: str
) -> None:
    log = place.folder / "environments.jsonl"
    words = ("--numenv", 3, "--total-step", 300, "--repeats", 1)
    own = ("--backend", backend, "--python", f"{backend}={faulty_python}")
    environment = place.environment(FAULTY_ENVS_LOG=str(log))
    done = place.run("run", *NORMAL, *own, *words, env=environment)
    assert done.code == 0, done.err
    seen = [json.loads(line) for line in log.read_text().splitlines()]
    seen = [each for each in seen if each["resets"]]  # one is made for its spaces alone
    assert len(seen) == 3
    (run,) = place.runs()
    steps, resets = counted(run)
    assert steps == sum(each["steps"] for each in seen)
    assert resets == sum(each["resets"] - 1 for each in seen)  # the first was before any step
    ended_last = sum(each["ended"] for each in seen) - resets
    assert 0 <= ended_last <= 3


def audit(python: str | Path, code: str, *arguments: str) -> Any:
    """The output of a script that steps an adapter by itself and counts a second way."""
    words = [python, "-I", "-c", code, ROOT / "envbench" / "worker", *arguments]
    asked = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert asked.returncode == 0, asked.stderr
    return json.loads(asked.stdout)


LOOP_AUDIT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from envbench_adapters.gymnasium.for_loop import ForLoop
from envbench_worker.contract import Job

adapter = ForLoop(Job("measure", "gym", "faulty_envs:Normal-v0", 3, 3, 1, {"actions": "bank"}, 1))
adapter.build()

def own():
    done = [env.unwrapped.done for env in adapter.envs.envs]
    return sum(d["steps"] for d in done), sum(d["resets"] for d in done)

windows = []
for calls in [1] * 60 + [7, 13, 40]:
    before, counts = own(), adapter.run(calls)
    after = own()
    windows.append([list(counts), [after[0] - before[0], after[1] - before[1]]])
print(json.dumps(windows))
"""


@slow
def test_a_window_counts_only_its_own_transitions_and_resets(faulty_python: Path) -> None:
    windows = audit(faulty_python, LOOP_AUDIT)
    assert len(windows) == 63
    assert all(claimed == made for claimed, made in windows)
    assert sum(resets for _, (_, resets) in windows) > 10


POOL_AUDIT = """
import json, sys
from importlib import import_module
sys.path.insert(0, sys.argv[1])
from envbench_worker.contract import Job

module, adapter, family, task = sys.argv[2:6]
settings = {"actions": "bank", "threads": 0, "affinity": -1, "resize": "area", "fire_reset": False}
instances = 6 if "async" in module else 2
job = Job("measure", family, task, 2, instances, 4 if family == "atari" else 5, settings, 1)
adapter = getattr(import_module("envbench_adapters." + module), adapter)(job)
adapter.build()
name = "recv" if "async" in module else "step"
original = getattr(adapter.pool, name)
received = []

def listening(*given):
    result = original(*given)
    received.append((result[4]["env_id"].tolist(), result[4]["elapsed_step"].tolist()))
    return result

setattr(adapter.pool, name, listening)
claims = [adapter.run(calls) for calls in (1, 400, 1200, 2600)]
elapsed, steps, resets = {}, 0, 0
for ids, counters in received:
    for number, counter in zip(ids, counters):
        # a synchronous pool was reset before it was listened to
        before = elapsed.get(number, None if instances > 2 else 0)
        if before is not None and counter == before + 1:
            steps += 1
        else:
            assert counter == 0, (number, counter)
            resets += 1
        elapsed[number] = counter
print(json.dumps({
    "instances": instances,
    "claimed": [sum(c.steps for c in claims), sum(c.resets for c in claims)],
    "seen": [steps, resets], "received": sum(len(ids) for ids, _ in received),
}))
adapter.close()
"""


@slow
@pytest.mark.parametrize(("family", "task"), [("atari", "Pong-v5"), ("mujoco", "Ant-v3")])
@pytest.mark.parametrize(
    ("module", "adapter"),
    [("envpool.sync", "EnvPoolSync"), ("envpool.asynchronous", "EnvPoolAsync")],
)
def test_a_pools_transitions_equal_the_advances_of_each_environments_counter(
    module: str, adapter: str, family: str, task: str
) -> None:
    found = audit(sys.executable, POOL_AUDIT, module, adapter, family, task)
    assert found["claimed"] == found["seen"]
    assert found["received"] == 2 * 4201 == sum(found["seen"])
    first = found["instances"] if adapter == "EnvPoolAsync" else 0  # resets before any step
    assert found["seen"][1] > first  # episodes ended: there was something to subtract
