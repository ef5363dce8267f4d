"""The machine's measuring lock, with real processes that hold it and die."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from envbench.errors import LockHeld, StorageError
from envbench.machine import lock

HOLD = """
import sys, time
from pathlib import Path
from envbench.machine import lock
with lock.acquire(wait=False, path=Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def hold(path: Path, seconds: float = 60) -> subprocess.Popen[bytes]:
    """Start another process, and return when it holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), str(seconds), "--env", "atari\x1b[31m"],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    process.stdout.close()
    return process


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "envbench.lock"


@pytest.fixture
def held(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = hold(path)
    yield process
    process.kill()
    process.wait()


def test_a_second_measurement_is_refused_and_names_the_first(
    held: subprocess.Popen[bytes], path: Path
) -> None:
    with pytest.raises(LockHeld) as raised, lock.acquire(wait=False, path=path):
        pass
    assert f"process {held.pid} (" in str(raised.value)
    assert "--env atari\ufffd[31m, since 20" in str(raised.value)  # no terminal escape gets through
    assert "--wait" in raised.value.hint


def test_a_killed_holder_frees_the_lock_at_once(held: subprocess.Popen[bytes], path: Path) -> None:
    os.kill(held.pid, signal.SIGKILL)
    held.wait()
    with lock.acquire(wait=False, path=path):
        assert f"process {os.getpid()} (" in lock.holder(path)


def test_a_waiting_process_names_the_holder_and_starts_when_it_ends(path: Path) -> None:
    first = hold(path, seconds=0.5)
    messages: list[str] = []
    with lock.acquire(wait=True, on_wait=messages.append, path=path):
        assert first.wait(timeout=1) == 0
    assert len(messages) == 1
    assert f"Waiting for another envbench on this machine: process {first.pid} (" in messages[0]


def test_an_interrupted_wait_does_not_take_the_lock(
    held: subprocess.Popen[bytes], path: Path
) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt), lock.acquire(wait=True, path=path):
            pass
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    held.kill()
    held.wait()
    with lock.acquire(wait=False, path=path):
        pass


def test_no_one_holds_the_lock_after_the_block_even_if_it_raised(path: Path) -> None:
    with pytest.raises(ZeroDivisionError), lock.acquire(wait=False, path=path):
        raise ZeroDivisionError
    assert lock.holder(path) == ""
    with lock.acquire(wait=False, path=path):
        pass


def test_other_users_can_take_the_lock_too(path: Path) -> None:
    with lock.acquire(wait=False, path=path):
        pass
    for file in (path, path.with_name("envbench.lock.holder")):
        assert stat.S_IMODE(file.stat().st_mode) == 0o666


@pytest.mark.parametrize(
    ("note", "shown"),
    [
        (b"", ""),
        (b"[" * 10_000, "[" * 400),
        (b"\xff", "\ufffd"),
        (b"a\n\x1b[31m", "a \ufffd[31m"),
        (b"\0", "\ufffd"),
    ],
)
def test_a_note_that_another_program_wrote_is_shown_as_one_short_line(
    path: Path, note: bytes, shown: str
) -> None:
    path.with_name("envbench.lock.holder").write_bytes(note)
    assert lock.holder(path) == shown


def test_a_held_lock_without_a_note_is_still_held(
    held: subprocess.Popen[bytes], path: Path
) -> None:
    path.with_name("envbench.lock.holder").unlink()
    with pytest.raises(LockHeld, match=r"envbench\.lock"), lock.acquire(wait=False, path=path):
        pass


def test_a_planted_link_is_not_followed(path: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path.with_name("envbench.lock.holder").symlink_to(victim)
    with lock.acquire(wait=False, path=path):
        pass
    assert victim.read_text() == "precious"
    path.unlink()
    path.symlink_to(victim)
    with pytest.raises(StorageError), lock.acquire(wait=False, path=path):
        pass
    assert victim.read_text() == "precious"


def refused(path: Path) -> StorageError:
    """The error for a lock that cannot be used, with and without ``wait``."""
    for wait in (False, True):
        with pytest.raises(StorageError) as raised, lock.acquire(wait=wait, path=path):
            pass
        assert "another envbench" not in str(raised.value)
        assert "ENVBENCH_LOCK_FILE" in raised.value.hint
    return raised.value


def test_a_folder_at_the_path_of_the_lock_is_an_error_with_the_reason(tmp_path: Path) -> None:
    assert f"{tmp_path} cannot be used: it is not a plain file." in str(refused(tmp_path))


def test_a_device_at_the_path_of_the_lock_is_refused_and_no_note_is_written(path: Path) -> None:
    assert "/dev/null cannot be used: it is not a plain file." in str(refused(Path("/dev/null")))
    os.mkfifo(path)
    assert f"{path} cannot be used: it is not a plain file." in str(refused(path))
    path.unlink()
    path.symlink_to("/dev/null")
    assert f"{path} cannot be used: it is not a plain file." in str(refused(path))
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_missing_folder_is_an_error_and_is_not_created(tmp_path: Path) -> None:
    error = refused(tmp_path / "missing" / "envbench.lock")
    assert f"cannot be created: the folder {tmp_path / 'missing'} does not exist." in str(error)
    assert error.hint.startswith("Create that folder")
    assert not any(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_a_folder_that_accepts_no_new_file_is_an_error_not_a_held_lock() -> None:
    """Even root cannot create a file in /proc: the system says that there is no such file."""
    assert "/proc/x.lock cannot be created: No such file" in str(refused(Path("/proc/x.lock")))


def test_a_name_that_is_too_long_is_an_error_with_the_reason(tmp_path: Path) -> None:
    assert "cannot be created: File name too long" in str(refused(tmp_path / ("x" * 300)))


@pytest.mark.usefixtures("unprivileged_user")  # root may write anywhere
def test_a_folder_without_write_permission_is_an_error_not_a_held_lock() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o500)
        error = refused(Path(folder) / "envbench.lock")
        os.chmod(folder, 0o700)
    assert "cannot be created: Permission denied" in str(error)


def test_a_lock_file_that_is_deleted_while_held_is_created_again(
    held: subprocess.Popen[bytes], path: Path
) -> None:
    path.unlink()
    with lock.acquire(wait=False, path=path), pytest.raises(LockHeld):  # noqa: SIM117
        with lock.acquire(wait=False, path=path):
            pass


def test_a_machine_has_one_lock_file_unless_another_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ENVBENCH_LOCK_FILE", raising=False)
    ordinary = lock.default_path()
    monkeypatch.setenv("TMPDIR", "/elsewhere")
    assert lock.default_path() == ordinary
    monkeypatch.setenv("ENVBENCH_LOCK_FILE", "/elsewhere/mine.lock")
    assert lock.default_path() == Path("/elsewhere/mine.lock")


def test_a_free_lock_is_taken_without_waiting(path: Path) -> None:
    start = time.monotonic()
    with lock.acquire(wait=True, path=path):
        pass
    assert time.monotonic() - start < 0.5
