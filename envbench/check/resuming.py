"""A check that was stopped, found again: the same command goes on with the pairs that it lacks.

Pairs are independent and their number is fixed beforehand, so nothing is lost by a pause. But pairs
of two versions must never be mixed: what was asked for, the worker's code, the machine, the arms'
packages and every file that they import have to be what they were (``differences``).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from envbench import campaign, store
from envbench.check.checking import is_complete
from envbench.check.pairing import Arm
from envbench.model import Check, Pair

CODE = (".py", ".so", ".pyd", ".dylib", ".pth")
# What every call has anew, and what is looked at apart.
_OWN = ("check_id", "started_utc", "command", "envbench_version", "git_commit", "git_dirty")
_LOOKED_AT = ("baseline", "candidate", "fingerprint")


class Unfinished(msgspec.Struct, frozen=True, kw_only=True):
    """A check on disk that was stopped before its end."""

    path: Path
    check: Check
    pairs: list[Pair]


def unfinished(results: Path, machine: str, wanted: Check) -> Unfinished | None:
    """The newest check of that machine that asked for the same, where it is incomplete."""
    for path in reversed([each for each in store.files(results) if each.parent.name == machine]):
        records = [record for _, record in store.read(path).records]
        checks = [record for record in records if isinstance(record, Check)]
        if not checks or not _asked_the_same(checks[-1], wanted):
            continue
        check = checks[-1]
        own = {
            (pair.stage, pair.number, pair.cell.key): pair
            for pair in records
            if isinstance(pair, Pair) and pair.check_id == check.check_id
        }
        pairs = list(own.values())
        return (
            None if is_complete(check, pairs) else Unfinished(path=path, check=check, pairs=pairs)
        )
    return None


def differences(
    old: Unfinished,
    wanted: Check,
    sides: Mapping[str, tuple[Arm, Arm]],
    runtimes: Mapping[str, tuple[str, str]],
) -> list[str]:
    """What keeps it from being gone on with; empty where nothing does. By backend: its arms and
    the hashes of their packages."""
    changed = ["the machine"] if old.check.fingerprint != wanted.fingerprint else []
    facts = {
        "baseline": (old.check.baseline, wanted.baseline),
        "candidate": (old.check.candidate, wanted.candidate),
    }
    for name, (was, now) in facts.items():
        if was.place != now.place:
            changed.append(f"the {name} is another")
        elif was.worker != now.worker:
            changed.append(f"the {name}'s worker code")
    for pair in old.pairs:
        was_in = (pair.baseline.runtime, pair.candidate.runtime)
        for name, was_hash, is_hash in zip(facts, was_in, runtimes[pair.cell.backend], strict=True):
            if was_hash and was_hash != is_hash:
                changed.append(f"the packages or Python of the {name}")
    began = datetime.strptime(old.check.started_utc, campaign.STAMP).replace(tzinfo=UTC)
    for arm in {arm.python: arm for pair in sides.values() for arm in pair}.values():
        newer = changed_since(arm.python, began.timestamp())
        if newer is not None:
            changed.append(f"{newer}, which the {arm.name} may import")
    return list(dict.fromkeys(changed))


def _asked_the_same(old: Check, wanted: Check) -> bool:
    def asked(check: Check) -> dict[str, object]:
        whole = msgspec.structs.asdict(check)
        left = {name: value for name, value in whole.items() if name not in _OWN + _LOOKED_AT}
        return {**left, "sources": (check.baseline.source, check.candidate.source)}

    return asked(old) == asked(wanted)


def changed_since(python: str, moment: float) -> Path | None:
    """A file of code on that interpreter's path that was written later, if there is one."""
    for folder in _import_path(python):
        for place, folders, names in os.walk(folder):
            folders[:] = [name for name in folders if name[0] != "." and name != "__pycache__"]
            for name in names:
                path = Path(place, name)
                if name.endswith(CODE) and _newest_change(path) > moment:
                    return path
    return None


def _newest_change(path: Path) -> float:
    """A file that was copied here with its old time has a new one of its own; what has several
    names has one when it gets another (installers link packages from a cache)."""
    found = path.lstat()
    return found.st_mtime if found.st_nlink > 1 else max(found.st_mtime, found.st_ctime)


def _import_path(python: str) -> list[str]:
    code = "import sys; print(*sys.path, sep='\\n')"
    asked = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, timeout=60)
    return [line for line in asked.stdout.splitlines() if os.path.isdir(line)]
