"""``envbench plans``: what is finished, what is not, and how to give a plan up."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import click.testing
import msgspec
import pytest
from helpers.command_line import ROOT
from helpers.record_factories import add_record
from helpers.virtual_executor import (
    BROKEN,
    SPEED,
    VirtualExecutor,
    blocks,
    fake,
    files,
    invoke,
    plans,
    records,
)

from envbench import backends
from envbench.engine import resume
from envbench.errors import Interrupted
from envbench.experiments.run.rounds import RunExperiment
from envbench.machine import lock
from envbench.model import EndedRecord

# Six cells: a round has two blocks of three.
RUN = ("run", "--env", "gym", "--task", "My-v0", "--machine", "laptop", "--numenv", "2,4,6",
       "--backend", "fake-slow,fake-fast")  # fmt: skip
VERIFY = ("verify", "--env", "gym", "--task", "My-v0", "--machine", "laptop")
BY_PRODUCTS = Path("results/laptop/by-products")


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    known = {name: fake(name) for name in ("for-loop", *SPEED)}  # the first is the reference
    monkeypatch.setattr(backends.BACKENDS, "loaded", (known, []))
    monkeypatch.setenv("ENVBENCH_LOCK_FILE", str(tmp_path / "lock"))
    monkeypatch.chdir(tmp_path)


def measure(*words: object, stop: int | None = None, failed: int | None = None) -> str:
    """Call that command; the id of the plan that it made."""
    executor = VirtualExecutor()
    if stop:
        executor.trouble[stop] = Interrupted(130)
    if failed:
        executor.trouble[failed] = BROKEN
    before = {plan.plan_id for plan in plans()}
    invoke(executor, *words)
    (made,) = {plan.plan_id for plan in plans()} - before
    return made


def call(*words: object) -> click.testing.Result:
    return invoke(VirtualExecutor(), "plans", *words)


def listed(*words: object) -> list[dict[str, Any]]:
    done = call("--json", *words)
    assert done.exit_code == 0
    document = json.loads(done.stdout)
    assert (list(document), document["schema"]) == (["schema", "plans", "warnings"], 1)
    rows: list[dict[str, Any]] = document["plans"]
    return rows


# ---------------------------------------------------------------- the list


def test_an_empty_folder_has_no_plans() -> None:
    done = call()
    assert (done.exit_code, done.stdout) == (0, "")
    assert "There are no plans in results: that folder does not exist." in done.stderr
    Path("results").mkdir()
    assert "There are no plans in results." in call().stderr
    assert "no unfinished plans" in call("--unfinished").stderr
    assert listed() == []


def test_each_plan_is_a_row_of_the_documented_shape_with_what_is_done_and_left() -> None:
    whole = measure(*RUN, "--repeats", "2", failed=1)
    part = measure(*RUN, "--repeats", "3", stop=3)
    rows = {row["plan"]: row for row in listed()}
    assert list(rows[whole]) == [
        "plan", "experiment", "machine", "state", "done", "left", "failed", "started_utc",
        "command", "file",
    ]  # fmt: skip
    shown = {name: (row["state"], row["done"], row["left"], row["failed"])
             for name, row in rows.items()}  # fmt: skip
    assert shown == {whole: ("finished", 3, 0, 1), part: ("unfinished", 2, 4, 0)}
    assert {row["experiment"] for row in rows.values()} == {"run"}
    assert {row["machine"] for row in rows.values()} == {"laptop"}
    assert {row["file"] for row in rows.values()} == {str(path) for path in files()}


def test_the_table_names_the_command_that_resumes_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["envbench", "run", "--task", "a name"])
    part = measure(*RUN, "--repeats", "3", stop=3)
    done = call()
    (row,) = [line for line in done.stdout.splitlines() if part in line]
    for text in ("run", "laptop", "unfinished", "2 of 6", "envbench run --task 'a name'"):
        assert text in row


def test_plans_can_be_filtered_by_machine_and_by_state() -> None:
    measure(*RUN, "--repeats", "1")
    part = measure(*RUN, "--repeats", "3", stop=3)
    gone = measure(*VERIFY, stop=2)
    call("abandon", gone)
    assert [row["plan"] for row in listed("--unfinished")] == [part]
    assert len(listed("--machine", "laptop")) == 3
    assert listed("--machine", "elsewhere") == []
    said = call("--machine", "elsewhere")
    place = Path("results", "elsewhere")
    assert said.exit_code == 0
    assert f"There are no plans in {place}: that folder does not exist." in said.stderr


def test_an_invalid_machine_name_is_refused() -> None:
    done = call("--machine", "../laptop")
    assert done.exit_code == 2
    assert "cannot name a machine profile" in done.stderr


def test_the_table_shortens_a_long_command_and_json_keeps_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.argv", ["envbench", "run", "--task", "x" * 100])
    measure(*RUN, "--repeats", "1")
    row = call().stdout.splitlines()[-1]
    assert row.endswith("  envbench run --task " + "x" * 39 + "…")
    assert listed()[0]["command"][-1] == "x" * 100


# ---------------------------------------------------------------- options before a subcommand


@pytest.mark.parametrize("words", [("abandon",), ("delete", "--yes")])
def test_the_results_folder_may_be_named_before_or_after_the_subcommand(
    words: tuple[str, ...],
) -> None:
    plan = measure(*RUN, "--repeats", "3", stop=3)
    shutil.copytree("results", "other")
    shutil.copytree("results", "third")
    (path,) = files()
    before = path.read_bytes()
    assert call("--results", "other", words[0], plan, *words[1:]).exit_code == 0
    assert call("--results", "results", *words, plan, "--results", "third").exit_code == 0
    assert path.read_bytes() == before
    for folder in ("other", "third"):
        rows = listed("--results", folder)
        assert [row["state"] for row in rows] == (["abandoned"] if words == ("abandon",) else [])


@pytest.mark.parametrize("given", [("--json",), ("--unfinished",), ("--machine", "laptop")])
@pytest.mark.parametrize("words", [("abandon",), ("delete", "--yes")])
def test_an_option_of_the_list_before_a_subcommand_is_wrong_usage(
    words: tuple[str, ...], given: tuple[str, ...]
) -> None:
    plan = measure(*RUN, "--repeats", "3", stop=3)
    done = call(*given, words[0], plan, *words[1:])
    assert done.exit_code == 2
    assert f"{given[0]} cannot be given with `envbench plans {words[0]}`" in done.stderr
    assert [row["state"] for row in listed()] == ["unfinished"]


def test_the_newest_plan_comes_first() -> None:
    made = [measure(*RUN, "--repeats", "1"), measure(*VERIFY)]
    starts = [row["started_utc"] for row in listed()]
    assert starts == sorted(starts, reverse=True)
    assert {row["plan"] for row in listed()} == set(made)


def test_a_plan_of_an_unknown_experiment_is_listed() -> None:
    measure(*RUN, "--repeats", "1")
    (path,) = files()
    (plan,) = plans()
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(plan, experiment="tune")) + b"\n")
    (row,) = listed()
    assert (row["experiment"], row["state"], row["left"]) == ("tune", "unknown", None)
    assert "0 of ?" in call().stdout


# ---------------------------------------------------------------- damaged files


def test_damaged_lines_are_warnings_and_the_other_plans_are_listed() -> None:
    good = measure(*RUN, "--repeats", "1")
    (path,) = files()
    folder = path.parent
    (folder / "2020-01-01T00-00-00Z.jsonl").write_bytes(b"\x00\xff not json\n")
    (folder / "2020-01-02T00-00-00Z.jsonl").write_bytes(b"")
    path.write_bytes(path.read_bytes() + b'{"type":"block","torn')
    done = call("--json")
    assert done.exit_code == 0
    assert [row["plan"] for row in json.loads(done.stdout)["plans"]] == [good]
    assert done.stderr.count("Warning: ") == 2
    assert "2020-01-01T00-00-00Z.jsonl:1: line skipped" in done.stderr
    assert "it is incomplete" in done.stderr
    warnings = json.loads(done.stdout)["warnings"]
    assert [f"Warning: {each}" for each in warnings] == done.stderr.splitlines()


def test_control_characters_in_a_name_never_reach_the_terminal() -> None:
    measure(*RUN, "--repeats", "1")
    (path,) = files()
    (plan,) = plans()
    wild = msgspec.structs.replace(
        plan, plan_id="p\x1b[2J", experiment="x\x1b]0;title\x07", command=["\x1b[31m"]
    )
    path.write_bytes(msgspec.json.encode(wild) + b"\n")
    assert "\x1b" not in call().stdout
    assert "\x1b" not in call("abandon", "q").stderr
    assert "\x1b" not in call("delete", "p", "--yes").stderr


# ---------------------------------------------------------------- naming one


def test_a_plan_is_named_by_the_beginning_of_its_id() -> None:
    plan = measure(*RUN, "--repeats", "3", stop=3)
    other = measure(*RUN, "--repeats", "4", stop=3)
    beginning = next(start for start in accumulate(plan) if not other.startswith(start))
    assert call("abandon", beginning).exit_code == 0
    assert {row["plan"]: row["state"] for row in listed()} == {
        plan: "abandoned", other: "unfinished",
    }  # fmt: skip


@pytest.mark.parametrize("words", [("abandon",), ("delete", "--yes")])
def test_an_ambiguous_or_unknown_name_is_wrong_usage_and_changes_nothing(
    words: tuple[str, ...],
) -> None:
    every = [measure(*RUN, "--repeats", str(n), stop=2) for n in (2, 3)]
    before = [path.read_bytes() for path in files()]
    ambiguous = call(words[0], every[0][:4], *words[1:])
    assert ambiguous.exit_code == 2
    assert "matches 2 plans" in ambiguous.stderr
    assert all(plan in ambiguous.stderr for plan in every)
    unknown = call(words[0], every[0][:-1] + "x", *words[1:])
    assert unknown.exit_code == 2
    assert "Did you mean" in unknown.stderr
    for other in ("nosuch", "2020-01-02T03-04-05Z-000000"):
        far = call(words[0], other, *words[1:])
        assert far.exit_code == 2
        assert "Did you mean" not in far.stderr
    empty = call(words[0], "", *words[1:])
    assert empty.exit_code == 2
    assert [path.read_bytes() for path in files()] == before


def test_a_whole_id_is_never_ambiguous() -> None:
    measure(*RUN, "--repeats", "2", stop=2)
    (plan,) = plans()
    longer = msgspec.structs.replace(plan, plan_id=plan.plan_id + "0")
    add_record(Path("results/laptop/2099-01-01T00-00-00Z.jsonl"), longer)
    assert call("abandon", plan.plan_id).exit_code == 0
    assert {row["plan"]: row["state"] for row in listed()} == {
        plan.plan_id: "abandoned", longer.plan_id: "unfinished",
    }  # fmt: skip


@pytest.mark.parametrize("words", [("abandon",), ("delete", "--yes")])
def test_a_plan_in_two_files_is_an_error_that_names_both(words: tuple[str, ...]) -> None:
    plan = measure(*RUN, "--repeats", "3", stop=3)
    (path,) = files()
    copy = path.with_name("copy.jsonl")
    shutil.copy(path, copy)
    for name in (plan, plan[:-2]):
        done = call(words[0], name, *words[1:])
        assert done.exit_code == 2
        assert f"{plan} is in 2 files: {path} and {copy}." in done.stderr
        assert "delete the others by hand" in done.stderr
    assert [row["state"] for row in listed()] == ["unfinished", "unfinished"]


# ---------------------------------------------------------------- abandon


def test_an_abandoned_plan_keeps_its_blocks_and_is_abandoned_once() -> None:
    plan = measure(*RUN, "--repeats", "3", stop=3)
    before = blocks()
    done = call("abandon", plan)
    assert (done.exit_code, done.stdout) == (0, "")
    assert f"{plan} is abandoned. Its command, given again, begins a new plan." in done.stderr
    assert call("abandon", plan).exit_code == 0
    assert blocks() == before
    assert sum(isinstance(each, EndedRecord) for each in records()) == 1
    (row,) = listed()
    assert (row["state"], row["done"], row["left"]) == ("abandoned", 2, 4)


def test_a_finished_plan_cannot_be_abandoned() -> None:
    plan = measure(*RUN, "--repeats", "1")
    done = call("abandon", plan)
    assert done.exit_code == 2
    assert "is finished: there is nothing to abandon" in done.stderr
    assert listed()[0]["state"] == "finished"


def test_abandon_names_the_older_plan_that_the_same_command_resumes() -> None:
    words = (*RUN, "--repeats", "3", "--fresh")
    old = measure(*words, stop=3)
    other = measure(*RUN, "--repeats", "2", stop=2)
    new = measure(*words, stop=2)
    done = call("abandon", new)
    assert f"{new} is abandoned. Its command, given again, resumes {old}." in done.stderr
    assert "Its command, given again, begins a new plan" in call("abandon", other).stderr
    assert "Its command, given again, begins a new plan" in call("abandon", old).stderr


def test_abandon_names_the_newer_plan_that_the_same_command_resumes() -> None:
    words = (*RUN, "--repeats", "3", "--fresh")
    old, new = measure(*words, stop=3), measure(*words, stop=2)
    assert f"Its command, given again, resumes {new}." in call("abandon", old).stderr


def test_after_abandon_a_plan_older_than_a_finished_one_is_not_resumed() -> None:
    words = (*RUN, "--repeats", "3", "--fresh")
    measure(*words, stop=3)
    measure(*words)
    new = measure(*words, stop=2)
    assert "Its command, given again, begins a new plan" in call("abandon", new).stderr


def test_after_abandon_a_plan_that_paused_too_long_is_not_resumed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = (*RUN, "--repeats", "3", "--fresh")
    old, new = measure(*words, stop=3), measure(*words, stop=2)
    assert f"Its command, given again, resumes {old}." in call("abandon", new).stderr
    monkeypatch.setattr(RunExperiment, "longest_pause_s", -1.0)
    assert "Its command, given again, begins a new plan" in call("abandon", new).stderr


def test_after_abandon_a_plan_of_other_packages_is_not_resumed() -> None:
    words = (*RUN, "--repeats", "3", "--fresh")
    measure(*words, stop=3)
    (path,) = files()
    (plan,) = plans()
    other = msgspec.structs.replace(plan, runtimes=dict.fromkeys(plan.runtimes, "0" * 12))
    path.write_bytes(path.read_bytes() + msgspec.json.encode(other) + b"\n")
    new = measure(*words, stop=2)
    assert "Its command, given again, begins a new plan" in call("abandon", new).stderr


# ---------------------------------------------------------------- delete


def test_a_plan_is_deleted_with_its_file_and_no_other_plan() -> None:
    kept = measure(*RUN, "--repeats", "1")
    gone = measure(*RUN, "--repeats", "3", stop=3)
    (path,) = [row["file"] for row in listed() if row["plan"] == gone]
    done = call("delete", gone, "--yes")
    assert done.exit_code == 0
    assert f"Deleted {path}." in done.stderr
    assert [row["plan"] for row in listed()] == [kept]
    assert not Path(path).exists()


def test_without_yes_and_without_a_terminal_nothing_is_deleted() -> None:
    plan = measure(*RUN, "--repeats", "1")
    done = call("delete", plan)
    assert done.exit_code == 2
    assert "needs --yes" in done.stderr
    assert len(listed()) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(("answer", "left"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_delete_asks_first_on_a_terminal(answer: str, left: int) -> None:
    plan = measure(*RUN, "--repeats", "1")
    ours, theirs = os.openpty()
    words = [sys.executable, "-m", "envbench", "plans", "delete", plan]
    with subprocess.Popen(
        words, stdin=theirs, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:  # fmt: skip
        os.write(ours, answer.encode())
        _, said = process.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    assert process.returncode == 0, said
    assert "with 2 blocks?" in said
    assert ("Nothing was deleted." in said) == bool(left)
    assert len(listed()) == left


def by_products() -> list[str]:
    return sorted(path.name for path in BY_PRODUCTS.glob("*"))


def test_by_products_are_deleted_with_the_last_plan_that_refers_to_them() -> None:
    first, second = measure(*VERIFY), measure(*VERIFY, "--backend", "fake-fast")
    both = by_products()
    assert len(both) == 3
    done = call("delete", first, "--yes")
    assert "and 1 by-product." in done.stderr
    assert len(by_products()) == 2
    assert set(by_products()) < set(both)
    call("delete", second, "--yes")
    assert by_products() == []
    assert listed() == []


def test_a_forged_record_cannot_delete_other_files() -> None:
    plan = measure(*VERIFY)
    (path,) = files()
    outside = Path("results/laptop/keep.txt")
    outside.write_text("mine")
    block = blocks()[-1]
    for name in ("../keep.txt", str(outside.absolute()), "..", ".", ""):
        trial = msgspec.structs.replace(block.trials[-1], by_products={"trace": name})
        add_record(path, msgspec.structs.replace(block, block_id=f"wild {name}", trials=[trial]))
    assert call("delete", plan, "--yes").exit_code == 0
    assert outside.read_text() == "mine"
    assert not path.exists()


def test_a_file_that_holds_two_plans_is_not_deleted() -> None:
    measure(*RUN, "--repeats", "1")
    last = measure(*VERIFY)
    first, second = files()
    second.write_bytes(first.read_bytes() + second.read_bytes())
    first.unlink()
    done = call("delete", last, "--yes")
    assert done.exit_code == 2
    assert "holds more than one plan" in done.stderr
    assert second.exists()


# ---------------------------------------------------------------- files that were joined by hand


def join(order: int, *paths: Path) -> Path:
    """Make one file of these; the plans lie in it in that order, or the other way round."""
    whole = b"".join(path.read_bytes() for path in paths[::order])
    for path in paths:
        path.unlink()
    made = paths[0].with_name("joined.jsonl")
    made.write_bytes(whole)
    return made


@pytest.mark.parametrize("order", [1, -1])
def test_every_plan_of_a_joined_file_is_listed_and_can_be_named(order: int) -> None:
    old, new = measure(*RUN, "--repeats", "3", stop=3), measure(*VERIFY)
    path = join(order, *files())
    rows = listed()
    assert {row["plan"] for row in rows} == {old, new}
    assert {row["file"] for row in rows} == {str(path)}
    assert {row["plan"]: row["done"] for row in rows}[old] == 2
    done = call("delete", old, "--yes")
    assert done.exit_code == 2
    assert "holds more than one plan" in done.stderr
    assert call("abandon", old).exit_code == 0
    assert {row["plan"]: row["state"] for row in listed()} == {old: "abandoned", new: "finished"}


@pytest.mark.parametrize("order", [1, -1])
def test_a_plan_of_a_joined_file_is_resumed(order: int) -> None:
    old = measure(*RUN, "--repeats", "3", stop=3)
    measure(*VERIFY)
    join(order, *files())
    executor = VirtualExecutor()
    assert "Resuming" in invoke(executor, *RUN, "--repeats", "3").stderr
    assert len(executor.blocks) == 4
    assert {row["plan"]: row["state"] for row in listed()}[old] == "finished"
    assert len(plans()) == 2


def test_plans_of_several_files_come_newest_first_whatever_their_files_are_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measure(*RUN, "--repeats", "3", stop=3)
    (path,) = files()
    (plan,) = plans()
    starts = ["2026-01-03", "2026-01-01", "2026-01-02", "2026-01-04"]
    made = [
        msgspec.structs.replace(plan, plan_id=start, started_utc=f"{start}T00-00-00Z")
        for start in starts
    ]
    path.unlink()
    for name, each in zip(["joined", "joined", "b", "a"], made, strict=True):
        add_record(path.with_name(f"{name}.jsonl"), each)
    found = [each.plan.plan_id for each in resume.recorded(Path("results"), "laptop", "run")]
    assert found == sorted(starts, reverse=True)
    assert [each.plan.plan_id for each in resume.recorded(Path("results"))] == found
    assert [*resume.recorded(Path("results"), "laptop", "verify")] == []


# ---------------------------------------------------------------- while another one measures


@pytest.fixture
def held() -> Iterator[None]:
    """The measuring lock, held as by another envbench."""
    with lock.acquire(wait=False):
        yield


@pytest.mark.parametrize("words", [("abandon",), ("delete", "--yes")])
def test_a_plan_is_left_alone_while_another_envbench_measures(
    words: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    plan = measure(*RUN, "--repeats", "3", stop=3)
    before = [path.read_bytes() for path in files()]
    request.getfixturevalue("held")
    done = call(words[0], plan, *words[1:])
    assert done.exit_code == 1
    assert "another envbench is measuring" in done.stderr
    assert "--wait" not in done.stderr
    assert [path.read_bytes() for path in files()] == before
    assert listed()[0]["state"] == "unfinished"  # a list needs no lock
