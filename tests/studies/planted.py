"""Interpreters whose Ant is really slower by a given share: the arms of ``check_live.py``.

Each has a package ``paced_ant`` with Gymnasium's Ant. The package makes every vector step, every
reset, or its own import take longer. The arms differ only in those three numbers. The baseline's
are zero, and it reads the clock as often.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

TASK = "paced_ant:PacedAnt-v0"
PACKAGE = '''
import time

import gymnasium
from gymnasium.vector import SyncVectorEnv

clock = time.perf_counter_ns


def longer(method, share):
    """The method, followed by a busy wait for that share of the time that it took."""

    def takes_longer(*args, **kwargs):
        began = clock()
        result = method(*args, **kwargs)
        now = clock()
        until = now + share * (now - began)
        while clock() < until:
            pass
        return result

    return takes_longer


SyncVectorEnv.step = longer(SyncVectorEnv.step, {step})
SyncVectorEnv.reset = longer(SyncVectorEnv.reset, {reset})
gymnasium.register(
    id="PacedAnt-v0", entry_point="gymnasium.envs.mujoco.ant_v5:AntEnv", max_episode_steps=1000
)
imported = time.process_time() + {start}
while time.process_time() < imported:
    pass
'''


def make_arm(folder: Path, *, step: float = 0.0, reset: float = 0.0, start: float = 0.0) -> None:
    """Make ``folder/bin/python`` with the packages of this interpreter. ``step`` and ``reset`` are
    shares of their usual time, ``start`` is in seconds. An equal one that already exists is kept
    as it is, so that a stopped check can resume."""
    source = PACKAGE.format(step=step, reset=reset, start=start)
    package = folder / "paced" / "paced_ant.py"
    if package.exists() and package.read_text() == source:
        return
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (lib,) = folder.glob("lib/python*/site-packages")
    lent = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    lent |= {path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")}
    (lib / "lent.pth").write_text("".join(f"{path}\n" for path in (package.parent, *sorted(lent))))
    package.parent.mkdir(exist_ok=True)
    package.write_text(source)
