"""Find out what can run here: which interpreter, is the library there, does the task exist?

A worker process in each arm's own runtime is asked, once per backend, family and workload. A
backend that cannot run is a value (``Unavailable``), so that the others continue. The experiment
decides whether that is an error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from envbench import families, runtimes
from envbench.backends import Backend
from envbench.engine.request import Target
from envbench.errors import EnvbenchError, SetupFailed
from envbench.model import Block, Cell, Failure, RuntimeFact, Trial, arm_key, digest
from envbench.process.execute import WORKER
from envbench.process.reply import Reply
from envbench.text import printable

Say = Callable[[str], None]
TRIES = 3  # of a probe or block whose worker is killed; the last one counts
DISTRIBUTIONS = {"ale_py": "ale-py", "cv2": "opencv-python-headless"}  # by the name to import


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """Where trials run: a backend, the interpreter with its packages, and the worker's code.

    ``name`` is "" for the backend's own runtime. ``runtime`` is None until a worker has reported.
    """

    name: str = ""
    backend: Backend
    python: str
    worker: Path = WORKER
    runtime: RuntimeFact | None = None


class Unavailable(msgspec.Struct, frozen=True, kw_only=True):
    """An arm that cannot run here, or does not know the task (then ``known_tasks``).

    ``own_package``: what is missing is the package of the user's own task.
    """

    name: str = ""
    backend: Backend
    failure: Failure
    known_tasks: list[str] | None = None
    own_package: bool = False


Arms = Mapping[str, Arm | Unavailable]  # by ``arm_key``


def probe(
    run_probe: Callable[[Arm, Block], Arm | Unavailable], arm: Arm, cell: Cell
) -> Arm | Unavailable:
    """The arm with its runtime known, or why it cannot run. ``run_probe`` is an executor's.

    A probe that was killed says nothing about the backend, so it is repeated. A kill from outside
    can look like a lack of memory. ``EnvbenchError`` if every probe is killed.
    """
    block = Block(trials=[Trial(cell=cell, arm=arm.name, mode="probe")])
    for _ in range(TRIES):
        answer = run_probe(arm, block)
        if isinstance(answer, Arm) or answer.failure.reason not in ("signal", "out-of-memory"):
            return answer
    assert isinstance(answer, Unavailable)
    if not answer.failure.killed:
        return answer
    raise EnvbenchError(  # an unfinished plan is not given up for this
        f"{cell.backend} could not be asked what it has: {answer.failure.message}, {TRIES} times.",
        hint="Find out what ends it. Nothing is lost: the same command resumes.",
    )


def own_runtime(
    target: Target, overrides: Mapping[str, str], *, setup: bool, say: Say
) -> Arm | Unavailable:
    """The backend's own interpreter for the cell. ``setup``: a missing runtime is made."""
    backend, cell = target.backend, target.cell
    status = runtimes.status(backend, overrides, cell.env, cell.workload)
    if status.state == "unavailable":
        return _unavailable(backend, status.reason, status.fix)
    runtime = runtimes.find(backend, overrides, cell.env, cell.workload)
    if not runtime.ready:
        if not setup:
            return _unavailable(backend, status.reason, status.fix)
        try:
            runtime = runtimes.make(backend, say, cell.env, cell.workload)
        except SetupFailed as error:
            return _unavailable(backend, str(error), error.hint)
    return Arm(backend=backend, python=runtime.python)


def _unavailable(backend: Backend, message: str, fix: str) -> Unavailable:
    failure = Failure(reason="setup", message=message, phase="start", hint=fix)
    return Unavailable(backend=backend, failure=failure)


def kernel_arm(name: str = "") -> Arm:
    """The reference kernel runs in envbench's own interpreter."""
    from envbench.backends.builtin import KERNEL

    return Arm(name=name, backend=KERNEL, python=sys.executable)


def package_differences(
    arms: Arms, names: Sequence[str], cells: Sequence[Cell]
) -> dict[str, list[str]]:
    """How the packages of two named arms differ, by backend: ``envpool 1.2.4 → 1.2.5``.

    Empty unless ``names`` are two.
    """
    differences: dict[str, list[str]] = {}
    for cell in cells if len(names) == 2 else []:
        known = differences.setdefault(cell.backend, [])
        both = _differing(*(arms.get(arm_key(name, cell)) for name in names))
        known += [each for each in both if each not in known]
    return differences


def _differing(first: Arm | Unavailable | None, second: Arm | Unavailable | None) -> list[str]:
    facts = [each.runtime for each in (first, second) if isinstance(each, Arm) and each.runtime]
    if len(facts) < 2:
        return []
    a, b = ({"Python": each.python.split()[0], **each.packages} for each in facts)
    return [
        printable(f"{name} {a.get(name, 'none')} → {b.get(name, 'none')}")
        for name in sorted({*a, *b}, key=str.lower)
        if a.get(name) != b.get(name)
    ]


def answer_of(arm: Arm, cell: Cell, reply: Reply) -> Arm | Unavailable:
    """What a probe's reply means."""
    failure = reply.failure
    if failure is None:
        return msgspec.structs.replace(arm, runtime=runtime_fact(reply))
    if failure.reason == "import" and not failure.hint:
        hint = arm.backend.by_hand or _install_hint(arm, cell, failure.message)
        failure = msgspec.structs.replace(failure, hint=hint)
    return Unavailable(
        name=arm.name,
        backend=arm.backend,
        failure=failure,
        known_tasks=reply.known_tasks,
        own_package=failure.reason == "import" and _is_own_package(cell, failure.message),
    )


def _is_own_package(cell: Cell, message: str) -> bool:
    package = cell.task.partition(":")[0].partition(".")[0]
    return families.get(cell.env).own_tasks and package in message


def _install_hint(arm: Arm, cell: Cell, message: str) -> str:
    """What to do about a failed import: of the library, or of the user's own package."""
    if _is_own_package(cell, message):
        return (
            f"Install the package of {cell.task} into {arm.python} (the current folder is not "
            f"searched), or name the interpreter that has it: --python {arm.backend.name}=PATH"
        )
    missing = re.search(r"No module named '(\w+)", message)
    name = missing[1] if missing else arm.backend.library
    return f"{arm.python} -m pip install {DISTRIBUTIONS.get(name, name)}"


def runtime_fact(reply: Reply) -> RuntimeFact:
    """The interpreter and packages that a reply names, with their hash."""
    return RuntimeFact(
        hash=digest((reply.python, reply.implementation, reply.packages)),
        python=reply.python,
        implementation=reply.implementation,
        packages=reply.packages,
    )
