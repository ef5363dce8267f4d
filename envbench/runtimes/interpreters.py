"""Which interpreter a backend's worker runs in: found, or made as an isolated environment.

In this order: the one that a person gave (``--python BACKEND=PATH``), the current interpreter
for a backend without requirements, else a virtual environment made by ``uv`` in the user's cache
(``ENVBENCH_CACHE`` moves it), keyed by its requirements and Python version. A marker file is
written last, under a lock: what lacks it is not ready, and two processes may make one at once.

Paths are never resolved through symbolic links: a virtual environment's ``python`` is a link to
the interpreter that it was made from, and only under its own path does it see its packages.

``make`` raises ``SetupFailed`` (exit 3) with the package and the installer's reason, and leaves
nothing half-made. ``find`` raises ``UsageError`` for a given interpreter that is none.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from envbench import backends
from envbench.backends import Backend
from envbench.errors import SetupFailed, UsageError
from envbench.model import digest
from envbench.runtimes import installer
from envbench.runtimes.requirements import Wanted, here

if TYPE_CHECKING:
    from subprocess import CompletedProcess

TRIES = 3  # of an interpreter that is killed before it has answered

_MARKER = "envbench-ready.json"
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
    """An interpreter for a backend. ``managed``: made by envbench, in its cache."""

    backend: str
    python: str
    managed: bool
    ready: bool


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """Can the backend run here? ``reason`` says why not, ``fix`` what to do about it."""

    state: Literal["ready", "needs-setup", "unavailable"]
    reason: str = ""
    fix: str = ""


# ---------------------------------------------------------------- finding


def parse_overrides(texts: Iterable[str]) -> dict[str, str]:
    """``BACKEND=PATH`` texts of ``--python`` as backend name -> interpreter, both checked."""
    overrides = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals or not path:
            raise UsageError(f"--python takes BACKEND=PATH, not {text!r}.")
        backend = backends.get(name)  # an unknown name is told first
        overrides[backend.name] = interpreter(path, "--python")
    return overrides


def interpreter(path: str, option: str) -> str:
    """The absolute path of a Python that ``option`` named; ``UsageError`` where it is none."""
    found = _interpreter(path, option)
    _check_python(found, option)
    return found


def _check_python(path: str, option: str) -> None:
    """Refuse what runs, but is no Python that the worker can run in."""
    asked = ask(path, "import sys; print(sys.version_info >= (3, 8))")
    if isinstance(asked, Exception) or asked.stdout.strip() != "True":
        raise UsageError(
            f"{option}: {path} is not a Python 3.8 or newer.", hint="Give the path of its python."
        )


def ask(python: str, code: str, *words: str) -> CompletedProcess[str] | Exception:
    """What an interpreter says to a line of code, or why it did not run. One that was killed from
    outside is asked again."""
    import subprocess

    for _ in range(TRIES):
        try:
            asked = subprocess.run(
                [python, "-I", "-c", code, *words], capture_output=True, text=True, timeout=60
            )
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            return error
        if asked.returncode >= 0:
            break
    return asked


def _interpreter(path: str, option: str = "--python") -> str:
    """The absolute path of what was given, links kept."""
    found = shutil.which(os.path.expanduser(path))
    if found is None:
        inside = Path(path).expanduser() / "bin" / "python"
        hint = f"Did you mean {inside}?" if inside.exists() else "Give the path of its python."
        raise UsageError(f"{option}: {path!r} is not an interpreter.", hint=hint)
    return os.path.abspath(found)


def find(
    backend: Backend,
    overrides: Mapping[str, str],
    family: str = "",
    workload: str = "step",
    over: Sequence[str] = (),
) -> Runtime:
    """The interpreter for that backend, family and workload. ``ready`` is False where it has yet to
    be made. ``over``: with this installed over its requirements, in an environment of its own."""
    if backend.name in overrides:
        path = _interpreter(overrides[backend.name])
        return Runtime(backend=backend.name, python=path, managed=False, ready=True)
    backend = _for(backend, family, workload)
    if not backend.requirements and not over:
        return Runtime(backend=backend.name, python=sys.executable, managed=False, ready=True)
    folder = _folder(backend, over)
    python = installer.python_in(folder)
    ready = (folder / _MARKER).exists() and python.exists()
    return Runtime(backend=backend.name, python=str(python), managed=True, ready=ready)


def one_per_runtime(backend: Backend) -> list[str]:
    """The backend's families, of those that share a runtime only the first."""
    first: dict[tuple[str, ...], str] = {}
    for family in backend.families:
        first.setdefault(tuple(backend.requirements_of(family)), family)
    return [*first.values()]


def cache_folder() -> Path:
    """Where isolated runtimes are kept."""
    if moved := os.environ.get("ENVBENCH_CACHE"):
        return Path(moved).expanduser().absolute() / "runtimes"
    from platformdirs import user_cache_path

    return user_cache_path("envbench") / "runtimes"


def _for(backend: Backend, family: str, workload: str) -> Backend:
    """The backend with all that it needs for that family and workload."""
    needed = backend.requirements_of(family, workload)
    return msgspec.structs.replace(backend, requirements=needed, needs=[])


def _version(backend: Backend) -> str:
    return backend.python or f"{sys.version_info.major}.{sys.version_info.minor}"


def _wanted(backend: Backend) -> Wanted:
    return here(backend, _version(backend))


def _folder(backend: Backend, over: Sequence[str] = ()) -> Path:
    facts = [sorted(_wanted(backend).requirements), backend.finish, _version(backend)]
    if over:
        facts += [list(over), _base_python(backend)]
    return cache_folder() / f"{backend.name}-{digest(facts)}"


def _base_python(backend: Backend) -> str:
    """What an arm's environment is made from: this very Python, where the backend has no other."""
    return backend.python or sys.executable


# ---------------------------------------------------------------- status


def status(
    backend: Backend, overrides: Mapping[str, str], family: str = "", workload: str = "step"
) -> Status:
    """Whether the backend can run here. Imports nothing of it, starts at most one interpreter."""
    backend = _for(backend, family, workload)
    runtime = find(backend, overrides, family, workload)
    library = backend.library.partition(".")[0]  # to look for a submodule would import its parent
    if backend.name in overrides:
        if _other_has(runtime.python, library):
            return Status(state="ready")
        return _missing(backend, library, runtime.python)
    if backend.systems and sys.platform not in backend.systems:
        reason = f"{library} runs on {' and '.join(backend.systems)} only"
        return Status(state="unavailable", reason=reason, fix="use a machine of that kind")
    if runtime.managed:
        return _managed_status(backend, runtime)
    if _here(library):
        return Status(state="ready")
    return _missing(backend, library, sys.executable)


def _managed_status(backend: Backend, runtime: Runtime) -> Status:
    if runtime.ready:
        return Status(state="ready")
    reason = f"its runtime ({', '.join(backend.requirements)}) is not made yet"
    return Status(state="needs-setup", reason=reason, fix=f"envbench setup {backend.name}")


def _missing(backend: Backend, library: str, python: str) -> Status:
    """A library that no installer offers cannot be set up by a command."""
    reason = f"{library} is not installed"
    if backend.by_hand:
        return Status(state="unavailable", reason=reason, fix=backend.by_hand)
    return Status(state="needs-setup", reason=reason, fix=f"{python} -m pip install {library}")


def _here(library: str) -> bool:
    """Is it installed in this interpreter? A bare folder of that name beside us does not count."""
    from importlib.util import find_spec

    spec = find_spec(library)
    return spec is not None and spec.origin is not None


def _other_has(python: str, library: str) -> bool:
    code = (
        "import sys, importlib.util as u; s = u.find_spec(sys.argv[1]); "
        "sys.exit(s is None or s.origin is None)"
    )
    asked = ask(python, code, library)
    if isinstance(asked, Exception):
        raise UsageError(f"--python: {python} does not run as an interpreter: {asked}") from asked
    if asked.returncode not in (0, 1):
        raise UsageError(
            f"--python: {python} is not a Python interpreter.", hint="Give the path of a python."
        )
    return asked.returncode == 0


# ---------------------------------------------------------------- making


def make(
    backend: Backend,
    on_line: Callable[[str], None],
    family: str = "",
    workload: str = "step",
    over: Sequence[str] = (),
) -> Runtime:
    """Make the isolated runtime of that backend, family and workload, or take the one that is
    there.

    ``on_line`` gets what is done and each line that the installer prints. ``over`` is installed
    after the backend's requirements, and keeps of them what it is compatible with.
    """
    backend = _for(backend, family, workload)
    runtime = find(backend, {}, over=over)
    if not runtime.managed or runtime.ready:
        return runtime
    try:
        _make_locked(backend, over, on_line)
    except OSError as error:
        raise SetupFailed(
            f"the runtime of {backend.name!r} cannot be written: {error}",
            hint="ENVBENCH_CACHE=FOLDER puts runtimes elsewhere.",
        ) from error
    return find(backend, {}, over=over)


def _make_locked(backend: Backend, over: Sequence[str], on_line: Callable[[str], None]) -> None:
    from filelock import FileLock

    folder = _folder(backend, over)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if find(backend, {}, over=over).ready:  # another process made it while we waited
            return
        shutil.rmtree(folder, ignore_errors=True)  # left by one that was killed
        try:
            wanted = _wanted(backend)
            python = _base_python(backend) if over else _version(backend)
            installer.install(backend, folder, wanted, python, on_line)
            if over:
                installer.add(backend, folder, over, wanted.options, on_line)
            installer.finish(backend, folder, on_line)
            facts = {"backend": backend.name, "requirements": [*wanted.requirements, *over]}
            (folder / _MARKER).write_bytes(msgspec.json.encode(facts))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


# ---------------------------------------------------------------- the worker's environment


def environment(backend: Backend) -> dict[str, str]:
    """The variables to set for a worker of this backend, and nothing else: they are recorded.

    Thread pools are pinned to one thread where the parallelism is the backend's own, so that
    numenv workers do not start numenv x cores threads.
    """
    pinned = dict.fromkeys(_POOLS, "1") if backend.pin_threads else {}
    return {**pinned, **backend.environment}
