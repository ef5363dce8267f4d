"""Find out what can run here: which interpreter, is the library there, does the task exist?

A worker process in each arm's own runtime answers, once per backend, family and workload. An arm
that cannot run gets a ``failure``. The experiment decides whether that is an error.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import combinations
from pathlib import Path

import msgspec
from msgspec.structs import replace

from envbench import families, runtimes
from envbench.backends import Backend
from envbench.backends.builtin import KERNELS
from envbench.engine.target import Target
from envbench.errors import EnvbenchError, Unavailable, UnknownName, UsageError
from envbench.model import Cell, Failure, RuntimeFact, arm_key, digest
from envbench.process.one_job import WORKER
from envbench.process.reply import Reply
from envbench.runtimes.installer import distribution
from envbench.text import printable

Say = Callable[[str], None]
TRIES = 3  # of a probe or block whose worker is killed, at most


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """Where trials run: a backend, the interpreter with its packages, and the worker's code.

    ``target`` is one of those that run there. ``name`` is "" for the backend's own runtime;
    ``source`` is what a person named for the arm. ``runtime`` is None until a worker has reported.
    ``failure``: why the arm cannot run here, or does not know the task (then ``known_tasks``).
    ``not_made``: because its runtime was not to be built.
    """

    name: str = ""
    source: str = ""
    target: Target
    python: str = ""
    worker: Path = WORKER
    runtime: RuntimeFact | None = None
    failure: Failure | None = None
    not_made: bool = False
    known_tasks: list[str] | None = None

    @property
    def cell(self) -> Cell:
        return self.target.cell

    @property
    def backend(self) -> Backend:
        return self.target.backend

    @property
    def to_probe(self) -> bool:
        """Does it need a probe? A reference kernel does not: it is envbench's own."""
        return self.failure is None and self.backend not in KERNELS.values()

    @property
    def key(self) -> str:
        return arm_key(self.name, self.cell)


Arms = Mapping[str, Arm]  # by key


def probe(run_probe: Callable[[Arm], Arm], arm: Arm) -> Arm:
    """The arm with its runtime, or with the reason why it cannot run. ``run_probe`` probes once.

    A killed probe is repeated, because it shows nothing about the backend. A kill from outside can
    look like a lack of memory. ``EnvbenchError`` if every probe is killed.
    """
    for _ in range(TRIES):
        answer = run_probe(arm)
        failure = answer.failure
        if failure is None or failure.reason not in ("signal", "out-of-memory"):
            return answer
    if failure is None or not failure.killed:
        return answer
    raise EnvbenchError(  # the unfinished plan can still be resumed
        f"the probe of {arm.backend.name} was killed {TRIES} times: {failure.message}.",
        hint="Find out what kills it. Nothing is lost: the same command resumes.",
    )


class Build(msgspec.Struct, frozen=True, kw_only=True):
    """A runtime that has to be made first. ``disk_mb``: about its size; 0: unknown."""

    backend: str
    requirements: list[str]
    disk_mb: int


def builds(needs: Iterable[tuple[Backend, str, str]], overrides: Mapping[str, str]) -> list[Build]:
    """The missing runtimes of these backends, families and workloads, each once."""
    found: dict[str, Build] = {}
    for backend, *place in needs:
        runtime = runtimes.find(backend, overrides, *place)
        if runtime.ready or runtime.python in found:
            continue
        if runtimes.status(backend, overrides, *place).state == "needs-setup":
            found[runtime.python] = Build(
                backend=backend.name,
                requirements=backend.requirements_of(*place),
                disk_mb=backend.disk_mb_of(*place),
            )
    return [*found.values()]


def own_runtime(target: Target, overrides: Mapping[str, str], *, setup: bool, say: Say) -> Arm:
    """The backend's own interpreter for the cell. ``setup``: a missing runtime is made."""
    backend, cell = target.backend, target.cell
    status = runtimes.status(backend, overrides, cell.env, cell.workload)
    runtime = runtimes.find(backend, overrides, cell.env, cell.workload)
    message, hint = status.reason, status.fix
    not_made = not setup and not runtime.ready and status.state == "needs-setup"
    if status.state != "unavailable" and setup and not runtime.ready:
        try:
            runtime = runtimes.make(backend, say, cell.env, cell.workload)
        except Unavailable as error:
            message, hint = str(error), error.hint
    if status.state != "unavailable" and runtime.ready:
        return Arm(target=target, python=runtime.python)
    failure = Failure(reason="setup", message=message, phase="start", hint=hint)
    return Arm(target=target, failure=failure, not_made=not_made)


KERNEL_ARM = "kernel"  # the name of its arm beside a cell


def kernel_arm(name: str, kernel: Target) -> Arm:
    """The arm of a reference kernel: it runs in envbench's own interpreter."""
    return Arm(name=name, target=kernel, python=sys.executable)


def package_differences(arms: Arms) -> dict[str, list[str]]:
    """The packages that differ between the two arms that a person named, by backend:
    ``envpool 1.2.4 → 1.2.5``. Empty if no arm was named."""
    differences: dict[str, list[str]] = {}
    for first, second in combinations([arm for arm in arms.values() if arm.source], 2):
        if arm_key("", first.cell) != arm_key("", second.cell):
            continue
        known = differences.setdefault(first.backend.name, [])
        if first.runtime is None or second.runtime is None:
            continue
        facts = (first.runtime, second.runtime)
        a, b = ({"Python": each.python.split()[0], **each.packages} for each in facts)
        for name in sorted({*a, *b}, key=str.lower):
            text = printable(f"{name} {a.get(name, 'none')} → {b.get(name, 'none')}")
            if a.get(name) != b.get(name) and text not in known:
                known.append(text)
    return differences


def answer_of(arm: Arm, reply: Reply) -> Arm:
    """The arm with its runtime, or with the failure in the probe's reply."""
    failure = reply.failure
    if failure is None:
        return replace(arm, runtime=runtime_fact(reply))
    if failure.reason == "import" and not failure.hint:
        hint = arm.backend.by_hand or _install_hint(arm, failure)
        failure = replace(failure, hint=hint)
    return replace(arm, failure=failure, known_tasks=reply.known_tasks)


def lacks_own_package(arm: Arm, failure: Failure) -> bool:
    """Is the missing package that of the user's own task?"""
    package = arm.cell.task.partition(":")[0].partition(".")[0]
    own = arm.target.family.own_tasks
    return own and failure.reason == "import" and package in failure.message


def unknown_task(arm: Arm, known: list[str]) -> UsageError:
    """The error for a task that the arm's backend does not know."""
    cell = arm.cell
    every = families.registry().values()
    owner = next((each.name for each in every if each.default_task == cell.task), cell.env)
    if owner != cell.env:
        message = f"{cell.backend} has no {cell.env} task {cell.task!r}."
        return UsageError(message, hint=f"{cell.task} is of the family {owner}: --env {owner}")
    module, colon, name = cell.task.rpartition(":")
    if colon and not any(each.startswith(module + colon) for each in known):
        message = f"{module} can be imported, but registers no task {name!r}."
        return UsageError(message, hint="It has to call gymnasium.register for its environments.")
    name = f"{cell.env} task of {cell.backend}"
    error = UnknownName(name, cell.task, known, closeness=0.6)
    if arm.target.family.own_tasks and not colon:
        error.hint += ". A task of your own package is written my_package:MyEnv-v0"
    return error


def _install_hint(arm: Arm, failure: Failure) -> str:
    """What to do about a failed import: of the library, or of the user's own package."""
    if lacks_own_package(arm, failure):
        option = f"--{arm.name}-python PATH" if arm.name else f"--python {arm.backend.name}=PATH"
        return (
            f"Install the package of {arm.cell.task} into {arm.python} (the current folder is not "
            f"searched), or name the interpreter that has it: {option}"
        )
    missing = re.search(r"No module named '(\w+)", failure.message)
    if arm.backend.requirements:
        names = shlex.join(arm.backend.requirements)
    else:
        names = distribution(missing[1]) if missing else f"-U {distribution(arm.backend.library)}"
    return f"{arm.python} -m pip install {names}"


def runtime_fact(reply: Reply) -> RuntimeFact:
    """The interpreter and packages that a reply names, with their hash."""
    return RuntimeFact(
        hash=digest((reply.python, reply.implementation, reply.packages)),
        python=reply.python,
        implementation=reply.implementation,
        packages=reply.packages,
    )
