"""``envbench cache``: list the isolated runtimes with their sizes, and remove them."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from envbench.backends import get, registry
from envbench.cli.options import AS_JSON, completing, option
from envbench.cli.terminal import print_json, table, tell
from envbench.cli.value_types import Text
from envbench.errors import UsageError
from envbench.machine import lock
from envbench.model import fields
from envbench.runtimes.cached import CHECK, Cached, cached, remove, together_mb
from envbench.runtimes.interpreters import cache_folder
from envbench.text import counted, disk

NAMES = click.argument(
    "names", type=Text(), metavar="[BACKEND]...", nargs=-1, shell_complete=completing(registry)
)


@click.group(invoke_without_command=True)
@AS_JSON
@click.pass_context
def cache(context: click.Context, as_json: bool) -> None:
    """List the isolated runtimes of backends, and how large they are.

    \b
    envbench cache                     list them
    envbench cache clean               remove those that no backend uses
    envbench cache clean genesis       remove those of a backend
    envbench cache clean check         remove the copies and checkouts that `check` keeps
    envbench cache clean --all         remove all

    A runtime that was removed is built again when it is needed.
    """
    if context.invoked_subcommand:
        if as_json:
            raise UsageError("--json cannot be given with `envbench cache clean`.")
        return
    found = cached()
    if as_json:
        columns = "backend requirements disk_mb state"
        every = [fields(each, columns) | {"folder": str(each.folder)} for each in found]
        print_json({"schema": 1, "folder": str(cache_folder()), "runtimes": every})
    elif found:
        rows = [
            [each.backend, disk(each.disk_mb), each.state, " ".join(each.requirements)]
            for each in found
        ]
        click.echo(table(rows, ["backend", "size", "state", "requirements"]))
        click.echo(f"\n{_total(found)} in {cache_folder()}")
    else:
        tell(f"There are no runtimes in {cache_folder()}.")


@cache.command()
@NAMES
@option("--all", "Remove every runtime.", also="everything")
@option("--yes", "Do not ask.")
def clean(names: tuple[str, ...], everything: bool, yes: bool) -> None:
    """Remove the runtimes of each BACKEND; without one, those that no backend uses."""
    if names and everything:
        raise UsageError("give backends or --all, not both.")
    every = cached()
    known = {CHECK, *(each.backend for each in every)}  # perhaps of a plugin that is gone
    words = [each for text in names for each in text.split(",")]
    chosen = {each if each in known else get(each).name for each in words}
    found = [
        each
        for each in every
        if everything or (each.backend in chosen if chosen else each.state != "in use")
    ]
    if not found:
        tell("There is nothing to remove.")
        return
    if not yes and not sys.stdin.isatty():
        raise UsageError("without a terminal, `envbench cache clean` needs --yes.")
    for each in found:
        tell(f"{each.backend}: {disk(each.disk_mb)} ({each.state})")
    if not yes and not click.confirm(f"Remove {_total(found)}?", err=True):
        tell("Nothing was removed.")
        return
    with lock.acquire(wait=False, hint=lock.LATER):  # a worker may run in one of them
        before = together_mb(found)
        kept = remove(found)
    for each in kept:
        tell(f"{each.backend} stays: another envbench is making it.")
    gone = counted(len(found) - len(kept), "runtime")
    size = disk(before - together_mb(kept))
    tell(f"Removed {gone} ({size}). uv keeps copies of some files: `uv cache clean` removes them.")


def _total(found: Sequence[Cached]) -> str:
    alone = sum(each.disk_mb for each in found)
    together = together_mb(found)
    shared = ", as they share files" if together < 0.95 * alone else ""
    return f"{counted(len(found), 'runtime')} ({disk(together)}{shared})"
