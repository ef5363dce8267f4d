"""The project of a git working tree as it was at a ref: a checkout in the cache, to be installed.

A checkout is a repository of its own that borrows the working tree's objects, so that what asks git
for its version can, and submodules are there. It is keyed by what is in it, not by its commit: the
working tree has another commit each time it is asked for, and is the same where nothing was edited.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from envbench.errors import SetupFailed, UsageError
from envbench.model import digest
from envbench.runtimes.interpreters import cache_folder

WORKING_TREE = "."  # as a ref: the files that git knows, as they are now
_NOBODY = ("-c", "user.name=envbench", "-c", "user.email=envbench@localhost")
_OF_A_HOOK = {
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_PREFIX",
}  # fmt: skip
_PROJECT = ("pyproject.toml", "setup.py")


def commit_of(ref: str, option: str) -> str:
    """The commit that an option named; ``UsageError`` where there is none."""
    if ref == WORKING_TREE:
        made = _git([*_NOBODY, "stash", "create"], f"{option}: the working tree")
        return made or commit_of("HEAD", option)
    return _git(
        ["rev-parse", "--quiet", "--verify", "--end-of-options", f"{ref}^{{commit}}"],
        f"{option} {ref}: there is no such commit",
    )


def untracked() -> list[str]:
    """Untracked files of the current folder, without ignored ones."""
    words = ["ls-files", "--others", "--exclude-standard"]
    return _git(words, "the working tree").splitlines()


def checked_out(ref: str, option: str) -> Path:
    """The folder of the project that we stand in, as it was at that ref."""
    from filelock import FileLock

    commit = commit_of(ref, option)
    below = _git(["rev-parse", "--show-prefix"], option)
    tree = _git(["rev-parse", f"{commit}^{{tree}}"], option)
    _refuse_no_project(commit, below, f"{option} {ref}")
    folder = cache_folder().parent / "refs" / digest([tree, _top()])
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not folder.is_dir():
            partial = folder.with_name(f"{folder.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)  # left by one that was killed
            _check_out(commit, partial)
            partial.rename(folder)
    return folder / below if below else folder


def _check_out(commit: str, folder: Path) -> None:
    """``git clone --shared`` takes no commit without a branch, and no shallow repository."""
    _git(["init", "--quiet", str(folder)], "a checkout")
    objects = Path(_git(["rev-parse", "--git-path", "objects"], "a checkout")).absolute()
    (folder / ".git" / "objects" / "info" / "alternates").write_text(f"{objects}\n")
    shallow = Path(_git(["rev-parse", "--git-path", "shallow"], "a checkout"))
    if shallow.exists():
        shutil.copy(shallow, folder / ".git" / "shallow")
    inside = ["-C", str(folder), "-c", "advice.detachedHead=false"]
    _git([*inside, "checkout", "--quiet", "--detach", commit], "a checkout")
    for line in _git(
        ["for-each-ref", "--format=%(objectname) %(refname)", "refs/tags"], "tags"
    ).splitlines():
        name, _, tag = line.partition(" ")
        _git([*inside, "update-ref", tag, name], "tags")
    if (folder / ".gitmodules").exists():
        _submodules(inside)


def _submodules(inside: list[str]) -> None:
    """They are fetched from where the working tree has them from."""
    try:
        origin = _git(["remote", "get-url", "origin"], "submodules")
    except UsageError:
        origin = _top()
    _git([*inside, "remote", "add", "origin", origin], "submodules")
    _git([*inside, "submodule", "update", "--quiet", "--init", "--recursive"], "submodules")


def _refuse_no_project(commit: str, below: str, asked: str) -> None:
    names = _git(["ls-tree", "--full-tree", "--name-only", f"{commit}:{below}"], asked).splitlines()
    if not set(_PROJECT) & set(names):
        place = f"in {below}" if below else "at its top"
        raise UsageError(
            f"{asked} has no pyproject.toml or setup.py {place}: nothing to install.",
            hint="Stand in the folder of the project.",
        )


def _top() -> str:
    return _git(["rev-parse", "--show-toplevel"], "the working tree")


def _git(words: list[str], asked: str) -> str:
    try:
        done = subprocess.run(["git", *words], capture_output=True, timeout=600, env=_environment())
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupFailed(
            f"git did not run: {error}",
            hint="Install git, or name an interpreter: --baseline-python, --candidate-python.",
        ) from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise UsageError(": ".join([asked, *said[-1:]]), hint=_hint())
    return done.stdout.decode(errors="replace").strip()


def _environment() -> dict[str, str]:
    """Without what a git hook that called us has said of its own repository."""
    return {name: value for name, value in os.environ.items() if name not in _OF_A_HOOK}


def _hint() -> str:
    words = ["git", "rev-parse", "--is-shallow-repository"]
    asked = subprocess.run(words, capture_output=True, env=_environment())
    if asked.stdout.strip() == b"true":
        return "This clone is shallow: `git fetch --unshallow`, or fetch-depth: 0 in CI."
    return "A ref is a branch, a tag or a commit of the git working tree you stand in."
