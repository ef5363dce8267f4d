"""What ``execute`` reports for each way in which a worker fails. Every fault is real."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from helpers import run_faulty_worker
from helpers.run_faulty_worker import Limits, run
from helpers.skip_or_fail import not_here

from envbench.errors import StorageError
from envbench.model import Failure
from envbench.process.killing.leftovers import MARK
from envbench.process.one_job import MemoryKills, cgroup_files
from envbench.process.reply import REPLY_BYTES, Event, PhaseBegan, Reply, Started, WindowEnded
from envbench.results.store import MAX_LINE_BYTES

pytestmark = pytest.mark.usefixtures("kernels_counts")

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
ROOT = Path(__file__).parents[2]
MEMORY_LIMIT = 64 << 20


def failure_of(reply: Reply) -> Failure:
    assert not reply.ok
    assert reply.failure is not None
    return reply.failure


def test_a_healthy_worker_gives_its_reply_and_its_events() -> None:
    events: list[Event] = []
    reply = run("sound", on_event=events.append)
    assert reply.ok
    assert reply.failure is None
    assert reply.measured.steps == [10, 10]
    assert isinstance(events[0], Started)
    phases = [event.phase for event in events if isinstance(event, PhaseBegan)]
    assert phases[-2:] == ["measure", "close"]
    windows = [event for event in events if isinstance(event, WindowEnded)]
    assert windows[0] == WindowEnded(phase="warmup", ns=1_000_000, calls=5, steps=10, resets=0)


def test_a_worker_has_its_own_session_and_the_given_environment_with_a_mark() -> None:
    facts = run("sound").facts
    assert facts["session"] is True
    given = {*os.environ, run_faulty_worker.MARK, MARK}
    assert set(facts["environment"]) - {"LC_CTYPE"} == given - {"LC_CTYPE"}


def test_the_folder_of_a_job_is_removed_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert run("sound").ok
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_temporary_folder_is_a_storage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(StorageError, match="temporary folder"):
        run("sound")


def test_a_segmentation_fault_is_reported_with_its_signal_and_last_output() -> None:
    failure = failure_of(run("segmentation_fault"))
    assert (failure.reason, failure.signal) == ("signal", "SIGSEGV")
    assert (failure.phase, failure.step) == ("measure", 10)
    assert "about to read address 0" in failure.stderr_tail


def test_an_abort_is_reported_with_its_signal_and_last_output() -> None:
    failure = failure_of(run("aborts"))
    assert (failure.reason, failure.signal) == ("signal", "SIGABRT")
    assert "std::runtime_error" in failure.stderr_tail


@pytest.mark.parametrize(("number", "name"), [(9, "SIGKILL"), (40, "signal 40")])
def test_a_kill_that_is_not_about_memory_is_reported_as_a_signal(number: int, name: str) -> None:
    failure = failure_of(run("dies_of", signal=number))
    assert (failure.reason, failure.signal) == ("signal", name)


@pytest.fixture
def small_cgroup() -> Iterator[Path]:
    """A control group with little memory, inside our own."""
    base = next((path.parent for path in cgroup_files() if path.exists()), None)
    if base is None:
        not_here("a memory control group")
    group = base / f"envbench-test-{uuid.uuid4().hex[:8]}"
    try:
        group.mkdir()
    except OSError as trouble:
        not_here(f"the right to make a control group ({trouble})")
    try:
        limits = [group / name for name in ("memory.max", "memory.limit_in_bytes")]
        limit = next((path for path in limits if path.exists()), None)
        if limit is None:
            not_here("the memory controller")
        limit.write_text(str(MEMORY_LIMIT))
        yield group
    finally:
        group.rmdir()


@linux
@pytest.mark.parametrize("child", ["", "replies", "hangs"])
def test_a_worker_or_child_killed_for_memory_is_reported_as_out_of_memory(
    small_cgroup: Path, child: str
) -> None:
    settings = json.dumps({"child": child})
    done = subprocess.run(
        [sys.executable, run_faulty_worker.__file__, "eats_memory", settings, str(small_cgroup)],
        stdout=subprocess.PIPE,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    failure = failure_of(msgspec.json.decode(done.stdout, type=Reply))
    assert failure.reason == "out-of-memory"
    assert "--numenv" in failure.hint


@linux
@pytest.mark.usefixtures("kernels_counts")
def test_a_kill_for_memory_shows_in_the_kernels_counts() -> None:
    kills = MemoryKills.now()
    assert kills.system is not None
    assert f"\noom_kill {kills.system}\n" in Path("/proc/vmstat").read_text()
    assert not kills.rose_anywhere()
    one_ago = msgspec.structs.replace(kills, system=kills.system - 1)
    assert (one_ago.rose_anywhere(), one_ago.rose_in_cgroup()) == (True, False)
    if kills.cgroup is not None:
        one_ago = msgspec.structs.replace(kills, cgroup=kills.cgroup - 1)
        assert (one_ago.rose_anywhere(), one_ago.rose_in_cgroup()) == (True, True)


@pytest.mark.parametrize("phases", [0, 1, 3])
def test_silence_longer_than_the_limit_of_its_phase_is_a_stall(phases: int) -> None:
    phase = ("start", "import", "build", "first_step")[phases]
    limits = msgspec.structs.replace(Limits(grace_s=0.3), **{f"{phase}_s": 0.4})
    failure = failure_of(run("hangs", limits=limits, phases=phases))
    assert failure.reason == "stalled"
    assert failure.phase == phase
    assert re.search(r"no progress for 0\.[4-9]\d* s in phase", failure.message)
    assert "entering the hang" in failure.stderr_tail


def test_the_long_limit_of_a_phase_does_not_apply_to_its_windows() -> None:
    limits = Limits(first_step_s=600, measure_s=0.4, grace_s=0.3)
    failure = failure_of(run("hangs", limits=limits, window=True))
    assert (failure.reason, failure.phase, failure.step) == ("stalled", "measure", 10)


def test_a_library_that_prints_without_end_is_not_slowed_down() -> None:
    limits = Limits(measure_s=10, grace_s=0.3)  # at one MiB per tenth of a second it would take 40
    assert run("prints_without_end", limits=limits, megabytes=400).ok


@pytest.mark.parametrize("how", ["printing", "idle windows"])
def test_output_and_windows_without_steps_do_not_count_as_progress(how: str) -> None:
    limits = Limits(first_step_s=0.7, grace_s=0.3)
    failure = failure_of(run("hangs", limits=limits, how=how))
    assert failure.reason == "stalled"
    if how == "printing":
        assert "still working on it" in failure.stderr_tail
        assert len(failure.stderr_tail) <= 16 * 1024


def test_a_worker_that_ignores_sigterm_is_killed_after_the_grace_period() -> None:
    limits = Limits(first_step_s=0.3, grace_s=0.3)
    failure = failure_of(run("hangs", limits=limits, deaf=True, how="printing"))
    assert failure.reason == "stalled"
    assert "could not be ended" not in failure.message


def test_a_stall_is_not_reported_as_out_of_memory_if_the_kernel_kills_another_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(MemoryKills, "rose_anywhere", lambda self: True)
    limits = Limits(first_step_s=0.3, grace_s=0.3)
    failure = failure_of(run("hangs", limits=limits, deaf=True, how="printing"))
    assert failure.reason == "stalled"


@pytest.mark.parametrize("hard", [False, True])
def test_a_worker_that_ends_without_a_reply_is_reported_with_its_exit_code(hard: bool) -> None:
    failure = failure_of(run("no_reply", hard=hard))
    assert (failure.reason, failure.exit_code, failure.phase) == ("exit", 3, "import")
    assert hard or "giving up" in failure.stderr_tail


def test_an_interpreter_that_cannot_start_is_a_setup_failure(tmp_path: Path) -> None:
    failure = failure_of(run("sound", python=str(tmp_path / "no-python")))
    assert failure.reason == "setup"
    assert "no-python: No such file" in failure.message
    text = tmp_path / "text"
    text.write_text("not a program")
    text.chmod(0o755)
    assert failure_of(run("sound", python=str(text))).reason == "setup"


def test_malformed_events_are_dropped() -> None:
    events: list[Event] = []
    assert run("garbage_events", on_event=events.append).ok
    assert [event.steps for event in events if isinstance(event, WindowEnded)] == [7]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("", "cannot be read"),
        ("not json", "cannot be read"),
        ('{"ok": 1}', "cannot be read"),
        ('{"ok": true, "surprise": 1}', "unknown field"),
        ('{"ok": true, "measured": {"ns": [true]}}', "cannot be read"),
        ('{"ok": false}', "contradicts itself"),
        ('{"ok": true, "failure": {"reason": "import", "message": ""}}', "contradicts itself"),
    ],
)
def test_a_malformed_reply_is_refused(raw: str, message: str) -> None:
    failure = failure_of(run("raw_reply", raw=raw, bytes=0))
    assert failure.reason == "exit"
    assert message in failure.message


def test_a_reply_that_is_too_large_is_refused() -> None:
    failure = failure_of(run("raw_reply", raw="", bytes=(6 << 20) + 1))
    assert failure.reason == "exit"
    assert "reply.json is larger than 6 MiB" in failure.message
    assert REPLY_BYTES + (1 << 20) < MAX_LINE_BYTES  # so every accepted reply can be recorded


@pytest.mark.parametrize(
    ("facts", "steps", "where"),
    [("1" + "0" * 5000, "1", "$.facts[...][0]"), ("1", "1" + "0" * 5000, "$.measured.steps[0]")],
    ids=["facts", "steps"],
)
def test_a_number_that_is_too_long_is_refused(facts: str, steps: str, where: str) -> None:
    columns = f'"start_ns": [0], "ns": [1], "calls": [1], "steps": [{steps}], "resets": [0]'
    raw = f'{{"ok": true, "facts": {{"x": [{facts}]}}, "measured": {{{columns}}}}}'
    failure = failure_of(run("raw_reply", raw=raw, bytes=0))
    assert failure.reason == "exit"
    assert f"cannot be read: Integer value out of range - at `{where}`" in failure.message


NESTED = [33, 499, 500, 999, 5000, 100_000]


@pytest.mark.parametrize("closing", ["", '"x": '])
@pytest.mark.parametrize("depth", NESTED)
def test_facts_nested_too_deeply_are_refused(depth: int, closing: str) -> None:
    opened, closed = ("{" + closing, "}") if closing else ("[", "]")
    facts = f'{{"x": {opened * (depth - 1)}{"1" if closing else ""}{closed * (depth - 1)}}}'
    columns = '"start_ns": [0], "ns": [1], "calls": [1], "steps": [1], "resets": [0]'
    raw = f'{{"ok": true, "facts": {facts}, "measured": {{{columns}}}}}'
    failure = failure_of(run("raw_reply", raw=raw, bytes=0))
    assert failure.reason == "invalid-figure"
    assert "nested too deeply" in failure.message


def test_facts_nested_as_deeply_as_allowed_are_kept() -> None:
    facts = f'{{"x": {"[" * 31}{"]" * 31}}}'
    columns = '"start_ns": [0], "ns": [1], "calls": [1], "steps": [1], "resets": [0]'
    raw = f'{{"ok": true, "facts": {facts}, "measured": {{{columns}}}}}'
    reply = run("raw_reply", raw=raw, bytes=0)
    assert reply.ok, reply.failure
    assert reply.facts == json.loads(facts)


@pytest.mark.parametrize("name", ["work", "before"])
def test_facts_that_must_be_a_table_and_are_a_list_are_refused(name: str) -> None:
    columns = '"start_ns": [0], "ns": [1], "calls": [1], "steps": [1], "resets": [0]'
    raw = f'{{"ok": true, "facts": {{"{name}": [1]}}, "measured": {{{columns}}}}}'
    assert failure_of(run("raw_reply", raw=raw, bytes=0)).reason == "invalid-figure"


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("folder", "reply.json is not a plain file"),
        ("pipe", "reply.json is not a plain file"),
        ("socket", "reply.json is not a plain file"),
        ("device", "reply.json is a link"),
        ("terminal", "reply.json is a link"),
        ("itself", "reply.json is a link"),
        ("no job folder", "its job folder was deleted while it ran"),
        ("file in place of the job folder", "its job folder was deleted while it ran"),
        ("link in place of the job folder", "its job folder was deleted while it ran"),
    ],
)
@pytest.mark.parametrize("fails", [0, 1])
@pytest.mark.timeout(30)
def test_anything_else_in_the_place_of_the_reply_is_a_failure_and_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, message: str, fails: int
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    failure = failure_of(run("spoils_reply", how=how, fails=fails))
    assert (failure.reason, failure.phase) == ("exit", "measure")
    assert message in failure.message
    assert list(tmp_path.iterdir()) == []
    assert Path("/etc/passwd").exists()


@pytest.mark.parametrize(
    "columns",
    [
        {"ns": [0, 10]},
        {"ns": [-5, 10]},
        {"ns": [float("nan"), 10]},
        {"ns": [float("inf"), 10]},
        {"steps": [0, 10]},
        {"steps": [-1, 10]},
        {"steps": [10, float("-inf")]},
        {"steps": [0, 0], "resets": [10, 10]},
        {"calls": [0, 5]},
        {"resets": [0, -1]},
        {"steps": [10]},
        {"start_ns": [], "ns": [], "calls": [], "steps": [], "resets": []},
    ],
    ids=str,
)
def test_an_impossible_figure_is_invalid(columns: dict[str, list[float]]) -> None:
    failure = failure_of(run("claims", columns=json.dumps(columns)))
    assert failure.reason == "invalid-figure"


def test_more_steps_than_the_calls_allow_are_refused() -> None:
    failure = failure_of(run("claims", columns=json.dumps({"steps": [10, 11]})))
    assert failure.reason == "invalid-figure"
    assert "window 1 claims 11 steps and 0 resets, but 5 calls of 2 environments" in failure.message
    assert (failure.phase, failure.step) == ("", None)  # found in the reply, after the run
    assert failure.hint.endswith("Otherwise report this to its author.")


def test_more_resets_than_the_calls_return_are_refused() -> None:
    failure = failure_of(run("claims", columns=json.dumps({"steps": [10, 5], "resets": [0, 11]})))
    assert failure.reason == "invalid-figure"
    assert "window 1 claims 5 steps and 11 resets" in failure.message


def test_a_window_with_only_resets_is_valid_beside_windows_with_steps() -> None:
    reply = run("claims", columns=json.dumps({"steps": [10, 0], "resets": [0, 10]}))
    assert reply.ok, reply.failure
    assert (reply.measured.steps, reply.measured.resets) == ([10, 0], [0, 10])


def test_an_exception_of_an_environment_is_reported_with_its_step_and_output() -> None:
    failure = failure_of(run("environment_raises"))
    assert (failure.reason, failure.step, failure.phase) == ("exception", 12, "measure")
    assert failure.stderr_tail == "ValueError: the door is closed\n"
    assert failure.hint == ""


def test_too_many_open_files_are_reported_with_the_command_that_raises_the_limit() -> None:
    failure = failure_of(
        run("environment_raises", message=f"OSError: {OSError(24, os.strerror(24))}")
    )
    assert failure.hint == "Raise the limit, for example: ulimit -n 4096"


@pytest.mark.parametrize(("then", "how"), [("crashes", "SIGABRT"), ("hangs", "stalled for")])
def test_a_complete_reply_counts_even_if_the_process_ends_badly(then: str, how: str) -> None:
    reply = run("ends_badly_after_reply", limits=Limits(close_s=1, grace_s=0.3), then=then)
    assert reply.ok
    assert how in reply.facts["ended_after_reply"]
