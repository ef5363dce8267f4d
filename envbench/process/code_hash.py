"""Hash the code that a measurement runs: the worker's own part, and one adapter.

Two measurements of a backend can be compared if the same code made them. ``code_hash`` covers the
sources that a worker of one adapter and one mode loads from the packages in ``worker/``: an edit of
another backend's adapter does not change it. The sources are parsed, not imported, so the tree may
be of another version and need other libraries.

A module is covered if a covered module imports it anywhere, names it in full in a string
(``"envbench_adapters.ceiling.ale:AleCore"``), or has a script in a string that imports it.

In ``__main__.py``, a module that only one mode needs is imported in the method with the mode's
name. Other modes skip that method. What adapters share to verify is covered only in that mode:
a spot check uses it, too, but is not timed.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from functools import lru_cache
from importlib.util import resolve_name
from itertools import accumulate
from pathlib import Path

WORKER_PATH = Path(__file__).parents[1] / "worker"
PACKAGES = ("envbench_worker", "envbench_adapters", "envbench_families")
ENTRY = "envbench_worker.__main__"
VERIFYING = "envbench_adapters.verifying"  # adapters import it, and use it only to verify
FOR_PLUGINS = tuple(f"envbench_worker.{name}" for name in ("contract", "actions", "autoreset"))
MODES = frozenset({"measure", "verify", "probe"})
UNTIMED = frozenset({"spot_check"})  # a method of a measuring worker that changes no figure
_NAMED = re.compile(rf"\b(?:{'|'.join(PACKAGES)})(?:\.\w+)+")


def code_hash(adapter: str, mode: str, root: Path = WORKER_PATH, family: str = "") -> str:
    """Hash the code of an adapter, a family (``module:Class``) and one of ``MODES``: 12 hex digits.

    ``root`` is the folder that holds ``PACKAGES``. A plugin's own code is not covered, because it
    is a package of the runtime and has a version there. ``ValueError``: an unknown mode.
    """
    code = hashlib.sha256()
    for path in code_files(adapter, mode, root, family):
        name = path.relative_to(root).as_posix().encode()
        code.update(name + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return code.hexdigest()[:12]


def code_files(adapter: str, mode: str, root: Path = WORKER_PATH, family: str = "") -> list[Path]:
    """Return the source files that ``code_hash`` covers, sorted."""
    if mode not in MODES:
        raise ValueError(f"{mode!r} is not a mode of the worker: {', '.join(sorted(MODES))}")
    module = adapter.partition(":")[0]
    waiting = [
        ENTRY,
        family.partition(":")[0],
        *([module] if module.partition(".")[0] in PACKAGES else FOR_PLUGINS),
    ]
    files: set[Path] = set()
    while waiting:
        name = waiting.pop()
        place = root.joinpath(*name.split("."))
        path = next(filter(Path.is_file, (place.with_suffix(".py"), place / "__init__.py")), None)
        if path is None or path in files or (name == VERIFYING and mode != "verify"):
            continue
        files.add(path)
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        skipped = (MODES - {mode}) | UNTIMED if name == ENTRY else frozenset[str]()
        waiting += [package, *_names(path.read_bytes(), package, skipped)]
    return sorted(files)


@lru_cache(maxsize=256)
def _names(source: bytes, package: str, skipped: frozenset[str]) -> tuple[str, ...]:
    """The worker's modules that a source of ``package`` may load, and their packages.

    The cache's key is the source itself, so an edit is noticed.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # the worker will fail to import it, and report that
        return ()
    names: set[str] = set()
    for node in _nodes(tree, skipped):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            names.update([module, *(f"{module}.{alias.name}" for alias in node.names)])
        elif isinstance(node, ast.Constant) and any(p in str(node.value) for p in PACKAGES):
            names.update(_NAMED.findall(text := str(node.value)))
            names.update(_names(text.encode(), package, frozenset()))  # if it is a script
    own = (name for name in names if name.partition(".")[0] in PACKAGES)
    prefixes = (accumulate(name.split("."), "{}.{}".format) for name in own)  # and its packages
    return tuple(sorted({prefix for each in prefixes for prefix in each}))


def _nodes(node: ast.AST, skipped: frozenset[str]) -> Iterator[ast.AST]:
    """A node and all below it, but not the functions with these names."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef) and node.name in skipped:
            continue
        yield node
        waiting.extend(ast.iter_child_nodes(node))
