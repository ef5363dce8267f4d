"""What ``random_kills.py`` checks on disk after each kill: lines, plans, blocks and exit codes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from envbench.model import BlockRecord, EndedRecord, Plan, Stored
from envbench.results import store


class WatchedResults:
    """A results folder that only grows: each reading is compared with the one before."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records: list[Stored] = []  # of the last reading
        self._lines: dict[Path, list[bytes]] = {}  # complete ones

    def read(self) -> list[str]:
        """Read every file again. Returns a fault for each that lost or changed a complete line."""
        paths = store.files(self.folder)
        changed = [path.name for path in sorted({*self._lines, *paths}) if self._changed(path)]
        every = [store.read(path).records for path in paths]
        self.records = [record for records in every for _, record in records]
        return [f"{name}: lines were lost or changed" for name in changed]

    def _changed(self, path: Path) -> bool:
        content = path.read_bytes() if path.exists() else b""
        known, lines = self._lines.get(path, []), content.splitlines()
        self._lines[path] = lines if content.endswith(b"\n") else lines[:-1]
        return lines[: len(known)] != known


def may_end_with(name: str, code: int, stdout: str) -> bool:
    """May that command end with this exit code if nothing is killed?

    The two sides of ``check`` are equal, so its verdict may be a false alarm (1), and it may be
    inconclusive (4). A broken side also gives 1, but here only a kill can break one.
    """
    if name != "check" or code == 0:
        return code == 0
    try:
        verdict = json.loads(stdout)["verdict"]
    except (ValueError, LookupError):
        return False
    return (code, verdict) in ((1, "REGRESSION"), (4, "INCONCLUSIVE"))


def plan_faults(records: Sequence[Stored], seed: int) -> list[str]:
    """What is wrong with the plans of the command with that seed."""
    plans = [each for each in records if isinstance(each, Plan) and each.seed == seed]
    concluded = [each.plan_id for each in plans if each.plan_id in _concluded(records)]
    faults = [
        f"plan {later.plan_id} began although {earlier.plan_id} was not concluded"
        for earlier, later in pairwise(plans)
        if earlier.plan_id not in concluded
    ]
    blocks = complete_blocks(records, {each.plan_id for each in plans})
    made = Counter(each.identity for each in blocks)
    faults += [f"measured {count} times: {key}" for key, count in made.items() if count > 1]
    if concluded and (unused := [each for each in blocks if each.plan_id != concluded[-1]]):
        faults.append(f"plan {concluded[-1]} was concluded without {len(unused)} complete blocks")
    return faults


def is_concluded(records: Sequence[Stored], seed: int) -> bool:
    """Whether a plan of the command with that seed is concluded."""
    ids = {each.plan_id for each in records if isinstance(each, Plan) and each.seed == seed}
    return not ids.isdisjoint(_concluded(records))


def complete_blocks(records: Sequence[Stored], plans: set[str] | None = None) -> list[BlockRecord]:
    """The blocks that were not interrupted: of these plans, or of all."""
    blocks = [each for each in records if isinstance(each, BlockRecord) and not each.interrupted]
    return [each for each in blocks if plans is None or each.plan_id in plans]


def _concluded(records: Sequence[Stored]) -> set[str]:
    ended = [each for each in records if isinstance(each, EndedRecord)]
    return {each.plan_id for each in ended if each.how == "concluded"}
