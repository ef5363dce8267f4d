"""How long blocks of ``run`` will take, from what their cells took before. Pure.

A trial starts and warms up, which depends on its cell, and then steps for as long as the plan says.
The ended blocks show what else a trial takes (slices of other quantities, spot checks, its end).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from envbench.model import BlockRecord, Cell, Plan, RunDesign, TrialRecord

START_S = 4.0  # the start and warm-up of a trial if nothing is known of its backend
REST_S = 2.0  # what else a trial takes, if no block has ended
KERNEL_SHARE = 1 / 3  # of the seconds of the cell beside a reference kernel


@dataclass
class Expected:
    """The expected seconds of a plan's trials. ``done``: its ended blocks; ``before``: those of
    earlier plans on this machine."""

    plan: Plan
    done: Sequence[BlockRecord]
    before: Sequence[BlockRecord] = ()
    starts: dict[str, list[float]] = field(init=False)  # by the cell's key
    similar: dict[tuple[str, str], dict[int, str]] = field(init=False)  # by backend: numenv -> key
    rest: float = field(init=False)

    def __post_init__(self) -> None:
        self.starts, self.similar = defaultdict(list), defaultdict(dict)
        rests: list[float] = []
        for block in (*self.before, *self.done):
            if block.failure:
                continue
            for trial in block.trials:
                cell = trial.cell
                self.starts[cell.key].append(_started(trial))
                self.similar[cell.env, cell.backend][cell.numenv] = cell.key
            took = sum(_started(each) + _stepped(each) for each in block.trials)
            rests.append((block.seconds - took) / len(block.trials))
        own = rests[-len(self.done) :] if self.done else rests
        self.rest = fmean(own) if own else REST_S

    def seconds(self, cell: Cell) -> float:
        """Of one trial of this cell, or of a reference kernel."""
        return self._start(cell) + self._stepping(cell) + self.rest

    def _start(self, cell: Cell) -> float:
        """As before; else that of the same backend with the nearest number of environments."""
        similar = self.similar.get((cell.env, cell.backend), {})
        nearest = min(similar, key=lambda numenv: abs(numenv - cell.numenv), default=None)
        key = cell.key if cell.key in self.starts or nearest is None else similar[nearest]
        return fmean(self.starts[key]) if key in self.starts else START_S

    def _stepping(self, cell: Cell) -> float:
        protocols = self.plan.design_as(RunDesign).protocol
        if cell.backend not in protocols:
            return KERNEL_SHARE * min(each.measured_s for each in protocols.values())
        protocol = protocols[cell.backend]
        if protocol.calls is None:
            return protocol.measured_s
        known = [_stepped(e) for b in self.done for e in b.trials if e.cell.key == cell.key]
        return fmean(known) if known else 0.0


def _started(trial: TrialRecord) -> float:
    """Seconds until the first measured step, with the lead-ins."""
    if (times := trial.times) is None:
        return START_S
    return (times.import_ns + times.build_ns + times.first_step_ns + times.warmup_ns) / 1e9


def _stepped(trial: TrialRecord) -> float:
    return trial.times.measured_ns / 1e9 if trial.times else 0.0
