"""Run git, and say which commit of envbench is running. This is the only place that runs it.

A library for git would be one more dependency, and most of them run git too. Variables that a git
hook sets for its own repository are removed, because a hook may call envbench.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from envbench.errors import Unavailable, UsageError

TIMEOUT_S = 600.0  # a submodule may be fetched
_SET_BY_HOOKS = {
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_PREFIX",
}  # fmt: skip
_SHALLOW = "This clone is shallow: `git fetch --unshallow`, or fetch-depth: 0 in CI."
_REF = "A ref is a branch, a tag or a commit of the git working tree of the current folder."


def git(*words: str, purpose: str = "git") -> str:
    """Run git. Return what ``git words`` prints, without the spaces around it.

    Raises ``UsageError``, which begins with ``purpose`` and ends with git's last line, if git
    refuses, and ``Unavailable`` if it does not run.
    """
    try:
        done = _run(words)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(
            f"git did not run: {error}",
            hint="Install git, or name an interpreter: --baseline-python, --candidate-python.",
        ) from error
    if done.returncode:
        printed = done.stderr.decode(errors="replace").strip().splitlines()
        shallow = _run(["rev-parse", "--is-shallow-repository"]).stdout.strip() == b"true"
        raise UsageError(": ".join([purpose, *printed[-1:]]), hint=_SHALLOW if shallow else _REF)
    return done.stdout.decode(errors="replace").strip()


def _run(words: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    environment = {name: text for name, text in os.environ.items() if name not in _SET_BY_HOOKS}
    command = ["git", *words]
    return subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, env=environment)


def git_state() -> tuple[str | None, bool | None]:
    """Commit of the running envbench, and whether it was edited; None outside a git checkout."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None, None
    inside = ("-C", str(root))
    try:
        commit = git(*inside, "rev-parse", "HEAD")
        return commit, bool(git(*inside, "status", "--porcelain", "--untracked-files=no"))
    except (UsageError, Unavailable):
        return None, None
