"""Virtual environments in which tests run workers, made without an installer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

from helpers.skip_or_fail import not_here


def make_interpreter(
    folder: Path, base: str | Path = sys.executable, paths: Sequence[object] = ()
) -> Path:
    """A virtual environment without pip that finds packages in the given folders."""
    subprocess.run([base, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    site_packages(python).joinpath("lent.pth").write_text("".join(f"{path}\n" for path in paths))
    return python


def site_packages(python: Path) -> Path:
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    asked = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return Path(asked.stdout.strip())


def lent_packages() -> list[str]:
    """The folders of packages of the interpreter that runs the tests, also of its .pth files."""
    paths = sysconfig.get_paths()
    listed = {path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")}
    return sorted({paths["purelib"], paths["platlib"], *listed})


def python_3_8() -> Path:
    """A real Python 3.8 of this machine. Skips the test if there is none."""
    for candidate in _candidates():
        code = "import sys; print(sys.executable, sys.version_info[:2] == (3, 8))"
        try:
            asked = subprocess.run(
                [candidate, "-I", "-c", code], capture_output=True, text=True, timeout=30
            )
        except OSError:
            continue
        if asked.stdout.endswith("True\n"):
            return Path(asked.stdout.rsplit(" ", 1)[0])
    return not_here("a Python 3.8 (on PATH, of pyenv or of uv)")


def install(python: Path, *packages: str) -> None:
    """Install packages from an index or a folder of wheels. Skips the test if there is neither."""
    import uv

    links = os.environ.get("UV_FIND_LINKS") or ",".join(
        os.environ.get("PIP_FIND_LINKS", "").split()
    )
    environment = {**os.environ, "UV_FIND_LINKS": links} if links else dict(os.environ)
    words = [uv.find_uv_bin(), "pip", "install", "--quiet", "--python", python, *packages]
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        not_here(f"{' and '.join(packages)} for Python 3.8 ({done.stderr.strip()[-200:]})")


def _candidates() -> Iterator[str | Path]:
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(root.glob("versions/3.8*/bin/python"))
    if found := shutil.which("python3.8"):
        yield found
    import uv

    words = [uv.find_uv_bin(), "python", "find", "--no-python-downloads", "3.8"]
    asked = subprocess.run(words, capture_output=True, text=True)
    if asked.returncode == 0:
        yield asked.stdout.strip()
