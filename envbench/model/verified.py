"""What was found out about a backend's work."""

from __future__ import annotations

from typing import Any

import msgspec

from envbench.model.asked import Cell
from envbench.model.measured import Failure
from envbench.model.values import SCHEMA, Int


class Audit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same vector steps counted twice: by the adapter, and by the environments.

    ``frames`` (of transitions only) is None where nothing counts them a second way.
    """

    calls: Int
    steps: Int
    resets: Int
    frames: float | None


class Agreement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a backend went with the reference, from the same start by the same actions.

    Distances are of the compared part of an observation (``envbench.equivalence``), the largest
    of any environment, step by step: grey levels a pixel, or the engine's own units.
    """

    reference: str  # the backend that was followed
    distances: list[float]
    reward_distances: list[float]
    same_ends: bool  # episodes ended in the same steps
    first_other_end: Int | None = None  # the first step, from 0, in which they did not
    ends: Int | None = None  # episodes that ended in what was led
    reference_ends: Int | None = None
    # of its stillest environment, from step to step in the second half, over the reference's
    late_movement: float | None = None


class Verification(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="verification"
):
    """What was found out about one backend's work (``envbench verify``). Raw facts only.

    ``agreement`` is None where the reference cannot be followed: another engine, or a library that
    cannot be led. ``responds``: observations are numbers that change from step to step, the same
    in all environments while their actions are, and others as soon as these are; None where the
    environments were not led, and for a task of one's own, which may stand still.
    """

    schema: Int = SCHEMA
    verification_id: str
    cell: Cell
    started_utc: str
    fingerprint: str
    runtime: str
    worker: str
    seed: Int
    audit: Audit | None = None
    agreement: Agreement | None = None
    responds: bool | None = None
    work: dict[str, Any] = {}
    failure: Failure | None = None
