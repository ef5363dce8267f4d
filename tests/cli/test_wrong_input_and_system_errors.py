"""What every command refuses, and how the system's errors are reported."""

from __future__ import annotations

import errno
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import click.testing
import pytest
from helpers.command_line import Done, Place
from helpers.record_factories import new_results_file

from envbench.cli import COMMANDS, envbench, explained
from envbench.errors import EnvbenchError

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
LONG = "x" * 300


def commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command and subcommand, with the words that name it."""
    for name in COMMANDS:
        command = envbench.get_command(click.Context(envbench), name)
        assert command is not None
        yield from subcommands(command, (name,))


def subcommands(
    command: click.Command, words: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from subcommands(each, (*words, name))


def valued() -> Iterator[tuple[tuple[str, ...], click.Parameter, str]]:
    """Every option of every command that takes a value, by each of its names; every argument."""
    for words, command in commands():
        for param in command.params:
            if isinstance(param, click.Option) and not param.is_flag:
                yield from ((words, param, name) for name in param.opts)
            elif isinstance(param, click.Argument):
                yield words, param, param.human_readable_name


def called(*words: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(envbench, list(words))


# ---------------------------------------------------------------- an empty value


def test_the_walk_visits_options_arguments_and_subcommands() -> None:
    seen = {(*words, name) for words, _, name in valued()}
    assert {
        ("check", "--baseline-ref"), ("check", "--summary"), ("baseline", "save", "--output"),
        ("compare", "A"), ("machines", "init", "--like"), ("run", "--num-envs"),
        ("backends", "--python"), ("export", "--format"),
    } <= seen  # fmt: skip
    assert len(seen) > 80


@pytest.mark.parametrize("value", ["", "  "])
@pytest.mark.parametrize(
    ("words", "param", "name"), [pytest.param(*each, id=" ".join((*each[0], each[2])))
                                 for each in valued()]
)  # fmt: skip
def test_an_empty_value_is_refused_by_every_option_and_argument_of_every_command(
    words: tuple[str, ...], param: click.Parameter, name: str, value: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    given = [f"{name}={value}"] if isinstance(param, click.Option) else [value]
    result = called(*words, *given)
    assert result.exit_code == 2, result.output
    assert name in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_empty_name_is_refused_with_the_likely_cause() -> None:
    result = called("check", "--baseline-python", "")
    assert "--baseline-python is empty" in result.stderr
    assert "the variable is not set" in result.stderr


def test_an_empty_summary_variable_means_no_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "")
    cell = ("--env", "atari", "--backend", "for-loop", "--numenv", "1")
    assert called("check", "--plan", *cell).exit_code == 0
    assert called("check", "--plan", *cell, "--summary=").exit_code == 2


# ---------------------------------------------------------------- a number that cannot be


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("run", "--repeats", "1.5"), "--repeats has to be a whole number from 1 to 1,000, not"),
        (("run", "--repeats", "0"), "--repeats has to be a whole number from 1 to 1,000, not '0'."),
        (("run", "--total-step", "1e3"), "--total-step has to be a whole number from 1 to 1,000,"),
        (("run", "--duration", "long"), "--duration has to be a number from 1 to 86,400, not"),
        (("run", "--duration", "inf"), "--duration has to be a number from 1 to 86,400, not 'inf'"),
        (("run", "--seed", "-1"), "--seed has to be a whole number from 0 to 2,147,483,647, not"),
        (("run", "--frame-skip", "0"), "--frame-skip has to be a number from 0.001 to 1,000, not"),
        (
            ("verify", "--numenv", "1"),
            "--numenv has to be a whole number from 2 to 1,024, not '1'. With one, nothing shows "
            "whether actions have an effect.",
        ),
    ],
)
def test_an_impossible_number_is_refused_with_the_numbers_that_are_possible(
    words: tuple[str, ...], says: str
) -> None:
    result = called(*words)
    assert (result.exit_code, f"Error: {says}" in result.stderr) == (2, True), result.stderr


@pytest.mark.parametrize("option", ["--repeats", "--total-step", "--duration", "--seed"])
def test_an_empty_number_is_called_empty(option: str) -> None:
    assert f"{option} is empty. Give it a value" in called("run", f"{option}=").stderr


# ---------------------------------------------------------------- paths and the system


def plain(done: Done, code: int) -> str:
    """The message of a call that ended with an error of one line, and no traceback."""
    assert done.code == code, done.err
    assert "Traceback" not in done.err
    (line,) = [line for line in done.err.splitlines() if line.startswith("Error: ")]
    return line


CELL = ("--env", "atari", "--backend", "for-loop", "--numenv", "1")


@pytest.mark.parametrize(
    "words",
    [
        ("report", "--results", LONG),
        ("report", "--results", f"{LONG}/below"),
        ("plans", "--results", LONG),
        ("export", "--results", LONG),
        ("compare", "a", "b", "--results", LONG),
        ("run", *CELL, "--results", LONG),
        ("compare", LONG, "b"),
        ("import", LONG),
        ("check", "--against", LONG),
        ("check", "--summary", LONG),
        ("check", "--baseline-python", LONG),
        ("baseline", "save", *CELL, "--output", LONG),
        ("run", *CELL, "--python", f"for-loop=/{LONG}"),
    ],
)
def test_a_path_that_is_too_long_is_an_error_of_one_line(
    place: Place, words: tuple[str, ...]
) -> None:
    done = place.run(*words)
    assert "File name too long" in plain(done, 2)
    assert LONG not in done.err
    assert "--python" in words or "Give a shorter path." in done.err
    assert list(place.folder.iterdir()) == []


@pytest.mark.parametrize("output", [LONG, f"{LONG}/page.md"])
@pytest.mark.parametrize("more", [(), ("--check",), ("--format", "html")])
def test_a_report_to_a_path_that_is_too_long_is_an_error_of_one_line(
    place: Place, output: str, more: tuple[str, ...]
) -> None:
    from helpers.record_factories import measured_plan, write

    path = new_results_file(place.results, "laptop", "2025")
    write(path, measured_plan({("for-loop", 1): 300}))
    done = place.run("report", "--output", output, *more)
    assert "File name too long" in plain(done, 2)
    assert "Give a shorter path." in done.err


@pytest.mark.parametrize(
    "words", [("report",), ("report", "--format", "html"), ("export",), ("baseline", "save", *CELL)]
)
def test_an_output_in_a_folder_that_does_not_exist_is_refused_and_makes_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    result = called(*words, "--output", "no where/x.json")
    assert result.exit_code == 2
    assert "Error: --output no where/x.json: there is no folder no where.\n" in result.stderr
    assert "Make it: mkdir -p 'no where'. Or name another file." in result.stderr
    assert list(tmp_path.iterdir()) == []


def not_a_file(kind: str) -> str:
    """The name of a new path that is neither a folder nor a file."""
    if kind == "device":
        return os.devnull
    if kind == "fifo":
        os.mkfifo("page")
    else:
        Path("page").symlink_to("page" if kind == "loop of links" else "nowhere")
    return "page"


@linux
@pytest.mark.parametrize("words", ["report", "export", "plans", "import x.csv", "run"])
@pytest.mark.parametrize("kind", ["fifo", "loop of links", "broken link", "device"])
def test_results_that_are_no_folder_are_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.csv").touch()
    name = not_a_file(kind)
    result = called(*words.split(), "--results", name)
    assert result.exit_code == 2
    assert f"'--results': {name} is not a folder." in result.stderr


@linux
@pytest.mark.parametrize("kind", ["fifo", "loop of links", "device"])
def test_an_output_that_is_no_regular_file_is_refused_before_a_plot_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    from helpers.record_factories import measured_plan, write

    monkeypatch.chdir(tmp_path)
    path = new_results_file(Path("results"), "laptop", "2025")
    write(path, measured_plan({("for-loop", 1): 300}))
    name = not_a_file(kind)
    for words in (["report"], ["report", "--format", "html"], ["export"]):
        result = called(*words, "--output", name)
        assert result.exit_code == 2
        assert f"{name} is not a file." in result.stderr
    assert {path.name for path in tmp_path.iterdir()} <= {"results", "page"}


@linux
def test_a_results_folder_that_cannot_be_read_is_not_an_empty_one(place: Place) -> None:
    (place.folder / "secret").mkdir(mode=0)
    (place.folder / "other").mkdir()
    wrap = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()
    done = place.shell("{envbench} compare secret other", wrap=(*wrap, "bash", "-c"))
    assert "cannot read results from secret: Permission denied" in plain(done, 1)


def test_a_path_of_the_measuring_lock_that_is_too_long_is_wrong_usage(place: Place) -> None:
    environment = place.environment(ENVBENCH_LOCK_FILE=str(place.folder / LONG))
    done = place.run("run", *CELL, env=environment)
    assert "the measuring lock" in plain(done, 2)
    assert LONG not in done.err
    assert "Give a shorter path." in done.err


@pytest.mark.parametrize(
    "words", [("--task", LONG), ("--set", LONG), ("--set", f"{LONG}=1"), ("--python", LONG),
              ("--env", LONG), ("--backend", LONG), ("--total-step", LONG), (f"--{LONG}",)],
)  # fmt: skip
def test_a_long_name_is_cut_in_the_message(place: Place, words: tuple[str, ...]) -> None:
    done = place.run("run", *CELL[2:], *(() if "--env" in words else CELL[:2]), *words)
    message = plain(done, 2)
    assert LONG not in done.err
    assert "x..." in message
    assert len(message) < 300


@linux
@pytest.mark.parametrize(
    "words", [("report", "--results"), ("run", "--results"), ("import",), ("compare", "a"),
              ("export", "--output"), ("machines", "init"), ("setup",), ("check", "--baseline"),
              ("run", "--set"), ("run", "--backend"), ("report", "--format")],
)  # fmt: skip
def test_a_word_that_is_not_utf8_is_an_error_that_shows_it(
    place: Place, words: tuple[str, ...]
) -> None:
    command = [os.fsencode(word) for word in place.command(*words)]
    done = subprocess.run(
        [*command, b"a\xffb"], cwd=place.folder, env=place.environment(), capture_output=True
    )
    message = plain(Done(done.returncode, done.stdout.decode(), done.stderr.decode()), 2)
    assert message == r"Error: 'a\xffb' is not valid UTF-8."
    assert list(place.folder.iterdir()) == []


@linux
def test_a_parent_folder_that_is_not_utf8_gives_no_traceback(place: Place) -> None:
    folder = os.path.join(os.fsencode(place.folder), b"\xff")
    os.mkdir(folder)
    for words in (["report"], ["machines"], ["machines", "init", "mine"], ["backends"]):
        done = subprocess.run(
            place.command(*words), cwd=folder, env=place.environment(), capture_output=True
        )
        assert done.returncode == (2 if words == ["report"] else 0), done.stderr
        assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("words", [" ".join(words) for words, _ in commands()])
def test_every_command_reports_a_deleted_working_directory(place: Place, words: str) -> None:
    values = {"compare": "a b", "import": "x", "baseline save": "--output x", "setup": "nothing"}
    line = f"{words} {values.get(words, '')}" if words != "machines init" else f"{words} mine"
    done = place.shell(f"mkdir gone && cd gone && rmdir ../gone && {{envbench}} {line}")
    if words == "baseline":  # a group of commands by itself shows its help
        assert "Traceback" not in done.err
        return
    assert "working directory cannot be used" in plain(done, 2)
    assert "Change to a folder that exists" in done.err


@linux
@pytest.mark.parametrize("limit", [8, 12, 30, 63])
@pytest.mark.parametrize("words", ["report", "run", "machines", "doctor", "check --plan"])
def test_a_low_limit_of_open_files_is_an_error_that_says_how_to_raise_it(
    place: Place, limit: int, words: str
) -> None:
    done = place.shell(f"ulimit -n {limit}; {{envbench}} {words}")
    assert f"only {limit} files may be open at once here" in plain(done, 1)
    assert "ulimit -n" in done.err


@pytest.mark.slow
@linux
def test_the_smallest_allowed_limit_of_open_files_is_enough_to_measure(place: Place) -> None:
    words = shlex.join(["run", *CELL, "--total-step", "50", "--repeats", "1"])
    done = place.shell(f"ulimit -n 64; {{envbench}} {words}")
    assert done.code == 0, done.err
    assert [run.failure for run in place.runs()] == [None]


@linux
def test_a_limit_that_is_used_up_is_explained(place: Place) -> None:
    held = "".join(f"exec {number}< /dev/null; " for number in range(3, 76))
    done = place.shell(f"ulimit -n 80; {held} {{envbench}} {shlex.join(['run', *CELL])}")
    assert "a worker did not start: [Errno 24] Too many open files." in plain(done, 1)
    assert "Raise the limit, for example: ulimit -n 4096" in done.err


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENAMETOOLONG, errno.EACCES, errno.EROFS])
def test_any_error_of_the_system_is_one_line_with_its_path_and_a_hint(number: int) -> None:
    error = explained(OSError(number, os.strerror(number), "a\x1b[31m\n/" + "x" * 5000))
    assert isinstance(error, EnvbenchError)
    assert os.strerror(number) in str(error)
    assert str(error).isprintable()
    assert len(str(error)) < 250
    assert error.hint


def test_an_error_of_the_system_that_no_command_expects_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> str:
        return (tmp_path / "no" / "file").read_text()

    monkeypatch.chdir(tmp_path)
    (tmp_path / "machines").mkdir()
    monkeypatch.setattr("envbench.engine.carry_out.fingerprint", missing)
    result = called("machines", "detect")
    assert result.exit_code == 1
    assert "no/file': No such file or directory" in result.stderr
    assert isinstance(result.exception, SystemExit)
