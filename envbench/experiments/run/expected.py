"""How long blocks of ``run`` will take, from what their cells took before. Pure.

A trial starts and warms up, which depends on its cell, and then steps for as long as the plan says.
More environments than any before take longer to build. The ended blocks show what else a trial
takes (slices of other quantities, spot checks, its end).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from envbench.model import BlockRecord, Cell, Plan, RunDesign, TrialRecord

START_S = 4.0  # the start and warm-up of a trial if nothing is known of its backend
REST_S = 2.0  # what else a trial takes, if no block has ended
FAR = 10  # times the largest measured number of environments: no more is known
MANY = 1000  # environments: no more is known if the backend was never measured
KERNEL_SHARE = 1 / 3  # of the seconds of the cell beside a reference kernel


@dataclass
class Expected:
    """The expected seconds of a plan's trials. ``done``: its ended blocks; ``before``: those of
    earlier plans of its kind on this machine."""

    plan: Plan
    done: Sequence[BlockRecord]
    before: Sequence[BlockRecord] = ()
    trials: dict[str, list[TrialRecord]] = field(init=False)  # by the cell's key
    similar: dict[tuple[str, str], dict[int, str]] = field(init=False)  # by backend: numenv -> key
    rest: float = field(init=False)

    def __post_init__(self) -> None:
        self.trials, self.similar = defaultdict(list), defaultdict(dict)
        for block in (*self.before, *self.done):
            for trial in block.trials if block.failure is None else ():
                cell = trial.cell
                self.trials[cell.key].append(trial)
                self.similar[cell.env, cell.backend][cell.numenv] = cell.key
        rests = _rests(self.done) or _rests(self.before)
        self.rest = fmean(rests) if rests else REST_S

    def seconds(self, cell: Cell) -> float:
        """Return the expected seconds of one trial of this cell, or of a reference kernel: at least
        the time of its steps.

        (Trials that start at once take less time together than one after the other.)
        """
        stepping = self._stepping(cell)
        # Recorded starts overlap, so the rest can be negative. A guessed start does not overlap.
        rest = self.rest if self._like(cell) else max(self.rest, REST_S)
        return max(stepping, self._start(cell) + stepping + rest)

    def knows(self, cell: Cell) -> bool:
        """Is it known how long the trial takes? A number of steps needs an earlier rate, and many
        environments a start of not many fewer."""
        most = max(self.similar.get((cell.env, cell.backend), {}), default=0)
        if cell.numenv > (FAR * most or MANY):
            return False
        protocol = self.plan.design_as(RunDesign).protocol.get(cell.backend)
        return protocol is None or protocol.calls is None or bool(self._like(cell))

    def _like(self, cell: Cell) -> list[TrialRecord]:
        """Earlier trials of the cell, else of the same backend with the nearest number of
        environments."""
        similar = self.similar.get((cell.env, cell.backend), {})
        nearest = min(similar, key=lambda numenv: abs(numenv - cell.numenv), default=None)
        key = cell.key if cell.key in self.trials or nearest is None else similar[nearest]
        return self.trials.get(key, [])

    def _start(self, cell: Cell) -> float:
        like = self._like(cell)
        return fmean(map(_started, like)) + self._more_to_build(cell) if like else START_S

    def _more_to_build(self, cell: Cell) -> float:
        """How much longer the build takes than that of the largest measured number of environments:
        by the line through the smallest and the largest."""
        sizes = self.similar.get((cell.env, cell.backend), {})
        least, most = min(sizes, default=0), max(sizes, default=0)
        if cell.numenv <= most or least == most:
            return 0.0
        first, last = (fmean(map(_built, self.trials[sizes[each]])) for each in (least, most))
        return max(0.0, last - first) / (most - least) * (cell.numenv - most)

    def _stepping(self, cell: Cell) -> float:
        design = self.plan.design_as(RunDesign)
        if cell.backend not in design.protocol:
            return KERNEL_SHARE * min(each.measured_s for each in design.protocol.values())
        protocol = design.protocol[cell.backend]
        if protocol.calls is None:
            return protocol.measured_s
        like = self._like(cell)
        calls, seconds = sum(sum(e.measured.calls) for e in like), sum(map(_stepped, like))
        share = protocol.calls / design.repeats[cell.backend]
        return share * seconds / calls if calls else 0.0


def _rests(blocks: Iterable[BlockRecord]) -> list[float]:
    """What each block took beyond the starts and steps of its trials, per trial."""
    sound = [block for block in blocks if block.failure is None]
    return [
        (block.seconds - sum(_started(e) + _stepped(e) for e in block.trials)) / len(block.trials)
        for block in sound
    ]


def _started(trial: TrialRecord) -> float:
    """Seconds until the first measured step, with the lead-ins."""
    if (times := trial.times) is None:
        return START_S
    return (times.import_ns + times.build_ns + times.first_step_ns + times.warmup_ns) / 1e9


def _built(trial: TrialRecord) -> float:
    return trial.times.build_ns / 1e9 if trial.times else 0.0


def _stepped(trial: TrialRecord) -> float:
    return trial.times.measured_ns / 1e9 if trial.times else 0.0
