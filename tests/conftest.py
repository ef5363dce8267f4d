"""What several test files share: places to call envbench from, and interpreters to point it to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from interpreters import lent_packages, make_interpreter
from place import Place

FAULTY_ENVS = Path(__file__).parent / "fixtures" / "faulty_envs" / "src"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """An empty folder to call envbench from."""
    made = Place(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="session")
def faulty_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with the packages of this one and ``faulty_envs``."""
    folder = tmp_path_factory.mktemp("faulty")
    return make_interpreter(folder / "venv", paths=[FAULTY_ENVS, *lent_packages()])


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter without any package."""
    return make_interpreter(tmp_path_factory.mktemp("bare") / "venv")
