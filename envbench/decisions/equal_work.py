"""Pure: the verdict of a ``Verification`` in words (audit, lock-step, differences) and a badge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from envbench import backends, families
from envbench.decisions.agreement import compared
from envbench.decisions.ledger import claims, differences
from envbench.families import Standard
from envbench.families.family import NO_NUMBER
from envbench.model import Agreement, Apart, Audit, Cell, Verification
from envbench.text import counted, listed

LEAST_SEEN = 0.9  # of the claimed resets; honest backends make at least as many
UNSHOWN = "it does not show its observations and actions as single arrays (docs/verify.md)"
Mark = Literal["✓", "≠", "✗", "–"]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """``refused``: its figures cannot be trusted. ``unequal``: it does different work.

    ``badge``: ✓ counted twice and equal to the reference; ≠ counted twice, but different work or
    another engine; ✗ refused: it claims steps or settings that it did not have; – not counted in a
    second way, or not verified.
    """

    audit: str
    lock_step: str = ""
    differences: list[str] = field(default_factory=list)
    refused: bool = False
    unequal: bool = False
    badge: Mark
    miscounts: bool = False  # do its own count and that of its environments differ?
    follows: bool = True  # do its observations follow its actions?


def judge(found: Verification) -> Verdict:
    """Judge one backend's work."""
    if found.failure is not None:
        return Verdict(audit=f"failed: {found.failure.message}", badge="–")
    cell, follows = found.cell, _follows(found)
    exact, audit = _audit(found)
    same, lock_step = _lock_step(found)
    other = differences(cell.env, cell.kind, found.work, task=cell.task)
    # Its settings and its report say whether it does other work: comparing steps may miss that.
    reported = families.of_record(cell.env).reported
    computed = {name for name, (_, own) in other.items() if own != "unknown"} - {*reported}
    same_work = same and backends.same_work(cell) and not computed
    badge: Mark = "✓" if same_work else "≠"
    undecided = same is None and not _other_engine(found)
    if exact is None or not _recorded(found) or undecided:
        badge = "–"
    lies = follows and _lies(cell, found.work, found.agreement, same)
    if lies:
        lock_step += ", although it reports the reference's engine and settings"
    refused = exact is False or not follows or lies
    return Verdict(
        audit=audit,
        lock_step=lock_step,
        differences=[
            *(
                f"{name}: not reported"
                if own == "unknown"
                else f"{name}: {_shown(own)} (not {_shown(wanted)})"
                for name, (wanted, own) in other.items()
            ),
            *(
                f"{name}: {_shown(own)} (not {_shown(usual)})"
                for name, (usual, own) in backends.changing_settings(cell).items()
                if name not in other
            ),
        ],
        refused=refused,
        unequal=same is False,
        badge="✗" if refused else badge,
        miscounts=exact is False,
        follows=follows,
    )


def followed(cell: Cell) -> bool:
    """Can the reference follow the steps of this cell while it is measured (a spot check)?

    Of users' own tasks, only plugins are followed: their seed may not fix them, and built-in
    backends do not need it.
    """
    family = families.of_record(cell.env)
    standard = family.standard(cell.kind, cell.task)
    if standard is None or standard.episodes or cell.backend == standard.reference:
        return False
    if family.uncompared(cell.kind, cell.task):
        return False
    if family.own_tasks and backends.is_built_in(cell.backend):
        return False
    return backends.same_work(cell)


def spot_check(
    cell: Cell, work: Mapping[str, Any], found: Agreement
) -> tuple[bool | None, str, bool]:
    """Judge some steps of a measured trial, which the reference followed.

    Returns whether they agree (None: too few), what was found, and whether the figure is refused:
    it claims the work of the reference, and did not do it. The distribution of starts is judged
    for plugins only: they show more of them.
    """
    standard = families.of_record(cell.env).standard(cell.kind, cell.task)
    if standard is None:
        return None, "not compared", False
    if not found.steps and found.other_shape is None:
        return None, "the measured process showed hardly any step to compare", False
    few = standard.of(same_engine=found.same_engine, rounded=found.rounded)
    few = msgspec.structs.replace(few, steps=min(few.steps, found.steps))
    if few.agreeing < 1:  # of a few steps, a few hundredths are a step or two
        few = msgspec.structs.replace(few, agreeing=0.9)
        parts = {name: _nine_of_ten(getattr(found, name)) for name in ("observations", "rewards")}
        found = msgspec.structs.replace(found, **parts)
    if backends.is_built_in(cell.backend):
        found = msgspec.structs.replace(found, p_values={})
    same, text = compared(few, found)
    if same is False and families.of_record(cell.env).follows_by == "seed":
        same, text = _from_a_seed(few, found, text)
    return same, text, _lies(cell, work, found, same)


def _lies(cell: Cell, work: Mapping[str, Any], found: Agreement | None, same: bool | None) -> bool:
    """Does it claim to do the work of the reference, although its results differ?"""
    if same is not False:
        return False
    shape = None if found is None else found.other_shape
    if shape is not None and shape == work.get("observation_shape"):
        return False  # it says that its observations are other ones
    other = differences(cell.env, cell.kind, work, task=cell.task)
    return claims(cell, other, same_engine=found is None or found.same_engine)


def _nine_of_ten(environments: Sequence[Apart]) -> list[Apart]:
    """The environments without the tenth (rounded down) that differ most. None may have NaN."""
    ordered = sorted(environments, key=lambda each: each.p90)
    bad = [each for each in ordered if each.largest >= NO_NUMBER]
    return bad or ordered[: len(ordered) - len(ordered) // 10]


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return "×".join(map(str, value))
    return "any" if value is None else str(value)


# ---------------------------------------------------------------- what it did


def _audit(found: Verification) -> tuple[bool | None, str]:
    audit, skip = found.audit, found.cell.frame_skip
    if audit is None:
        return None, _uncounted(found.cell)
    claimed, most = f"{audit.steps * skip:,.10g}", audit.calls * found.cell.numenv
    # A reset takes the place of a step if the environments reset on the step after an end.
    next_step = found.work.get("autoreset") == "next-step"
    results = audit.steps + (audit.resets if next_step else 0)
    if max(results, audit.resets) > most:
        return False, f"claims {results:,} results, and its calls give at most {most:,}"
    if audit.frames is None:
        return None, _uncounted(found.cell)
    fewest = LEAST_SEEN * (audit.resets_claimed or 0) - 2 * found.cell.numenv
    if audit.resets_seen is not None and audit.resets_seen < fewest:
        claimed_resets = f"{audit.resets_claimed:,} resets"
        return False, f"claims {claimed_resets}, its environments saw {audit.resets_seen:,}"
    if not counts_agree(audit, skip):
        return False, f"claims {claimed} frames, its environments made {audit.frames:,.10g}"
    if not audit.counted_by:
        return None, "only the adapter counts its steps"
    environments = counted(found.cell.numenv, "environment")
    return True, f"{claimed} frames of {environments}, counted again by {audit.counted_by}"


def _uncounted(cell: Cell) -> str:
    own = families.of_record(cell.env).own_tasks
    hint = ": a task with `max_episode_steps` counts them (docs/own_environment.md)" if own else ""
    return f"nothing else counts its steps{hint}"


def counts_agree(audit: Audit, frame_skip: float) -> bool | None:
    """Does the backend's count equal that of its environments? None: nothing else counts it.

    A count of zero steps is refused: no environment only resets.
    """
    if audit.frames is None:
        return None
    claimed = audit.steps * frame_skip
    if audit.steps < 1 or audit.steps + audit.resets < audit.calls:
        return False
    return abs(claimed - audit.frames) < min(0.5, frame_skip / 2)


def _recorded(found: Verification) -> bool:
    """Does anything show what its environments do? A ceiling need not."""
    exempt = found.cell.kind == "ceiling" or _is_reference(found)
    return exempt or (found.responds, found.agreement) != (None, None)


def _is_reference(found: Verification) -> bool:
    """Is it what the others are compared with? Then it is equal by definition."""
    cell = found.cell
    standard = families.of_record(cell.env).standard(cell.kind, cell.task)
    return standard is not None and cell.backend == standard.reference and not cell.own_settings


def _follows(found: Verification) -> bool:
    """Do its observations follow its actions? Those of the reference need not, in some tasks."""
    return found.responds is not False or _is_reference(found)


def _other_engine(found: Verification) -> bool:
    """True if there are no states to compare: another engine, or a ceiling, which returns none."""
    return found.cell.kind == "ceiling" or backends.of_record(found.cell.backend).own_engine


def _lock_step(found: Verification) -> tuple[bool | None, str]:
    cell, family = found.cell, families.of_record(found.cell.env)
    standard = family.standard(cell.kind, cell.task)
    # Why a backend with the reference's engine cannot be compared with the reference.
    why = "" if _other_engine(found) else family.uncompared(cell.kind, cell.task)
    if not _follows(found):
        return False, "its observations do not follow the actions"
    if _is_reference(found):
        others = f"not compared: {why}" if why else "compared with it"
        return True, f"the reference: the others are {others}"
    if cell.kind == "ceiling":
        return None, "not applicable: only the engine is stepped"
    if not _recorded(found):
        return None, f"not compared: {why or UNSHOWN}"
    backend = backends.of_record(cell.backend)
    if backend.own_engine:
        others = f"; {backend.difference}" if backend.difference else ""
        return None, f"not compared: another engine (its environments follow their actions{others})"
    if standard is None or found.agreement is None:
        missing = f"its reference {standard.reference} cannot run here" if standard else ""
        return None, f"not compared: {why or missing}"
    same, text = compared(standard, found.agreement)
    if same and not found.agreement.by_run and _has_own_loop(cell):
        return None, "not decided: its `follow` was compared, not its `run` (docs/backends.md)"
    if same and found.agreement.within and not found.agreement.ends:
        return None, "not decided: episodes ended only within calls of several steps"
    if same is False and family.follows_by == "seed":
        return _from_a_seed(standard, found.agreement, text)
    if same and standard.episodes and found.responds is None:
        return None, "not decided: nothing shows that its observations follow its actions"
    return same, text


def _from_a_seed(standard: Standard, found: Agreement, text: str) -> tuple[bool | None, str]:
    """What a difference shows if the reference only starts from the same seed."""
    if found.other_shape is not None:
        return False, text
    if found.repeats is False:
        return None, "not compared: the task does not repeat with its seed"
    if found.repeats is None:  # a record of an older version
        return False, f"{text} (or the task does not repeat with its seed)"
    if found.first_difference == -1:
        return None, "not compared: its environments start otherwise with the same seed"
    if found.first_difference is None or found.reused:
        return False, text
    where, seed = f"step {found.first_difference + 1}", "although both started from the same seed"
    if found.begins:
        return False, f"in {where}, an episode begins differently, {seed}"
    # What follows is different because of that. So no distance is named.
    apart = {
        "observations": standard.apart(found.observations) > standard.tolerance,
        "rewards": standard.apart(found.rewards) > standard.reward_tolerance,
        "ends of episodes": found.other_ends > 0,
    }
    what = listed([name for name, differ in apart.items() if differ]) or "results"
    return False, f"its {what} differ from {where} on, {seed}"


def _has_own_loop(cell: Cell) -> bool:
    """Is it a plugin whose ``run`` could be compared, because its results arrive in a fixed order?
    The loops of built-in backends are envbench's own."""
    return not backends.is_built_in(cell.backend) and cell.env_instances == cell.numenv
