"""Makes a backend's virtual environment by ``uv``, whose wheel carries the binary.

``install`` raises ``SetupFailed`` (exit 3) with the tail of what the installer said. Where it is
made, and that nothing half-made is left, is ``envbench.runtimes.interpreters``'.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from envbench.backends import Backend
from envbench.errors import SetupFailed
from envbench.runtimes.requirements import Wanted, find_links

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")  # some installers paint even where nobody sees
_TAIL_LINES = 12


def python_in(folder: Path) -> Path:
    """The interpreter of a virtual environment."""
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def install(
    backend: Backend,
    folder: Path,
    wanted: Wanted,
    python: str,
    on_line: Callable[[str], None],
) -> None:
    """Make a virtual environment of that Python in ``folder``, with all that is wanted in it.

    ``python`` is a version or a path. ``on_line`` is told what is done and each line that the
    installer prints.
    """
    on_line(f"{backend.name}: making a runtime with {', '.join(wanted.requirements)}")
    _call(backend, folder, [_uv(), "venv", "--python", python, str(folder)], on_line)
    if wanted.requirements:
        _call(backend, folder, _adding(folder, wanted.requirements, wanted.options), on_line)


def add(
    backend: Backend,
    folder: Path,
    requirements: Sequence[str],
    options: Sequence[str],
    on_line: Callable[[str], None],
) -> None:
    """Install more into it: what is there stays, where the new requirements allow it."""
    on_line(f"{backend.name}: over that, {', '.join(requirements)}")
    try:
        _call(backend, folder, _adding(folder, requirements, options), on_line)
    except SetupFailed as error:
        raise SetupFailed(
            f"{', '.join(requirements)}: {error}",
            hint="Check the network, or name a folder of wheels in UV_FIND_LINKS; or make the "
            "environment yourself, and name it: --baseline-python, --candidate-python.",
        ) from error


def finish(backend: Backend, folder: Path, on_line: Callable[[str], None]) -> None:
    """The backend's own last commands."""
    places = {"bin": str(python_in(folder).parent), "roms": _roms()}
    for command in backend.finish:
        _call(backend, folder, [word.format_map(places) for word in command], on_line)


def _adding(folder: Path, requirements: Sequence[str], options: Sequence[str]) -> list[str]:
    python = str(python_in(folder))
    return [_uv(), "pip", "install", "--python", python, *options, *requirements]


def _roms() -> str:
    """The Atari ROMs that the ale-py beside envbench ships."""
    from importlib.util import find_spec

    found = find_spec("ale_py")
    return str(Path(found.origin).parent / "roms") if found and found.origin else ""


def _uv() -> str:
    import uv

    try:
        return uv.find_uv_bin()
    except FileNotFoundError as error:
        raise SetupFailed(
            f"the installer is missing: {error}", hint="pip install --force-reinstall uv"
        ) from error


def _call(
    backend: Backend, folder: Path, command: list[str], on_line: Callable[[str], None]
) -> None:
    """Run the installer to its end; ``SetupFailed`` with the tail of what it said."""
    import subprocess

    tail: deque[str] = deque(maxlen=_TAIL_LINES)
    with subprocess.Popen(
        command,
        cwd=folder.parent,  # another project's uv settings do not reach a shared runtime
        env=_installer_environment(),
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
                on_line(plain)
        except BaseException:  # an interrupt: without it, leaving `with` would wait for the end
            process.terminate()
            raise
    if process.returncode:
        raise _failed(backend, tail)


def _failed(backend: Backend, tail: Iterable[str]) -> SetupFailed:
    return SetupFailed(
        f"the runtime of {backend.name!r} could not be made "
        f"({', '.join(backend.requirements)}):\n" + "\n".join(tail),
        hint=f"Check the network, or name a folder of wheels in UV_FIND_LINKS, then "
        f"`envbench setup {backend.name}`; or --python {backend.name}=PATH "
        f"for an interpreter that has it.",
    )


def _installer_environment() -> dict[str, str]:
    """The environment for uv: the user's, with pip's folders of wheels handed on."""
    changes = {"UV_NO_PROGRESS": "1", "NO_COLOR": "1"}
    if links := find_links():
        changes["UV_FIND_LINKS"] = ",".join(links)
    return {**os.environ, **changes}
