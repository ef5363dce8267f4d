"""Makes a backend's virtual environment with ``uv``: what to install on this machine, and how.

PyTorch's wheel on the package index brings gigabytes of CUDA. Where there is no NVIDIA GPU, its
CPU build is installed instead: from a local folder of wheels (``PIP_FIND_LINKS``,
``UV_FIND_LINKS``) that has one, else from PyTorch's own index (uv's ``--torch-backend cpu``).

A failure is an ``Unavailable`` (exit code 3) with the last lines of the installer's output.
"""

from __future__ import annotations

import logging
import os
import re
import subprocess
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from envbench.backends import Backend
from envbench.errors import Unavailable
from envbench.text import disk

LOG = logging.getLogger(__name__)  # of what installers print
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")  # some installers use colour in a pipe, too
_TAIL_LINES = 12
_DISTRIBUTIONS = {"ale_py": "ale-py", "cv2": "opencv-python-headless"}  # by the name to import


class Packages(NamedTuple):
    """Requirements, and options for ``uv pip install``."""

    requirements: list[str]
    options: list[str] = []


def packages_for(backend: Backend, python: str) -> Packages:
    """Return what the backend needs on this machine, for a Python such as ``3.11``."""
    needed = [*backend.requirements, *(backend.gpu_requirements if has_gpu() else [])]
    if has_gpu() or "torch" not in map(name_of, needed):
        return Packages(needed)
    local = _cpu_torch(python, _find_links())
    if local is None:
        return Packages(needed, ["--torch-backend", "cpu"])
    return Packages([local if name_of(each) == "torch" else each for each in needed])


def distribution(library: str) -> str:
    """Return the name by which an installer knows a library that is imported."""
    return _DISTRIBUTIONS.get(library, library)


def name_of(requirement: str) -> str:
    """Return the normalised name in a requirement or a wheel's path; empty where it is neither."""
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


def _find_links() -> list[str]:
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


def python_in(folder: Path) -> Path:
    """Return the interpreter of a virtual environment."""
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def install(
    backend: Backend,
    folder: Path,
    python: str,
    packages: Packages,
    over: Sequence[str],
    on_step: Callable[[str], None],
) -> None:
    """Make the virtual environment of a backend with ``python``, a version or a path.

    ``over`` is installed last. Other packages keep their versions where it permits. ``on_step``
    gets each step. What the installer prints is logged.
    """
    inside = python_in(folder)
    ale = find_spec("ale_py")  # of the current interpreter
    roms = Path(ale.origin).parent / "roms" if ale and ale.origin else ""
    places = {"bin": inside.parent, "roms": roms}
    pip = ["pip", "install", "--python", str(inside), *packages.options]
    size = f" (about {disk(backend.disk_mb)})" if backend.disk_mb else ""
    on_step(f"{backend.name}: building a runtime with {', '.join(packages.requirements)}{size}")
    try:
        uv = _uv()
        _run([uv, "venv", "--python", python, str(folder)])
        if packages.requirements:
            _run([uv, *pip, *packages.requirements])
        if over:
            on_step(f"{backend.name}: adding {', '.join(over)}")
            _run([uv, *pip, *over])
        for command in backend.finish:
            _run([word.format_map(places) for word in command])
    except subprocess.CalledProcessError as error:
        needed = ", ".join([*packages.requirements, *over])
        raise Unavailable(
            f"the runtime of {backend.name!r} could not be built ({needed}):\n{error.output}",
            hint="Check the network, or name a folder of wheels in UV_FIND_LINKS. Then try again: "
            f"envbench setup {backend.name}. Or name an interpreter that has these packages: "
            f"--python {backend.name}=PATH (for `envbench check`, --baseline-python or "
            "--candidate-python).",
        ) from error


def _run(command: list[str]) -> None:
    """Run it, and log its output; ``CalledProcessError`` with the last lines if it fails.

    It gets the user's environment, with pip's folders of wheels named to uv as well.
    """
    tail: deque[str] = deque(maxlen=_TAIL_LINES)
    changes = {"UV_NO_PROGRESS": "1", "NO_COLOR": "1"}
    if links := _find_links():
        changes["UV_FIND_LINKS"] = ",".join(links)
    with subprocess.Popen(
        command,
        cwd="/",  # out of reach of another project's uv settings
        env={**os.environ, **changes},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        try:
            for line in process.stdout or ():
                plain = _COLOUR.sub("", line).rstrip()
                tail.append(plain)
                LOG.info(plain)
        except BaseException:  # an interrupt: otherwise leaving `with` would wait for the end
            process.terminate()
            raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, "\n".join(tail))


def _uv() -> str:
    import uv

    try:
        return uv.find_uv_bin()
    except FileNotFoundError as error:
        hint = "Install it again: pip install --force-reinstall uv"
        raise Unavailable(f"the installer is missing: {error}", hint=hint) from error
