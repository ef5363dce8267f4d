"""A worker and its guardian on the controller's side: start them, stop them, hold their pipes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from envbench.process.orphans import MARK, ProcessFamily

GUARDIAN = Path(__file__).with_name("guardian.py")
PIPE_BYTES = 1024 * 1024
STOP_PATIENCE_S = 10.0  # after the grace period; the guardian gives up earlier


class GuardedWorker:
    """A guardian with its worker, and the controller's ends of their pipes.

    No other process holds this end of the control pipe. If this process dies, the guardian reads
    an end of file and ends everything.
    """

    worker = 0  # its process id, once the guardian has reported it

    def __init__(
        self, command: tuple[str, Path, Path], environment: Mapping[str, str], grace_s: float
    ) -> None:
        self._grace_s = grace_s
        control, self._control = os.pipe()
        self.report, report = os.pipe()
        self.events, events = os.pipe()
        self.output, output = os.pipe()
        _enlarge(self.output)
        for fd in (self.report, self.events, self.output):
            os.set_blocking(fd, False)
        self._family = ProcessFamily()
        python, worker, folder = command
        arguments = (GUARDIAN, control, report, events, grace_s, folder, python, worker)
        try:
            with self._family.starting():
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", *map(str, arguments)],
                    env={**environment, MARK: self._family.mark},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=(control, report, events),
                    start_new_session=True,  # Ctrl-C in the terminal is for the controller alone
                )
                self._family.guardian = self._process.pid
        except OSError:
            self._close_pipes()
            self._family.close()
            raise
        finally:
            for fd in (control, report, events, output):
                os.close(fd)

    def stop(self) -> None:
        """Ask the guardian to end everything; it answers on ``report``."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._control, b"!")

    def close(self) -> None:
        """Return when everything has ended, by force if necessary. Safe to call at any time."""
        try:
            self.stop()
            self._process.wait(self._grace_s + STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            self._close_pipes()
            try:
                if self._process.poll():  # the guardian was killed, or crashed
                    with signals_held():
                        self._family.end(self.worker)
            finally:
                self._family.close()

    def _close_pipes(self) -> None:
        for fd in (self._control, self.report, self.events, self.output):
            os.close(fd)


def _enlarge(pipe: int) -> None:
    """Make room for much output between two reads, so that the worker never waits."""
    if sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM to the end of the block: no process is started and then forgotten.

    A signal mask does not do this: another thread takes the signal, and Python still runs the
    handler in the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run, and raise, in the main thread only
        return
    received: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda n, _: received.append(n)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for late in received:
            signal.raise_signal(late)
