"""``envbench machines``: list the machine profiles, show this machine, create its profile."""

from __future__ import annotations

import click
import msgspec

from envbench import machine
from envbench.cli.options import AS_JSON, completing, option
from envbench.cli.terminal import print_json, table, tell, warn
from envbench.cli.value_types import Text
from envbench.engine.carry_out import site_of
from envbench.engine.experiment import Options
from envbench.engine.resume import has_other_hosts
from envbench.errors import UsageError
from envbench.experiments.run.rounds import RunExperiment
from envbench.machine import Entry, Profile, Table
from envbench.model import Fingerprint, digest, fields


@click.group(invoke_without_command=True)
@AS_JSON
@click.pass_context
def machines(context: click.Context, as_json: bool) -> None:
    """List machine profiles. A profile says what to measure on a machine.

    The list has the profiles of ./machines and those that ship with envbench. An asterisk marks
    the one that fits this machine.
    """
    if context.invoked_subcommand is not None:
        if as_json and context.invoked_subcommand != "detect":
            raise UsageError("--json cannot be given with `envbench machines init`.")
        return
    found, known = machine.fingerprint(), machine.catalogue()
    fitting = known.matching(found)
    name = fitting.name if fitting else None
    entries = known.entries.values()
    if as_json:
        rows = [
            fields(each.profile, "name title hardware match tables")
            | {"fits": each.profile.fits(found), "source": each.source, "path": str(each.path)}
            for each in entries
        ]
        print_json(
            {"schema": 1, "machines": rows, "this_machine": name, "warnings": known.warnings}
        )
    else:
        texts = [_entry_row(entry, name) for entry in entries]
        click.echo(table(texts, ["", "name", "title", "hardware", "numenv", "from"]))
        if not fitting:
            tell("No profile fits this machine. `envbench machines init NAME` creates one.")
    warn(known.warnings)


def _entry_row(entry: Entry, this_machine: str | None) -> list[str]:
    profile = entry.profile
    mark = "*" if profile.name == this_machine else ""
    place = str(entry.path) if entry.source == "local" else "envbench"
    texts = {name: ",".join(map(str, t.numenv)) for name, t in profile.tables.items()}
    ladders = [f"{heading} {text}" for heading, text in texts.items()]
    if len(set(texts.values())) == 1:  # all families share it
        ladders = [*texts.values()][:1]
    return [mark, profile.name, profile.title, profile.hardware, "  ".join(ladders), place]


@machines.command()
@AS_JSON
@click.pass_context
def detect(context: click.Context, as_json: bool) -> None:
    """Print this machine's fingerprint and the profile that fits it."""
    site = site_of(Options(), RunExperiment())
    found, used = site.fingerprint, site.profile
    known = machine.catalogue()
    fitting = known.matching(found)
    if as_json or (context.parent and context.parent.params["as_json"]):
        name = fitting.name if fitting else None
        facts = {"schema": 1, "hash": digest(found), "fingerprint": found, "profile": name}
        print_json(facts | {"run_as": used.name, "run_title": used.title})
        return
    fits = f"{fitting.name} ({fitting.title})" if fitting else ""
    kept = f"results go to the profile {used.name} ({used.title})"
    lines = {
        "cpu": found.cpu,
        "logical cpus": f"{found.logical_cpus} ({found.usable_cpus} usable)",
        "physical cores": found.physical_cores or "unknown",
        "memory": f"{found.memory_gib} GiB",
        "gpus": ", ".join(found.gpus) or "none",
        "system": f"{found.system} {found.kernel} {found.architecture}",
        "host": found.host,
        "profile": fits if used == fitting else f"{fits or 'none'} fits; {kept}",
    }
    click.echo("\n".join(f"{key:<16} {value}" for key, value in lines.items()))
    warn(known.warnings)
    if not fitting:
        tell("`envbench machines init NAME` creates a profile for this machine.")


@machines.command()
@click.argument("name", type=Text())
@option(
    "--like PROFILE",
    "Copy the numbers of environments and the backends of this profile.",
    shell_complete=completing(lambda: machine.catalogue().entries),
)
@option("--title TEXT", "Heading of its tables.  [default: from the hardware]")
@option("--force", "Replace an existing profile of this name.")
def init(name: str, like: str | None, title: str | None, force: bool) -> None:
    """Write ./machines/NAME.toml: a profile for this computer, and its default from now on.

    Its numbers of environments suit this machine's cores, unless --like names a profile.
    """
    machine.valid_name(name)
    found = machine.fingerprint()
    made = _new_profile(name, like, title, found)
    _refuse_taken(made, found)
    click.echo(str(machine.write_profile(made, machine.LOCAL, force=force)))
    tell("Next: envbench run")


def _new_profile(name: str, like: str | None, title: str | None, found: Fingerprint) -> Profile:
    host = machine.profile_for_host(found)
    tables: dict[str, Table | None] = {}
    if like is not None:
        other = machine.profile(like)
        tables = {heading: other.tables.get(heading) for heading in machine.TABLES}
    taken = machine.catalogue().with_title(host.title, besides=name)
    own = f"{host.title} ({name})" if taken else host.title
    wanted = own if title is None else title
    try:
        return msgspec.structs.replace(host, name=name, title=wanted, **tables)
    except ValueError as error:  # only the title is free text
        raise click.UsageError(f"--title: {error}") from None


def _refuse_taken(made: Profile, found: Fingerprint) -> None:
    """Refuse a name that would hide a profile that ships or that has results of another host, and
    a title that another profile has."""
    known = machine.catalogue()
    entry = known.entries.get(made.name)
    if entry is not None and entry.source != "local":
        raise UsageError(
            f"{made.name} is a profile that ships with envbench ({entry.profile.title}).",
            hint=f"Choose another name, such as my-{made.name}.",
        )
    if has_other_hosts(Options().results, made.name, found):
        raise UsageError(
            f"results/{made.name} has results of another computer, or of an unknown one.",
            hint=f"Choose another name, such as my-{made.name}.",
        )
    if other := known.with_title(made.title, besides=made.name):
        raise UsageError(
            f"the profile {other.name!r} already has the title {made.title!r}: "
            "readers could not tell their tables apart.",
            hint="Give this one another title with --title.",
        )
