"""``envbench backends``: what is ready, what can be set up and how, what cannot run and why.

With a NAME (or ``--settings``): what the backend's settings are called, take and do.
``--json`` gives ``{"backends": [{"name", "families", "status", "reason", "fix"}]}``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from envbench.backends import Backend, get, plugin_warnings, registry
from envbench.cli.option_types import complete_backends
from envbench.cli.options import AS_JSON
from envbench.runtimes.interpreters import Status, parse_overrides, status

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_PIPE_WIDTH = 200  # columns where stdout is no terminal: a row stays a line
_STYLES = {"ready": "green", "needs-setup": "yellow", "unavailable": "dim"}


def complete(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
    """Tab completion of a backend's name."""
    return [name for name in complete_backends(context, parameter, typed) if name != "all"]


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete)
@click.option("--settings", is_flag=True, help="Show the settings of each backend.")
@click.option(
    "--python",
    "overrides",
    metavar="BACKEND=PATH",
    multiple=True,
    help="Look at a backend in an interpreter of your own (repeatable).",
)
@AS_JSON
def backends(
    names: tuple[str, ...], settings: bool, overrides: tuple[str, ...], as_json: bool
) -> None:
    """List the backends: what is ready, and what the others need.

    With NAMEs, only those and their settings.
    """
    chosen = [get(name) for name in names] or list(registry().values())
    own = parse_overrides(overrides)
    found = [(each, status(each, own)) for each in chosen]
    for warning in plugin_warnings():
        click.echo(f"warning: {warning}", err=True)
    if as_json:
        click.echo(_document(found))
        return
    console = _console()
    console.print(_status_table(found))
    if settings or names:
        for each in chosen:
            _print_settings(console, each)


def _document(found: list[tuple[Backend, Status]]) -> str:
    import json

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
    return json.dumps({"backends": rows}, indent=2)


def _console() -> Console:
    import sys

    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH, highlight=False)


def _table(*columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)
    table.columns[0].no_wrap = True  # a name is there to be copied
    return table


def _status_table(found: list[tuple[Backend, Status]]) -> Table:
    from rich.text import Text

    table = _table("name", "row", "families", "status", "why", "what to do")
    for backend, state in found:
        table.add_row(
            backend.name,
            Text(backend.label),
            ", ".join(backend.families),
            Text(state.state, style=_STYLES[state.state]),
            Text(state.reason),
            Text(state.fix),
        )
    return table


def _print_settings(console: Console, backend: Backend) -> None:
    from rich.text import Text

    from envbench.backends.settings import shown, takes

    if not backend.settings:
        console.print(Text(f"{backend.name} has no settings."))
        return
    table = _table("--set", "default", "takes", "what it does")
    for each in backend.settings:
        only = f" ({' and '.join(each.families)} only)" if each.families else ""
        table.add_row(
            each.name,
            Text(shown(each.default) or "''"),
            Text(takes(each)),
            Text(each.help + only),
        )
    console.print(Text(f"Settings of {backend.name}:"), table, sep="\n")
