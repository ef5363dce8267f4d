"""Which interpreter a backend's worker runs in: found, or made as an isolated environment.

In this order: the one that the user named (``--python BACKEND=PATH``); the current interpreter
for a backend without requirements; else a virtual environment made by ``uv`` in the user's cache
(``ENVBENCH_CACHE`` moves it), one for each set of requirements and Python version. A marker file
is written last, under a lock: a folder without it is not ready, and two processes may safely make
the same one at the same time.

Paths are never resolved through symbolic links: a virtual environment's ``python`` is a link to
the interpreter that it was made from, and sees its packages only under its own path.

``make`` raises ``Unavailable`` (exit code 3) with the package and the installer's reason, and
leaves no incomplete folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import msgspec

from envbench import backends
from envbench.backends import Backend
from envbench.errors import Unavailable, UsageError
from envbench.machine.host import host_id
from envbench.model import digest
from envbench.runtimes.installer import distribution, install, packages_for, python_in

TRIES = 3  # for an interpreter that is killed before it answers

MARKER = "envbench-ready.json"
_POOLS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "OPENCV_FOR_THREADS_NUM",
)


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """The interpreter of a backend; not ``ready`` if its environment is not made yet."""

    python: str
    ready: bool


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the backend can run here. If not: ``reason`` says why, ``fix`` what to do."""

    state: Literal["ready", "needs-setup", "unavailable"]
    reason: str = ""
    fix: str = ""


def parse_overrides(texts: Iterable[str]) -> dict[str, str]:
    """Parse ``BACKEND=PATH`` texts of ``--python``: backend name -> interpreter, both checked."""
    overrides = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not path.strip():
            hint = equals and "The path is empty. If a variable gives it, the variable is not set."
            raise UsageError(f"--python takes BACKEND=PATH, not {text!r}.", hint=hint)
        backend = backends.get(name)  # an unknown name is the first error
        overrides[backend.name] = interpreter(path, "--python")
    return overrides


def interpreter(path: str, option: str) -> str:
    """Return the absolute path of the Python that ``option`` names. ``UsageError``: not one."""
    program, hint = shutil.which(os.path.expanduser(path)), "Give the path of its python."
    if program is None:
        inside = Path(path).expanduser() / "bin" / "python"
        hint = f"Did you mean {inside}?" if inside.exists() else hint
        raise UsageError(f"{option}: {path!r} is not an interpreter.", hint=hint)
    found = os.path.abspath(program)  # links are kept
    if ask(found, "import sys; print(sys.version_info >= (3, 8))").strip() != "True":
        raise UsageError(f"{option}: {found} is not a Python 3.8 or newer.", hint=hint)
    return found


def ask(python: str, code: str, *words: str) -> str:
    """Run a line of code in an interpreter. Return what it prints; empty if it does not run.

    An interpreter that is killed from outside gets another try.
    """
    command = [python, "-I", "-c", code, *words]
    for _ in range(TRIES):
        try:
            answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return ""
        if answer.returncode >= 0:
            break
    return answer.stdout


def find(
    backend: Backend,
    overrides: Mapping[str, str],
    family: str = "",
    workload: str = "step",
    over: Sequence[str] = (),
) -> Runtime:
    """Find the interpreter for that backend, family and workload. ``overrides`` are absolute paths.

    With ``over``: an environment of its own, in which these are installed over its requirements.
    """
    if backend.name in overrides:
        return Runtime(python=overrides[backend.name], ready=True)
    backend = _narrowed(backend, family, workload)
    if not backend.requirements and not over:
        return Runtime(python=sys.executable, ready=True)
    folder = _folder(backend, over)
    python = str(python_in(folder))
    ready = (folder / MARKER).exists() and os.path.exists(python)
    return Runtime(python=python, ready=ready)


def one_per_runtime(backend: Backend) -> list[str]:
    """Return the backend's families; of those that share a runtime, only the first."""
    first: dict[tuple[str, ...], str] = {}
    for family in backend.families:
        first.setdefault(tuple(backend.requirements_of(family)), family)
    return [*first.values()]


def cache_folder() -> Path:
    """Return the folder of isolated runtimes."""
    if moved := os.environ.get("ENVBENCH_CACHE"):
        return Path(moved).expanduser().absolute() / "runtimes"
    from platformdirs import user_cache_path

    return user_cache_path("envbench") / "runtimes"


def _narrowed(backend: Backend, family: str, workload: str) -> Backend:
    """The backend with the requirements of that family and workload, and no others."""
    needed = backend.requirements_of(family, workload)
    size = backend.disk_mb_of(family, workload)
    return msgspec.structs.replace(backend, requirements=needed, needs=[], disk_mb=size)


def _version(backend: Backend) -> str:
    return backend.python or f"{sys.version_info.major}.{sys.version_info.minor}"


def _folder(backend: Backend, over: Sequence[str]) -> Path:
    version = _version(backend)
    facts = [sorted(packages_for(backend, version).requirements), backend.finish, version]
    if over:
        facts += [list(over), backend.python or sys.executable]
    return cache_folder() / f"{backend.name}-{digest(facts)}"


def status(
    backend: Backend, overrides: Mapping[str, str], family: str = "", workload: str = "step"
) -> Status:
    """Whether the backend can run here. Imports nothing of it, starts at most one interpreter."""
    backend = _narrowed(backend, family, workload)
    runtime, named = find(backend, overrides), backend.name in overrides
    library = backend.library.partition(".")[0]  # to look for a submodule would import its parent
    if not named and backend.systems and sys.platform not in backend.systems:
        reason = f"{library} runs on {' and '.join(backend.systems)} only"
        return Status(state="unavailable", reason=reason, fix="use a machine with such a system")
    if not runtime.ready:
        reason = f"its runtime ({', '.join(backend.requirements)}) is not built yet"
        return Status(state="needs-setup", reason=reason, fix=f"envbench setup {backend.name}")
    isolated = bool(backend.requirements) and not named
    if isolated or _has(runtime.python, library):
        return Status(state="ready")
    reason = f"{library} is not installed"
    if backend.by_hand:  # no installer has it
        return Status(state="unavailable", reason=reason, fix=backend.by_hand)
    fix = f"{runtime.python} -m pip install {distribution(library)}"
    return Status(state="needs-setup", reason=reason, fix=fix)


def _has(python: str, library: str) -> bool:
    """Whether the interpreter has it. A folder of that name without code does not count."""
    if python == sys.executable:
        spec = find_spec(library)
        return spec is not None and spec.origin is not None
    code = (
        "import sys, importlib.util as u; s = u.find_spec(sys.argv[1]); "
        "print(s is not None and s.origin is not None)"
    )
    return ask(python, code, library).strip() == "True"


def make(
    backend: Backend,
    on_step: Callable[[str], None],
    family: str = "",
    workload: str = "step",
    over: Sequence[str] = (),
) -> Runtime:
    """Return the runtime of that backend, family and workload. Make it first if it is missing.

    ``on_step`` and ``over`` are those of ``install``.
    """
    backend = _narrowed(backend, family, workload)
    try:
        if not find(backend, {}, over=over).ready:
            _make_locked(backend, over, on_step)
    except OSError as error:
        place = str(error.filename)
        if isinstance(error, FileNotFoundError) and not place.startswith(str(cache_folder())):
            raise Unavailable(
                f"the runtime of {backend.name!r} cannot be made: {error}",
                hint="Install that program, or correct the name in the backend's specification.",
            ) from error
        raise Unavailable(
            f"the runtime of {backend.name!r} cannot be written: {error}",
            hint="Set ENVBENCH_CACHE to a folder that you can write to.",
        ) from error
    return find(backend, {}, over=over)


def _make_locked(backend: Backend, over: Sequence[str], on_step: Callable[[str], None]) -> None:
    from filelock import FileLock

    folder, python = _folder(backend, over), _version(backend)
    packages = packages_for(backend, python)
    if over:  # what is installed over it may be built for exactly this Python
        python = backend.python or sys.executable
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if find(backend, {}, over=over).ready:  # another process made it while this one waited
            return
        shutil.rmtree(folder, ignore_errors=True)  # left by a process that was killed
        try:
            install(backend, folder, python, packages, over, on_step)
            facts = {"backend": backend.name, "requirements": [*packages.requirements, *over]}
            (folder / MARKER).write_bytes(msgspec.json.encode(facts))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


def environment(backend: Backend) -> dict[str, str]:
    """Return the variables to set for a worker of this backend, and no others: they are recorded.

    Thread pools are limited to one thread where the backend itself runs in parallel. Otherwise
    numenv processes would start numenv x cores threads.
    """
    pinned = dict.fromkeys(_POOLS, "1") if backend.pin_threads else {}
    return {**pinned, **backend.environment}


def kept_programs(python: str) -> dict[str, str]:
    """Return the variables by which JAX keeps what it compiles, in the runtime of this interpreter.

    Compiled code may not run on another computer's CPU, so each has a folder of its own. Empty if
    envbench did not build the runtime.
    """
    runtime = Path(python).parent.parent
    if runtime.parent != cache_folder():
        return {}
    return {
        "JAX_COMPILATION_CACHE_DIR": str(runtime / "compiled" / host_id()),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "1",
    }
