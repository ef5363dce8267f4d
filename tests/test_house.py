"""The house is in order: formatted, linted, strictly typed; two sides that share only JSON."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from envbench.builtin import BUILT_IN

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "envbench"
WORKER = PACKAGE / "worker_path"


def tool(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_ruff_has_nothing_to_say() -> None:
    tool("ruff", "check", ".")


def test_the_code_is_formatted() -> None:
    tool("ruff", "format", "--check", ".")


@pytest.mark.slow
def test_mypy_strict_has_nothing_to_say() -> None:
    tool("mypy")


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


def test_the_controller_imports_nothing_of_the_worker() -> None:
    for path in set(PACKAGE.rglob("*.py")) - set(WORKER.rglob("*.py")):
        roots = {name.split(".")[0] for name in imports(path)}
        assert "envbench_worker" not in roots, path


@pytest.mark.parametrize("library", ["envpool", "gymnasium", "ale_py", "mujoco", "cv2", "jax"])
def test_the_controller_imports_no_measured_library(library: str) -> None:
    for path in set(PACKAGE.rglob("*.py")) - set(WORKER.rglob("*.py")):
        assert library not in {name.split(".")[0] for name in imports(path)}, path


@pytest.mark.parametrize(
    ("room", "forbidden"),
    [
        (
            "errors.py",
            {"model", "statistics", "report", "cli", "process", "results", "experiments"},
        ),
        ("model", {"statistics", "report", "cli", "process", "results", "experiments", "backends"}),
        (
            "statistics.py",
            {"report", "cli", "process", "results", "experiments", "runtimes", "machine"},
        ),
        ("backends.py", {"runtimes", "process", "experiments", "report", "cli", "results"}),
        ("runtimes.py", {"process", "experiments", "report", "cli", "results"}),
        ("installer.py", {"runtimes", "process", "experiments", "report", "cli", "results"}),
        ("process", {"experiments", "report", "cli", "results", "statistics", "runtimes"}),
        ("results", {"process", "experiments", "report", "cli", "statistics", "runtimes"}),
        ("results/reading.py", {"results.store", "results.archive"}),
        ("experiments", {"report", "cli"}),
        ("experiments/campaign.py", {"process.execute", "process.alternate", "runtimes"}),
        (
            "experiments/cells.py",
            {"process", "results", "runtimes", "experiments.campaign", "experiments.session"},
        ),
        (
            "experiments/check/regression.py",
            {"results", "process", "runtimes", "backends", "machine", "experiments"},
        ),
        ("report", {"process", "experiments", "cli", "runtimes", "results.store"}),
        ("cli", {"process.execute", "process.alternate", "process.supervisor"}),
    ],
)
def test_dependencies_point_one_way(room: str, forbidden: set[str]) -> None:
    place = PACKAGE / room
    paths = [*place.rglob("*.py")] if place.is_dir() else [place]
    assert paths
    for path in paths:
        own = (name for name in imports(path) if name.startswith("envbench."))
        names = {name.removeprefix("envbench.") + "." for name in own}
        found = {each for each in forbidden for name in names if name.startswith(f"{each}.")}
        assert not found, f"{path.name} imports {found}"


@pytest.mark.parametrize("name", ["utils", "util", "helpers", "common", "misc"])
def test_there_is_no_drawer_for_everything(name: str) -> None:
    assert not list(PACKAGE.rglob(f"{name}.py"))


def test_a_setting_is_named_in_its_backends_own_entry_only() -> None:
    """The rest asks for a setting's role. The ledger's names are an adapter's facts."""
    names = {each.name for backend in BUILT_IN for each in backend.settings}
    roles = {each.role for backend in BUILT_IN for each in backend.settings}
    own = {"builtin.py", "backends.py", "ledger.py", "settings.py"}
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
