"""Finds the plan that an earlier call of the same command began, and says whether to resume it.

The newest plan that asked for the same is resumed where it is incomplete, or where its outcome was
never shown, and nothing that matters has changed since: the machine, the code that its workers
load, the packages of its runtimes, and, where a plan measures code that is being worked on, the
files that its interpreters may import.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec

from envbench import runtimes
from envbench.engine.experiment import Experiment
from envbench.engine.preflight import Arm
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
from envbench.results.reading import lines

STAMP = "%Y-%m-%dT%H-%M-%SZ"  # of a plan's start, and of its file
_PLAN = b'{"type":"plan"'
CODE = (".py", ".so", ".pyd", ".dylib", ".pth")
OWN_SOURCE = Path(__file__).parents[2]  # the controller's code is not what is measured


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
        """Does it hold nothing that was measured, but failures at most?"""
        return all(each.failure for each in self.done)


def read(path: Path) -> list[Recorded]:
    """The plans of a file, newest first: one, or several where files were joined by hand."""
    reading = store.read(path)
    records = [record for _, record in reading.records]
    by_id = {each.plan_id: each for each in records if isinstance(each, Plan)}
    last_first = [*by_id.values()][::-1]
    newest_first = sorted(last_first, key=lambda each: each.started_utc, reverse=True)
    return [_recorded(path, plan, records, reading.warnings) for plan in newest_first]


def _recorded(path: Path, plan: Plan, records: Sequence[Stored], warnings: list[str]) -> Recorded:
    """What the file's records say of one of its plans."""
    blocks = [each for each in records if isinstance(each, BlockRecord) and _counts(each, plan)]
    mine = (each for each in records if isinstance(each, EndedRecord))
    ended = {each.how for each in mine if each.plan_id == plan.plan_id}
    return Recorded(
        path=path,
        plan=plan,
        done=_each_once(blocks),
        shared=[e for e in records if isinstance(e, MachineFact | RuntimeFact | FactsRecord)],
        concluded="concluded" in ended,
        abandoned="abandoned" in ended,
        warnings=warnings,
    )


def _each_once(blocks: Iterable[BlockRecord]) -> list[BlockRecord]:
    """The first of each identity: files may have been copied or joined by hand."""
    found: dict[object, BlockRecord] = {}
    for each in blocks:
        found.setdefault(each.identity, each)
    return [*found.values()]


def _counts(block: BlockRecord, plan: Plan) -> bool:
    """Is it the plan's, and not interrupted? A block of a plan of pairs has two trials."""
    whole = len(block.trials) == 2 or not isinstance(plan.design, PairsDesign)
    return block.plan_id == plan.plan_id and not block.interrupted and whole


def recorded(
    results: Path, machine: str | None = None, experiment: str | None = None
) -> Iterator[Recorded]:
    """Every plan of a results folder, newest first; of one machine or experiment, if named.

    A plan that is in several files (copied or joined by hand) is one: what each of them holds of it
    counts, and it continues in the file that is named by its start.
    """
    places: dict[_Head, list[Path]] = {}
    for path in store.files(results):
        if machine in (None, path.parent.name):
            for head in _heads(path):
                if experiment in (None, head.experiment):
                    places.setdefault(head, []).append(path)
    last_first = [*places][::-1]
    for head in sorted(last_first, key=lambda each: each.started_utc, reverse=True):
        copies = [
            each
            for path in sorted(places[head], key=lambda path: path.stem != head.started_utc)
            for each in read(path)
            if each.plan.plan_id == head.plan_id
        ]
        if copies:
            yield _merged(copies)


def _merged(copies: Sequence[Recorded]) -> Recorded:
    """What all of them hold, in the place of the first."""
    if len(copies) == 1:
        return copies[0]
    return msgspec.structs.replace(
        copies[0],
        done=_each_once(block for each in copies for block in each.done),
        shared=[fact for each in copies for fact in each.shared],
        concluded=any(each.concluded for each in copies),
        abandoned=any(each.abandoned for each in copies),
    )


class _Head(msgspec.Struct, frozen=True):
    """Of a plan's line, what is looked at."""

    plan_id: str
    experiment: str
    started_utc: str


def _heads(path: Path) -> set[_Head]:
    """The plans of a file. Only a look: blocks are large, and decoding all of them takes time."""
    found = set()
    with suppress(OSError), path.open("rb") as file:
        for _, line in lines(file):
            if line.startswith(_PLAN):
                with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    found.add(msgspec.json.decode(line, type=_Head))
    return found


def blocks_left(experiment: Experiment[object], found: Recorded) -> int | None:
    """How many blocks the plan still has; None for records that no envbench writes."""
    try:
        return experiment.left(found.plan, found.done)
    except (ArithmeticError, AssertionError, LookupError, StopIteration, TypeError, ValueError):
        return None


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The plan to resume, or the one that cannot be, and what has changed since."""

    recorded: Recorded
    changed: list[str] = []


def find(
    plans: Iterable[Recorded],
    wanted: Plan,
    experiment: Experiment[object],
    changes: Callable[[Recorded], list[str]],
) -> Found | None:
    """What the same command has left unfinished; None where there is nothing of the kind.

    A complete plan is unfinished, too, until its outcome was shown.
    A plan that holds nothing, or only failures, is passed over where an older one can be resumed:
    whatever went wrong then, what was measured before is still good. Where no plan asked for the
    same, the newest unfinished one of that experiment is named with what differs.
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
    """What keeps ``old`` from being resumed as ``new``; empty where nothing does."""
    asked = {
        "the cells (environments, backends, numenv or settings)": old.cells != new.cells,
        "the arms": [each.source for each in old.arms] != [each.source for each in new.arms],
        "--seed": old.seed != new.seed,
        **_of_design(old.design, new.design),
    }
    changed = [what for what, differs in asked.items() if differs]
    if old.spec != new.spec and not changed:
        changed.append("what is asked for")
    changed += ["the machine"] if old.fingerprint != new.fingerprint else []
    if old.cores != new.cores or old.quota != new.quota:
        changed.append("the CPUs that may be used")
    places = {each.name: each.place for each in old.arms}
    for arm in new.arms:
        if places.get(arm.name, arm.place) != arm.place:
            changed.append(f"the {arm.name} is another")
    for key in sorted(old.code.keys() & new.code.keys()):
        if old.code[key] != new.code[key]:
            changed.append(f"envbench's worker code of {key.rpartition('/')[0]}")
    both = old.runtimes.keys() & new.runtimes.keys()
    changed += [
        f"the packages or Python of {key}"
        for key in sorted(both)
        if old.runtimes[key] != new.runtimes[key]
    ]
    if not changed and old.runtimes.keys() != new.runtimes.keys():
        changed.append("which backends can run here")
    return list(dict.fromkeys(changed))


_WORDS = {  # of a design's fields; others are "the design"
    "repeats": "the number of processes per cell",
    "protocol": "the measured time or steps",
    "quick": "--quick",
    "pairs": "the number of pairs",
    "rule": "what counts as slower",
    "quads": "the slices",
    "slice_s": "the slices",
}


def _of_design(old: Design, new: Design) -> dict[str, bool]:
    if type(old) is not type(new):
        return {"the design": True}
    differ = (n for n in old.__struct_fields__ if getattr(old, n) != getattr(new, n))
    return {_WORDS.get(name, "the design"): True for name in differ}


def paused_too_long(found: Recorded, longest_s: float | None) -> list[str]:
    """A measurement relative to its own hour is not resumed in another one."""
    if longest_s is None or not found.done:
        return []
    paused = time.time() - max(_starts(found.done)) > longest_s
    return [f"it was left for over {longest_s / 60:.0f} minutes"] if paused else []


def _starts(done: Sequence[BlockRecord]) -> list[float]:
    """When each began, in seconds since 1970; 0 for what is no time."""
    found = []
    for each in done:
        try:
            found.append(datetime.fromisoformat(each.started_utc).timestamp())
        except ValueError:
            found.append(0.0)
    return found


def edited_since(done: Sequence[BlockRecord], arms: Iterable[Arm]) -> list[str]:
    """Files of code that the arms may import and that were written after the first block began."""
    if not done:
        return []
    began = min(_starts(done))
    changed, users = [], dict[str, dict[str, None]]()
    for arm in arms:
        who = f"the {arm.name}" if arm.name else arm.backend.name
        users.setdefault(arm.python, {})[who] = None
    for python, names in users.items():
        newer = changed_since(python, began)
        if newer is not None:
            changed.append(f"{newer}, which {' and '.join(names)} may import")
    return changed


def changed_since(python: str, moment: float) -> Path | None:
    """A file of code on that interpreter's import path that was written later, if there is one."""
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
    found = path.lstat()
    return found.st_mtime if found.st_nlink > 1 else max(found.st_mtime, found.st_ctime)


def _import_path(python: str) -> Sequence[str]:
    code = "import sys; print(*sys.path, sep='\\n')"
    asked = runtimes.ask(python, code)
    lines = [] if isinstance(asked, Exception) else asked.stdout.splitlines()
    found = [line for line in lines if os.path.isdir(line)]
    return [each for each in found if Path(each) != OWN_SOURCE]
