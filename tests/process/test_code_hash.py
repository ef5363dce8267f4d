"""The hash of a backend's code changes with every file that its worker loads, and with no other."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from envbench import families
from envbench.backends.builtin import BUILT_IN
from envbench.process.code_hash import MODES, WORKER_PATH, code_files, code_hash

ADAPTERS = {backend.name: backend.adapter for backend in BUILT_IN}
ADAPTERS["reference"] = "envbench_adapters.reference:Reference"
EVERY = set(ADAPTERS)
PLUGIN = "envbench_example.serial:Serial"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the worker for tests that edit it."""
    return Path(shutil.copytree(WORKER_PATH, tmp_path / "worker"))


def hashes(tree: Path, mode: str = "measure") -> dict[str, str]:
    return {name: code_hash(adapter, mode, tree) for name, adapter in ADAPTERS.items()}


def edit(tree: Path, name: str, text: str = "\nEDITED = True\n") -> None:
    with (tree / name).open("a") as file:
        file.write(text)


def changed_by(tree: Path, name: str, mode: str = "measure") -> set[str]:
    """The backends whose hash an edit of this file changes."""
    before = hashes(tree, mode)
    edit(tree, name)
    after = hashes(tree, mode)
    return {backend for backend in before if before[backend] != after[backend]}


def names(adapter: str, mode: str = "measure") -> set[str]:
    return {path.relative_to(WORKER_PATH).as_posix() for path in code_files(adapter, mode)}


# ---------------------------------------------------------------- what an edit changes

GYM = families.get("gym").worker
GYMNASIUM = {"for-loop", "subprocess", "sample-factory"}
NUMA = {"envpool-numa", "ceiling"}
ENVPOOL = {"envpool-sync", "envpool-async", "envpool-numa"}


@pytest.mark.parametrize(
    ("name", "backends"),
    [
        ("envbench_adapters/brax_env.py", {"brax"}),
        ("envbench_adapters/jax_batch.py", {"brax", "mjx"}),
        ("envbench_adapters/gymnasium/for_loop.py", {"for-loop", "subprocess"}),
        ("envbench_adapters/free_running/processes.py", {"envpool-numa", "ceiling"}),
        ("envbench_adapters/ceiling/ale.py", {"ceiling"}),  # named by a string alone
        ("envbench_families/base.py", {*GYMNASIUM, *ENVPOOL, "ale-vector", "ceiling"}),
        ("envbench_worker/autoreset.py", {"for-loop", "subprocess", "ale-vector", *ENVPOOL}),
        ("envbench_adapters/free_running/numa_nodes.py", NUMA),
        ("envbench_adapters/reference.py", {"reference"}),
        ("envbench_adapters/__init__.py", EVERY),
        ("envbench_worker/sensors.py", EVERY),
        ("envbench_worker/contract.py", EVERY),
        ("envbench_worker/__main__.py", EVERY),
        ("envbench_worker/measure.py", EVERY),
        ("envbench_worker/audit.py", set()),
        ("envbench_worker/traces.py", set()),
        ("envbench_worker/trace_parts.py", set()),
        ("envbench_adapters/verifying.py", set()),
    ],
)
def test_an_edit_changes_the_hash_of_the_backends_that_load_the_file(
    tree: Path, name: str, backends: set[str]
) -> None:
    assert changed_by(tree, name) == backends


@pytest.mark.parametrize(
    ("name", "modes"),
    [
        ("envbench_worker/audit.py", {"verify"}),
        ("envbench_worker/traces.py", {"verify"}),
        ("envbench_worker/trace_parts.py", {"verify"}),
        ("envbench_adapters/verifying.py", {"verify"}),
        ("envbench_worker/measure.py", {"measure"}),
        ("envbench_worker/sensors.py", MODES),
        ("envbench_adapters/gymnasium/for_loop.py", MODES),
    ],
)
def test_a_file_of_one_mode_changes_only_the_hash_of_that_mode(
    tree: Path, name: str, modes: set[str]
) -> None:
    before = {mode: hashes(tree, mode) for mode in MODES}
    edit(tree, name)
    after = {mode: hashes(tree, mode) for mode in MODES}
    assert {m for m in MODES if before[m]["for-loop"] != after[m]["for-loop"]} == modes


def test_an_edit_of_a_family_changes_the_hash_of_that_familys_cells_only(tree: Path) -> None:
    adapter, pong = ADAPTERS["for-loop"], families.get("atari").worker
    before = [code_hash(adapter, "measure", tree, each) for each in (pong, GYM)]
    edit(tree, "envbench_families/atari.py")
    after = [code_hash(adapter, "measure", tree, each) for each in (pong, GYM)]
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_an_edit_that_imports_another_file_adds_it(tree: Path) -> None:
    late = "\ndef late():\n    from .. import brax_env\n"
    edit(tree, "envbench_adapters/gymnasium/subprocess_vector.py", late)
    assert changed_by(tree, "envbench_adapters/brax_env.py") == {"brax", "subprocess"}


def test_the_imports_of_a_script_in_a_string_belong_to_the_hash(tree: Path) -> None:
    script = '\nSCRIPT = """\nfrom envbench_adapters import brax_env\nbrax_env.go()\n"""\n'
    edit(tree, "envbench_adapters/gymnasium/subprocess_vector.py", script)
    assert changed_by(tree, "envbench_adapters/brax_env.py") == {"brax", "subprocess"}


def test_the_hash_is_the_same_wherever_the_tree_lies(tree: Path) -> None:
    assert hashes(tree) == hashes(WORKER_PATH)


# ---------------------------------------------------------------- what is covered


@pytest.mark.parametrize("mode", sorted(MODES))
@pytest.mark.parametrize("backend", sorted(EVERY))
def test_the_hash_of_every_adapter_covers_the_files_of_all_workers(backend: str, mode: str) -> None:
    module = ADAPTERS[backend].partition(":")[0]
    own = module.replace(".", "/") + ".py"
    every = {f"envbench_worker/{name}.py" for name in ("__main__", "contract", "sensors")}
    assert {own, *every} <= names(ADAPTERS[backend], mode)


def test_different_backends_have_different_hashes() -> None:
    assert len(set(hashes(WORKER_PATH).values())) == len(ADAPTERS)


def test_the_hash_of_a_plugin_covers_the_files_that_all_adapters_share() -> None:
    found = names(PLUGIN)
    assert found >= {
        "envbench_worker/__main__.py",
        "envbench_worker/contract.py",
        "envbench_worker/actions.py",
        "envbench_worker/autoreset.py",
        "envbench_worker/measure.py",
        "envbench_worker/sensors.py",
    }
    assert not [name for name in found if name.startswith("envbench_adapters/")]


def test_the_hash_covers_every_module_that_a_real_worker_loads() -> None:
    """A real process imports the adapter and reports the files that it loaded.

    The module for verifying is imported in every mode, but used in one.
    """
    import json
    import subprocess
    import sys

    code = (
        "import json, sys; sys.path.insert(0, sys.argv[1])\n"
        "import runpy; runpy.run_path(sys.argv[1] + '/envbench_worker/__main__.py')\n"
        "import envbench_worker.measure, importlib; importlib.import_module(sys.argv[2])\n"
        "own = [m for name, m in sys.modules.items() if name.startswith('envbench_')]\n"
        "print(json.dumps([m.__file__ for m in own]))"
    )
    for backend in ("for-loop", "envpool-numa", "ceiling", "ale-vector", "mujoco-rollout"):
        module = ADAPTERS[backend].partition(":")[0]
        words = [sys.executable, "-I", "-c", code, str(WORKER_PATH), module]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        loaded = {Path(file) for file in json.loads(done.stdout.splitlines()[-1])}
        loaded.discard(WORKER_PATH / "envbench_adapters" / "verifying.py")
        assert loaded <= set(code_files(ADAPTERS[backend], "measure")), backend


# ---------------------------------------------------------------- odd trees


def test_a_source_with_a_syntax_error_still_counts(tree: Path) -> None:
    before = hashes(tree)
    edit(tree, "envbench_adapters/brax_env.py", "\ndef broken(:\n")
    after = hashes(tree)
    assert {name for name in before if before[name] != after[name]} == {"brax"}


def test_a_missing_adapter_is_no_error(tree: Path) -> None:
    (tree / "envbench_adapters" / "brax_env.py").unlink()
    assert len(code_hash(ADAPTERS["brax"], "measure", tree)) == 12


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="'train' is not a mode"):
        code_hash(ADAPTERS["for-loop"], "train")


def test_a_second_hash_takes_less_than_20_milliseconds() -> None:
    hashes(WORKER_PATH)
    took = []
    for _ in range(5):
        start = time.perf_counter()
        code_hash(ADAPTERS["ceiling"], "measure")
        took.append(time.perf_counter() - start)
    assert min(took) < 0.02
