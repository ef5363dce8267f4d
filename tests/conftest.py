"""Fixtures that several test files share, and how a test session is set up."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
from filelock import FileLock
from helpers import session_cache
from helpers.command_line import Place
from helpers.paced_env import interpreter
from helpers.short_measurements import shorten_pairs
from helpers.virtual_environments import lent_packages, make_interpreter
from hypothesis import settings

from envbench import backends
from envbench.backends import Backend
from envbench.process.reply import Reply
from envbench.runtimes.interpreters import cache_folder
from envbench.testing import BackendContract

settings.register_profile("envbench", deadline=None)  # a busy machine may be slow
settings.load_profile("envbench")
FAULTY_ENVS = Path(__file__).parent / "fixtures" / "faulty_envs" / "src"
MOST_KEPT_BYTES = 500 * 1024**2


def pytest_configure(config: pytest.Config) -> None:
    """Give JAX the programs that earlier sessions compiled, as its own cache does for users.

    A session works on a copy: a worker that a test kills may leave half a file.
    """
    if hasattr(config, "workerinput"):  # a process of xdist: it inherits the variables
        return
    folder, results, state = (
        Path(tempfile.mkdtemp(prefix=f"envbench-{n}-")) for n in ("programs", "once", "state")
    )
    for each in (folder, results, state):
        config.add_cleanup(partial(shutil.rmtree, each, ignore_errors=True))
    os.environ[session_cache.FOLDER] = str(results)
    os.environ["XDG_STATE_HOME"] = str(state)  # of this host's number in a container
    state.chmod(0o755)  # some tests have another user
    if kept_programs().is_dir():
        shutil.copytree(kept_programs(), folder, dirs_exist_ok=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    # With XLA's own caches, the folder's path is in a program's name, so no session would find
    # another's.
    os.environ["JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES"] = "none"


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Keep the compiled programs for the next session, if no test failed."""
    if hasattr(session.config, "workerinput") or exitstatus != pytest.ExitCode.OK:
        return
    kept = kept_programs()
    kept.mkdir(parents=True, exist_ok=True)
    if sum(each.stat().st_size for each in kept.iterdir()) > MOST_KEPT_BYTES:
        shutil.rmtree(kept)  # most of it is of older versions
        kept.mkdir()
    for made in Path(os.environ["JAX_COMPILATION_CACHE_DIR"]).iterdir():
        if not (kept / made.name).exists():
            partial = kept / f"{made.name}.{os.getpid()}"
            shutil.copy(made, partial)
            partial.replace(kept / made.name)


def kept_programs() -> Path:
    """JAX finds a program by its code and versions. It does not compare the features of the CPU,
    and a home folder may be shared by several machines: each kind of CPU has its own folder."""
    cpuinfo = Path("/proc/cpuinfo").read_text() if sys.platform == "linux" else platform.processor()
    features = next((each for each in cpuinfo.splitlines() if "flags" in each.lower()), cpuinfo)
    kind = hashlib.sha256(features.encode()).hexdigest()[:12]
    return cache_folder().with_name("test-programs") / kind


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run slow tests first, so that no process waits at the end for a slow test of another."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(scope="session", autouse=True)
def signals_that_stop() -> None:
    """Restore the signals that a shell ignores in the background (``&``, ``nohup``)."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def contracts_measured_once() -> Iterator[None]:
    """One measuring worker per contract class, also if xdist sends its tests to two processes."""
    in_this_process = BackendContract.measured

    @session_cache.once
    def made(module: str, name: str) -> tuple[Reply, list[int]]:
        contract = getattr(sys.modules[module], name)
        in_this_process(contract())
        return contract.measurements[contract]

    def measured(self: BackendContract) -> Reply:
        own = type(self)
        own.measurements[own] = made(own.__module__, own.__name__)
        return in_this_process(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BackendContract, "measured", measured)
        yield


@pytest.fixture
def kernels_counts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A lock for tests whose processes die when memory runs out, and for tests that count such
    deaths: the kernel counts such kills per control group or per machine."""
    folder = tmp_path_factory.getbasetemp()
    shared = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    with FileLock(shared / "kernels_counts.lock"):
        yield


@pytest.fixture
def unprivileged_user() -> Iterator[None]:
    """Drop the privileges of root for a while: permissions do not stop root."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    yield
    if root:
        os.seteuid(0)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """An empty folder to call envbench from."""
    made = Place(tmp_path)
    yield made
    made.close()


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Callable[[Mapping[str, Backend]], None]:
    """Replaces the backends that envbench knows with the given ones."""
    return lambda known: monkeypatch.setattr(backends.BACKENDS, "loaded", (dict(known), []))


@pytest.fixture(scope="session")
def faulty_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with the packages of this one and ``faulty_envs``."""
    folder = tmp_path_factory.mktemp("faulty")
    return make_interpreter(folder / "venv", paths=[FAULTY_ENVS, *lent_packages()])


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter without any package."""
    return make_interpreter(tmp_path_factory.mktemp("bare") / "venv")


@pytest.fixture(scope="session")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter with ``paced_envs`` at its usual pace: one arm of a check."""
    return interpreter(tmp_path_factory.mktemp("baseline"))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder as the current one, with its own lock, and pairs that take three seconds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENVBENCH_LOCK_FILE", str(tmp_path / "lock"))
    shorten_pairs(monkeypatch.setattr)
    return tmp_path
