"""The code that the page offers to paste makes environments and steps them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from envbench.report.html.cells import code_of
from envbench.results.folder import load_files
from envbench.results.measured_cells import Measured

RESULTS = Path(__file__).parents[3] / "results"
# What a learner has: a policy, and a time at which it has learnt enough.
LEARNER = """
import numpy as np

class Training:
    left = 30
    def __bool__(self):
        self.left -= 1
        return self.left >= 0

def policy(observations):
    space = getattr(envs, "single_action_space", envs.action_space)
    assert len(observations) == {numenv}
    return np.stack([space.sample() for _ in observations])

training = Training()
"""
RUN_HERE = ("for-loop", "subprocess", "envpool-sync", "envpool-async", "ale-vector")


def measured() -> list[Measured]:
    """A committed cell of each backend of the default environment, in two families."""
    files = sorted(RESULTS.glob("epyc-vm/*.jsonl"))
    found = load_files(files, lambda _: None).selection.measured
    cells = {
        (each.cell.env, each.cell.backend): each
        for each in found
        if each.cell.env in ("atari", "mujoco") and each.cell.backend in RUN_HERE
        if each.cell.numenv == 4 and not each.cell.variant
    }
    return list(cells.values())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="EnvPool has no Windows wheels")
@pytest.mark.parametrize("found", measured(), ids=lambda each: f"{each.cell.env} {each.label}")
def test_the_code_of_a_committed_cell_makes_its_environments_and_steps_them(
    found: Measured, tmp_path: Path
) -> None:
    code = code_of(found)
    assert "while training:" in code
    made, line, loop = code.partition("envs.async_reset()" if "recv" in code else "obs, info")
    learner = LEARNER.format(numenv=found.numenv)
    script = f"if __name__ == '__main__':\n{indented(made + learner + line + loop)}"
    path = tmp_path / "pasted.py"
    path.write_text(script, encoding="utf-8")
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]


def indented(code: str) -> str:
    return "".join(f"    {line}\n" for line in code.splitlines())
