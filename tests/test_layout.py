"""Rules about files and imports that no linter knows. ``.ci/lint`` runs the linters."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from envbench.backends.builtin import BUILT_IN

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "envbench"
WORKER = PACKAGE / "worker"


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


def test_nothing_loose_is_in_tests() -> None:
    """A test lies in the folder of its room, and what several share in ``helpers``."""
    loose = {path.name for path in ROOT.joinpath("tests").glob("[!.]*") if path.is_file()}
    assert loose == {"conftest.py", "test_layout.py"}


def test_every_folder_of_tests_is_named_after_a_room() -> None:
    others = {"benchmarks", "data", "fixtures", "golden", "helpers", "studies"}
    for folder in ROOT.joinpath("tests").rglob("*/"):
        place = folder.relative_to(ROOT / "tests")
        hidden = any(part.startswith((".", "_")) for part in place.parts)
        if place.parts[:1] and not hidden and place.parts[0] not in others:
            assert (PACKAGE / place).is_dir(), f"tests/{place} has no room"


def test_architecture_names_every_room() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for place in PACKAGE.iterdir():
        if not place.name.startswith(("__", ".")):
            assert f"`{place.stem}`" in text, place.name
