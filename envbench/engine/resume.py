"""Find the plan that an earlier call of the same command began, and decide whether to resume it.

The newest plan of the same request is resumed if it is incomplete or its outcome was never shown.
Since the plan began, the machine, the interpreters, the code of the workers and the packages must
not have changed. For a plan that measures code under development, the files that its interpreters
may import must be unchanged, too. All of this must also stay as it is while the plan runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec.structs import asdict

from envbench.engine.availability import Arm
from envbench.engine.experiment import Experiment
from envbench.engine.new_plan import STAMP, code_files
from envbench.model import (
    BlockRecord,
    EndedRecord,
    FactsRecord,
    Fingerprint,
    MachineFact,
    Plan,
    RunDesign,
    RuntimeFact,
    Shared,
    Stored,
    VerifyDesign,
    digest,
)
from envbench.results import store
from envbench.results.reading import lines


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A plan on disk with its blocks, each once; interrupted blocks are left out."""

    path: Path
    plan: Plan
    done: list[BlockRecord]
    shared: list[Shared] = []
    concluded: bool = False  # its outcome was shown or saved
    abandoned: bool = False
    warnings: list[str] = []  # lines of the file that could not be read


def read(path: Path, *copies: Path) -> tuple[list[Recorded], list[str]]:
    """The plans of a file, and the lines that could not be read. There are several plans if files
    were joined by hand. ``copies`` hold more records of them."""
    readings = [store.read(each) for each in (path, *copies)]
    records = [record for reading in readings for _, record in reading.records]
    warnings = [each for reading in readings for each in reading.warnings]
    return plans_of(records, path, warnings), warnings


def plans_of(records: Sequence[Stored], path: Path, warnings: list[str]) -> list[Recorded]:
    """The plans among the records of a file."""
    plans = {each.plan_id: each for each in records if isinstance(each, Plan)}
    return [_recorded(path, plan, records, warnings) for plan in plans.values()]


def _recorded(path: Path, plan: Plan, records: Sequence[Stored], warnings: list[str]) -> Recorded:
    """What the records say about a plan."""
    blocks: dict[object, BlockRecord] = {}
    ended: set[str] = set()
    for each in records:
        if isinstance(each, EndedRecord) and each.plan_id == plan.plan_id:
            ended.add(each.how)
        elif isinstance(each, BlockRecord) and each.plan_id == plan.plan_id:
            right_shape = plan.design.trials in (None, len(each.trials))
            if right_shape and not each.interrupted:
                # Files may have been copied or joined by hand.
                blocks.setdefault(each.identity, each)
    return Recorded(
        path=path,
        plan=plan,
        done=[*blocks.values()],
        shared=[e for e in records if isinstance(e, MachineFact | RuntimeFact | FactsRecord)],
        concluded="concluded" in ended,
        abandoned="abandoned" in ended,
        warnings=warnings,
    )


def recorded(
    results: Path, machine: str | None = None, experiment: str | None = None
) -> Iterator[Recorded]:
    """Every plan of a results folder, newest first; of one machine or experiment, if named.

    A plan can be in several files, copied or joined by hand. It is then one plan with the blocks of
    all these files, and continues in the file that is named after its start. Only the files of
    plans that are asked for are decoded.
    """
    plans: dict[str, Plan] = {}
    places: dict[str, dict[Path, None]] = {}
    for path in store.files(results, machine):
        for plan in _heads_in(path):
            if isinstance(plan, Plan) and experiment in (None, plan.experiment):
                plans[plan.plan_id] = plan
                places.setdefault(plan.plan_id, {})[path] = None
    oldest_first = sorted(plans.values(), key=lambda plan: plan.started_utc)
    for plan in reversed(oldest_first):  # the newest first
        paths = sorted(places[plan.plan_id], key=lambda path: path.stem != plan.started_utc)
        yield from (each for each in read(*paths)[0] if each.plan.plan_id == plan.plan_id)


def has_other_hosts(results: Path, machine: str, here: Fingerprint) -> bool:
    """Whether the figures and verifications of that name are not all of this host."""
    for path in store.files(results, machine):
        hosts = {digest(here): here.host}  # by the hash of the fingerprint
        for each in _heads_in(path):
            if isinstance(each, MachineFact):
                hosts[each.hash] = each.fingerprint.host
                continue
            in_tables = isinstance(each.design, RunDesign | VerifyDesign)
            if in_tables and hosts.get(each.fingerprint) != here.host:
                return True
    return False


def _heads_in(path: Path) -> Iterator[MachineFact | Plan]:
    """The machines and plans of a file, without decoding its blocks: they are large."""
    with suppress(OSError), path.open("rb") as file:
        for _, line in lines(file):
            if line.startswith((b'{"type":"machine"', b'{"type":"plan"')):
                with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    yield msgspec.json.decode(line, type=MachineFact | Plan)


def blocks_left(experiment: Experiment[object], old: Recorded) -> int | None:
    """How many blocks the plan still has; None if envbench cannot have written it."""
    try:
        return experiment.left(old.plan, old.done)
    except (ArithmeticError, LookupError, StopIteration, TypeError, ValueError):
        return None


def find(
    plans: Iterable[Recorded],
    wanted: Plan,
    experiment: Experiment[object],
    arms: Mapping[str, Arm] = {},
    *,
    probed: bool = True,
) -> tuple[Recorded, list[str]] | None:
    """The unfinished plan of the same command, and what has changed since. If nothing has, it can
    be resumed. None if there is no such plan.

    A complete plan counts as unfinished until its outcome was shown, after any pause. A complete
    plan in which every block failed does not keep an older plan from being resumed. If no plan is
    of the same request, the result is the newest unfinished one of that experiment and the
    differences.
    """
    refused: tuple[Recorded, list[str]] | None = None
    other: tuple[Recorded, list[str]] | None = None  # of another request
    for each in plans:
        same = each.plan.spec == wanted.spec
        if each.abandoned or (not same and (each.concluded or refused or other)):
            continue  # nothing depends on what is left of it, which may be slow to find out
        left = 0 if each.concluded else blocks_left(experiment, each)
        if left is None:
            continue
        changed = [] if each.concluded else differences(each.plan, wanted, arms, probed=probed)
        if same and not each.concluded:
            changed += paused_too_long(each, experiment.longest_pause_s) if left else []
            if not changed:
                return each, []
        if left and same:
            refused = refused or (each, changed)
        elif left:
            other = other or (each, changed)
        elif same and not all(map(experiment.failures, each.done)):
            return refused
    return refused or other


# ---------------------------------------------------------------- what has changed


def differences(
    old: Plan, new: Plan, arms: Mapping[str, Arm] = {}, *, probed: bool = True
) -> list[str]:
    """What keeps ``old`` from being resumed as ``new``; empty if nothing does. With ``arms``, the
    newest file of changed code is named. If ``new`` was made without probes, it names no runtime.
    """
    before = asdict(old.design)
    request = {
        "the cells (environments, backends, numenv or settings)": old.cells != new.cells,
        "the arms": [each.source for each in old.arms] != [each.source for each in new.arms],
        "--seed": old.seed != new.seed,
        **{
            _WORDS.get(name, "the design"): True
            for name, value in asdict(new.design).items()
            if before.get(name) != value
        },
    }
    changed = {
        **request,
        "the request": old.spec != new.spec and not any(request.values()),
        "the machine": old.fingerprint != new.fingerprint,
        "the CPUs that may be used": (old.cores, old.quota) != (new.cores, new.quota),
    }
    found = [what for what, differs in changed.items() if differs]
    places = _changed_keys(old.places, new.places)
    found += [f"the interpreter or source of {key}" for key in places]
    code = [key.rpartition("/")[0] for key in _changed_keys(old.code, new.code)]
    found += [f"envbench's code for {key}" for key in dict.fromkeys(code)]
    packages = _changed_keys(old.runtimes, new.runtimes)
    found += [f"the packages or Python of {key}" for key in packages]
    users: dict[str, list[str]] = {}  # of each interpreter
    for key in _changed_keys(old.imports, new.imports):
        users.setdefault(arms[key].python if key in arms else "", []).append(key)
    found += [
        f"the code that {' and '.join(keys)} may import{_newest(python, old.started_utc)}"
        for python, keys in users.items()
    ]
    if not found and probed and old.runtimes.keys() != new.runtimes.keys():
        return ["which backends can run here"]
    return found


def _newest(python: str, since_utc: str) -> str:
    """The newest file that the interpreter may import, in brackets; "" if it is older than that."""
    at, path = max(((s.st_mtime, path) for path, s in code_files(python)), default=(0.0, ""))
    newer = time.strftime(STAMP, time.gmtime(at)) > since_utc
    return f" (the newest file is {path})" if newer else ""


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


def paused_too_long(old: Recorded, longest_s: float | None) -> list[str]:
    """The pause, if it was too long to resume a relative measurement: the machine has drifted."""
    if longest_s is None or not old.done:
        return []
    paused = time.time() - max(map(_start, old.done)) > longest_s
    return [f"the time: it was paused for over {longest_s / 60:.0f} minutes"] if paused else []


def _start(block: BlockRecord) -> float:
    """When the block began, in seconds since 1970; 0 for an invalid time."""
    try:
        return datetime.fromisoformat(block.started_utc).timestamp()
    except ValueError:
        return 0.0
