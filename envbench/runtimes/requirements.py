"""What to install for a backend on this machine: its requirements, with or without a GPU.

PyTorch's wheel of the package index brings gigabytes of CUDA. Where there is no NVIDIA GPU the CPU
build is taken instead: from a folder of wheels that the installer is told of (``PIP_FIND_LINKS``,
``UV_FIND_LINKS``), else from PyTorch's own index of CPU wheels (uv's ``--torch-backend cpu``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec

from envbench.backends import Backend

_TORCH = re.compile(r"torch(?![\w-])")
_CPU_WHEEL = re.compile(r"torch-([0-9.]+\+cpu)-(cp\d+)-.*\.whl")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Requirements, and options for ``uv pip install``."""

    requirements: list[str]
    options: list[str] = []


def here(backend: Backend, python: str) -> Wanted:
    """What the backend needs on this machine, for a Python such as ``3.11``."""
    wanted = [*backend.requirements, *(backend.gpu_requirements if has_gpu() else [])]
    if has_gpu() or not any(map(_TORCH.match, wanted)):
        return Wanted(requirements=wanted)
    local = _cpu_torch(f"cp{python.replace('.', '')}", find_links())
    if local is None:
        return Wanted(requirements=wanted, options=["--torch-backend", "cpu"])
    return Wanted(requirements=[local if _TORCH.match(each) else each for each in wanted])


@cache
def has_gpu() -> bool:
    """Is there an NVIDIA GPU that answers?"""
    from envbench.machine.probe import gpus

    return bool(gpus())


def find_links() -> list[str]:
    """The folders (or addresses) of wheels that pip and uv are told of, folders made absolute.

    pip parts them by spaces, uv by commas. Absolute, because the installer runs elsewhere.
    """
    given = os.environ.get("UV_FIND_LINKS", "").split(",")
    links = [*given, *os.environ.get("PIP_FIND_LINKS", "").split()]
    absolute = [os.path.abspath(each) if os.path.exists(each) else each for each in links if each]
    return list(dict.fromkeys(absolute))


def _cpu_torch(tag: str, links: Sequence[str]) -> str | None:
    """``torch==VERSION+cpu``, the newest such wheel in a local folder for this Python."""
    names = [path.name for link in links if Path(link).is_dir() for path in Path(link).iterdir()]
    found = [
        wheel[1] for name in names if (wheel := _CPU_WHEEL.fullmatch(name)) and wheel[2] == tag
    ]
    newest = max(found, key=lambda text: [int(n) for n in re.findall(r"\d+", text)], default=None)
    return f"torch=={newest}" if newest else None
