"""Supervise one worker: start it under its guardian, watch it, report how it ended.

``supervise`` returns after the worker and all processes that it started have ended. A worker's
failure is an ``Ending``. An exception of ``on_event`` or of a signal handler is raised again when
they have.

Progress is a later phase, or a window with steps or resets. Output does not count as progress: a
worker can hang while printing. ``Limits`` says how long a phase may pass without progress.

Supervision takes almost no time from a measurement. It is one blocking ``poll``, which returns for
a window event, and for output at most every ``OUTPUT_PAUSE_S`` seconds. A pipe of 1 MiB holds the
output until then. A full pipe is read at once, so the worker never waits.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from envbench.process.killing import guarded_worker
from envbench.process.killing.guarded_worker import STOP_PATIENCE_S, GuardedWorker
from envbench.process.reply import Event, OnEvent, PhaseBegan, Started, WindowEnded
from envbench.process.signals import signals_held

PHASES = ("start", "import", "build", "first_step", "warmup", "measure", "close")
TAIL_BYTES = 16 * 1024
LINE_BYTES = 64 * 1024
OUTPUT_PAUSE_S = 0.1


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed", tag_field="event"):
    """The guardian cannot start the worker's interpreter."""

    message: str


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="ended", tag_field="event"):
    """The worker and all that it started have ended; the guardian's last line. See ``Ending``."""

    status: int | None
    survivors: int


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that each phase may take without progress; then the worker is ended.

    A compile may be silent for minutes, a window may not. ``grace_s`` is the time between SIGTERM
    and SIGKILL.
    """

    start_s: float = 60.0
    import_s: float = 300.0
    build_s: float = 1800.0  # some engines compile here
    first_step_s: float = 1800.0
    warmup_s: float = 60.0
    measure_s: float = 60.0
    close_s: float = 60.0
    grace_s: float = 2.0

    def of(self, phase: str) -> float:
        """Return the limit of one of ``PHASES``."""
        return float(getattr(self, f"{phase}_s"))


class Ending(msgspec.Struct, kw_only=True):
    """How a worker ended. ``status`` is an exit code, or minus a signal's number."""

    status: int | None = None  # None if it is not known, or if it did not end
    phase: str = "start"
    steps: int = 0  # transitions in the windows that it reported
    tail: str = ""  # the end of its stdout and stderr
    stalled_s: float | None = None  # ended by us after this time without progress
    unstartable: str = ""  # why the interpreter could not be started
    unguarded: bool = True  # the guardian has not reported the end: it died first
    survivors: int = 0  # processes that even SIGKILL did not end


def supervise(
    command: tuple[str, Path, Path],
    *,
    environment: Mapping[str, str],
    limits: Limits,
    on_event: OnEvent,
) -> Ending:
    """Run ``command``, which is (interpreter, worker's main file, job's folder), to its end."""
    with contextlib.ExitStack() as stack:
        try:
            with signals_held():  # raises a Ctrl-C only after the callback is registered
                guarded = GuardedWorker(command, environment, limits.grace_s)
                stack.callback(guarded.close)
        except OSError as trouble:
            return Ending(unstartable=str(trouble))
        return _Watch(guarded, limits, on_event).run()


class _Watch:
    """Reads the three pipes until the guardian has reported the end, or has died or hangs."""

    def __init__(self, guarded: GuardedWorker, limits: Limits, on_event: OnEvent) -> None:
        self._guarded = guarded
        self._limits = limits
        self._on_event = on_event
        self._ending = Ending()
        self._events = _Lines(guarded.events)
        self._report = _Lines(guarded.report)
        self._tail = b""
        self._buffer = bytearray(guarded_worker.PIPE_BYTES)
        self._lost = False
        self._progressed = time.monotonic()
        self._deadline = self._progressed + limits.of("start")
        self._output_from = 0.0  # when output is read again; 0: at any time

    def run(self) -> Ending:
        readers = {
            self._guarded.report: self._read_report,
            self._guarded.events: self._read_events,
            self._guarded.output: self._read_output,
        }
        poll = select.poll()
        for fd in readers:
            poll.register(fd, select.POLLIN)
        while self._ending.unguarded and not self._lost:
            now = time.monotonic()
            if self._output_from and now >= self._output_from:
                self._output_from = 0.0
                poll.register(self._guarded.output, select.POLLIN)
            until = min(self._deadline, self._output_from or self._deadline)
            for fd, _ in poll.poll(max(0.0, until - now) * 1000 + 1):
                if not readers[fd]() or (fd == self._guarded.output and self._output_from):
                    poll.unregister(fd)
            if time.monotonic() >= self._deadline:
                self._read_events()  # if this process was delayed, progress is waiting there
            if time.monotonic() >= self._deadline:
                self._expire(time.monotonic())
        for _ in range(4):  # what was written last; all writers are dead
            self._read_events()
            self._read_output()
        self._ending.tail = self._tail.decode(errors="replace")
        return self._ending

    def _expire(self, now: float) -> None:
        """After too long without progress, stop the worker; the next time, give up the guardian."""
        if self._ending.stalled_s is not None:
            self._lost = True
            return
        self._ending.stalled_s = now - self._progressed
        self._deadline = now + self._limits.grace_s + STOP_PATIENCE_S
        self._guarded.stop()

    def _read_report(self) -> bool:
        for line in self._report.read():
            if isinstance(line, Started):
                self._guarded.worker = line.pid
                self._pass_on(line)
            elif isinstance(line, Failed):
                self._ending.unstartable = line.message
            elif isinstance(line, Ended):
                self._ending.status, self._ending.survivors = line.status, line.survivors
                self._ending.unguarded = False
        self._lost = self._lost or self._report.ended
        return not self._report.ended

    def _read_events(self) -> bool:
        for event in self._events.read():
            if isinstance(event, PhaseBegan | WindowEnded):
                self._note_progress(event)
                self._pass_on(event)
        return not self._events.ended

    def _pass_on(self, event: Event) -> None:
        """Call the listener. Its time (in which another worker may step) is no lack of progress."""
        began = time.monotonic()
        self._on_event(event)
        waited = time.monotonic() - began
        self._deadline += waited
        self._progressed += waited

    def _note_progress(self, event: PhaseBegan | WindowEnded) -> None:
        if isinstance(event, WindowEnded):
            advanced = event.steps > 0 or event.resets > 0
            self._ending.steps += event.steps
        else:
            advanced = PHASES.index(event.phase) > PHASES.index(self._ending.phase)
            self._ending.phase = event.phase if advanced else self._ending.phase
        if advanced and self._ending.stalled_s is None:
            self._progressed = time.monotonic()
            self._deadline = self._progressed + self._limits.of(self._ending.phase)

    def _read_output(self) -> bool:
        """Keep the end of the output, without a copy of the rest."""
        self._output_from = time.monotonic() + OUTPUT_PAUSE_S
        try:
            size = os.readv(self._guarded.output, [self._buffer])
        except BlockingIOError:
            return True
        # at the end, or if it holds so much that writers may soon wait
        if size == 0 or size > self._guarded.output_bytes // 2:
            self._output_from = 0.0
        last = bytes(memoryview(self._buffer)[max(0, size - TAIL_BYTES) : size])
        self._tail = (self._tail + last)[-TAIL_BYTES:]
        return size > 0


class _Lines:
    """Reads JSON lines of limited length and known shapes; drops everything else."""

    _decoder = msgspec.json.Decoder(Event | Failed | Ended)

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._rest = b""
        self.ended = False

    def read(self) -> list[Event | Failed | Ended]:
        """Read the values that are complete by now. ``ended`` says whether more may come."""
        try:
            data = os.read(self._pipe, LINE_BYTES)
        except BlockingIOError:
            return []
        self.ended = not data
        *whole, rest = (self._rest + data).split(b"\n")
        self._rest = rest if len(rest) <= LINE_BYTES else b""
        values = []
        for line in whole:
            with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                values.append(self._decoder.decode(line))
        return values
