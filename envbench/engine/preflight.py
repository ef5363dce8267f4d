"""Before anything is measured: which interpreter, is the library there, does the task exist?

Each arm of a backend is asked once per family and workload, by a process in its own runtime. What
cannot run is a value (``Cannot``), so that the others continue; whether that is an error is the
experiment's to decide. A probe whose worker is killed is asked again: that says nothing about the
backend.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from envbench import families, runtimes
from envbench.backends import Backend
from envbench.engine.request import Target
from envbench.errors import EnvbenchError, SetupFailed
from envbench.model import Block, Cell, Failure, RuntimeFact, Trial, digest
from envbench.process.execute import WORKER
from envbench.process.reply import Reply
from envbench.text import printable

Say = Callable[[str], None]
TRIES = 3
# Where the name to install is not the name to import.
DISTRIBUTIONS = {"ale_py": "ale-py", "cv2": "opencv-python-headless"}


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """Where trials run: a backend, the interpreter with its packages, and the worker's code.

    ``name`` is "" for the backend's own runtime. ``runtime`` is None until it was asked.
    """

    name: str = ""
    backend: Backend
    python: str
    worker: Path = WORKER
    runtime: RuntimeFact | None = None


class Cannot(msgspec.Struct, frozen=True, kw_only=True):
    """The arm cannot run here, or does not know the task (then ``known_tasks``).

    ``own_package``: what is missing is the package of the user's own task.
    """

    name: str = ""
    backend: Backend
    failure: Failure
    known_tasks: list[str] | None = None
    own_package: bool = False


def ask(look: Callable[[Arm, Block], Arm | Cannot], arm: Arm, cell: Cell) -> Arm | Cannot:
    """The arm with its runtime known, or why it cannot run. A probe that was killed is repeated.

    ``look``: an executor's. A kill from outside can look as if memory had run out.
    """
    probe = Block(trials=[Trial(cell=cell, arm=arm.name, mode="probe")])
    for _ in range(TRIES):
        found = look(arm, probe)
        if isinstance(found, Arm) or found.failure.reason not in ("signal", "out-of-memory"):
            return found
    assert isinstance(found, Cannot)
    if not found.failure.killed:
        return found
    raise EnvbenchError(  # that says nothing about the backend: no plan is given up for it
        f"{cell.backend} could not be asked what it has: {found.failure.message}, {TRIES} times.",
        hint="Find out what ends it. Nothing is lost: the same command resumes.",
    )


def own_runtime(
    target: Target, overrides: Mapping[str, str], *, setup: bool, say: Say
) -> Arm | Cannot:
    """The backend's own interpreter for the cell; its runtime is made where that is allowed."""
    backend, cell = target.backend, target.cell
    status = runtimes.status(backend, overrides, cell.env, cell.workload)
    if status.state == "unavailable":
        return _cannot(backend, status.reason, status.fix)
    found = runtimes.find(backend, overrides, cell.env, cell.workload)
    if not found.ready:
        if not setup:
            return _cannot(backend, status.reason, status.fix)
        try:
            found = runtimes.make(backend, say, cell.env, cell.workload)
        except SetupFailed as error:
            return _cannot(backend, str(error), error.hint)
    return Arm(backend=backend, python=found.python)


def package_differences(first: Arm | Cannot | None, last: Arm | Cannot | None) -> list[str]:
    """What two interpreters do not have in common: ``envpool 1.2.4 → 1.2.5``."""
    facts = [each.runtime for each in (first, last) if isinstance(each, Arm) and each.runtime]
    if len(facts) < 2:
        return []
    a, b = ({"Python": each.python.split()[0], **each.packages} for each in facts)
    return [
        printable(f"{name} {a.get(name, 'none')} → {b.get(name, 'none')}")
        for name in sorted({*a, *b}, key=str.lower)
        if a.get(name) != b.get(name)
    ]


def kernel_arm(name: str = "") -> Arm:
    """The reference kernel runs in envbench's own interpreter."""
    from envbench.backends.builtin import KERNEL

    return Arm(name=name, backend=KERNEL, python=sys.executable)


def _cannot(backend: Backend, message: str, fix: str) -> Cannot:
    failure = Failure(reason="setup", message=message, phase="start", hint=fix)
    return Cannot(backend=backend, failure=failure)


def answer_of(arm: Arm, cell: Cell, reply: Reply) -> Arm | Cannot:
    """What a probe's reply means."""
    if reply.failure is None:
        return msgspec.structs.replace(arm, runtime=runtime_fact(reply))
    failure = reply.failure
    own = failure.reason == "import" and _of_own_package(cell, failure.message)
    if failure.reason == "import" and not failure.hint:
        hint = arm.backend.by_hand or _install_hint(arm, cell, failure.message)
        failure = msgspec.structs.replace(failure, hint=hint)
    return Cannot(
        name=arm.name,
        backend=arm.backend,
        failure=failure,
        known_tasks=reply.known_tasks,
        own_package=own,
    )


def _of_own_package(cell: Cell, message: str) -> bool:
    return (
        families.get(cell.env).own_tasks
        and cell.task.partition(":")[0].partition(".")[0] in message
    )


def _install_hint(arm: Arm, cell: Cell, message: str) -> str:
    """What to do where an import failed: of the library, or of a package of the user's own."""
    if _of_own_package(cell, message):
        return (
            f"Install the package of {cell.task} into {arm.python} (the current folder is not "
            f"searched), or name the interpreter that has it: --python {arm.backend.name}=PATH"
        )
    missing = re.search(r"No module named '(\w+)", message)
    name = missing[1] if missing else arm.backend.library
    return f"{arm.python} -m pip install {DISTRIBUTIONS.get(name, name)}"


def runtime_fact(reply: Reply) -> RuntimeFact:
    """The interpreter and packages that a reply names, with their hash."""
    facts = (reply.python, reply.implementation, reply.packages)
    return RuntimeFact(
        hash=digest(facts),
        python=reply.python,
        implementation=reply.implementation,
        packages=reply.packages,
    )
