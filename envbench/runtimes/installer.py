"""Makes a backend's virtual environment with ``uv``, whose wheel contains the program.

A failure is a ``SetupFailed`` (exit code 3) with the last lines of the installer's output.
``envbench.runtimes.interpreters`` chooses the folder and removes one that is not complete.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from envbench.backends import Backend
from envbench.errors import SetupFailed
from envbench.runtimes.requirements import find_links

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")  # some installers use colour in a pipe, too
_TAIL_LINES = 12


def python_in(folder: Path) -> Path:
    """The interpreter of a virtual environment."""
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


@dataclass(frozen=True, kw_only=True)
class Installer:
    """Installs into one folder. ``on_line`` gets each step and each line that is printed.

    ``options`` are for ``uv pip install``.
    """

    backend: Backend
    folder: Path
    options: list[str]
    on_line: Callable[[str], None]

    def create(self, python: str, requirements: Sequence[str]) -> None:
        """Make the environment, with these requirements. ``python`` is a version or a path."""
        self.on_line(f"{self.backend.name}: making a runtime with {', '.join(requirements)}")
        self._run([_uv(), "venv", "--python", python, str(self.folder)])
        if requirements:
            self._pip_install(requirements)

    def add(self, requirements: Sequence[str]) -> None:
        """Install more; what is installed stays where the new requirements allow it."""
        self.on_line(f"{self.backend.name}: adding {', '.join(requirements)}")
        try:
            self._pip_install(requirements)
        except SetupFailed as error:
            raise SetupFailed(
                f"{', '.join(requirements)}: {error}",
                hint="Check the network, or name a folder of wheels in UV_FIND_LINKS; or make the "
                "environment yourself, and name it: --baseline-python, --candidate-python.",
            ) from error

    def finish(self) -> None:
        """Run the commands that complete the backend's runtime."""
        places = {"bin": str(python_in(self.folder).parent), "roms": _roms()}
        for command in self.backend.finish:
            self._run([word.format_map(places) for word in command])

    def _pip_install(self, requirements: Sequence[str]) -> None:
        python = str(python_in(self.folder))
        self._run([_uv(), "pip", "install", "--python", python, *self.options, *requirements])

    def _run(self, command: list[str]) -> None:
        tail: deque[str] = deque(maxlen=_TAIL_LINES)
        with subprocess.Popen(
            command,
            cwd=self.folder.parent,  # out of reach of another project's uv settings
            env=_environment(),
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
                    self.on_line(plain)
            except BaseException:  # an interrupt: otherwise leaving `with` would wait for the end
                process.terminate()
                raise
        if process.returncode:
            name, needed = self.backend.name, ", ".join(self.backend.requirements)
            raise SetupFailed(
                f"the runtime of {name!r} could not be made ({needed}):\n" + "\n".join(tail),
                hint=f"Check the network, or name a folder of wheels in UV_FIND_LINKS; then run "
                f"`envbench setup {name}`. Or add --python {name}=PATH, with an interpreter that "
                "has these packages.",
            )


def _uv() -> str:
    import uv

    try:
        return uv.find_uv_bin()
    except FileNotFoundError as error:
        hint = "Install it again: pip install --force-reinstall uv"
        raise SetupFailed(f"the installer is missing: {error}", hint=hint) from error


def _roms() -> str:
    """The Atari ROMs of the ale-py that is installed with envbench."""
    from importlib.util import find_spec

    found = find_spec("ale_py")
    return str(Path(found.origin).parent / "roms") if found and found.origin else ""


def _environment() -> dict[str, str]:
    """The user's environment, with pip's folders of wheels named to uv as well."""
    changes = {"UV_NO_PROGRESS": "1", "NO_COLOR": "1"}
    if links := find_links():
        changes["UV_FIND_LINKS"] = ",".join(links)
    return {**os.environ, **changes}
