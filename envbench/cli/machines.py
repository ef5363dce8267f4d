"""``envbench machines``: list the machine profiles, show this machine, create its profile."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from envbench.cli.options import AS_JSON, flag
from envbench.cli.output import print_json, table, tell
from envbench.cli.parse import complete_machines
from envbench.errors import UsageError
from envbench.machine import (
    LOCAL,
    TABLES,
    Entry,
    Profile,
    Table,
    catalogue,
    choose,
    fingerprint,
    profile,
    profile_for_host,
    valid_name,
    write_profile,
)
from envbench.model import Fingerprint, digest


@click.group(invoke_without_command=True)
@AS_JSON
@click.pass_context
def machines(context: click.Context, as_json: bool) -> None:
    """List machine profiles. A profile says what to measure on a machine.

    The list has the profiles of ./machines and those that ship with envbench. An asterisk marks
    the one that fits this machine.
    """
    if context.invoked_subcommand is None:
        _list(as_json)


def _list(as_json: bool) -> None:
    found, known = fingerprint(), catalogue()
    fitting = known.matching(found)
    name = fitting.name if fitting else None
    entries = known.entries.values()
    if as_json:
        rows = [_entry_json(entry, found) for entry in entries]
        print_json({"machines": rows, "this_machine": name, "warnings": known.warnings})
    else:
        texts = [_entry_row(entry, name) for entry in entries]
        click.echo(table(texts, ["", "name", "title", "hardware", "numenv", "from"]))
        if not fitting:
            tell("No profile fits this machine. `envbench machines init NAME` creates one.")
    for warning in known.warnings:
        tell(f"warning: {warning}")


def _entry_json(entry: Entry, found: Fingerprint) -> dict[str, Any]:
    profile = entry.profile
    return {
        "name": profile.name,
        "title": profile.title,
        "hardware": profile.hardware,
        "match": profile.match,
        "fits": profile.fits(found),
        "source": entry.source,
        "path": str(entry.path),
        "tables": profile.tables,
    }


def _entry_row(entry: Entry, this_machine: str | None) -> list[str]:
    profile = entry.profile
    mark = "*" if profile.name == this_machine else ""
    place = str(entry.path) if entry.source == "local" else "envbench"
    return [mark, profile.name, profile.title, profile.hardware, _ladders(profile), place]


def _ladders(profile: Profile) -> str:
    """The ladder of each family; only one where all families share it."""
    texts = {name: ",".join(map(str, t.numenv)) for name, t in profile.tables.items()}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return "  ".join(f"{heading} {text}" for heading, text in texts.items())


# ---------------------------------------------------------------- detect


@machines.command()
@AS_JSON
@click.pass_context
def detect(context: click.Context, as_json: bool) -> None:
    """Print this machine's fingerprint and the profile that fits it."""
    found = fingerprint()
    fitting, used = catalogue().matching(found), choose(None, found)
    if as_json or (context.parent and context.parent.params["as_json"]):
        name = fitting.name if fitting else None
        facts = {"hash": digest(found), "fingerprint": found}
        return print_json(facts | {"profile": name, "run_as": used.name, "run_title": used.title})
    click.echo(_fingerprint_text(found))
    if fitting:
        click.echo(f"profile          {fitting.name} ({fitting.title})")
    else:
        click.echo(f"profile          none fits; runs are kept as {used.name} ({used.title})")
        tell("`envbench machines init NAME` creates a profile for this machine.")
    return None


def _fingerprint_text(found: Fingerprint) -> str:
    lines = {
        "cpu": found.cpu,
        "logical cpus": f"{found.logical_cpus} ({found.usable_cpus} usable)",
        "physical cores": found.physical_cores or "unknown",
        "memory": f"{found.memory_gib} GiB",
        "gpus": ", ".join(found.gpus) or "none",
        "system": f"{found.system} {found.kernel} {found.architecture}",
    }
    return "\n".join(f"{key:<16} {value}" for key, value in lines.items())


# ---------------------------------------------------------------- init


@machines.command()
@click.argument("name")
@click.option(
    "--like",
    metavar="PROFILE",
    shell_complete=complete_machines,
    help="Copy the ladders and rows of this profile.",
)
@click.option("--title", help="Heading of its tables.  [default: from the hardware]")
@flag("--force", "Replace an existing profile of this name.")
def init(name: str, like: str | None, title: str | None, force: bool) -> None:
    """Write ./machines/NAME.toml: a profile for this machine.

    Its ladder suits the number of cores, unless --like names a profile to copy.
    """
    valid_name(name)
    _refuse_shipped_name(name)
    found = fingerprint()
    made = _new_profile(name, like, title, found)
    _refuse_taken_title(made)
    click.echo(str(write_profile(made, LOCAL, force=force)))
    known = catalogue()
    chosen = known.matching(found)
    if chosen and chosen.name != name:
        where = known.entries[chosen.name].path
        tell(f"Note: {where} also fits this machine, and is preferred.")
    tell(f"Next: envbench run --machine {name}")


def _new_profile(name: str, like: str | None, title: str | None, found: Fingerprint) -> Profile:
    host = profile_for_host(found)
    tables: dict[str, Table | None] = {}
    if like is not None:
        other = profile(like)
        tables = {heading: other.tables.get(heading) for heading in TABLES}
    wanted = host.title if title is None else title
    try:
        return msgspec.structs.replace(host, name=name, title=wanted, **tables)
    except ValueError as error:  # only the title is free text
        raise click.UsageError(f"--title: {error}") from None


def _refuse_shipped_name(name: str) -> None:
    """A local profile of that name would hide the one that ships."""
    entry = catalogue().entries.get(name)
    if entry is not None and entry.source != "local":
        raise UsageError(
            f"{name} is a profile that ships with envbench ({entry.profile.title}).",
            hint=f"Choose another name, such as my-{name}.",
        )


def _refuse_taken_title(made: Profile) -> None:
    other = catalogue().with_title(made.title, besides=made.name)
    if other:
        raise UsageError(
            f"the profile {other.name!r} already has the title {made.title!r}: "
            "readers could not tell their tables apart.",
            hint="Give this one another title with --title.",
        )
