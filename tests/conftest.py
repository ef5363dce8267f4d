"""What several test files share: places to call envbench from, and interpreters to point it to."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import settings
from interpreters import lent_packages, make_interpreter
from paced import interpreter, shorten
from place import ROOT, Place

settings.register_profile("envbench", deadline=None)  # what is slow on a busy machine is no bug
settings.load_profile("envbench")
FAULTY_ENVS = Path(__file__).parent / "fixtures" / "faulty_envs" / "src"


# The longest files, longest first: two processes share the tests file by file.
LONGEST = (
    "test_mjx",
    "test_genesis",
    "test_brax",
    "test_run",
    "test_contract",
    "test_run_faults",
    "test_alternate",
    "test_sample_factory",
    "test_runtimes",
    "test_run_stopped",
    "test_ale_vector",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A long file that begins last would leave one of the two processes idle beside it."""
    place = {name: index for index, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(LONGEST)))


@pytest.fixture(scope="session", autouse=True)
def signals_that_stop() -> None:
    """Heard again where the tests run in the background (``&``, ``nohup``), which ignores them."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def programs_are_kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """XLA's, between workers, as JAX's own cache does for a person who asks it to."""
    folder = tmp_path_factory.getbasetemp()
    shared = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_COMPILATION_CACHE_DIR", str(shared / "programs"))
        yield


@pytest.fixture
def kernels_counts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Held by tests whose processes are killed for memory, and by those that are told apart from
    it: the kernel's counts of such kills are of a whole control group, or of the machine."""
    folder = tmp_path_factory.getbasetemp()
    shared = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    with FileLock(shared / "kernels_counts.lock"):
        yield


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """An empty folder to call envbench from."""
    made = Place(tmp_path)
    yield made
    made.close()


@pytest.fixture
def documents_machines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the original document's four profiles, and none that fits where tests run."""
    folder = tmp_path_factory.mktemp("shipped") / "machines"
    folder.mkdir()
    for name in ("as4124", "dgx-a100", "laptop", "tpu-vm"):
        shutil.copy(ROOT / "machines" / f"{name}.toml", folder)
    return folder


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
    """An empty folder, a lock of its own, and pairs that take three seconds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENVBENCH_LOCK_FILE", str(tmp_path / "lock"))
    shorten(monkeypatch.setattr)
    return tmp_path
