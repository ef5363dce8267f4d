"""Before anything is measured: which interpreter, is the library there, does the task exist?

Each backend is asked once a family, by a process in its own runtime. What cannot run is a value
(``Cannot``), so that the others go on; whether that is an error is the caller's to decide.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping

import msgspec

from envbench import backends, runtimes
from envbench.backends import Backend
from envbench.errors import SetupFailed
from envbench.model import Cell, Failure, RuntimeFact, digest
from envbench.plan import order
from envbench.process import execute as runner

Say = Callable[[str], None]
# Where the name to install is not the name to import.
DISTRIBUTIONS = {"ale_py": "ale-py", "cv2": "opencv-python-headless"}


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """The backend runs here, in this interpreter."""

    backend: str
    python: str
    runtime: RuntimeFact


class Cannot(msgspec.Struct, frozen=True, kw_only=True):
    """The backend cannot run here, or does not know the task (``known_tasks``).

    ``own_package``: what is missing is the package of the user's own task.
    """

    backend: str
    failure: Failure
    known_tasks: list[str] | None = None
    own_package: bool = False


def check(cell: Cell, overrides: Mapping[str, str], *, setup: bool, say: Say) -> Ready | Cannot:
    """Ask the cell's backend for its runtime and the task; makes the runtime where allowed."""
    backend = backends.get(cell.backend)
    status = runtimes.status(backend, overrides)
    if status.state == "unavailable":
        return _cannot(backend, "setup", status.reason, status.fix)
    found = runtimes.find(backend, overrides)
    if not found.ready:
        if not setup:
            return _cannot(backend, "setup", status.reason, status.fix)
        try:
            found = runtimes.make(backend, say)
        except SetupFailed as error:
            return _cannot(backend, "setup", str(error), error.hint)
    return _probe(backend, cell, found.python, status.fix)


def _cannot(backend: Backend, reason: str, message: str, fix: str) -> Cannot:
    failure = Failure(reason=reason, message=message, phase="start", hint=fix)  # type: ignore[arg-type]
    return Cannot(backend=backend.name, failure=failure)


def _probe(backend: Backend, cell: Cell, python: str, fix: str) -> Ready | Cannot:
    reply = runner.execute(
        order(cell, mode="probe", run_id="probe", seed=0),
        python=python,
        environment={**os.environ, **runtimes.environment(backend, cell.settings)},
    )
    if reply.failure is not None:
        failure = reply.failure
        own = failure.reason == "import" and _of_own_package(cell, failure.message)
        if failure.reason == "import" and not failure.hint:
            hint = fix or backend.by_hand or _install_hint(backend, cell, python, failure.message)
            failure = msgspec.structs.replace(failure, hint=hint)
        return Cannot(
            backend=backend.name,
            failure=failure,
            known_tasks=reply.known_tasks,
            own_package=own,
        )
    return Ready(backend=backend.name, python=python, runtime=runtime_fact(reply))


def _of_own_package(cell: Cell, message: str) -> bool:
    return cell.env == "gym" and cell.task.partition(":")[0].partition(".")[0] in message


def _install_hint(backend: Backend, cell: Cell, python: str, message: str) -> str:
    """What to do where an import failed: of the library, or of a package of the user's own."""
    if _of_own_package(cell, message):
        return (
            f"Install the package of {cell.task} into {python} (the current folder is not "
            f"searched), or name the interpreter that has it: --python {backend.name}=PATH"
        )
    missing = re.search(r"No module named '(\w+)", message)
    name = missing[1] if missing else backend.library
    return f"{python} -m pip install {DISTRIBUTIONS.get(name, name)}"


def runtime_fact(reply: runner.Reply) -> RuntimeFact:
    """The interpreter and packages that a reply tells of, named by their hash."""
    facts = (reply.python, reply.implementation, reply.packages)
    return RuntimeFact(
        hash=digest(facts),
        python=reply.python,
        implementation=reply.implementation,
        packages=reply.packages,
    )
