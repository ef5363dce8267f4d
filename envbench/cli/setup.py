"""``envbench setup``: make the isolated runtimes of backends that need one.

Each is made on its own: one that fails leaves the others to go on, and the exit code is 3 at the
end. ``--json`` gives ``{"backends": [{"name", "status", "python", "reason", "fix"}]}``.
"""

from __future__ import annotations

from collections.abc import Callable

import click

from envbench.backends import Backend, get, plugin_warnings, registry
from envbench.cli.backends import complete
from envbench.cli.options import AS_JSON
from envbench.errors import UNAVAILABLE, SetupFailed, UsageError
from envbench.runtimes.interpreters import make, one_per_runtime, status
from envbench.text import printable


@click.command()
@click.argument("names", metavar="[BACKEND]...", nargs=-1, shell_complete=complete)
@click.option("--all", "everything", is_flag=True, help="Every backend that can be set up here.")
@AS_JSON
@click.pass_context
def setup(context: click.Context, names: tuple[str, ...], everything: bool, as_json: bool) -> None:
    """Make the isolated runtime of each BACKEND that needs one.

    Backends that run in the current interpreter need none. A backend that cannot be set up
    leaves the others to go on; the exit code is then 3.
    """
    if bool(names) == everything:
        raise UsageError("setup takes one or more backends, or --all.", hint="envbench backends")
    # A name may come by itself or in a comma-separated list, as in `run --backend`.
    asked = dict.fromkeys(name for text in names for name in text.split(","))
    chosen = [get(name) for name in asked] or list(registry().values())
    for warning in plugin_warnings():
        click.echo(f"warning: {warning}", err=True)
    rows = [_prepare(backend, _say) for backend in chosen]
    if as_json:
        import json

        click.echo(json.dumps({"backends": rows}, indent=2))
    bad = {"failed"} if everything else {"failed", "needs-setup", "unavailable"}
    if any(row["status"] in bad for row in rows):
        context.exit(UNAVAILABLE)


def _say(line: str) -> None:
    click.echo(printable(line), err=True)  # an installer's lines may hold anything


def _prepare(backend: Backend, say: Callable[[str], None]) -> dict[str, str]:
    """Set one backend up for all its families; what became of it, as a row of the document.

    The row names the interpreter of its first family, or the first that cannot be set up.
    """
    rows = [_prepare_for(backend, family, say) for family in one_per_runtime(backend)]
    return next((row for row in rows if row["status"] != "ready"), rows[0])


def _prepare_for(backend: Backend, family: str, say: Callable[[str], None]) -> dict[str, str]:
    before = status(backend, {}, family)
    row = {"name": backend.name, "status": before.state, "python": "", "reason": "", "fix": ""}
    made_here = bool(backend.requirements_of(family))
    if before.state != "ready" and (before.state == "unavailable" or not made_here):
        say(f"{backend.name}: {before.state}: {before.reason}. {before.fix}")
        return {**row, "reason": before.reason, "fix": before.fix}
    try:
        runtime = make(backend, say, family)
    except SetupFailed as error:
        say(f"{backend.name}: {error}\n{error.hint}")
        return {**row, "status": "failed", "reason": str(error), "fix": error.hint}
    say(f"{backend.name}: ready ({runtime.python})")
    return {**row, "status": "ready", "python": runtime.python}
