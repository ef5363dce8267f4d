"""No process outlives a run, however it ends, and the controller sleeps during windows."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import psutil
import pytest
from helpers import run_faulty_worker
from helpers.run_faulty_worker import Limits, marked, run
from helpers.waking import share_of_waking
from hypothesis import given
from hypothesis import strategies as st

from envbench.errors import Interrupted
from envbench.process import supervisor
from envbench.process.killing import guarded_worker, leftovers
from envbench.process.killing.guardian import read_process
from envbench.process.killing.leftovers import Owner, job_folder, sweep, this_process
from envbench.process.reply import Event, Reply, Started, WindowEnded

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    """A folder in which the children of the worker write their process ids."""
    folder = tmp_path / "pids"
    folder.mkdir()
    return folder


@pytest.fixture
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One test at a time, in all processes of xdist: a sweep finds what another test has left."""
    base = tmp_path_factory.getbasetemp()
    with (base.parent / "sweeps.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


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
    """A separate controller process, in the middle of a run with five children."""

    def __init__(self, tmp_path: Path, pids: Path) -> None:
        self.mark = uuid.uuid4().hex
        self.temporary = tmp_path / "temporary"
        self.temporary.mkdir()
        settings = json.dumps({"pids": str(pids), "then": "hangs"})
        self.process = subprocess.Popen(
            [sys.executable, run_faulty_worker.__file__, "leaves_children", settings],
            env={
                **os.environ,
                run_faulty_worker.MARK: self.mark,
                "TMPDIR": str(self.temporary),
                "PYTHONPATH": str(Path(__file__).parents[3]),
            },
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        until(lambda: len(list(pids.iterdir())) == 5)

    def reply(self) -> Reply:
        output, _ = self.process.communicate(timeout=10)
        return msgspec.json.decode(output, type=Reply)

    def kill_with_guardian(self) -> Path:
        """Kill both at once. Returns the folder that they could not remove."""
        (folder,) = self.temporary.iterdir()
        guardian = self.find("guardian.py ")
        os.kill(guardian, signal.SIGSTOP)  # it must not see the controller die
        self.process.kill()
        self.process.wait()
        os.kill(guardian, signal.SIGKILL)
        until(lambda: len(marked(self.mark)) == 5)  # the worker dies, and its children live on
        assert folder.is_dir()
        return folder

    def find(self, text: str) -> int:
        return next(pid for pid, command in marked(self.mark) if text in command)


@pytest.fixture
def controller(alone: None, tmp_path: Path, pids: Path) -> Iterator[Controller]:
    made = Controller(tmp_path, pids)
    yield made
    made.process.kill()
    made.process.communicate()
    try:
        until(lambda: not marked(made.mark))
    finally:
        for pid, _ in marked(made.mark):  # a test that failed
            os.kill(pid, signal.SIGKILL)


def test_a_controller_killed_by_sigkill_takes_every_process_and_folder_with_it(
    controller: Controller,
) -> None:
    # itself, its guardian, the worker and the five children
    until(lambda: len(marked(controller.mark)) == 8)
    controller.process.kill()
    controller.process.wait()
    until(lambda: not marked(controller.mark), seconds=5)
    until(lambda: not list(controller.temporary.iterdir()), seconds=5)


@pytest.fixture
def impatient(alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a sweep give guardians no time to end their workers."""
    monkeypatch.setattr(leftovers, "GUARDIAN_S", 0.0)


@pytest.mark.usefixtures("impatient")
def test_processes_left_by_a_killed_controller_and_guardian_end_at_the_next_start(
    controller: Controller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller.kill_with_guardian()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with job_folder():  # as a run does at its start
        assert marked(controller.mark) == []


@pytest.mark.usefixtures("impatient")
def test_a_stopped_guardian_and_worker_end_at_the_next_start_if_the_controller_was_killed(
    controller: Controller,
) -> None:
    os.kill(controller.find("guardian.py "), signal.SIGSTOP)
    os.kill(controller.find("leaves_children.py"), signal.SIGSTOP)
    controller.process.kill()
    until(lambda: not _runs(controller.process.pid))  # a zombie, for this process has not waited
    assert len(marked(controller.mark)) == 7
    sweep(controller.temporary)
    assert marked(controller.mark) == []
    assert list(controller.temporary.iterdir()) == []


def test_a_guardian_whose_controller_has_just_died_ends_its_worker_itself(
    controller: Controller, tmp_path: Path
) -> None:
    controller.process.kill()
    controller.process.wait()
    sweep(tmp_path)
    assert marked(controller.mark) == []
    until(lambda: not list(controller.temporary.iterdir()), seconds=5)


@pytest.mark.usefixtures("impatient")
def test_a_sweep_leaves_the_processes_and_the_folder_of_a_living_run_alone(
    controller: Controller,
) -> None:
    until(lambda: len(marked(controller.mark)) == 8)
    (folder,) = controller.temporary.iterdir()
    sweep(controller.temporary)
    assert len(marked(controller.mark)) == 8
    assert folder.is_dir()


@pytest.fixture
def dead(alone: None) -> Owner:
    """A process of this user and namespace that has ended."""
    process = subprocess.Popen(["sleep", "600"])
    owner = this_process()._replace(pid=process.pid, start=read_process(process.pid).start)
    process.kill()
    process.wait()
    return owner


@pytest.fixture
def start_marked() -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """Starts a process with this mark in its environment."""
    started: list[subprocess.Popen[bytes]] = []

    def start(mark: str) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sleep", "600"], env={**os.environ, leftovers.MARK: mark}))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def mark_of(owner: Owner) -> str:
    return f"{owner.number(tree=7):016x}"


@pytest.mark.usefixtures("impatient")
def test_a_sweep_ends_only_processes_whose_owner_is_certainly_dead(
    dead: Owner, tmp_path: Path, start_marked: Callable[[str], subprocess.Popen[bytes]]
) -> None:
    us = this_process()
    others = [
        start_marked(mark)
        for mark in [
            mark_of(us),
            mark_of(dead._replace(user=dead.user + 1)),
            mark_of(dead._replace(namespace=dead.namespace + 1)),
            mark_of(dead._replace(namespace=0)),  # unknown
            mark_of(dead._replace(start=0)),
            f"{mark_of(dead)}0",
            f" {mark_of(dead)}",
            f"{mark_of(dead)}\n",
            mark_of(dead).upper(),
            f"{dead.number(tree=7) ^ 1:016x}",
            f"{dead.number(tree=7) % 2**40:016x}",
            16 * "0",
            16 * "f",
            "",
        ]
    ]
    left = [
        start_marked(mark_of(dead)),
        start_marked(mark_of(us._replace(start=us.start - 1))),  # its number was reused
    ]
    sweep(tmp_path)
    assert [process.wait(timeout=5) for process in left] == [-signal.SIGKILL, -signal.SIGKILL]
    assert [process.poll() for process in others] == [None] * len(others)


NUMBERED = """
import resource, subprocess, sys, time
_, most = resource.getrlimit(10)
resource.setrlimit(10, (int(sys.argv[1]), most))
below = f"import resource, time; resource.setrlimit(10, ({sys.argv[2]}, {most}))"
child = subprocess.Popen(
    [sys.executable, "-c", below + "; print(flush=True); time.sleep(600)"], stdout=subprocess.PIPE
)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def start_numbered() -> Iterator[Callable[..., list[int]]]:
    """Starts a process with this number and an empty environment. Its child has the number
    ``below``."""
    started: list[tuple[subprocess.Popen[str], int]] = []

    def start(number: int, below: int = 0) -> list[int]:
        command = [sys.executable, "-c", NUMBERED, str(number), str(below)]
        process = subprocess.Popen(command, env={}, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        started.append((process, int(process.stdout.readline())))
        return [process.pid, started[-1][1]]

    yield start
    for process, child in started:
        if _runs(child):
            os.kill(child, signal.SIGKILL)
        process.kill()
        process.communicate()


@pytest.mark.usefixtures("impatient")
def test_a_sweep_finds_a_process_without_variables_by_its_lock_limit_and_ends_all_below_it(
    dead: Owner, tmp_path: Path, start_numbered: Callable[..., list[int]]
) -> None:
    us = this_process()
    others = [
        start_numbered(number)
        for number in [
            us.number(1),
            dead._replace(user=dead.user + 1).number(1),
            dead._replace(namespace=dead.namespace + 1).number(1),
            dead._replace(start=0).number(1),
            dead.number(1) ^ 1,
            dead.number(1) % 2**40,
            0,
            65536,
        ]
    ]
    left = [
        start_numbered(dead.number(1)),
        start_numbered(us._replace(start=us.start - 1).number(1)),
    ]
    above, alive = start_numbered(dead.number(1), below=us.number(1))
    sweep(tmp_path)
    assert (_runs(above), _runs(alive)) == (False, True)
    assert [_runs(pid) for pids in left for pid in pids] == [False] * 4
    assert [_runs(pid) for pids in others for pid in pids] == [True] * 16


def test_descendants_of_a_marked_process_end_even_if_it_has_ended_already(
    dead: Owner,
    tmp_path: Path,
    start_numbered: Callable[..., list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leftovers, "GUARDIAN_S", 1.0)
    first, below = start_numbered(dead.number(1))
    threading.Timer(0.5, os.kill, (first, signal.SIGKILL)).start()
    sweep(tmp_path)
    assert (_runs(first), _runs(below)) == (False, False)


SWEEP = """
import sys
from pathlib import Path
from envbench.process.killing import leftovers
leftovers.GUARDIAN_S = 0.0
leftovers.sweep(Path(sys.argv[1]))
print("swept")
"""


BELOW_MARKED = """
import resource, subprocess, sys
without = resource.getrlimit(10)
resource.setrlimit(10, (int(sys.argv[1]), without[1]))
lift = lambda: resource.setrlimit(10, without)
sys.exit(subprocess.call(sys.argv[2:], preexec_fn=lift))
"""


def test_a_command_with_or_below_the_mark_of_a_dead_owner_does_not_end_itself(
    dead: Owner, tmp_path: Path, start_marked: Callable[[str], subprocess.Popen[bytes]]
) -> None:
    beside = start_marked(mark_of(dead))
    command = [sys.executable, "-c", SWEEP, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    marked = {**environment, leftovers.MARK: mark_of(dead)}
    assert subprocess.check_output(command, env=marked, text=True) == "swept\n"
    assert beside.poll() is None
    above = [sys.executable, "-c", BELOW_MARKED, str(dead.number(tree=7)), *command]
    assert subprocess.check_output(above, env=environment, text=True) == "swept\n"
    assert beside.poll() is None


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(1, 2**31 - 1))
def test_an_owner_is_written_at_a_fixed_length_and_read_back_unchanged(
    user: int, namespace: int, pid: int
) -> None:
    owner = Owner(user=user, namespace=namespace, pid=pid, start=user * namespace)
    assert Owner.parse(str(owner)) == owner
    assert len(str(owner)) == len(str(this_process()))


@pytest.mark.usefixtures("impatient")
def test_only_the_folders_of_dead_processes_are_removed_at_the_next_start(
    controller: Controller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = controller.kill_with_guardian()
    unknown = [
        controller.temporary / f"envbench-{owner}-unknown"
        for owner in [
            _owner_of(left)._replace(start=0),  # no process has its id
            this_process()._replace(start=0, namespace=0),
            this_process()._replace(start=0),
        ]
    ]
    for folder in unknown:
        folder.mkdir()
    for folder in unknown[1:]:
        os.utime(folder, (time.time() - 25 * 3600,) * 2)
    monkeypatch.setattr(tempfile, "tempdir", str(controller.temporary))
    kept = _folders_that_are_not_of_dead_processes(controller.temporary, _owner_of(left))
    with job_folder() as own:  # as a run does at its start
        assert not left.exists()
        assert sorted(controller.temporary.iterdir()) == sorted([*kept, own])
        sweep(controller.temporary)
        assert own.exists()
    assert (tmp_path / "linked" / "file").exists()


def _owner_of(folder: Path) -> Owner:
    owner = Owner.parse(folder.name.removeprefix("envbench-").rpartition("-")[0])
    assert owner is not None
    return owner


def _folders_that_are_not_of_dead_processes(place: Path, dead: Owner) -> list[Path]:
    """Folders of a living process, without an owner, and of other namespaces and users; a link."""
    linked = place.parent / "linked"
    linked.mkdir()
    (linked / "file").touch()
    others = [
        f"envbench-{this_process()}-alive",
        f"envbench-{this_process()._replace(start=0)}-unknown_start",
        f"envbench-{dead._replace(start=0, namespace=0)}-unknown_owner",
        f"envbench-{dead._replace(namespace=dead.namespace + 1)}-other_namespace",
        f"envbench-{dead._replace(user=dead.user + 1)}-other_user",
        "envbench-notes",
        f"envbench-{dead}",
    ]
    for name in others:
        (place / name).mkdir()
    (place / f"envbench-{dead}-link").symlink_to(linked)
    return [place / name for name in others]


def test_a_folder_is_removed_if_another_process_now_has_its_owners_number(tmp_path: Path) -> None:
    with job_folder() as folder:
        owner = _owner_of(folder)
    assert owner == this_process()
    old = tmp_path / f"envbench-{owner._replace(start=owner.start - 1)}-x"
    (old / "locked").mkdir(parents=True, mode=0o700)
    (old / "locked").chmod(0)
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("impatient", "unprivileged_user")
def test_a_job_folder_is_removed_even_if_its_worker_locked_the_folders_inside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tempfile.TemporaryDirectory() as place:  # of the unprivileged user
        monkeypatch.setattr(tempfile, "tempdir", place)
        with job_folder() as folder:
            inner = folder / "outer" / "inner"
            inner.mkdir(parents=True)
            (inner / "file").touch()
            for each in (inner, inner.parent):
                each.chmod(0)
            assert not os.access(inner, os.R_OK, effective_ids=True)  # root could still read it
        assert list(Path(place).iterdir()) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_controller_ends_everything_before_it_exits(
    controller: Controller, number: int, code: int
) -> None:
    os.killpg(controller.process.pid, number)  # as the terminal's Ctrl-C does
    assert controller.process.wait(timeout=10) == code
    assert marked(controller.mark) == []
    assert list(controller.temporary.iterdir()) == []


def test_killing_the_guardian_is_a_failure_and_ends_the_worker(
    controller: Controller,
) -> None:
    worker = controller.find("leaves_children.py")
    os.kill(controller.find("guardian.py "), signal.SIGKILL)
    failure = controller.reply().failure
    assert failure is not None
    assert "guardian died" in failure.message
    assert "Another program ended it" in failure.hint
    assert not Path(f"/proc/{worker}").exists()
    assert marked(controller.mark) == []  # also none of its children, in any session


DAEMONS = ["plain", "scrubbed", "unmarked", "stopped", "forks"]


class Daemon:
    """A run in a thread whose worker leaves a daemon; ``kill_guardian`` kills its guardian."""

    def __init__(self, pool: ThreadPoolExecutor, folder: Path, kind: str) -> None:
        self.pids = folder / "pids"
        self.until = folder / "until"
        self.worker = 0
        self.measures = threading.Event()
        settings = {"pids": str(self.pids), "until": str(self.until), "kind": kind}
        self.future = pool.submit(run, "leaves_daemon", on_event=self._note, **settings)

    def _note(self, event: Event) -> None:
        if isinstance(event, Started):
            self.worker = event.pid
        elif isinstance(event, WindowEnded):
            self.measures.set()

    def kill_guardian(self, number: int = signal.SIGKILL) -> None:
        assert self.measures.wait(20)
        os.kill(psutil.Process(self.worker).ppid(), number)

    def reply(self) -> Reply:
        return self.future.result(timeout=20)

    def living(self) -> list[int]:
        return [pid for path in self.pids.glob("*") if _runs(pid := int(path.name))]


@pytest.fixture
def leave_daemon(tmp_path: Path) -> Iterator[Callable[[str], Daemon]]:
    """Starts a run, in a thread, whose worker leaves a daemon of this kind."""
    made: list[Daemon] = []

    def start(kind: str) -> Daemon:
        made.append(Daemon(pool, tmp_path / str(len(made)), kind))
        return made[-1]

    with ThreadPoolExecutor() as pool:
        yield start
        for daemon in made:
            daemon.until.touch()
    for pid in [pid for daemon in made for pid in daemon.living()]:  # a test that failed
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def bystanders() -> Iterator[None]:
    """Other children of this process. They must live on, and no zombie may be left."""
    started = [
        subprocess.Popen(["sleep", "600"], start_new_session=own_session)
        for own_session in (False, True)
    ]
    before = _children()
    try:
        yield
        assert [process.poll() for process in started] == [None, None]
        assert _children() == before
    finally:
        for process in started:
            process.kill()
            process.wait()


def _children() -> set[int]:
    return {child.pid for child in psutil.Process().children()}


@pytest.mark.parametrize("kind", DAEMONS)
def test_a_daemon_ends_even_if_the_guardian_was_killed(
    leave_daemon: Callable[[str], Daemon], bystanders: None, kind: str
) -> None:
    daemon = leave_daemon(kind)
    daemon.kill_guardian()
    failure = daemon.reply().failure
    assert failure is not None
    assert "guardian died" in failure.message
    assert not daemon.living()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", DAEMONS)
def test_a_daemon_ends_at_the_next_start_if_guardian_and_controller_were_killed(
    tmp_path: Path, kind: str
) -> None:
    pids = tmp_path / "pids"
    settings = {"pids": str(pids), "until": str(tmp_path / "until"), "kind": kind}
    with subprocess.Popen(
        [sys.executable, run_faulty_worker.__file__, "leaves_daemon", json.dumps(settings)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "TMPDIR": str(tmp_path)},
    ) as process:
        until(lambda: len(list(pids.glob("*"))) == (2 if kind == "forks" else 1))
        guardian = _guardian_of(process.pid)
        os.kill(guardian, signal.SIGSTOP)
        process.kill()
    os.kill(guardian, signal.SIGKILL)
    daemons = [int(path.name) for path in pids.iterdir()]
    assert all(map(_runs, daemons))
    sweep(tmp_path)
    assert not any(map(_runs, daemons))


@pytest.mark.parametrize("kind", DAEMONS)
def test_another_worker_and_its_daemon_are_unharmed_when_a_guardian_was_killed(
    leave_daemon: Callable[[str], Daemon], bystanders: None, kind: str
) -> None:
    daemon = leave_daemon(kind)
    other = leave_daemon(kind)
    assert other.measures.wait(20)
    daemon.kill_guardian()
    assert not daemon.reply().ok
    assert not daemon.living()
    assert other.living()
    other.until.touch()
    reply = other.reply()
    assert reply.failure is None
    assert reply.facts["daemon_lives"]
    assert not other.living()


def test_the_daemons_of_two_workers_end_when_both_guardians_were_killed(
    leave_daemon: Callable[[str], Daemon], bystanders: None
) -> None:
    daemons = [leave_daemon(kind) for kind in ("plain", "unmarked")]
    for daemon in daemons:
        daemon.kill_guardian()
    assert not any(daemon.reply().ok or daemon.living() for daemon in daemons)


def test_a_guardian_that_does_not_answer_is_killed_and_its_worker_and_daemon_end(
    leave_daemon: Callable[[str], Daemon], bystanders: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarded_worker, "STOP_PATIENCE_S", 0.5)
    monkeypatch.setattr(supervisor, "STOP_PATIENCE_S", 0.5)
    daemon = leave_daemon("plain")
    daemon.kill_guardian(signal.SIGSTOP)
    daemon.until.touch()
    reply = daemon.reply()
    assert reply.ok  # the reply itself was complete
    assert not daemon.living()


def test_orphans_are_adopted_only_while_a_worker_runs(
    leave_daemon: Callable[[str], Daemon],
) -> None:
    assert not adopts_orphans()
    daemons = [leave_daemon("plain") for _ in range(2)]
    for daemon in daemons:
        assert daemon.measures.wait(20)
        assert adopts_orphans()
        daemon.until.touch()
        assert daemon.reply().ok
    assert not adopts_orphans()


def adopts_orphans() -> bool:
    """Is this process a subreaper? See prctl(2)."""
    value = ctypes.c_int(0)
    assert ctypes.CDLL(None).prctl(37, ctypes.byref(value), 0, 0, 0) == 0
    return bool(value.value)


def test_a_worker_dies_with_its_guardian_even_if_the_controller_cannot_act(
    controller: Controller,
) -> None:
    worker, guardian = controller.find("leaves_children.py"), controller.find("guardian.py ")
    controller.process.send_signal(signal.SIGSTOP)  # it can no longer end any process
    os.kill(guardian, signal.SIGKILL)
    until(lambda: not _runs(worker), seconds=5)
    controller.process.kill()
    for pid, _ in marked(controller.mark):
        os.kill(pid, signal.SIGKILL)


def _runs(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def test_a_worker_is_not_in_the_session_of_the_terminal(controller: Controller) -> None:
    """The controller handles Ctrl-C; the worker must not die of it first."""
    for text in ("leaves_children.py", "guardian.py "):
        assert os.getsid(controller.find(text)) != os.getsid(controller.process.pid)


def test_a_guardian_that_gets_sigterm_ends_everything(controller: Controller) -> None:
    os.kill(controller.find("guardian.py "), signal.SIGTERM)
    failure = controller.reply().failure
    assert failure is not None
    assert failure.signal == "SIGTERM"
    assert marked(controller.mark) == []


@pytest.mark.parametrize("delay_s", [0.0, 0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.2])
def test_an_interrupt_at_any_moment_of_the_start_leaves_no_process(delay_s: float) -> None:
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


def test_an_exception_of_the_event_callback_is_raised_after_everything_ended() -> None:
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
    for _ in range(3):  # one fast try is enough: the same work takes longer on a busy machine
        controller, guardian = _shares(chatty)
        print(f"controller {controller:.3%} of a core, guardian {guardian:.3%}")
        if controller < 0.005 and guardian < 0.001:
            return
        waking = share_of_waking()  # takes milliseconds on some virtual machines
        print(f"to wake as often, and to do nothing else: {waking:.3%}")
        if controller < 2 * waking and guardian < 0.001:
            return
    pytest.fail("more than 0.5 % (or twice what waking costs) and 0.1 % of a core, three times")


def _shares(chatty: bool) -> tuple[float, float]:
    """The shares of a core that the controller and the guardian use during windows."""
    samples: list[tuple[float, float, float]] = []
    guardian: list[int] = []

    def sample(event: Event) -> None:
        if not isinstance(event, WindowEnded):
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


def test_a_slow_display_does_not_make_a_stall() -> None:
    held_up = iter([0.8])  # longer than a window may be silent

    def display(event: Event) -> None:
        if isinstance(event, WindowEnded):
            time.sleep(next(held_up, 0.0))

    limits = Limits(measure_s=0.6, grace_s=0.3)
    reply = run("steady_windows", limits=limits, on_event=display, seconds=1.5, chatty=False)
    assert reply.failure is None
