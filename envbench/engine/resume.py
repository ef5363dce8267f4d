"""Find the plan that an earlier call of the same command began, and decide whether to resume it.

The newest plan that asked for the same is resumed if it is incomplete, or if its outcome was never
shown, and nothing that matters has changed since: the machine, the code that its workers load, the
packages of its runtimes, and, if a plan measures code that is being worked on, the files that its
interpreters may import.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

import msgspec

from envbench import runtimes
from envbench.engine.availability import Arm
from envbench.engine.experiment import Experiment
from envbench.model import (
    BlockRecord,
    Design,
    EndedRecord,
    FactsRecord,
    MachineFact,
    PairsDesign,
    Plan,
    RuntimeFact,
    Shared,
    Stored,
)
from envbench.results import store
from envbench.results.reading import Reading, lines

STAMP = "%Y-%m-%dT%H-%M-%SZ"  # of a plan's start, and of its file
_PLAN = b'{"type":"plan"'
CODE = (".py", ".so", ".pyd", ".dylib", ".pth")
OWN_SOURCE = Path(__file__).parents[2]  # the controller's code is not measured


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A plan on disk with its blocks, each once; interrupted blocks are left out."""

    path: Path
    plan: Plan
    done: list[BlockRecord]
    shared: list[Shared] = []
    concluded: bool = False  # its outcome was shown or saved
    abandoned: bool = False
    warnings: list[str] = []  # lines of the file that could not be read

    @property
    def worthless(self) -> bool:
        """Does it hold no measurement, at most failures?"""
        return all(each.failure for each in self.done)


def read(path: Path) -> list[Recorded]:
    """The plans of a file, newest first: one, or several if files were joined by hand."""
    return plans_of(path, store.read(path))


def plans_of(path: Path, reading: Reading) -> list[Recorded]:
    """The plans of what was read from a file, newest first."""
    records = [record for _, record in reading.records]
    by_id = {each.plan_id: each for each in records if isinstance(each, Plan)}
    plans = _newest_first(by_id.values())
    return [_recorded(path, plan, records, reading.warnings) for plan in plans]


def _recorded(path: Path, plan: Plan, records: Sequence[Stored], warnings: list[str]) -> Recorded:
    """What the file's records say about one of its plans."""
    blocks = [each for each in records if isinstance(each, BlockRecord) and not each.interrupted]
    if isinstance(plan.design, PairsDesign):
        blocks = [each for each in blocks if len(each.trials) == 2]
    endings = [each for each in records if isinstance(each, EndedRecord)]
    ended = {each.how for each in endings if each.plan_id == plan.plan_id}
    return Recorded(
        path=path,
        plan=plan,
        done=_each_once(each for each in blocks if each.plan_id == plan.plan_id),
        shared=[e for e in records if isinstance(e, MachineFact | RuntimeFact | FactsRecord)],
        concluded="concluded" in ended,
        abandoned="abandoned" in ended,
        warnings=warnings,
    )


def _each_once(blocks: Iterable[BlockRecord]) -> list[BlockRecord]:
    """The first of each identity: files may have been copied or joined by hand."""
    first: dict[object, BlockRecord] = {}
    for each in blocks:
        first.setdefault(each.identity, each)
    return [*first.values()]


def recorded(
    results: Path, machine: str | None = None, experiment: str | None = None
) -> Iterator[Recorded]:
    """Every plan of a results folder, newest first; of one machine or experiment, if named.

    A plan can be in several files, copied or joined by hand. It is then one plan with the blocks of
    all of them, and continues in the file that is named by its start. Only the files of plans that
    are asked for are decoded.
    """
    places: dict[_Head, list[Path]] = {}
    for path in store.files(results, machine):
        for head in _heads(path):
            if experiment in (None, head.experiment):
                places.setdefault(head, []).append(path)
    for head in _newest_first(places):
        copies = [
            each
            for path in sorted(places[head], key=lambda path: path.stem != head.started_utc)
            for each in read(path)
            if each.plan.plan_id == head.plan_id
        ]
        if copies:
            yield _merged(copies)


def _merged(copies: Sequence[Recorded]) -> Recorded:
    """The first one with the records of all."""
    return msgspec.structs.replace(
        copies[0],
        done=_each_once(block for each in copies for block in each.done),
        shared=[fact for each in copies for fact in each.shared],
        concluded=any(each.concluded for each in copies),
        abandoned=any(each.abandoned for each in copies),
    )


class _Head(msgspec.Struct, frozen=True):
    """The fields of a plan's line that decide whether its file is decoded."""

    plan_id: str
    experiment: str
    started_utc: str


_Started = TypeVar("_Started", _Head, Plan)


def _newest_first(plans: Iterable[_Started]) -> list[_Started]:
    """By start; of one second, the last one first."""
    return sorted(plans, key=attrgetter("started_utc"))[::-1]


def _heads(path: Path) -> set[_Head]:
    """The plans of a file, without decoding its blocks: they are large."""
    heads = set()
    with suppress(OSError), path.open("rb") as file:
        for _, line in lines(file):
            if line.startswith(_PLAN):
                with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    heads.add(msgspec.json.decode(line, type=_Head))
    return heads


def blocks_left(experiment: Experiment[object], old: Recorded) -> int | None:
    """How many blocks the plan still has; None for records that no envbench writes."""
    try:
        return experiment.left(old.plan, old.done)
    except (ArithmeticError, LookupError, StopIteration, TypeError, ValueError):
        return None


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The plan to resume, or one that cannot be resumed, and what has changed since."""

    recorded: Recorded
    changed: list[str] = []


def find(
    plans: Iterable[Recorded],
    wanted: Plan,
    experiment: Experiment[object],
    changes: Callable[[Recorded], list[str]],
) -> Found | None:
    """The plan that the same command has left unfinished; None if there is none.

    A complete plan is unfinished, too, until its outcome was shown. A plan with no blocks, or only
    failures, is skipped if an older one can be resumed. If no plan asked for the same, the newest
    unfinished one of that experiment is returned with what differs.
    """
    refused: Found | None = None
    other: Found | None = None  # of another request
    for each in plans:
        if each.plan.experiment != wanted.experiment or each.abandoned:
            continue
        if each.concluded:
            if each.plan.spec == wanted.spec and not each.worthless:
                return refused
            continue
        left = blocks_left(experiment, each)
        if left is None:
            continue
        if each.plan.spec != wanted.spec:
            if other is None and left:
                other = Found(recorded=each, changed=differences(each.plan, wanted))
            continue
        changed = changes(each)
        if not changed:
            return Found(recorded=each)
        if left and refused is None:
            refused = Found(recorded=each, changed=changed)
        elif not left and not each.worthless:
            return refused
    return refused or other


# ---------------------------------------------------------------- what has changed


def differences(old: Plan, new: Plan) -> list[str]:
    """What keeps ``old`` from being resumed as ``new``; empty if nothing does."""
    request = {
        "the cells (environments, backends, numenv or settings)": old.cells != new.cells,
        "the arms": [each.source for each in old.arms] != [each.source for each in new.arms],
        "--seed": old.seed != new.seed,
        **_design_differences(old.design, new.design),
    }
    changed = [what for what, differs in request.items() if differs]
    if old.spec != new.spec and not changed:
        changed.append("what is asked for")
    changed += ["the machine"] if old.fingerprint != new.fingerprint else []
    if old.cores != new.cores or old.quota != new.quota:
        changed.append("the CPUs that may be used")
    places = {each.name: each.place for each in old.arms}
    for arm in new.arms:
        if places.get(arm.name, arm.place) != arm.place:
            changed.append(f"the {arm.name} is another")
    for key in _changed_keys(old.code, new.code):
        changed.append(f"envbench's worker code of {key.rpartition('/')[0]}")
    for key in _changed_keys(old.runtimes, new.runtimes):
        changed.append(f"the packages or Python of {key}")
    if not changed and old.runtimes.keys() != new.runtimes.keys():
        changed.append("which backends can run here")
    return list(dict.fromkeys(changed))


def _changed_keys(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    return sorted(key for key in old.keys() & new.keys() if old[key] != new[key])


_WORDS = {  # for a design's fields; any other is "the design"
    "repeats": "the number of processes per cell",
    "protocol": "the measured time or steps",
    "quick": "--quick",
    "pairs": "the number of pairs",
    "rule": "what counts as slower",
    "quads": "the slices",
    "slice_s": "the slices",
}


def _design_differences(old: Design, new: Design) -> dict[str, bool]:
    if type(old) is not type(new):
        return {"the design": True}
    differ = (n for n in old.__struct_fields__ if getattr(old, n) != getattr(new, n))
    return {_WORDS.get(name, "the design"): True for name in differ}


def paused_too_long(old: Recorded, longest_s: float | None) -> list[str]:
    """A relative measurement is not resumed after a long pause: the machine has drifted."""
    if longest_s is None or not old.done:
        return []
    paused = time.time() - max(_starts(old.done)) > longest_s
    return [f"it was left for over {longest_s / 60:.0f} minutes"] if paused else []


def _starts(done: Sequence[BlockRecord]) -> list[float]:
    """When each began, in seconds since 1970; 0 for an invalid time."""
    starts = []
    for each in done:
        try:
            starts.append(datetime.fromisoformat(each.started_utc).timestamp())
        except ValueError:
            starts.append(0.0)
    return starts


def edited_since(done: Sequence[BlockRecord], arms: Iterable[Arm]) -> list[str]:
    """Source files that the arms may import and that were written after the first block began."""
    if not done:
        return []
    users: dict[str, dict[str, None]] = {}  # of each interpreter
    for arm in arms:
        user = f"the {arm.name}" if arm.name else arm.backend.name
        users.setdefault(arm.python, {})[user] = None
    return [
        f"{newer}, which {' and '.join(names)} may import"
        for python, names in users.items()
        if (newer := changed_since(python, min(_starts(done)))) is not None
    ]


def changed_since(python: str, moment: float) -> Path | None:
    """A source file on the interpreter's import path that was written later; None if there is
    none."""
    for folder in _import_path(python):
        for place, folders, names in os.walk(folder):
            folders[:] = [name for name in folders if _may_hold_code(Path(place), name)]
            for name in names:
                path = Path(place, name)
                if name.endswith(CODE) and _newest_change(path) > moment:
                    return path
    return None


def _may_hold_code(place: Path, name: str) -> bool:
    own = place == OWN_SOURCE or OWN_SOURCE in place.parents
    return name[0] != "." and name != "__pycache__" and not own


def _newest_change(path: Path) -> float:
    """A file that was copied here with its old time has a new change time. A file with several
    names gets one whenever it gets another name (installers link packages from a cache)."""
    status = path.lstat()
    return status.st_mtime if status.st_nlink > 1 else max(status.st_mtime, status.st_ctime)


def _import_path(python: str) -> list[str]:
    folders = runtimes.ask(python, "import sys; print(*sys.path, sep='\\n')").splitlines()
    return [each for each in folders if os.path.isdir(each) and Path(each) != OWN_SOURCE]
