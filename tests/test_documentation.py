"""The documentation as a site, and its notebook."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
slow = pytest.mark.slow


def test_the_example_of_an_adapter_is_the_one_that_the_tests_run() -> None:
    plugin = ROOT / "tests" / "fixtures" / "example_plugin" / "src" / "envbench_example"
    page = (ROOT / "docs" / "backends.md").read_text()
    for name in ("data.py", "serial.py"):
        assert f"```python\n{(plugin / name).read_text()}```" in page
    blocks = page.split("```python\n")
    test = next(each for each in blocks if "BackendContract" in each).split("```")[0]
    whole = (plugin.parents[1] / "test_example.py").read_text()
    assert all(line in whole.splitlines() for line in test.splitlines())


@slow
def test_the_site_builds_without_a_warning_and_has_search_and_every_command(
    tmp_path: Path,
) -> None:
    words = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", ROOT / "docs", tmp_path]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "search.html").exists()
    commands = (tmp_path / "commands.html").read_text()
    for name in ("run", "verify", "check", "report", "cache", "plans"):
        assert f'id="envbench-{name}"' in commands
    assert "envbench.api.measure" in (tmp_path / "python.html").read_text()


@slow
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("ENVBENCH_LOCK_FILE", str(tmp_path / "lock"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    shutil.copy(ROOT / "docs" / "notebook.ipynb", tmp_path)
    notebook = nbformat.read(tmp_path / "notebook.ipynb", as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources).execute()
    *progress, sentence = notebook.cells[1].outputs
    assert {each["name"] for each in progress} == {"stderr"}
    assert "1 block to do" in "".join(each["text"] for each in progress)
    assert "On CartPole-v1, " in sentence["data"]["text/plain"]
    assert "envpool-sync" in notebook.cells[-1].outputs[0]["data"]["text/plain"]
