"""``envbench machines``: list the machine profiles, look at this machine, write its profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from envbench.cli.option_types import complete_machines
from envbench.cli.options import AS_JSON

if TYPE_CHECKING:
    from envbench.machine import Entry, Profile, Table
    from envbench.model import Fingerprint


@click.group(invoke_without_command=True)
@AS_JSON
@click.pass_context
def machines(context: click.Context, as_json: bool) -> None:
    """Machine profiles: what to measure on which machine.

    Without a command, lists those of ./machines and those that ship with envbench; an asterisk
    marks the one that fits this machine.
    """
    if context.invoked_subcommand is None:
        _list(as_json)


@machines.command()
@AS_JSON
@click.pass_context
def detect(context: click.Context, as_json: bool) -> None:
    """Print this machine's fingerprint and the profile that fits it."""
    from envbench.machine import choose, fingerprint, matching
    from envbench.model import digest

    found = fingerprint()
    fitting, used = matching(found), choose(None, found)
    if as_json or (context.parent and context.parent.params["as_json"]):
        name = fitting.name if fitting else None
        facts = {"hash": digest(found), "fingerprint": found}
        return _emit(facts | {"profile": name, "run_as": used.name, "run_title": used.title})
    click.echo(_facts(found))
    if fitting:
        click.echo(f"profile          {fitting.name} ({fitting.title})")
    else:
        click.echo(f"profile          none fits; runs are kept as {used.name} ({used.title})")
        click.echo("`envbench machines init NAME` writes a profile for this machine.", err=True)
    return None


@machines.command()
@click.argument("name")
@click.option(
    "--like",
    metavar="PROFILE",
    shell_complete=complete_machines,
    help="Take the ladders and rows of this profile.",
)
@click.option("--title", help="The heading of its tables (default: from the hardware).")
@click.option("--force", is_flag=True, help="Write over a profile of this name.")
def init(name: str, like: str | None, title: str | None, force: bool) -> None:
    """Write ./machines/NAME.toml: a profile for this machine.

    Its ladder suits the machine's cores, or is another profile's (--like).
    """
    from envbench.machine import LOCAL, catalogue, fingerprint, matching, valid_name, write_profile

    valid_name(name)
    _refuse_shipped_name(name)
    found = fingerprint()
    made = _new_profile(name, like, title, found)
    _refuse_taken_title(made)
    click.echo(str(write_profile(made, LOCAL, force=force)))
    chosen = matching(found)
    if chosen and chosen.name != name:
        where = catalogue().entries[chosen.name].path
        click.echo(f"Note: {where} fits this machine as well, and goes first.", err=True)
    click.echo(f"Next: envbench run --machine {name}", err=True)


# ---------------------------------------------------------------- a new profile


def _new_profile(name: str, like: str | None, title: str | None, found: Fingerprint) -> Profile:
    import msgspec

    from envbench.machine import TABLES, profile, profile_for_host

    host = profile_for_host(found)
    tables: dict[str, Table | None] = {}
    if like is not None:
        other = profile(like)
        tables = {heading: other.tables.get(heading) for heading in TABLES}
    wanted = host.title if title is None else title
    try:
        return msgspec.structs.replace(host, name=name, title=wanted, **tables)
    except ValueError as error:  # the only text that is a person's is the title
        raise click.UsageError(f"--title: {error}") from None


def _refuse_shipped_name(name: str) -> None:
    """A profile of our own under that name would shadow the one that ships, title and all."""
    from envbench.errors import UsageError
    from envbench.machine import catalogue

    entry = catalogue().entries.get(name)
    if entry is not None and entry.source != "local":
        raise UsageError(
            f"{name} is a profile that ships with envbench ({entry.profile.title}).",
            hint=f"Choose another name, such as my-{name}.",
        )


def _refuse_taken_title(made: Profile) -> None:
    from envbench.errors import UsageError
    from envbench.machine import catalogue

    other = catalogue().with_title(made.title, besides=made.name)
    if other:
        raise UsageError(
            f"the title {made.title!r} is that of the profile {other.name!r}: "
            "their tables could not be told apart.",
            hint="--title gives this one another.",
        )


# ---------------------------------------------------------------- output


def _list(as_json: bool) -> None:
    from envbench.machine import catalogue, fingerprint

    found, known = fingerprint(), catalogue()
    fitting = known.matching(found)
    name = fitting.name if fitting else None
    if as_json:
        listed = [_entry_facts(entry, found) for entry in known.entries.values()]
        _emit({"machines": listed, "this_machine": name, "warnings": known.warnings})
    else:
        rows = [_entry_row(entry, name) for entry in known.entries.values()]
        click.echo(_table(rows, ["", "name", "title", "hardware", "numenv", "from"]))
        if not fitting:
            hint = "`envbench machines init NAME` writes a profile for it."
            click.echo(f"No profile fits this machine. {hint}", err=True)
    for warning in known.warnings:
        click.echo(f"warning: {warning}", err=True)


def _entry_facts(entry: Entry, found: Fingerprint) -> dict[str, Any]:
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
    """The ladder, told once where the families share it."""
    texts = {name: ",".join(map(str, t.numenv)) for name, t in profile.tables.items()}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return "  ".join(f"{heading} {text}" for heading, text in texts.items())


def _facts(found: Fingerprint) -> str:
    lines = {
        "cpu": found.cpu,
        "logical cpus": f"{found.logical_cpus} ({found.usable_cpus} usable)",
        "physical cores": found.physical_cores or "not known",
        "memory": f"{found.memory_gib} GiB",
        "gpus": ", ".join(found.gpus) or "none",
        "system": f"{found.system} {found.kernel} {found.architecture}",
    }
    return "\n".join(f"{key:<16} {value}" for key, value in lines.items())


def _table(rows: list[list[str]], headers: list[str]) -> str:
    # tabulate, not rich: a listing is also read by grep, and must not wrap at 80 columns.
    # Every text in it has been found printable when its profile was read.
    import tabulate

    # A ladder of one entry is not a number to align.
    return tabulate.tabulate(rows, headers, tablefmt="simple", disable_numparse=True)


def _emit(document: dict[str, Any]) -> None:
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2))
