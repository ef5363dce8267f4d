"""What a worker and its guardian report while they run.

Both write JSON lines on a pipe; the field ``"event"`` names the type of a line. ``supervise``
passes every ``Event`` to its caller's ``on_event``. ``Failed`` and ``Ended`` are for the supervisor
alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

import msgspec

from envbench.model.values import LARGEST

Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started", tag_field="event"):
    """The guardian has started the worker. Both are process ids."""

    pid: int
    guardian: int = 0


class PhaseBegan(msgspec.Struct, frozen=True, kw_only=True, tag="phase", tag_field="event"):
    """The worker has begun this phase."""

    phase: Literal["import", "build", "first_step", "warmup", "measure", "close"]


class WindowEnded(msgspec.Struct, frozen=True, kw_only=True, tag="window", tag_field="event"):
    """The worker has completed a window of ``ns`` nanoseconds.

    ``calls`` are vector steps, ``steps`` transitions of single environments, ``resets`` resets of
    single environments.
    """

    phase: Literal["warmup", "measure"]
    ns: Count
    calls: Count
    steps: Count
    resets: Count


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed", tag_field="event"):
    """The guardian cannot start the worker's interpreter."""

    message: str


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="ended", tag_field="event"):
    """The worker and all that it started have ended; the guardian's last line.

    ``status`` is an exit code, or minus the number of a signal; None if the worker did not end.
    ``survivors`` counts the processes that even SIGKILL did not end.
    """

    status: int | None
    survivors: int


Event = Started | PhaseBegan | WindowEnded
OnEvent = Callable[[Event], None]
