"""``envbench backends``: list what is ready, what can be set up, and what cannot run and why.

``--json`` gives ``{"backends": [{"name", "families", "status", "reason", "fix"}]}``.
"""

from __future__ import annotations

import sys

import click

from envbench.backends import Backend, get, plugin_warnings, registry, shown
from envbench.cli.options import AS_JSON, PYTHONS, flag
from envbench.cli.output import print_json, table, warn
from envbench.cli.parse import complete_backend
from envbench.runtimes.interpreters import Status, status

_WIDTHS = [None, 24, 14, None, 36, 48]  # of the columns on a terminal; elsewhere a row is one line


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete_backend)
@flag("--settings", "Show the settings of each backend.")
@PYTHONS
@AS_JSON
def backends(
    names: tuple[str, ...], settings: bool, pythons: dict[str, str], as_json: bool
) -> None:
    """List the backends: what is ready, and what the others need.

    With NAMEs, show only these backends and their settings.
    """
    chosen = [get(name) for name in names] or list(registry().values())
    found = [(each, status(each, pythons)) for each in chosen]
    warn(plugin_warnings())
    if as_json:
        _print_json(found)
        return
    click.echo(_status_table(found))
    if settings or names:
        for each in chosen:
            click.echo(f"\n{_settings_table(each)}")


def _print_json(found: list[tuple[Backend, Status]]) -> None:
    rows = [
        {
            "name": backend.name,
            "families": backend.families,
            "status": state.state,
            "reason": state.reason,
            "fix": state.fix,
        }
        for backend, state in found
    ]
    print_json({"backends": rows})


def _status_table(found: list[tuple[Backend, Status]]) -> str:
    rows = [
        [each.name, each.label, ", ".join(each.families), state.state, state.reason, state.fix]
        for each, state in found
    ]
    heads = ["name", "row", "families", "status", "why", "what to do"]
    return table(rows, heads, maxcolwidths=_WIDTHS if sys.stdout.isatty() else None)


def _settings_table(backend: Backend) -> str:
    if not backend.settings:
        return f"{backend.name} has no settings."
    rows = []
    for each in backend.settings:
        only = f" ({' and '.join(each.families)} only)" if each.families else ""
        rows.append([each.name, shown(each.default) or "''", each.takes, each.help + only])
    heads = ["--set", "default", "takes", "what it does"]
    widths = [None, None, 40, 60] if sys.stdout.isatty() else None
    return f"Settings of {backend.name}:\n{table(rows, heads, maxcolwidths=widths)}"
