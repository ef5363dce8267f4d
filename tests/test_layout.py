"""Rules about files and imports that no linter knows. ``.ci/lint`` runs the linters."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from envbench.backends.builtin import BUILT_IN

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "envbench"
WORKER = PACKAGE / "worker"
TESTS = ROOT / "tests"
ABOUT_EVERY_ROOM = {"conftest.py", "test_documentation.py", "test_layout.py"}
NO_ROOM = {"benchmarks", "data", "fixtures", "golden", "helpers", "studies"}


def imports(path: Path) -> set[str]:
    """The modules that a file imports anywhere, by their full names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_the_worker_imports_nothing_of_the_controller() -> None:
    for path in WORKER.rglob("*.py"):
        roots = {name.split(".")[0] for name in imports(path)}
        assert "envbench" not in roots, path


@pytest.mark.parametrize("name", ["utils", "util", "helpers", "common", "misc"])
def test_no_module_has_a_name_that_says_nothing(name: str) -> None:
    assert not list(PACKAGE.rglob(f"{name}.py"))


def test_only_the_entry_of_a_backend_names_its_settings() -> None:
    """Other code asks for the role of a setting. ``reference.py`` names facts of adapters."""
    names = {each.name for backend in BUILT_IN for each in backend.settings}
    roles = {each.role for backend in BUILT_IN for each in backend.settings}
    own = {"builtin.py", "specification.py", "atari.py", "mujoco.py"}
    for path in set(PACKAGE.rglob("*.py")) - set(WORKER.rglob("*.py")):
        if path.name in own:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        constants = [each for each in ast.walk(tree) if isinstance(each, ast.Constant)]
        assert not [each.lineno for each in constants if each.value in names - roles], path
        keys = [each.slice for each in ast.walk(tree) if isinstance(each, ast.Subscript)]
        keys += [
            each.args[0]
            for each in ast.walk(tree)
            if isinstance(each, ast.Call) and ast.unparse(each.func).endswith("settings.get")
        ]
        found = [each for each in keys if isinstance(each, ast.Constant) and each.value in names]
        assert not found, path


def test_only_the_command_line_prints_or_exits() -> None:
    for path in PACKAGE.rglob("*.py"):
        if path.is_relative_to(PACKAGE / "cli") or path.name == "__main__.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in {"print", "sys.exit", "exit", "click.echo"}, path


# ---------------------------------------------------------------- the tree


def test_the_loop_of_the_worker_names_no_adapter_and_no_family() -> None:
    """A job names them. So a new one changes no code of the loop."""
    for path in (WORKER / "envbench_worker").rglob("*.py"):
        roots = {name.split(".")[0] for name in imports(path)}
        assert not roots & {"envbench_adapters", "envbench_families"}, path


def test_an_env_family_knows_no_adapter() -> None:
    for path in (WORKER / "envbench_families").rglob("*.py"):
        assert not [name for name in imports(path) if name.startswith("envbench_adapters")], path


def test_only_tests_of_single_file_rooms_lie_directly_in_tests() -> None:
    """``test_text.py`` tests ``text.py``. What several tests share lies in ``helpers``."""
    loose = {path.name for path in TESTS.glob("[!.]*") if path.is_file()} - ABOUT_EVERY_ROOM
    assert loose <= {f"test_{path.name}" for path in PACKAGE.glob("*.py")}


def folders_of_tests() -> Iterator[Path]:
    """Every folder that holds tests of a room, on every level, relative to ``tests``."""
    for folder in TESTS.rglob("*/"):
        place = folder.relative_to(TESTS)
        hidden = any(part.startswith((".", "_")) for part in place.parts)
        if place.parts and not hidden and place.parts[0] not in NO_ROOM:
            yield place


def test_every_folder_of_tests_is_a_folder_of_envbench() -> None:
    for place in folders_of_tests():
        assert (PACKAGE / place).is_dir(), f"tests/{place} mirrors no folder of envbench"


def test_a_test_with_the_name_of_a_module_lies_where_the_module_lies() -> None:
    for place in folders_of_tests():
        for test in (TESTS / place).glob("test_*.py"):
            module = test.name.removeprefix("test_")
            folders = {path.parent for path in (PACKAGE / place.parts[0]).rglob(module)}
            assert not folders or PACKAGE / place in folders, f"{test} is not beside {module}"


def test_a_room_with_folders_has_its_tests_in_them() -> None:
    """A test that imports only one folder of its room belongs in the tests of that folder."""
    for place in folders_of_tests():
        inner = {path.parent.name for path in (PACKAGE / place).glob("*/*.py")}
        for test in (TESTS / place).glob("test_*.py"):
            names = [name.split(".") for name in imports(test)]
            beside = ["envbench", *place.parts]
            found = {name[len(beside)] for name in names if name[:-1][: len(beside)] == beside}
            assert len(found) != 1 or not found <= inner, f"{test} belongs in {found}"


def test_architecture_names_every_room() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for place in PACKAGE.iterdir():
        if not place.name.startswith(("__", ".", "py.typed")):
            assert f"`{place.stem}`" in text, place.name
