"""The two sides of a check, from options to interpreters that were asked whether they can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from envbench.cli import tell
from envbench.errors import BackendUnavailable, UsageError

if TYPE_CHECKING:
    from envbench.check.arms import Source
    from envbench.check.pairing import Arm
    from envbench.model import ArmFact, Cell
    from envbench.preflight import Cannot, Ready

SIDES = ("baseline", "candidate")
OPTIONS = [f"{side}{how}" for side in SIDES for how in ("", "_python", "_ref")]


def sources(given: Mapping[str, Any]) -> tuple[Source, Source]:
    """What was asked for; ``UsageError`` for what cannot be an arm."""
    from envbench.check.arms import Source, look_at
    from envbench.check.git_tree import WORKING_TREE

    made = []
    for name in SIDES:
        ref, python = given[f"{name}_ref"], given[f"{name}_python"]
        required = list(given[name])
        if python and (ref or required):
            raise click.UsageError(f"--{name}-python is taken as it is: nothing is installed.")
        made.append(Source(python=python, requirements=required, ref=ref))
    baseline, candidate = made
    if baseline.ref and candidate == Source():
        candidate = Source(ref=WORKING_TREE)  # installed as the baseline is
    for name, source in zip(SIDES, (baseline, candidate), strict=True):
        look_at(name, source)
    if WORKING_TREE in (baseline.ref, candidate.ref):
        _tell_of_untracked()
    if baseline == candidate:
        tell("Note: both arms are the same: what is found is this machine's own noise.")
    return baseline, candidate


def _tell_of_untracked() -> None:
    from envbench.check.git_tree import untracked
    from envbench.text import printable

    if left_out := untracked():
        shown = ", ".join(map(printable, left_out[:3])) + (", …" if len(left_out) > 3 else "")
        tell(f"Note: the working tree is what git knows: without {shown} (git add takes them in).")


class Arms:
    """Each backend's two arms, made and asked; ``runtimes`` has the hashes of their packages, and
    ``differences`` what they do not have in common: ``envpool 1.2.4 → 1.2.5``."""

    def __init__(self, cells: Sequence[Cell], sources: tuple[Source, Source]) -> None:
        from envbench.backends import get
        from envbench.check import arms

        self.sources = sources
        self.of: dict[str, tuple[Arm, Arm]] = {}
        self.runtimes: dict[str, tuple[str, str]] = {}
        self.differences: dict[str, list[str]] = {}
        kept = [arms.keep(*each) for each in zip(SIDES, sources, strict=True)]
        for name in dict.fromkeys(cell.backend for cell in cells):
            first, second = (arms.make(side, get(name), tell) for side in kept)
            self.of[name] = first, second
        for cell in {(cell.env, cell.task, cell.backend): cell for cell in cells}.values():
            self._ask(cell)

    def facts(self) -> tuple[ArmFact, ArmFact]:
        """Baseline and candidate, as they are put on record."""
        from envbench import campaign
        from envbench.model import ArmFact, digest

        first, second = (
            ArmFact(
                source=str(self.sources[side]),
                worker=campaign.worker_hash(next(iter(self.of.values()))[side].worker.parents[1]),
                place=digest([(name, pair[side].python) for name, pair in sorted(self.of.items())]),
            )
            for side in (0, 1)
        )
        return first, second

    def _ask(self, cell: Cell) -> None:
        """Do they know the task? One of them may not: then it is the change that broke it."""
        from envbench.preflight import Cannot, check

        sides = self.of[cell.backend]
        found = [
            check(cell, {cell.backend: arm.python}, setup=False, say=tell)
            for arm in {arm.python: arm for arm in sides}.values()
        ]
        first, last = found[0], found[-1]
        if isinstance(first, Cannot) and isinstance(last, Cannot):
            raise refusal(cell, first, "in either arm")
        for arm, each in zip(sides, (first, last), strict=True):
            if isinstance(each, Cannot):
                tell(
                    f"{cell.backend} cannot run {cell.task} in the {arm.name}: "
                    f"{each.failure.message}. The other side can: it is tried once, for the record."
                )
        self.runtimes[cell.backend] = _hash(first), _hash(last)
        differ = _differences(first, last)
        if differ and cell.backend not in self.differences:
            tell(f"{cell.backend}: baseline → candidate: {', '.join(differ)}")
        self.differences[cell.backend] = differ


def _differences(first: Ready | Cannot, last: Ready | Cannot) -> list[str]:
    """What two interpreters do not have in common: their Python, and packages."""
    from envbench.preflight import Ready
    from envbench.text import printable

    if not (isinstance(first, Ready) and isinstance(last, Ready)):
        return []
    a, b = (
        {"Python": each.runtime.python.split()[0], **each.runtime.packages}
        for each in (first, last)
    )
    return [
        printable(f"{name} {a.get(name, 'none')} → {b.get(name, 'none')}")
        for name in sorted({*a, *b}, key=str.lower)
        if a.get(name) != b.get(name)
    ]


def _hash(found: Ready | Cannot) -> str:
    from envbench.preflight import Ready

    return found.runtime.hash if isinstance(found, Ready) else ""


def refusal(cell: Cell, cannot: Cannot, where: str) -> Exception:
    """Nobody who was asked can: that is no finding."""
    from envbench.cli.selection import unknown_task

    failure = cannot.failure
    if cannot.known_tasks is not None:
        return unknown_task(cell, cannot.known_tasks)
    if cannot.own_package:
        return UsageError(f"--task {cell.task}: {failure.message}", hint=failure.hint)
    return BackendUnavailable(
        f"{cell.backend} cannot run {cell.env} {where}: {failure.message}",
        hint=failure.hint,
    )
