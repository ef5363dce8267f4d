"""The worker: hangs, isolation, and that it runs on a real Python 3.8."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from helpers.command_line import NORMAL, ROOT, SHORT, Place
from helpers.virtual_environments import install, make_interpreter, python_3_8, site_packages

from envbench.model import Job, Protocol
from envbench.process.code_hash import WORKER_PATH
from envbench.process.one_job import execute
from envbench.process.reply import WindowEnded
from envbench.process.supervisor import Limits

slow = pytest.mark.slow
WORKER = WORKER_PATH / "envbench_worker"


# ---------------------------------------------------------------- hangs and crashes, for real


def faulty_job(task: str, **protocol: Any) -> Job:
    return Job(
        run_id="r",
        adapter="envbench_adapters.gymnasium.for_loop:ForLoop",
        family="gym",
        task=f"faulty_envs:{task}-v0",
        numenv=1,
        env_instances=1,
        frame_skip=1,
        settings={"actions": "bank"},
        seed=0,
        protocol=Protocol(**protocol),
    )


@slow
@pytest.mark.parametrize("task", ["Hangs", "HangsPrinting"])
def test_an_environment_that_hangs_silently_or_printing_is_ended_and_reported(
    faulty_python: Path, task: str
) -> None:
    reply = execute(
        faulty_job(task),
        python=str(faulty_python),
        environment=dict(os.environ),
        limits=Limits(warmup_s=0.7, grace_s=0.3),
    )
    assert reply.failure is not None
    assert (reply.failure.reason, reply.failure.phase) == ("stalled", "warmup")
    assert reply.failure.step is not None
    assert 1 <= reply.failure.step <= 50
    assert ("still loading" in reply.failure.stderr_tail) == (task == "HangsPrinting")


@slow
def test_output_of_an_environment_never_reaches_the_reply(faulty_python: Path) -> None:
    windows: list[WindowEnded] = []
    reply = execute(
        faulty_job("PrintsReplies", measured_s=0.1, warmup_min_s=0.1, warmup_max_s=0.2),
        python=str(faulty_python),
        environment=dict(os.environ),
        on_event=lambda event: windows.append(event) if isinstance(event, WindowEnded) else None,
    )
    assert reply.ok, reply.failure
    assert b"printed" not in msgspec.json.encode(reply)
    measured = [each.steps for each in windows if each.phase == "measure"]
    assert reply.measured.steps == measured
    assert "gymnasium" in reply.packages
    assert reply.python == ".".join(map(str, sys.version_info[:3]))


# ---------------------------------------------------------------- Python 3.8

TINY = '''
"""An adapter that needs nothing but the standard library."""
import time

from envbench_worker.contract import Adapter, Counts


class Tiny(Adapter):
    def build(self):
        self.made = 0

    def run(self, calls):
        self.made += calls
        time.sleep(calls * 1e-4)
        return Counts(calls * self.job.numenv, 0)

    def facts(self):
        return {"made": self.made}
'''

IMPORT_ALL = """
import importlib, pkgutil, sys
sys.path.insert(0, sys.argv[1])
import envbench_adapters, envbench_families, envbench_worker
names = [m.name for m in pkgutil.iter_modules(envbench_worker.__path__) if m.name != "__main__"]
for name in names:
    importlib.import_module("envbench_worker." + name)
print(sys.version_info[:2], sorted(names))
"""


@pytest.fixture(scope="module")
def old_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real Python 3.8 without packages, but with the tiny adapter."""
    folder = tmp_path_factory.mktemp("python38")
    python = make_interpreter(folder / "venv", python_3_8())
    (site_packages(python) / "tiny_adapter.py").write_text(TINY)
    return python


@pytest.fixture(scope="module")
def old_gymnasium(old_python: Path) -> Path:
    """The same with numpy and Gymnasium, which needs an index or a folder of wheels."""
    install(old_python, "numpy", "gymnasium")
    return old_python


@slow
def test_every_file_of_the_worker_compiles_under_python_3_8(
    old_python: Path, tmp_path: Path
) -> None:
    words = [old_python, "-W", "error", "-m", "compileall", "-q", "-f", WORKER_PATH]
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_file_of_the_worker_has_the_syntax_of_python_3_8() -> None:
    import ast

    for path in WORKER_PATH.rglob("*.py"):
        ast.parse(path.read_text(), str(path), feature_version=(3, 8))


@slow
def test_the_worker_runs_under_python_3_8_with_the_standard_library_alone(
    old_python: Path,
) -> None:
    job = msgspec.structs.replace(
        faulty_job("None", window_s=0.02, warmup_min_s=0.1, warmup_max_s=0.3, measured_s=0.2),
        adapter="tiny_adapter:Tiny",
        numenv=3,
    )
    reply = execute(job, python=str(old_python), environment=dict(os.environ))
    assert reply.ok, reply.failure
    assert reply.python.startswith("3.8.")
    calls = 1 + sum(reply.warmup.calls) + sum(reply.measured.calls)
    assert reply.facts["made"] == calls
    assert sum(reply.measured.steps) == 3 * sum(reply.measured.calls)


@slow
def test_every_module_of_the_worker_imports_under_python_3_8_with_numpy(
    old_gymnasium: Path,
) -> None:
    words = [old_gymnasium, "-I", "-W", "error", "-c", IMPORT_ALL, WORKER_PATH]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("(3, 8)")
    modules = {path.stem for path in WORKER.glob("*.py")} - {"__init__", "__main__"}
    assert all(repr(name) in done.stdout for name in modules)


@slow
@pytest.mark.parametrize("backend", ["for-loop", "subprocess"])
def test_an_environment_is_measured_under_python_3_8(
    place: Place, old_gymnasium: Path, backend: str
) -> None:
    words = ["--env", "gym", "--task", "CartPole-v1", "--backend", backend, *SHORT]
    done = place.run("run", *words, "--python", f"{backend}={old_gymnasium}", "--json")
    assert done.code == 0, done.err
    assert done.document["cells"][0]["fps"] > 0
    (run,) = place.runs()
    assert run.facts["autoreset"] == "next-step"
    steps, resets = sum(run.measured.steps), sum(run.measured.resets)
    assert steps + resets == 2 * sum(run.measured.calls)
    runtime = next(record for record in place.records() if type(record).__name__ == "RuntimeFact")
    assert runtime.python.startswith("3.8.")


# ---------------------------------------------------------------- the two sides


def test_the_worker_needs_nothing_of_envbench_and_no_measured_library_itself() -> None:
    import ast

    own = {"envbench_worker", "numpy", "__future__"}
    for path in WORKER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                root = name.partition(".")[0]
                assert root in own | set(sys.stdlib_module_names), f"{path.name} imports {name}"


@slow
def test_python_environment_variables_do_not_reach_the_worker(
    place: Place, faulty_python: Path, tmp_path: Path
) -> None:
    trap = tmp_path / "trap"
    trap.mkdir()
    (trap / "numpy.py").write_text("raise SystemExit('the wrong numpy')")
    environment = place.environment(PYTHONPATH=f"{ROOT}{os.pathsep}{trap}")
    (place.folder / "numpy.py").write_text("raise SystemExit('the wrong numpy')")
    words = [*NORMAL, "--backend", "for-loop", "--python", f"for-loop={faulty_python}", *SHORT]
    code = (
        "import sys; sys.path.remove(sys.argv.pop(1)); from envbench.__main__ import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(trap), "run", *map(str, words), "--json"],
        cwd=place.folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["cells"][0]["fps"] > 0
