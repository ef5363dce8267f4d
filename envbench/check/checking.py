"""Carries a check out: pairs of processes in rounds, every cell a pair a round; then verdicts.

Each pair is flushed to the results when it ends. A cell that raised an alarm is tried again by as
many fresh pairs with the arms exchanged, and their verdict is the cell's. A check that was stopped
goes on with the pairs that it still lacks (``envbench.check.resuming`` finds it).
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Protocol as Interface

import msgspec

from envbench import store
from envbench.backends import get
from envbench.campaign import new_id
from envbench.check import arms, procedure, regression
from envbench.check.pairing import Arm, side_of, step_in_turn
from envbench.check.regression import Rule, Slices, Stage, Verdict
from envbench.machine.probe import quota_cpus
from envbench.model import Cell, Check, Failure, Job, Pair, Side, Windows
from envbench.plan import order, seed_of_round
from envbench.preflight import runtime_fact
from envbench.process.execute import Reply

FIRST, SECOND = 1, 2
# Of each quantity besides the steps: what a pair has to differ by, at the least, to matter at all.
FLOORS = {"start-up": 0.05e9, "first step": 0.1e9, "reset": 1e3, "memory": 16 * 2**20}
WORSE: tuple[Verdict, ...] = ("BROKEN", "REGRESSION", "INCONCLUSIVE", "IMPROVEMENT", "PASS")


class Listener(Interface):
    """Who wants to know how a check goes."""

    def started(self, pairs: int) -> None: ...
    def pair_ended(self, pair: Pair) -> None: ...
    def alarm(self, cell: Cell, pairs: int) -> None: ...


@dataclass(frozen=True, kw_only=True)
class CellVerdict:
    """What came of one cell. ``stages`` hold each quantity's findings, stage by stage: the steps'
    usual pace, the time of all steps, and the costs (start-up, first step, reset, memory)."""

    cell: Cell
    verdict: Verdict
    stages: list[dict[str, Stage]] = field(default_factory=list)
    slower: list[str] = field(default_factory=list)  # quantities that decided a REGRESSION
    failures: dict[str, Failure] = field(default_factory=dict)  # by arm
    spoilt: dict[str, int] = field(default_factory=dict)  # slices, by what spoilt them


class Checker:
    """One check, from its first pair to its verdicts."""

    def __init__(
        self,
        check: Check,
        sides: Mapping[str, tuple[Arm, Arm]],
        path: Path,
        listener: Listener,
        pairs: Sequence[Pair] = (),
    ) -> None:
        """``sides``: the arms of each backend. ``pairs``: those that were made before a stop."""
        self.check = check
        self.sides = sides
        self.path = path
        self.listener = listener
        self.pairs = list(pairs)
        self._known: set[str] = set()  # runtimes on record

    def carry_out(self) -> list[CellVerdict]:
        """A verdict a cell, in the check's order."""
        check = self.check
        self.listener.started(len(self._missing(FIRST, check.cells)))
        self._make(FIRST, check.cells)
        alarmed = [cell for cell in check.cells if alarmed_in(check, self.pairs, cell)]
        for cell in alarmed:
            self.listener.alarm(cell, len(self._missing(SECOND, [cell])))
        self._make(SECOND, alarmed)
        return [verdict(check, self.pairs, cell) for cell in check.cells]

    def _make(self, stage: int, cells: Sequence[Cell]) -> None:
        for number, cell in self._missing(stage, cells):
            if not is_broken(self.pairs, cell):
                self._pair(stage, number, cell)

    def _missing(self, stage: int, cells: Sequence[Cell]) -> list[tuple[int, Cell]]:
        """The pairs of a stage that are not made yet: in rounds, each in a random order."""
        chance = random.Random(f"{self.check.seed} {stage}")
        order = [
            (number, cell)
            for number in range(self.check.pairs)
            for cell in chance.sample(cells, len(cells))
        ]
        made = {(pair.number, pair.cell.key) for pair in self.pairs if pair.stage == stage}
        return [(number, cell) for number, cell in order if (number, cell.key) not in made]

    def _pair(self, stage: int, number: int, cell: Cell) -> Pair:
        now = datetime.now(UTC)
        seed = seed_of_round(self.check.seed, number + (stage - 1) * self.check.pairs)
        blocks, slice_s = procedure.slicing(self.check.blocks, self.check.slice_s, cell.backend)
        turns = regression.turns(blocks, seed)
        cpus = cores_of(cell, number)
        job = order(
            cell,
            run_id=new_id(now),
            seed=seed,
            protocol=procedure.protocol(),
            cpus=cpus,
        )
        replies = self._exchanged(job, cell, turns, slice_s, exchanged=stage == SECOND)
        pair = Pair(
            pair_id=job.run_id,
            check_id=self.check.check_id,
            stage=stage,
            number=number,
            cell=cell,
            seed=seed,
            turns=turns,
            cpus=cpus,
            started_utc=now.isoformat(timespec="milliseconds"),
            baseline=self._side(replies[0]),
            candidate=self._side(replies[1]),
        )
        store.append(self.path, pair)
        self.pairs.append(pair)
        self.listener.pair_ended(pair)
        return pair

    def _exchanged(
        self, job: Job, cell: Cell, turns: Sequence[int], slice_s: float, *, exchanged: bool
    ) -> tuple[Reply, Reply]:
        """The replies of baseline and candidate; in stage two the candidate sets the pace."""
        backend = get(cell.backend)
        baseline, candidate = (
            arms.with_settings(arm, backend, cell.settings) for arm in self.sides[cell.backend]
        )
        step = partial(
            step_in_turn, (job, job), slice_s=slice_s, start_at_once=starts_at_once(cell)
        )
        if not exchanged:
            return step((baseline, candidate), turns)
        theirs, ours = step((candidate, baseline), [1 - side for side in turns])
        return ours, theirs

    def _side(self, reply: Reply) -> Side:
        fact = runtime_fact(reply) if reply.python else None
        if fact is not None and fact.hash not in self._known:
            store.append(self.path, fact)
            self._known.add(fact.hash)
        return side_of(reply)


def cores_of(cell: Cell, number: int) -> list[int]:
    """The core that both processes of a pair keep to, another for the next pair; empty, for all,
    where the backend steps in more threads than one."""
    cores = usable_cores()
    return [cores[number % len(cores)]] if get(cell.backend).one_thread and cores else []


def starts_at_once(cell: Cell) -> bool:
    """May both of a pair start at once, each on a core of its own? Where starting is one thread's
    work, though stepping is not: two that import by turns take twice as long."""
    backend = get(cell.backend)
    alone = backend.one_thread or backend.many_processes or backend.in_lots
    quota = quota_cpus()
    return not alone and len(usable_cores()) > 1 and (quota is None or quota >= 2)


def usable_cores() -> list[int]:
    """Empty where the system does not tell."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


# ---------------------------------------------------------------- verdicts (pure)


def verdict(check: Check, pairs: Sequence[Pair], cell: Cell) -> CellVerdict:
    """What all pairs of a cell come to."""
    own = [pair for pair in pairs if pair.cell == cell]
    failures = {
        arm: side.failure
        for pair in own
        for arm, side in (("baseline", pair.baseline), ("candidate", pair.candidate))
        if side.failure
    }
    if failures:
        return CellVerdict(cell=cell, verdict="BROKEN", failures=failures)
    first = findings(check, [pair for pair in own if pair.stage == FIRST])
    again = [pair for pair in own if pair.stage == SECOND]
    second = findings(check, again) if again else None
    found, slower = regression.of_cell(first, second)
    return CellVerdict(
        cell=cell,
        verdict=found,
        stages=[first, second] if second else [first],
        slower=slower,
        spoilt=spoilt_slices(own),
    )


def overall(verdicts: Sequence[CellVerdict]) -> Verdict:
    """The gravest of all cells."""
    return min((each.verdict for each in verdicts), key=WORSE.index)


def findings(check: Check, pairs: Sequence[Pair]) -> dict[str, Stage]:
    """What a stage's pairs say of each quantity: of steps, and of what costs there are."""
    if len(pairs) < 2 or any(pair.baseline.failure or pair.candidate.failure for pair in pairs):
        return {}
    rule = Rule(margin=check.margin, tolerance=check.tolerance, false_alarm=check.false_alarm)
    found = regression.step_stages([slices_of(pair) for pair in pairs], rule)
    for name, floor in FLOORS.items():
        costs = [(_cost(pair.baseline, name), _cost(pair.candidate, name)) for pair in pairs]
        known = [(a, b) for a, b in costs if a and b]
        if len(known) == len(pairs):
            found[name] = regression.cost_stage(
                known, floor, check.cost_tolerance, check.false_alarm
            )
    return found


def alarmed_in(check: Check, pairs: Sequence[Pair], cell: Cell) -> bool:
    """Did the cell's first stage raise an alarm in any quantity?"""
    found = findings(check, [pair for pair in pairs if pair.cell == cell and pair.stage == FIRST])
    return bool(regression.alarms(found))


def is_broken(pairs: Sequence[Pair], cell: Cell) -> bool:
    """Has an arm failed there?"""
    own = [pair for pair in pairs if pair.cell == cell]
    return any(pair.baseline.failure or pair.candidate.failure for pair in own)


def is_complete(check: Check, pairs: Sequence[Pair]) -> bool:
    """Has every cell the pairs that its verdict takes?"""

    def has_all(cell: Cell, stage: int) -> bool:
        made = {pair.number for pair in pairs if pair.cell == cell and pair.stage == stage}
        return is_broken(pairs, cell) or len(made) == check.pairs

    return all(
        has_all(cell, FIRST) and (has_all(cell, SECOND) or not alarmed_in(check, pairs, cell))
        for cell in check.cells
    )


def slices_of(pair: Pair) -> Slices:
    """Times a step of both arms, and which slices an outside signal spoilt in either."""
    a, b = pair.baseline.measured, pair.candidate.measured
    spoilt = [str(k) in a.invalid or str(k) in b.invalid for k in range(len(a.ns))]
    return _times_a_step(a), _times_a_step(b), spoilt


def spoilt_slices(pairs: Sequence[Pair]) -> dict[str, int]:
    """How many slices of all processes an outside signal spoilt, by its name (``steal``)."""
    reasons = [
        reason.partition(" ")[0]
        for pair in pairs
        for side in (pair.baseline, pair.candidate)
        for reason in side.measured.invalid.values()
    ]
    return dict(Counter(reasons))


def _times_a_step(windows: Windows) -> list[float]:
    return [ns / max(1, steps) for ns, steps in zip(windows.ns, windows.steps, strict=True)]


def _cost(side: Side, name: str) -> float | None:
    """Nanoseconds, or bytes of memory."""
    times, resets = side.times, side.resets
    if name == "memory":
        return side.peak_memory_bytes
    if name == "reset":
        return sum(resets.ns) / sum(resets.resets) if sum(resets.resets) > 0 else None
    if times is None:
        return None
    still = side.stood_still_ns
    if name == "start-up":
        parts = {"import_ns": times.import_ns, "build_ns": times.build_ns}
    else:
        parts = {"first_step_ns": times.first_step_ns}
    return max(1, sum(ns - still.get(part, 0) for part, ns in parts.items()))


def structured(found: Stage) -> dict[str, object]:
    """A stage as ``--json`` has it."""
    return msgspec.to_builtins(found)  # type: ignore[no-any-return]
