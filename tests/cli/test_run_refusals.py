"""``envbench run`` refuses bad input before anything is measured."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.command_line import SHORT, Done, Place, ended_within, loop

from envbench.cli import envbench

slow = pytest.mark.slow
linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


# ---------------------------------------------------------------- bad input


def called(place: Place, *words: object) -> Done:
    """The command called in this process: the start of one takes longer than a refusal."""
    with contextlib.chdir(place.folder):
        done = CliRunner().invoke(
            envbench, [*map(str, words)], env={"ENVBENCH_LOCK_FILE": str(place.lock)}
        )
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return Done(done.exit_code, done.stdout, done.stderr)


def refused(place: Place, *words: object) -> str:
    """The message of a usage error; nothing was measured, and nothing written."""
    done = ended_within(2, lambda: called(place, "run", *words))
    assert done.code == 2, done.err
    assert done.out == ""
    assert not place.results.exists()
    return done.err


@pytest.mark.parametrize(
    "value", ["0", "-3", "1.5", "1e9", "8,8", "", ",", "1,,2", "1000000000", "²", "0x8", "1 2"]
)
def test_a_bad_numenv_is_a_usage_error_that_names_the_option_and_what_it_takes(
    place: Place, value: str
) -> None:
    for option in ("--numenv", "--num-envs"):
        message = refused(place, "--env", "atari", "--backend", "for-loop", option, value)
        assert "--numenv" in message
        assert "whole numbers" in message or "8 is given twice" in message


@pytest.mark.parametrize(
    ("value", "says"),
    [("3-1", "is not a list"), ("a", "is not a list"), ("", "empty"), ("9999", "cannot be used")],
)
def test_bad_cores_are_a_usage_error(place: Place, value: str, says: str) -> None:
    assert says in refused(place, "--env", "atari", "--backend", "for-loop", "--cpus", value)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--env", "atari", "--backend", "envpool-asink"], ["'envpool-async'", "for-loop"]),
        (["--env", "atary"], ["'atari'", "mujoco", "gym"]),
        (["--machine", "laptob"], ["'laptop'", "dgx-a100"]),
        (["--env", "mujoco", "--task", "Amt-v3", "--backend", "for-loop"], ["Ant-v3"]),
        (
            ["--env", "atari", "--set", "overcomit=2", "--backend", "envpool-async"],
            ["'overcommit'"],
        ),
        (["--env", "atari", "--preset", "envpool-publishd"], ["'envpool-published'"]),
    ],
)
def test_an_unknown_name_is_a_usage_error_with_the_known_ones_and_the_nearest(
    place: Place, words: Sequence[str], names: Sequence[str]
) -> None:
    message = refused(place, *words, "--numenv", 1)
    assert "Did you mean" in message
    for name in names:
        assert name in message


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--env", "atari", "--env", "mujoco"], "given more than once: 'atari' and 'mujoco'"),
        (["--env", "atari", "--numenv", 2, "--numenv", 2], "2 is given twice"),
        (["--env", "atari", "--task", ""], "--task is empty"),
        (["--machine", "Laptop"], "Did you mean 'laptop'?"),
        (["--env", "atari", "--backend", "envpool-numa", "--numenv", 4, "--numa-node", "0",
          "--numa-node", "0"], "core 0 is named twice"),
        (["--env", "atari", "--backend", "sample-factory", "--numenv", 4,
          "--set", "worker_splits=2"], "has to be a multiple of worker_splits"),
    ],
)  # fmt: skip
def test_contradictory_options_are_a_usage_error(
    place: Place, words: Sequence[object], says: str
) -> None:
    assert says in refused(place, *words)


@slow
def test_a_task_of_another_family_is_reported_as_such(place: Place) -> None:
    done = place.run(
        "run", "--env", "atari", "--task", "Ant-v3", "--backend", "for-loop", "--numenv", 1
    )
    assert done.code == 2
    assert "for-loop has no atari task 'Ant-v3'." in done.err
    assert "Ant-v3 is of the family mujoco: --env mujoco" in done.err
    assert "Did you mean" not in done.err


@slow
@pytest.mark.parametrize(
    ("family", "task", "nearest", "backend"),
    [
        ("atari", "Pnog-v5", "Pong-v5", "for-loop"),
        ("atari", "Pnog-v5", "Pong-v5", "envpool-sync"),
        ("classic_control", "CartPoel-v1", "CartPole-v1", "all"),
    ],
)
def test_an_unknown_task_is_found_by_a_probe(
    place: Place, family: str, task: str, nearest: str, backend: str
) -> None:
    words = ("--env", family, "--task", task, "--backend", backend, "--numenv", 1)
    done = place.run("run", *words)
    assert done.code == 2, done.err
    assert f"Did you mean {nearest!r}" in done.err
    assert not place.results.exists()


@slow
def test_an_unknown_task_of_a_package_lists_the_tasks_it_has(
    place: Place, faulty_python: Path
) -> None:
    done = place.run("run", *loop(faulty_python, "faulty_envs:Nromal-v0"), *SHORT)
    assert done.code == 2, done.err
    assert "Did you mean 'faulty_envs:Normal-v0'" in done.err
    assert not place.results.exists()


@slow
def test_the_error_for_a_package_that_registers_no_task_says_so(
    place: Place, faulty_python: Path
) -> None:
    done = place.run("run", *loop(faulty_python, "json:Mine-v0"), *SHORT)
    assert done.code == 2, done.err
    assert "json can be imported, but registers no task 'Mine-v0'." in done.err


@pytest.mark.parametrize(
    ("backend", "family", "runs"),
    [
        ("brax", "atari", "it runs mujoco."),
        ("envpool-sync", "gym", "it runs atari, mujoco, dm_control, classic_control and box2d."),
    ],
)
def test_a_backend_that_cannot_run_the_family_is_a_usage_error_that_says_which_it_runs(
    place: Place, backend: str, family: str, runs: str
) -> None:
    task = ["--task", "CartPole-v1"] if family == "gym" else []
    message = refused(place, "--env", family, *task, "--backend", backend, "--numenv", 1)
    assert f"{backend!r} cannot run {family}" in message
    assert runs in message


@pytest.mark.parametrize("name", ["../../x", "/etc", "CON", "x" * 5000, "a\nb", "", "-", "."])
def test_an_invalid_profile_name_is_refused_and_nothing_is_written(place: Place, name: str) -> None:
    message = refused(place, "--env", "atari", "--numenv", 1, f"--machine={name}")
    assert len(message) < 1000
    assert list(place.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('title = "$(touch pwned)"\nrun = "touch pwned"\n', "run"),
        ('title = "`id`"\n[atari]\nnumenv = "1; touch pwned"\nrows = ["for-loop"]', "numenv"),
        ("title = 3\n", "title"),
        ('title = "x"\n[atari]\nnumenv = [true]\nrows = ["for-loop"]', "numenv"),
    ],
)  # fmt: skip
def test_a_bad_profile_runs_no_command_and_the_error_names_its_file_and_key(
    place: Place, text: str, says: str
) -> None:
    folder = place.folder / "machines"
    folder.mkdir()
    (folder / "bad.toml").write_text(text)
    message = refused(place, "--env", "atari", "--machine", "bad")
    assert "bad.toml" in message
    assert says in message
    assert not list(place.folder.rglob("pwned"))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--duration", "5", "--total-step", "5"], "--duration and --total-step"),
        (["--quick", "--repeats", "3"], "--quick"),
        (["--duration", "nan"], "--duration"),
        (["--duration", "inf"], "--duration"),
        (["--total-step", "0"], "--total-step"),
        (["--seed", "-1"], "--seed"),
        (["--overcommit", "0.5", "--env", "atari", "--backend", "envpool-async"], "overcommit"),
        (["--set", "threads"], "--set"),
        (["--task", "Pong-v4"], "--env"),
        (["--env", "gym"], "--task"),
        (["--python", "for-loop=/no/such/python"], "--python"),
        (["--env", "gym", "--task", "A-v0", "--frame-skip", "nan"], "--frame-skip"),
        *((["--env", "gym", "--task", "A-v0", "--frame-skip", value], "from 0.001 to 1,000, not")
          for value in ("5e-324", "1e308", "0", "-1", "inf", "1000.1", "0.0009")),
    ],
)  # fmt: skip
def test_options_that_make_no_sense_are_usage_errors_that_name_them(
    place: Place, words: Sequence[str], says: str
) -> None:
    assert says in refused(place, *words, "--numenv", 1)
