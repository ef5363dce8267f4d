"""``envbench backends``: list what is ready, what can be set up, and what cannot run and why.
``envbench setup``: build the isolated runtimes of backends that need one."""

from __future__ import annotations

import sys

import click

from envbench.backends import Backend, get, plugin_warnings, registry, shown
from envbench.cli.options import AS_JSON, PYTHONS, VERBOSE, completing, option
from envbench.cli.progress import builds_text
from envbench.cli.terminal import print_json, table, tell, tell_error, warn
from envbench.cli.value_types import Text
from envbench.engine.availability import builds
from envbench.errors import UNAVAILABLE, Unavailable, UsageError
from envbench.model import fields
from envbench.runtimes.interpreters import make, one_per_runtime, status

_COMPLETE = completing(registry)


@click.command()
@click.argument("names", type=Text(), metavar="[NAME]...", nargs=-1, shell_complete=_COMPLETE)
@option("--settings", "Show the settings of each backend.")
@PYTHONS
@AS_JSON
def backends(
    names: tuple[str, ...], settings: bool, pythons: dict[str, str], as_json: bool
) -> None:
    """List the backends: what is ready, and what the others need.

    With NAMEs, show only these backends and their settings.
    """
    chosen = [get(name) for name in names or registry()]
    found = [(each, status(each, pythons)) for each in chosen]
    warn(plugin_warnings())
    if as_json:
        rows = [
            fields(each, "name families")
            | {"status": state.state, "reason": state.reason, "fix": state.fix}
            for each, state in found
        ]
        print_json({"schema": 1, "backends": rows})
        return
    texts = [
        [each.name, each.label, ", ".join(each.families), state.state, state.reason, state.fix]
        for each, state in found
    ]
    heads = ["name", "row", "families", "status", "why", "what to do"]
    click.echo(table(texts, heads))
    if settings or names:
        for each in chosen:
            click.echo(f"\n{_settings_table(each)}")


def _settings_table(backend: Backend) -> str:
    if not backend.settings:
        return f"{backend.name} has no settings."
    rows = []
    for each in backend.settings:
        only = f" ({' and '.join(each.families)} only)" if each.families else ""
        rows.append([each.name, shown(each.default) or "''", each.takes, each.help + only])
    heads = ["--set", "default", "takes", "what it does"]
    shown_rows = table(rows, heads)
    return f"Settings of {backend.name}:\n{shown_rows}"


@click.command()
@click.argument("names", type=Text(), metavar="[BACKEND]...", nargs=-1, shell_complete=_COMPLETE)
@option("--all", "Set up every backend that can run here.", also="everything")
@option("--yes", "Build without a question.")
@VERBOSE
@AS_JSON
@click.pass_context
def setup(
    context: click.Context, names: tuple[str, ...], everything: bool, yes: bool, as_json: bool
) -> None:
    """Build the isolated runtime of each BACKEND that needs one.

    Show their sizes first and, on a terminal, ask. Backends that run in the current interpreter
    need none. If one cannot be set up, the others still are, and the exit code is 3. With --all,
    backends that cannot run on this machine do not count.
    """
    if bool(names) == everything:
        raise UsageError(
            "setup takes one or more backends, or --all.", hint="`envbench backends` lists them."
        )
    # Like `run --backend`, it takes names one by one or separated by commas.
    wanted = dict.fromkeys(name for text in names for name in text.split(","))
    chosen = [get(name) for name in wanted or registry()]
    warn(plugin_warnings())
    needs = [(each, family, "step") for each in chosen for family in one_per_runtime(each)]
    if missing := builds(needs, {}):
        tell(builds_text(missing))
        asks = not yes and sys.stdin.isatty() and sys.stderr.isatty()
        if asks and not click.confirm("Build them now?", default=True, err=True):
            tell("Nothing was built.")
            return
    rows = []
    for backend in chosen:  # the first family that could not be set up, else the first family
        each = [_set_up_family(backend, family) for family in one_per_runtime(backend)]
        rows.append(next((row for row in each if row["status"] != "ready"), each[0]))
    if as_json:
        print_json({"schema": 1, "backends": rows})
    bad = {"failed"} if everything else {"failed", "needs-setup", "unavailable"}
    if any(row["status"] in bad for row in rows):
        context.exit(UNAVAILABLE)


def _set_up_family(backend: Backend, family: str) -> dict[str, str]:
    before = status(backend, {}, family)
    row = {"name": backend.name, "status": before.state, "python": "", "reason": "", "fix": ""}
    isolated = bool(backend.requirements_of(family))
    if before.state != "ready" and (before.state == "unavailable" or not isolated):
        tell(f"{backend.name}: {before.state}: {before.reason}. {before.fix}")
        return {**row, "reason": before.reason, "fix": before.fix}
    try:
        runtime = make(backend, tell, family)
    except Unavailable as error:
        tell_error(f"{backend.name}: ", error)
        return {**row, "status": "failed", "reason": str(error), "fix": error.hint}
    tell(f"{backend.name}: ready ({runtime.python})")
    return {**row, "status": "ready", "python": runtime.python}
