"""A worker under its guardian, as the controller holds it: start it, stop it, read its pipes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from envbench.process.orphans import MARK, Family

GUARDIAN = Path(__file__).with_name("guardian.py")
PIPE_BYTES = 1024 * 1024
STOP_PATIENCE_S = 10.0  # past the grace; the guardian gives up before


class Guarded:
    """A guardian with its worker, and the controller's ends of their pipes.

    The control pipe's other end is nowhere else: should this process die, or lose this object,
    the guardian reads an end of file and ends everything.
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
        self._family = Family()
        try:
            self._process = self._start(command, environment, (control, report, events), output)
        except OSError:
            self._close_pipes()
            self._family.close()
            raise
        finally:
            for fd in (control, report, events, output):
                os.close(fd)

    def _start(
        self,
        command: tuple[str, Path, Path],
        environment: Mapping[str, str],
        pipes: tuple[int, int, int],
        output: int,
    ) -> subprocess.Popen[bytes]:
        python, worker, folder = command
        guardian = [sys.executable, "-I", "-S", str(GUARDIAN)]
        with self._family.starting():
            process = subprocess.Popen(
                [*guardian, *map(str, (*pipes, self._grace_s, folder)), python, str(worker)],
                env={**environment, MARK: self._family.mark},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=pipes,
                start_new_session=True,  # Ctrl-C in the terminal is for the controller alone
            )
            self._family.guardian = process.pid
        return process

    def stop(self) -> None:
        """Ask the guardian to end everything; it answers on ``report``."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._control, b"!")

    def close(self) -> None:
        """Return when everything has ended, by force where it must be. Safe to call at any time."""
        try:
            self.stop()
            self._process.wait(self._grace_s + STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            self._close_pipes()
            self._end_orphans()

    def _end_orphans(self) -> None:
        """End what the guardian left, if it was killed or crashed."""
        try:
            if self._process.poll():
                with signals_held():
                    self._family.end(self.worker)
        finally:
            self._family.close()

    def _close_pipes(self) -> None:
        for fd in (self._control, self.report, self.events, self.output):
            os.close(fd)


def _enlarge(pipe: int) -> None:
    """Room for what a chatty library prints between two looks, so that it never has to wait."""
    if sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Ctrl-C in here is handled right after: no process is started and then forgotten.

    By handlers, not by a signal mask: another thread would take the signal, and Python would
    still run its handler in the main one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run, and raise, in the main thread only
        return
    seen: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda n, _: seen.append(n)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for late in seen:
            signal.raise_signal(late)
