"""Pure: what environments returned step by step, as arrays. Read from a by-product of ``verify``.

A trace is an ``.npz`` (``envbench_worker.traces.save``): observations (steps, environments, …),
rewards and ended (steps, environments), the start, and what describes them.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Arrays of (steps, environments, …). Observations may be those of the first steps only.

    ``start``: the observations before the first step, (1, environments, …). ``same_step``: the step
    that ends an episode also resets. ``reused``: steps overwrite the observations of those before
    them. ``at``: the vector step of each row, if it is a call, which may make several.
    ``restarted``: in these rows envbench reset all environments. ``entered``: these rows are no
    steps; they show where the environments are after steps without a row, and in ``ended``, if the
    latest one ended an episode. ``resets``: how many resets the backend counted in each row; of the
    reference, how many episodes end within it. ``truncated``: a time limit alone ended the episode.
    ``columns``: which environments these are. ``actions``: what they got. ``over``: it begins in
    the middle of episodes, and in these environments the step before it ended one, (environments,).
    ``by_run``: the backend's ``run`` made the steps. ``chosen``: from this row on, actions are such
    that episodes last until their time limit. Of the reference, ``actions`` are from its own bank,
    ``begun`` says how the trace's episodes began, (count, …), ``automatic`` which of them
    after the end of another, and ``starts`` how its own do. ``lost``: it could not follow these
    steps, and repeats what the trace shows.
    """

    observations: Array
    rewards: Array
    ended: Array
    start: Array
    same_step: bool = False
    reused: bool = False
    begun: Array | None = None
    starts: Array | None = None
    begun_by: Array | None = None  # in which environment each of ``begun`` began, (count,)
    automatic: Array | None = None
    at: Array | None = None
    restarted: Array | None = None
    entered: Array | None = None
    resets: Array | None = None
    truncated: Array | None = None
    over: Array | None = None
    columns: Array | None = None
    actions: Array | None = None
    by_run: bool = False
    chosen: int | None = None
    lost: Array | None = None

    @property
    def begins(self) -> Array:
        """Where an observation is the first of an episode, (steps, environments)."""
        import numpy as np

        before = np.zeros_like(self.ended[:1]) if self.over is None else self.over[None]
        after: Array = np.concatenate([before, self.ended[:-1]])
        found: Array = self.ended if self.same_step else after
        return found | self._between[:, None]

    @property
    def stepped(self) -> Array:
        """Where a row is a step of an environment, not only a reset, (steps, environments)."""
        import numpy as np

        if not self.same_step:
            return ~self.begins
        every: Array = np.ones_like(self.ended)
        return every & ~self._between[:, None]

    @property
    def _between(self) -> Array:
        """The rows that are no steps of any environment, (steps,)."""
        import numpy as np

        found: Array = np.zeros(len(self.ended), np.bool_)
        for rows in (self.restarted, self.entered):
            found = found if rows is None else found | rows
        return found

    @property
    def drawn_actions(self) -> Array | None:
        """The actions that are of the bank."""
        if self.chosen is None or self.actions is None or self.at is None:
            return self.actions
        return self.actions[: self.at[self.chosen]]


def read_trace(raw: bytes) -> Trace:
    """Read the arrays of an ``.npz``, never a pickle; ``ValueError`` for anything else."""
    import zipfile

    import numpy as np

    try:
        with np.load(io.BytesIO(raw), allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in ("observations", "rewards", "ended", "start")}
            same_step = bool(arrays["same_step"])
            flags: dict[str, Any] = {
                name: bool(arrays.get(name, False)) for name in ("reused", "by_run")
            }
            begun, starts = (arrays.get(name) for name in ("begun", "starts"))
            of_begun = {
                "begun_by": arrays.get("begun_by"),
                "automatic": _flags(arrays.get("automatic")),
            }
            rows = {name: arrays.get(name) for name in ("at", "resets")}
            rows.update({name: _flags(arrays.get(name)) for name in ("restarted", "entered")})
            more = {name: arrays.get(name) for name in ("columns", "actions", "truncated")}
            more.update({name: _flags(arrays.get(name)) for name in ("over", "lost")})
            chosen = None if "chosen" not in arrays else int(arrays["chosen"])
    except (
        OSError,
        EOFError,
        KeyError,
        ValueError,
        TypeError,
        OverflowError,
        zipfile.BadZipFile,
    ) as error:
        raise ValueError(f"a trace cannot be read: {error}") from error
    start, found["ended"] = found.pop("start"), found["ended"] != 0
    seen, rewards, ended = (array.shape[:2] for array in found.values())
    if len(rewards) != 2 or rewards != ended or seen[1:] != rewards[1:] or seen > rewards:
        raise ValueError("the arrays of a trace differ in steps or environments")
    if start.shape != (1, *found["observations"].shape[1:]):
        raise ValueError("the start of a trace is not one observation per environment")
    if begun is not None and (starts is None or starts.shape[1:] != begun.shape[1:]):
        raise ValueError("the starts of a trace are of two shapes")
    some = [each for each in of_begun.values() if each is not None]
    if some and (begun is None or any(each.shape != begun.shape[:1] for each in some)):
        raise ValueError("a trace does not describe each of its starts")
    if any(each is not None and each.shape != rewards[:1] for each in rows.values()):
        raise ValueError("a description of the rows of a trace does not have one entry per row")
    if chosen is not None and not 0 <= chosen < len(found["rewards"]):
        raise ValueError("the last part of a trace begins outside of it")
    if more["over"] is not None and more["over"].shape != rewards[1:]:
        raise ValueError("the start of a trace does not say how each environment begins")
    if any(more[e] is not None and more[e].shape != rewards for e in ("truncated", "lost")):
        raise ValueError("the arrays of a trace differ in steps or environments")
    return Trace(
        **found,
        **rows,
        **more,
        start=start,
        **flags,
        same_step=same_step,
        chosen=chosen,
        begun=begun,
        **of_begun,
        starts=starts,
    )


def _flags(values: Array | None) -> Array | None:
    return None if values is None else values != 0
