"""``envbench run`` when a backend, environment or machine goes wrong."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from helpers.command_line import NORMAL, SHORT, Done, Place, ended, loop, wait_until
from helpers.skip_or_fail import not_here
from helpers.virtual_environments import lent_packages, make_interpreter

from envbench.model import Failure, Run

pytestmark = pytest.mark.usefixtures("kernels_counts")

slow = pytest.mark.slow
linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


@pytest.fixture
def place(place: Place) -> Place:
    """Its runs warm up for 0.2 s: what these tests ask does not depend on the rate."""
    place.short = True
    return place


def failure_of(run: Run) -> Failure:
    assert run.failure is not None
    return run.failure


# ---------------------------------------------------------------- a missing library


@slow
def test_a_backend_without_its_library_is_a_failure_and_the_others_run(
    place: Place, faulty_python: Path, bare_python: Path
) -> None:
    done = place.run(
        "run", *NORMAL, "--backend", "for-loop,subprocess", *SHORT, "--json",
        "--python", f"for-loop={bare_python}", "--python", f"subprocess={faulty_python}",
    )  # fmt: skip
    assert done.code == 3, done.err
    broken, sound = done.document["cells"]
    assert broken["fps"] is None
    assert "No module named 'gymnasium'" in broken["failure"]["message"]
    assert f"{bare_python} -m pip install gymnasium" in broken["failure"]["hint"]
    assert sound["fps"] > 0
    assert "No module named 'gymnasium'" in done.err
    reasons = {run.cell.backend: run.failure and run.failure.reason for run in place.runs()}
    assert reasons == {"for-loop": "import", "subprocess": None}


@slow
def test_a_library_that_fails_to_import_is_a_failure_with_its_reason(
    place: Place, tmp_path: Path
) -> None:
    broken = tmp_path / "packages" / "gymnasium"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('libGL.so.1: cannot open')")
    python = make_interpreter(tmp_path / "venv", paths=[broken.parent, *lent_packages()])
    done = place.run("run", *loop(python), *SHORT, "--json")
    assert done.code == 3, done.err
    (cell,) = done.document["cells"]
    assert cell["failure"]["reason"] == "import"
    assert "libGL.so.1: cannot open" in cell["failure"]["message"]
    assert str(python) in cell["failure"]["hint"]
    assert "Traceback" in cell["failure"]["stderr_tail"]


@slow
def test_a_missing_package_of_a_task_has_a_hint_to_install_it(
    place: Place, faulty_python: Path
) -> None:
    done = place.run("run", *loop(faulty_python, "no_such_package:My-v0"), *SHORT)
    assert done.code == 2
    assert "no_such_package" in done.err
    assert "--python for-loop=PATH" in done.err
    assert "Traceback" not in done.err
    assert place.runs() == []


# ---------------------------------------------------------------- the worker goes wrong


@slow
def test_a_segmentation_fault_is_recorded_with_its_signal_and_the_last_output(
    place: Place, faulty_python: Path
) -> None:
    done = place.run("run", *loop(faulty_python, "faulty_envs:DiesOfSigsegv-v0"), *SHORT)
    assert done.code == 1, done.err
    (run,) = place.runs()
    failure = failure_of(run)
    assert (failure.reason, failure.signal, failure.phase) == ("signal", "SIGSEGV", "warmup")
    assert "about to read address 0" in failure.stderr_tail
    assert "failed: signal" in done.out
    assert "about to read address 0" in done.err


@slow
def test_an_environment_process_killed_by_a_signal_is_reported_as_such(
    place: Place, faulty_python: Path
) -> None:
    task = ["--env", "gym", "--task", "faulty_envs:DiesOfSigsegv-v0", "--backend", "subprocess"]
    done = place.run("run", *task, "--python", f"subprocess={faulty_python}", *SHORT)
    assert done.code == 1, done.err
    (run,) = place.runs()
    failure = failure_of(run)
    assert (failure.reason, failure.signal) == ("signal", "SIGSEGV")
    assert "a process of the environments died of SIGSEGV" in done.err


@slow
def test_a_process_killed_while_its_environment_is_made_is_tried_again(
    place: Place, faulty_python: Path
) -> None:
    task = ["--env", "gym", "--task", "faulty_envs:KilledWhenMade-v0", "--backend", "subprocess"]
    done = place.run("run", *task, "--python", f"subprocess={faulty_python}", *SHORT)
    assert done.code == 1, done.err
    failure = failure_of(place.runs()[-1])
    assert (failure.reason, failure.signal, failure.phase) == ("signal", "SIGKILL", "build")
    assert done.err.count("a process of the environments died of SIGKILL. Trying again.") == 2


@slow
@pytest.mark.parametrize(
    ("task", "message"),
    [("RaisesTheUnprintable", "Unprintable"), ("ExitsQuietly", "SystemExit: 0")],
)
def test_any_exception_of_an_environment_is_recorded_as_the_failure(
    place: Place, faulty_python: Path, task: str, message: str
) -> None:
    done = place.run("run", *loop(faulty_python, f"faulty_envs:{task}-v0"), *SHORT)
    assert done.code == 1, done.err
    (run,) = place.runs()
    failure = failure_of(run)
    assert (failure.reason, failure.message) == ("exception", message)
    assert failure.step is not None


@slow
@pytest.mark.parametrize(
    ("task", "says"),
    [
        ("RaisesInStep", "RuntimeError: the wheel fell off at step 50"),
        ("RaisesInReset", "ValueError: there is no fourth level"),
    ],
)
@pytest.mark.parametrize("backend", ["for-loop", "subprocess"])
def test_an_environment_that_raises_is_a_failure_with_its_traceback_and_step(
    place: Place, faulty_python: Path, task: str, says: str, backend: str
) -> None:
    words = ["--env", "gym", "--task", f"faulty_envs:{task}-v0", "--backend", backend]
    words += ["--python", f"{backend}={faulty_python}", "--numenv", "2", "--repeats", "3"]
    done = place.run("run", *words, "--duration", "1")
    assert done.code == 1, done.err
    (run,) = place.runs()  # what failed for a reason of its own is not tried again
    failure = failure_of(run)
    assert (failure.reason, failure.phase) == ("exception", "warmup")
    assert failure.message.startswith(says.split(":")[0]) or backend == "subprocess"
    assert says in failure.stderr_tail
    assert failure.step is not None
    assert 2 <= failure.step <= 100
    assert says in done.err
    assert place.processes() == []


@slow
def test_other_cells_are_measured_after_a_failed_one(place: Place, faulty_python: Path) -> None:
    words = ["--env", "gym", "--task", "faulty_envs:RaisesInStep-v0", "--numenv", "1"]
    words += ["--python", f"for-loop={faulty_python}", "--python", f"subprocess={faulty_python}"]
    words += ["--total-step", "20", "--repeats", "2", "--json"]
    done = place.run("run", *words, "--backend", "for-loop,subprocess")
    assert done.code == 1
    assert [cell["failure"]["reason"] for cell in done.document["cells"]] == ["exception"] * 2
    assert len(place.runs()) == 2


@slow
def test_an_environment_that_deletes_its_job_folder_is_a_failed_cell_and_the_plan_continues(
    place: Place, faulty_python: Path
) -> None:
    words = ["--numenv", "1,2", "--total-step", 200, "--repeats", 1]
    done = place.run("run", *loop(faulty_python, "faulty_envs:DeletesItsJobFolder-v0"), *words)
    assert done.code == 1, done.err
    for run in place.runs():
        assert failure_of(run).reason == "exit"
        assert "its job folder was deleted" in failure_of(run).message
    assert len(place.runs()) == 2


# ---------------------------------------------------------------- the kernel beside the cells


def kernels(controller: psutil.Process) -> list[psutil.Process]:
    """The workers that step a reference kernel."""
    found = []
    for each in controller.children(recursive=True):
        with contextlib.suppress(psutil.Error, OSError):
            words = each.cmdline()
            job = Path(words[-2], "job.json") if len(words) > 2 else None
            if job is not None and job.is_file() and "reference:" in job.read_text():
                found.append(each)
    return found


@slow
@linux
def test_a_killed_kernel_takes_nothing_from_the_cells_beside_it(
    place: Place, faulty_python: Path
) -> None:
    words = ["--backend", "for-loop,subprocess", "--numenv", 1, "--duration", 2, "--repeats", 1]
    pythons = [f"--python={name}={faulty_python}" for name in ("for-loop", "subprocess")]
    process = place.start("run", *NORMAL, *words, *pythons, "--json")
    wait_until(lambda: len(kernels(psutil.Process(process.pid))) == 2, "the kernels")
    for each in kernels(psutil.Process(process.pid)):
        each.kill()
    done = ended(process)
    assert done.code == 0, done.err
    assert [cell["failure"] for cell in done.document["cells"]] == [None, None]
    (block,) = place.blocks()  # it was not repeated
    signals = {trial.cell.backend: trial.failure and trial.failure.signal for trial in block.trials}
    assert signals == {
        "reference-kernel": "SIGKILL",
        "pooled-kernel": "SIGKILL",
        "for-loop": None,
        "subprocess": None,
    }
    assert done.err.count("a reference kernel failed: ") == 1
    assert place.processes() == []


# ---------------------------------------------------------------- throttled


@pytest.fixture
def fifth_of_a_core() -> Iterator[Path]:
    """A control group with a fifth of a core: less than a busy machine gives it."""
    name = f"envbench-test-{uuid.uuid4().hex[:8]}"
    for root, file, quota in (
        ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "20000"),
        ("/sys/fs/cgroup", "cpu.max", "20000 100000"),
    ):
        group = Path(root, name)
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / file).write_text(quota)
        except OSError:
            group.rmdir()
            continue
        yield group
        wait_until(lambda group=group: not (group / "cgroup.procs").read_text(), "an empty group")
        group.rmdir()
        return
    not_here("the right to make a control group with a CPU quota")


@slow
@linux
@pytest.mark.parametrize("whose", ["its own group's", "a group's above"])
def test_a_cpu_quota_that_throttles_is_flagged(
    place: Place, faulty_python: Path, fifth_of_a_core: Path, whose: str
) -> None:
    place.short = False  # the kernel counts throttling per 0.1 s: windows must be longer than that
    group = fifth_of_a_core
    if whose == "a group's above":
        group = fifth_of_a_core / "below"
        group.mkdir()
    words = [*loop(faulty_python), "--numenv", 2, "--duration", 1, "--repeats", 1, "--json"]
    inside = f'echo $$ > "{group}/cgroup.procs" && exec "$@"'
    done = subprocess.run(
        ["bash", "-c", inside, "-", *place.command("run", *words)],
        cwd=place.folder,
        env=place.environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    if group != fifth_of_a_core:
        wait_until(lambda: not (group / "cgroup.procs").read_text(), "an empty group")
        group.rmdir()
    assert done.returncode == 0, done.stderr
    (run,) = place.runs()
    assert set(run.measured.invalid.values()) == {"throttled"}
    assert run.load.throttled_periods is not None
    assert run.load.throttled_periods > 0
    (cell,) = Done(0, done.stdout, done.stderr).document["cells"]
    assert {"throttled", "disturbed"} <= set(cell["flags"])
    assert cell["fps"] > 0  # flagged, not hidden


# ---------------------------------------------------------------- an installer that fails

PLUGIN = """
BACKEND = {
    "label": "Isolated", "families": ["gym"], "adapter": "nothing:Nothing", "library": "nothing",
    "requirements": ["envbench-has-no-such-package==9"],
}
"""


@slow
def test_an_installer_without_network_names_the_package_and_other_backends_run(
    place: Place, faulty_python: Path, tmp_path: Path
) -> None:
    plugin = tmp_path / "plugin"
    facts = plugin / "isolated_plugin-1.0.dist-info"
    facts.mkdir(parents=True)
    (plugin / "isolated_plugin.py").write_text(PLUGIN)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: isolated-plugin\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(
        "[envbench.backends]\nisolated = isolated_plugin:BACKEND\n"
    )
    environment = place.environment(
        PYTHONPATH=f"{plugin}{os.pathsep}{place.environment()['PYTHONPATH']}",
        ENVBENCH_CACHE=str(tmp_path / "cache"),
        UV_OFFLINE="1",
    )
    words = ["--backend", "isolated,for-loop", "--python", f"for-loop={faulty_python}", *SHORT]
    done = place.run("run", *NORMAL, *words, "--yes", "--json", env=environment)
    assert done.code == 3, done.err
    isolated, loop_cell = done.document["cells"]
    assert isolated["failure"]["reason"] == "setup"
    assert "envbench-has-no-such-package" in isolated["failure"]["message"]
    assert "envbench setup isolated" in isolated["failure"]["hint"]
    assert loop_cell["fps"] > 0
    refused = place.run("run", *NORMAL, *words, "--no-setup", "--fresh", "--json", env=environment)
    assert refused.code == 3
    assert [cell["backend"] for cell in refused.document["cells"]] == ["for-loop"]
    assert "isolated cannot run gym here: its runtime" in refused.err
    assert "is not built yet" in refused.err
