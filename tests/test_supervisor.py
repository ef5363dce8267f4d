"""Nothing outlives a run, however it ends; and while windows are open the controller sleeps."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import faulty
import msgspec
import pytest
from faulty import Limits, marked, run

from envbench.errors import Interrupted
from envbench.process.execute import Reply

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    """Where the worker's children leave their process ids."""
    folder = tmp_path / "pids"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("then", ["replies", "crashes", "hangs"])
def test_children_in_other_groups_and_sessions_end_with_the_worker(pids: Path, then: str) -> None:
    reply = run(
        "leaves_children", limits=Limits(measure_s=0.4, grace_s=0.3), pids=str(pids), then=then
    )
    assert reply.ok == (then == "replies")
    children = [int(path.name) for path in pids.iterdir()]
    assert len(children) == 5
    assert not any(Path(f"/proc/{pid}").exists() for pid in children)


class Controller:
    """A controller process of its own, in the middle of a run with five children."""

    def __init__(self, tmp_path: Path, pids: Path) -> None:
        self.mark = uuid.uuid4().hex
        self.temporary = tmp_path / "temporary"
        self.temporary.mkdir()
        settings = json.dumps({"pids": str(pids), "then": "hangs"})
        self.process = subprocess.Popen(
            [sys.executable, faulty.__file__, "leaves_children", settings],
            env={
                **os.environ,
                faulty.MARK: self.mark,
                "TMPDIR": str(self.temporary),
                "PYTHONPATH": str(Path(__file__).parents[1]),
            },
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        until(lambda: len(list(pids.iterdir())) == 5)

    def reply(self) -> Reply:
        output, _ = self.process.communicate(timeout=10)
        return msgspec.json.decode(output, type=Reply)

    def find(self, text: str) -> int:
        return next(pid for pid, command in marked(self.mark) if text in command)


@pytest.fixture
def controller(tmp_path: Path, pids: Path) -> Iterator[Controller]:
    made = Controller(tmp_path, pids)
    yield made
    made.process.kill()
    made.process.communicate()
    until(lambda: not marked(made.mark))


def test_a_controller_killed_by_sigkill_takes_every_process_and_folder_with_it(
    controller: Controller,
) -> None:
    # itself, its guardian, the worker and the five children
    until(lambda: len(marked(controller.mark)) == 8)
    controller.process.kill()
    controller.process.wait()
    until(lambda: not marked(controller.mark), seconds=5)
    until(lambda: not list(controller.temporary.iterdir()), seconds=5)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_controller_ends_everything_before_it_goes(
    controller: Controller, number: int, code: int
) -> None:
    os.killpg(controller.process.pid, number)  # as the terminal's Ctrl-C does
    assert controller.process.wait(timeout=10) == code
    assert marked(controller.mark) == []
    assert list(controller.temporary.iterdir()) == []


def test_a_guardian_killed_by_sigkill_is_a_failure_and_the_worker_dies_too(
    controller: Controller,
) -> None:
    worker = controller.find("leaves_children.py")
    os.kill(controller.find("guardian.py "), signal.SIGKILL)
    failure = controller.reply().failure
    assert failure is not None
    assert "guardian died" in failure.message
    until(lambda: not Path(f"/proc/{worker}").exists(), seconds=5)
    for pid, _ in marked(controller.mark):  # its children that changed session: beyond reach
        os.kill(pid, signal.SIGKILL)


def test_a_worker_dies_with_its_guardian_even_where_the_controller_dies_at_once_too(
    controller: Controller,
) -> None:
    worker, guardian = controller.find("leaves_children.py"), controller.find("guardian.py ")
    controller.process.send_signal(signal.SIGSTOP)  # it can end nobody any more
    os.kill(guardian, signal.SIGKILL)
    until(lambda: not _runs(worker), seconds=5)
    controller.process.kill()
    for pid, _ in marked(controller.mark):
        os.kill(pid, signal.SIGKILL)


def _runs(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def test_a_worker_is_in_no_session_of_the_terminals(controller: Controller) -> None:
    """A Ctrl-C is the controller's to act on: the worker must not die of it first."""
    for text in ("leaves_children.py", "guardian.py "):
        assert os.getsid(controller.find(text)) != os.getsid(controller.process.pid)


def test_a_guardian_asked_by_sigterm_ends_everything(controller: Controller) -> None:
    os.kill(controller.find("guardian.py "), signal.SIGTERM)
    failure = controller.reply().failure
    assert failure is not None
    assert failure.signal == "SIGTERM"
    assert marked(controller.mark) == []


@pytest.mark.parametrize("delay_s", [0.0, 0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.2])
def test_an_interrupt_at_any_moment_of_the_start_leaves_nothing(delay_s: float) -> None:
    def interrupt(number: int, _: object) -> None:
        raise Interrupted(128 + number)

    before = signal.signal(signal.SIGINT, interrupt)
    timer = threading.Timer(delay_s, os.kill, (os.getpid(), signal.SIGINT))

    def start_and_run() -> None:
        timer.start()
        run("hangs")

    try:
        with pytest.raises(Interrupted):
            start_and_run()
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_the_event_callback_raises_passes_through_after_everything_ended() -> None:
    def closed(_: object) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        run("hangs", on_event=closed)


def test_no_file_descriptor_is_left_open() -> None:
    run("sound")
    before = sorted(os.listdir("/proc/self/fd"))
    run("sound")
    run("no_reply")
    assert sorted(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("chatty", [False, True])
def test_the_controller_and_the_guardian_sleep_while_windows_are_open(chatty: bool) -> None:
    for _ in range(3):  # on a busy machine the same work takes more CPU time: the least is theirs
        controller, guardian = _shares(chatty)
        print(f"controller {controller:.3%} of a core, guardian {guardian:.3%}")
        if controller < 0.005 and guardian < 0.001:
            return
    pytest.fail("more than 0.5 % and 0.1 % of a core, three times")


def _shares(chatty: bool) -> tuple[float, float]:
    """Of a core, while windows are open: the controller's and the guardian's."""
    samples: list[tuple[float, float, float]] = []
    guardian: list[int] = []

    def sample(event: dict[str, object]) -> None:
        if event["event"] != "window":
            return
        if not guardian:
            guardian.append(_guardian_of(os.getpid()))
        samples.append((time.monotonic(), time.process_time(), _cpu_s(guardian[0])))

    assert run("steady_windows", on_event=sample, seconds=4.0, chatty=chatty).ok
    (start, mine, its), *_, (end, mine_then, its_then) = samples[1:]
    return (mine_then - mine) / (end - start), (its_then - its) / (end - start)


def _guardian_of(controller: int) -> int:
    children = Path(f"/proc/{controller}/task/{controller}/children").read_text().split()
    return next(
        int(pid) for pid in children if b"guardian.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_progress_that_waits_in_the_pipe_while_the_display_is_held_up_is_no_stall() -> None:
    held_up = iter([0.8])  # longer than a window may be silent

    def display(event: dict[str, object]) -> None:
        if event.get("event") == "window":
            time.sleep(next(held_up, 0.0))

    limits = Limits(measure_s=0.6, grace_s=0.3)
    reply = run("steady_windows", limits=limits, on_event=display, seconds=1.5, chatty=False)
    assert reply.failure is None
