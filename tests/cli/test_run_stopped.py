"""``envbench run`` stopped from outside, and resumed."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from helpers.command_line import ROOT, SHORT, THREE, TWO, Done, Place, ended, loop, wait_until
from helpers.skip_or_fail import not_here
from helpers.virtual_environments import lent_packages, make_interpreter, site_packages

from envbench.model import Failure, Run, RunDesign

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


# ---------------------------------------------------------------- stopped from outside


def in_second_run(place: Place, process: subprocess.Popen[str]) -> None:
    """Wait until one run is on disk and the next one's worker is up."""
    wait_until(lambda: place.finished() or process.poll() is not None, "a first run")
    wait_until(lambda: len(place.processes()) >= 3 or process.poll() is not None, "a second")
    assert process.poll() is None, process.communicate()


def resumes(place: Place, *words: object) -> Done:
    """The same command again: it must continue in the same file, to its end."""
    done = place.run("run", *words)
    assert done.code == 0, done.err
    assert "Resuming" in done.err
    assert len(place.files()) == len(place.plans()) == 1
    return done


@slow
@linux
def test_killed_envbench_leaves_no_worker_and_no_lock_and_resumes(
    place: Place, faulty_python: Path
) -> None:
    words = [*loop(faulty_python), *THREE]
    process = place.start("run", *words)
    in_second_run(place, process)
    process.kill()
    assert ended(process).code == -signal.SIGKILL
    wait_until(lambda: not place.processes(), "its workers to die", timeout_s=10)
    first = place.runs()
    assert [run.failure for run in first] == [None]
    resumes(place, *words)
    assert sorted(run.round for run in place.runs()) == [0, 1, 2]
    assert place.runs()[0] == first[0]


@slow
@pytest.mark.parametrize(
    ("number", "code", "whole_group"),
    [(signal.SIGINT, 130, True), (signal.SIGINT, 130, False), (signal.SIGTERM, 143, False)],
    ids=["ctrl-c", "SIGINT", "SIGTERM"],
)
def test_a_run_stopped_by_a_signal_is_recorded_shown_and_resumed(
    place: Place, faulty_python: Path, number: int, code: int, whole_group: bool
) -> None:
    words = [*loop(faulty_python), *TWO]
    process = place.start("run", *words)
    in_second_run(place, process)
    if whole_group:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    done = ended(process, timeout_s=10)
    assert done.code == code
    assert "The same command resumes" in done.err
    assert "Traceback" not in done.err
    assert "For-loop" in done.out  # the summary of what is done
    assert place.processes() == []
    kept, stopped = place.runs()
    assert (kept.failure, failure_of(stopped).reason) == (None, "interrupted")
    resumes(place, *words)
    whole = [run for run in place.runs() if run.failure is None]
    assert sorted(run.round for run in whole) == [0, 1]
    assert stopped.round in [run.round for run in whole]


@slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_before_anything_is_measured_ends_it_with_its_code(
    place: Place, faulty_python: Path, number: int, code: int
) -> None:
    process = place.start("run", *loop(faulty_python), *THREE)
    wait_until(lambda: len(place.processes()) >= 2, "the probe")
    process.send_signal(number)
    done = ended(process, timeout_s=10)
    assert done.code == code
    assert "Traceback" not in done.err
    wait_until(lambda: not place.processes(), "the killed probe to end", timeout_s=10)


# ---------------------------------------------------------------- resumed after a change


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory, faulty_python: Path) -> Place:
    """A plan of two rounds with only the first measured, under the laptop's name."""
    place = Place(tmp_path_factory.mktemp("stopped"), short=True)
    process = place.start("run", *loop(faulty_python), *TWO, "--machine", "laptop")
    in_second_run(place, process)
    process.send_signal(signal.SIGINT)
    assert ended(process).code == 130
    return place


@pytest.fixture
def again(stopped: Place, tmp_path: Path) -> Place:
    """A copy of it."""
    shutil.copytree(stopped.folder, tmp_path / "again")
    return Place(tmp_path / "again", short=True)


def begins_anew(place: Place, done: Done, why: str) -> None:
    assert done.code == 0, done.err
    assert "cannot resume; changed: " in done.err
    assert why in done.err
    assert "Beginning a new plan" in done.err
    old, new = place.plans()
    assert old.plan_id != new.plan_id
    assert len(place.files()) == 2
    measured = {plan.plan_id: set[int]() for plan in (old, new)}
    for run in place.runs():
        measured[run.plan_id] |= {run.round} if run.failure is None else set()
    assert measured == {
        old.plan_id: {0},
        new.plan_id: set(range(new.design_as(RunDesign).repeats["for-loop"])),
    }


@slow
def test_another_duration_begins_a_new_plan(again: Place, faulty_python: Path) -> None:
    words = ("--numenv", 2, "--total-step", 100, "--repeats", 2, "--machine", "laptop")
    done = again.run("run", *loop(faulty_python), *words)
    begins_anew(again, done, "the measured time or steps")


@slow
def test_changed_worker_code_begins_a_new_plan(
    again: Place, faulty_python: Path, tmp_path: Path
) -> None:
    package = tmp_path / "changed"
    for name in ("envbench", "machines"):
        shutil.copytree(ROOT / name, package / name)
    shutil.copy(ROOT / "pyproject.toml", package)
    again.package = package
    worker = package / "envbench" / "worker" / "envbench_worker" / "measure.py"
    worker.write_text(worker.read_text() + "\n# another release\n")
    done = again.run("run", *loop(faulty_python), *TWO, "--machine", "laptop")
    begins_anew(again, done, "envbench's code for")


@slow
def test_changed_packages_of_a_runtime_begin_a_new_plan(again: Place, tmp_path: Path) -> None:
    fixtures = Path(__file__).parents[1] / "fixtures"
    paths = [fixtures / "faulty_envs" / "src", *lent_packages()]
    python = make_interpreter(tmp_path / "venv", paths=paths)
    new = site_packages(python) / "just_installed-1.0.dist-info"
    new.mkdir()
    (new / "METADATA").write_text("Metadata-Version: 2.1\nName: just-installed\nVersion: 1.0\n")
    done = again.run("run", *loop(python), *TWO, "--machine", "laptop")
    begins_anew(again, done, "the packages or Python of for-loop")


@slow
@linux
def test_a_changed_machine_begins_a_new_plan(again: Place, faulty_python: Path) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        not_here("two CPUs, to take one away")
    one = {min(os.sched_getaffinity(0))}
    words = [*loop(faulty_python), *TWO, "--machine", "laptop"]
    done = again.run("run", *words, preexec_fn=lambda: os.sched_setaffinity(0, one))
    begins_anew(again, done, "the machine")


@slow
def test_fresh_begins_a_new_plan(again: Place, faulty_python: Path) -> None:
    words = [*loop(faulty_python), *TWO, "--machine", "laptop", "--fresh"]
    done = again.run("run", *words)
    assert done.code == 0, done.err
    assert "Resuming" not in done.err
    old, new = again.plans()
    runs = [(run.plan_id, run.round) for run in again.runs() if run.failure is None]
    assert runs == [(old.plan_id, 0), (new.plan_id, 0), (new.plan_id, 1)]


@slow
def test_a_complete_plan_is_measured_afresh(place: Place, faulty_python: Path) -> None:
    words = [*loop(faulty_python), *SHORT]
    for _ in range(2):
        assert place.run("run", *words).code == 0
    assert [plan.spec for plan in place.plans()] == [place.plans()[0].spec] * 2
    assert len({run.plan_id for run in place.runs()}) == 2


@pytest.mark.slow
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_stopped_environment_processes_end_with_the_killed_controller_and_guardians(
    place: Place, context: str
) -> None:
    """No process of envbench is left to end the environments' processes. The kernel does, because
    each of them asked for it. They ask before they load the environment's library."""
    process = place.start(
        *("check", "--env", "mujoco", "--backend", "subprocess", "--numenv", 2),
        *("--baseline-python", sys.executable, "--candidate-python", sys.executable),
        *("--pairs", 5, "--set", f"context={context}"),
    )
    controller = psutil.Process(process.pid)
    guardians: list[psutil.Process] = []

    def an_environment_is_stopped() -> bool:
        try:
            below = controller.children(recursive=True)
            guardians[:] = [each for each in below if "guardian.py" in " ".join(each.cmdline())]
            workers = [child for each in guardians for child in each.children()]
            steppers = [child for each in workers for child in each.children()]
            stopped = [each for each in steppers if each.status() == psutil.STATUS_STOPPED]
            # Gymnasium imports glfw. That starts a process to get the version of its library.
            loaded = [each for each in steppers if "glfw" in str(each.memory_maps())]
        except psutil.Error:  # one has just ended
            return False
        return len(loaded) >= 4 and len(stopped) >= 1

    wait_until(an_environment_is_stopped, "an environment's process is stopped", 120)
    for each in (controller, *guardians):
        each.kill()
    process.wait()
    wait_until(lambda: not place.processes(), "nothing is left", 20)


def test_a_plan_that_is_being_measured_is_not_continued_by_a_second_call(
    place: Place, faulty_python: Path
) -> None:
    words = ("run", *loop(faulty_python), *THREE)
    process = place.start(*words)
    wait_until(lambda: place.finished() >= 1, "its first run is recorded")
    process.send_signal(signal.SIGSTOP)
    done = place.run(*words, env=place.environment(ENVBENCH_LOCK_FILE=str(place.folder / "other")))
    process.send_signal(signal.SIGCONT)
    assert process.wait(60) == 0
    assert (done.code, "another process has been writing" in done.err) == (1, True), done.err
    assert len(place.runs()) == 3


def test_a_closed_stdout_is_an_error_and_the_next_call_shows_the_outcome(
    place: Place, faulty_python: Path
) -> None:
    words = shlex.join(map(str, ("run", *loop(faulty_python), *SHORT)))
    closed = place.shell(f"{{envbench}} {words} >&-")
    assert (closed.code, "stdout is closed" in closed.err) == (1, True), closed.err
    shown = place.shell(f"{{envbench}} {words}")
    assert (shown.code, len(place.runs())) == (0, 1)
    assert "For-loop" in shown.out
