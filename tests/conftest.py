"""What several test files share: places to call envbench from, and interpreters to point it to."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from interpreters import lent_packages, make_interpreter
from place import ROOT, Place

settings.register_profile("envbench", deadline=None)  # what is slow on a busy machine is no bug
settings.load_profile("envbench")
FAULTY_ENVS = Path(__file__).parent / "fixtures" / "faulty_envs" / "src"


# Where compilers and installers take most of the time: they leave one core to the others.
COMPILES = {"test_brax", "test_genesis", "test_mjx", "test_mujoco_warp", "test_runtimes"}


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Two processes (pytest-xdist): one for what compiles, one for the slow tests that kill
    processes and fill disks and may not meet each other; quick files wherever there is room."""
    groups = {item: _group(item) for item in items}
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))
    order = {"compile": 0, "faults": 1}
    items.sort(key=lambda item: order.get(groups[item], 2))


def _group(item: pytest.Item) -> str:
    if item.get_closest_marker("compiles"):
        return "compile"
    if item.get_closest_marker("slow"):
        return "compile" if item.path.stem in COMPILES else "faults"
    # the kernel's count of processes killed for memory is the machine's
    return "faults" if item.path.stem in ("test_runner", "test_supervisor") else item.path.stem


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
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path_factory.mktemp("programs")))
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
