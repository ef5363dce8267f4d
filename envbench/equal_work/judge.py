"""Pure: the verdict of a ``Verification`` in words (audit, lock-step, differences) and a badge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from envbench import backends, families
from envbench.equal_work import reference, traces
from envbench.families import Standard
from envbench.model import Agreement, Verification

Mark = Literal["✓", "≠", "✗", "–"]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """``refused``: its figures cannot be trusted. ``unequal``: it does different work.

    ``badge``: ✓ counted twice and equal to the reference; ≠ counted twice, but different work or
    another engine; ✗ refused; – not counted in a second way, or not verified.
    """

    audit: str
    lock_step: str
    differences: list[str]
    refused: bool
    unequal: bool
    badge: Mark
    follows: bool = True  # do its observations follow its actions?


def judge(found: Verification) -> Verdict:
    """The verdict on one backend's work."""
    if found.failure is not None:
        told = f"failed: {found.failure.message}"
        return Verdict(
            audit=told, lock_step="", differences=[], refused=False, unequal=False, badge="–"
        )
    counted, audit = _audit(found)
    same, lock_step = _lock_step(found)
    refused = counted is False or not _follows(found)
    differences = _differences(found)
    return Verdict(
        audit=audit,
        lock_step=lock_step,
        differences=differences,
        refused=refused,
        unequal=same is False,
        badge=_badge(counted if _led(found) else None, same and _same_work(found), refused=refused),
        follows=_follows(found),
    )


def _badge(counted: bool | None, same: bool | None, *, refused: bool) -> Mark:
    if refused:
        return "✗"
    if counted is None:
        return "–"
    return "✓" if same else "≠"


def _same_work(found: Verification) -> bool:
    """Do its settings leave its work unchanged? The comparison may miss what they change."""
    cell = found.cell
    told = reference.other_work(cell.env, cell.kind, found.work, task=cell.task)
    return backends.same_work(cell.backend, cell.variant) and not told


def _audit(found: Verification) -> tuple[bool | None, str]:
    audit, skip = found.audit, found.cell.frame_skip
    if audit is None or audit.frames is None:
        return None, "nothing else counts its steps"
    counted = traces.counted(audit, skip)
    claimed = f"{audit.steps * skip:,.10g}"
    if counted:
        return True, f"{claimed} frames of {_environments(found)}, counted twice"
    return False, f"claims {claimed} frames, its environments made {audit.frames:,.10g}"


def _environments(found: Verification) -> str:
    numenv = found.cell.numenv
    return "1 environment" if numenv == 1 else f"{numenv} environments"


def _led(found: Verification) -> bool:
    """Was what its environments do recorded? A ceiling has nothing to record."""
    seen = found.responds is not None or found.agreement is not None
    return seen or found.cell.kind == "ceiling"


def _follows(found: Verification) -> bool:
    """Do its observations follow its actions, to the end?"""
    agreement = found.agreement
    return found.responds is not False and (agreement is None or traces.moves_on(agreement))


def _lock_step(found: Verification) -> tuple[bool | None, str]:
    cell = found.cell
    standard = families.of_record(cell.env).standards.get(cell.kind)
    if not _follows(found):
        return False, "its observations do not follow the actions"
    if standard is not None and cell.backend == standard.reference and not cell.variant:
        return True, "the others are compared with it"
    if found.cell.kind == "ceiling":
        return None, "not applicable: the engine alone"
    if not _led(found):
        return None, "not compared: nothing shows that it follows its actions"
    if standard is None or backends.of_record(cell.backend).own_engine:
        return None, "not applicable: another engine, which follows its actions"
    if found.agreement is None:
        return None, f"not compared: its reference {standard.reference} cannot run here"
    if standard.episodes:
        return _episodes(standard, found.agreement)
    steps = traces.agreed(standard, found.agreement)
    total = len(found.agreement.distances)
    apart = max(found.agreement.distances[: max(steps, 1)], default=0.0)
    unit = f" {standard.unit}" if standard.unit else ""
    same = traces.equal(standard, found.agreement)
    if same is None:
        return None, f"compared for {total} steps only (required: {traces.asked(standard)})"
    if same:
        exactly = "exactly" if apart == 0 else f"within {apart:.2g}{unit}"
        return True, f"equal {exactly} for {steps} of {total} steps (asked: {standard.steps})"
    if traces.never_ends(found.agreement):
        ends = found.agreement.reference_ends
        return False, f"none of its episodes end, but {ends} of the reference's do"
    if found.agreement.first_other_end == steps:
        return False, f"differs from step {steps + 1} on: an episode ends there on one side only"
    if found.agreement.distances[steps] <= standard.tolerance:
        by = f"{found.agreement.reward_distances[steps]:.2g} in the reward"
    else:
        by = f"{found.agreement.distances[steps]:.2g}{unit}"
    return False, f"differs from step {steps + 1} on, by {by}"


def _episodes(standard: Standard, found: Agreement) -> tuple[bool | None, str]:
    same = traces.equal(standard, found)
    ends = f"{found.ends} and {found.reference_ends} episodes"
    if same is None:
        return None, f"compared for {ends} only (required: {standard.episodes})"
    chances = ", ".join(f"{name} p = {chance:.2g}" for name, chance in found.p_values.items())
    if same:
        return True, f"same distributions over {ends} ({chances}); no single step is compared"
    return False, f"other distributions over {ends} ({chances})"


def _differences(found: Verification) -> list[str]:
    cell = found.cell
    apart = reference.differences(cell.env, cell.kind, found.work, task=cell.task)
    return [
        f"{name} {_shown(own)} (asked: {_shown(wanted)})" for name, (wanted, own) in apart.items()
    ]


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return "×".join(map(str, value))
    return "any" if value is None else str(value)
