"""What to install for a backend on this machine: its requirements, with or without a GPU.

PyTorch's wheel on the package index brings gigabytes of CUDA. Where there is no NVIDIA GPU, its
CPU build is installed instead: from a local folder of wheels (``PIP_FIND_LINKS``,
``UV_FIND_LINKS``) that has one, else from PyTorch's own index (uv's ``--torch-backend cpu``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from envbench.backends import Backend


class Packages(msgspec.Struct, frozen=True, kw_only=True):
    """Requirements, and options for ``uv pip install``."""

    requirements: list[str]
    options: list[str] = []


def packages_for(backend: Backend, python: str) -> Packages:
    """What the backend needs on this machine, for a Python such as ``3.11``."""
    needed = [*backend.requirements, *(backend.gpu_requirements if has_gpu() else [])]
    if has_gpu() or "torch" not in map(name_of, needed):
        return Packages(requirements=needed)
    local = _cpu_torch(python, find_links())
    if local is None:
        return Packages(requirements=needed, options=["--torch-backend", "cpu"])
    return Packages(requirements=[local if name_of(each) == "torch" else each for each in needed])


def name_of(requirement: str) -> str:
    """The normalised name in a requirement or in a wheel's path; empty where it is neither."""
    try:
        if requirement.endswith(".whl"):
            return parse_wheel_filename(Path(requirement).name)[0]
        return canonicalize_name(Requirement(requirement).name)
    except (InvalidRequirement, InvalidWheelFilename):
        return ""


@cache
def has_gpu() -> bool:
    """Whether there is an NVIDIA GPU that answers."""
    from envbench.machine.host import gpus

    return bool(gpus())


def find_links() -> list[str]:
    """The folders (or addresses) of wheels that the user named to pip and uv.

    pip separates them by spaces, uv by commas. Folders are made absolute, because the installer
    runs in another one.
    """
    given = os.environ.get("UV_FIND_LINKS", "").split(",")
    links = [*given, *os.environ.get("PIP_FIND_LINKS", "").split()]
    absolute = [os.path.abspath(each) if os.path.exists(each) else each for each in links if each]
    return list(dict.fromkeys(absolute))


def _cpu_torch(python: str, links: Iterable[str]) -> str | None:
    """``torch==VERSION+cpu`` of the newest such wheel in a local folder for this Python."""
    tag, versions = f"cp{python.replace('.', '')}", []
    for path in (path for link in links for path in Path(link).glob("torch-*.whl")):
        try:
            _, version, _, tags = parse_wheel_filename(path.name)
        except InvalidWheelFilename:
            continue
        if version.local == "cpu" and tag in (each.interpreter for each in tags):
            versions.append(version)
    return f"torch=={max(versions)}" if versions else None
