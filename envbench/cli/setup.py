"""``envbench setup``: create the isolated runtimes of backends that need one.

A failure does not stop the other backends; the exit code is then 3.
``--json`` gives ``{"backends": [{"name", "status", "python", "reason", "fix"}]}``.
"""

from __future__ import annotations

import click

from envbench.backends import Backend, get, plugin_warnings, registry
from envbench.cli.options import AS_JSON, flag
from envbench.cli.output import print_json, tell, warn
from envbench.cli.parse import complete_backend
from envbench.errors import UNAVAILABLE, SetupFailed, UsageError
from envbench.runtimes.interpreters import make, one_per_runtime, status


@click.command()
@click.argument("names", metavar="[BACKEND]...", nargs=-1, shell_complete=complete_backend)
@flag("--all", "Set up every backend that can run here.", "everything")
@AS_JSON
@click.pass_context
def setup(context: click.Context, names: tuple[str, ...], everything: bool, as_json: bool) -> None:
    """Create the isolated runtime of each BACKEND that needs one.

    Backends that run in the current interpreter need none. If one backend cannot be set up, the
    others still are, and the exit code is 3.
    """
    if bool(names) == everything:
        raise UsageError(
            "setup takes one or more backends, or --all.", hint="`envbench backends` lists them."
        )
    # Like `run --backend`, it takes names one by one or separated by commas.
    wanted = dict.fromkeys(name for text in names for name in text.split(","))
    chosen = [get(name) for name in wanted] or list(registry().values())
    warn(plugin_warnings())
    rows = [_set_up(backend) for backend in chosen]
    if as_json:
        print_json({"backends": rows})
    bad = {"failed"} if everything else {"failed", "needs-setup", "unavailable"}
    if any(row["status"] in bad for row in rows):
        context.exit(UNAVAILABLE)


def _set_up(backend: Backend) -> dict[str, str]:
    """Set up the backend for all its families. Returns its row of the document: the first family
    that could not be set up, else the first family."""
    rows = [_set_up_family(backend, family) for family in one_per_runtime(backend)]
    return next((row for row in rows if row["status"] != "ready"), rows[0])


def _set_up_family(backend: Backend, family: str) -> dict[str, str]:
    before = status(backend, {}, family)
    row = {"name": backend.name, "status": before.state, "python": "", "reason": "", "fix": ""}
    isolated = bool(backend.requirements_of(family))
    if before.state != "ready" and (before.state == "unavailable" or not isolated):
        tell(f"{backend.name}: {before.state}: {before.reason}. {before.fix}")
        return {**row, "reason": before.reason, "fix": before.fix}
    try:
        runtime = make(backend, tell, family)
    except SetupFailed as error:
        tell(f"{backend.name}: {error}\n{error.hint}")
        return {**row, "status": "failed", "reason": str(error), "fix": error.hint}
    tell(f"{backend.name}: ready ({runtime.python})")
    return {**row, "status": "ready", "python": runtime.python}
