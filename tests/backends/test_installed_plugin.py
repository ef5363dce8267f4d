"""A plugin adds a backend: it is installed, listed, measured, and passes the contract.

envbench and the plugin are installed as wheels into a fresh virtual environment. It sees the
dependencies of the interpreter that runs the tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import uv
from helpers.command_line import SHORT
from helpers.virtual_environments import lent_packages, site_packages

from envbench.testing import BackendContract

pytestmark = pytest.mark.slow
REPOSITORY = Path(__file__).parents[2]
PLUGIN = REPOSITORY / "tests" / "fixtures" / "example_plugin"


def call(*command: object, folder: Path) -> subprocess.CompletedProcess[str]:
    alone = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    # pip's folders of wheels, for an installer that does not read pip's settings
    alone.setdefault("UV_FIND_LINKS", ",".join(alone.get("PIP_FIND_LINKS", "").split()))
    words = [str(word) for word in command]
    return subprocess.run(words, cwd=folder, env=alone, capture_output=True, text=True)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh virtual environment with envbench and the example plugin."""
    folder = tmp_path_factory.mktemp("installed")
    installer = uv.find_uv_bin()
    made = call(installer, "venv", "--python", sys.executable, folder / "venv", folder=folder)
    assert made.returncode == 0, made.stderr
    python = folder / "venv" / "bin" / "python"
    (site_packages(python) / "lent.pth").write_text("\n".join(lent_packages()))
    install = [installer, "pip", "install", "--no-deps", "--python", python, REPOSITORY, PLUGIN]
    installed = call(*install, folder=folder)
    assert installed.returncode == 0, installed.stderr
    return python


def test_an_installed_plugin_is_listed_and_ready(python: Path, tmp_path: Path) -> None:
    done = call(python, "-m", "envbench", "backends", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)["backends"]}
    assert rows["example-serial"] == {
        "name": "example-serial",
        "families": ["gym"],
        "status": "ready",
        "reason": "",
        "fix": "",
    }
    assert done.stderr == ""


def test_an_installed_plugin_is_measured(python: Path, tmp_path: Path) -> None:
    task = ["--env", "gym", "--task", "CartPole-v1", "--backend", "example-serial"]
    done = call(python, "-m", "envbench", "run", *task, *SHORT, "--wait", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    (cell,) = json.loads(done.stdout)["cells"]
    assert cell["backend"] == "example-serial"
    assert cell["fps"] > 0


def test_a_plugins_family_is_measured_by_built_in_backends(python: Path, tmp_path: Path) -> None:
    words = ["--env", "example_swing", "--backend", "for-loop", *SHORT, "--wait"]
    done = call(python, "-m", "envbench", "run", *words, "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    (cell,) = json.loads(done.stdout)["cells"]
    assert (cell["env"], cell["task"], cell["frame_skip"]) == ("example_swing", "Pendulum-v1", 1)
    assert cell["fps"] > 0
    report = call(python, "-m", "envbench", "report", folder=tmp_path)
    assert report.returncode == 0, report.stderr
    assert "Example swing - " in (tmp_path / "results" / "README.md").read_text()


def test_an_installed_plugin_passes_every_test_of_the_contract_as_its_author_runs_it(
    python: Path, tmp_path: Path
) -> None:
    found = tmp_path / "found.xml"
    options = ["-q", "-p", "no:cacheprovider", "-W", "error", "--rootdir", tmp_path]
    files = [f"--junitxml={found}", PLUGIN / "test_example.py"]
    done = call(python, "-m", "pytest", *options, *files, folder=tmp_path)
    assert done.returncode == 0, done.stdout
    cases = ET.parse(found).iter("testcase")
    passed = {case.get("name") for case in cases if len(case) == 0}  # no failure, no skip
    assert passed == {name for name in vars(BackendContract) if name.startswith("test_")}
