"""Options of the commands: how the text of one becomes a checked value, how the shell completes it,
and which groups of options become one typed value."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any

import click
import msgspec
from click.core import ParameterSource

from envbench import families
from envbench.backends import registry
from envbench.cli.value_types import FilePath, Number, Text, Whole
from envbench.engine.experiment import Options
from envbench.engine.request import CellRequest
from envbench.families import SMALLEST_SKIP
from envbench.machine import catalogue, cores_of
from envbench.model import LARGEST_NUMENV, LARGEST_SKIP
from envbench.runtimes.installer import LOG
from envbench.runtimes.interpreters import parse_overrides
from envbench.text import listed

Option = Callable[[Any], Any]  # a decorator that adds an option to a command

# ---------------------------------------------------------------- several values of one option


def only_one(values: tuple[Any, ...]) -> Any:
    """Return the only value; refuse several. Click alone would silently use the last one."""
    if len(values) > 1:
        given = " and ".join(repr(str(value)) for value in values)
        raise click.BadParameter(f"given more than once: {given}. It takes one value.")
    return values[0] if values else None


def results_folder(values: tuple[Path, ...]) -> Path:
    """Return the option's value, else the one given before the subcommand, else ``results``."""
    group = click.get_current_context().parent
    before: Path | None = group.params.get("results") if group else None
    results = only_one(values) or before or Path("results")
    if os.path.lexists(results) and not os.path.isdir(results):
        raise click.BadParameter(f"{results} is not a folder.")
    return results


def settings_by_key(texts: tuple[str, ...]) -> dict[str, str]:
    """Settings by key, from texts such as ``KEY=VALUE``. Refuses a key that is given twice."""
    settings: dict[str, str] = {}
    for text in texts:
        key, equals, value = map(str.strip, text.partition("="))
        if not equals or not key:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE.")
        if key in settings:
            raise click.BadParameter(f"the setting {key!r} is given twice.")
        settings[key] = value
    return settings


def names(texts: tuple[str, ...]) -> list[str] | None:
    """Return the names in texts such as ``NAME,NAME``, each once. The caller checks them."""
    found = _parts(texts)
    if not all(found):
        raise click.BadParameter(f"{','.join(texts)[:60]!r} contains an empty name.")
    return list(dict.fromkeys(found)) or None


def numenvs(texts: tuple[str, ...]) -> list[int] | None:
    """Read the numbers in texts such as ``8`` or ``1,2,4,8``: whole, from 1, and all different."""
    numbers: list[int] = []
    for part in _parts(texts):
        number = int(part) if re.fullmatch("[0-9]{1,7}", part) else 0
        if not 1 <= number <= LARGEST_NUMENV:
            raise click.BadParameter(
                f"{part[:60]!r} is not N or N,N,…: whole numbers of environments "
                f"from 1 to {LARGEST_NUMENV:,}, such as 8 or 1,2,4,8."
            )
        if number in numbers:
            raise click.BadParameter(f"{number} is given twice.")
        numbers.append(number)
    return numbers or None


def cores(texts: tuple[str, ...]) -> list[int]:
    """Read core numbers in texts such as ``0-3,8``. The caller checks that they can be used."""
    try:
        return sorted({core for text in texts for core in cores_of(text)})
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _parts(texts: tuple[str, ...]) -> list[str]:
    return [part.strip() for text in texts for part in text.split(",")]


# ---------------------------------------------------------------- completion by the shell


def completing(names: Callable[[], Iterable[str]]) -> Callable[..., list[str]]:
    """Completes a name, or the last name of several that are separated by commas."""

    def complete(ctx: click.Context, param: click.Parameter, text: str) -> list[str]:
        before, comma, last = text.rpartition(",")
        return [before + comma + name for name in names() if name.startswith(last)]

    return complete


# ---------------------------------------------------------------- options of several commands


def option(
    usage: str, text: str, kind: Any = None, *, also: str = "", many: Any = None, **more: Any
) -> Option:
    """Make an option by its usage: ``--flag``, or ``--name VALUE`` with a value of this ``kind``.

    ``also``: another name on the command line, or its name in Python. ``many``: makes one
    value of the values of a repeated option. The help shows a ``default``.
    """
    name, _, metavar = usage.partition(" ")
    declared = [name, also] if also else [name]
    if not metavar:
        return click.option(*declared, is_flag=True, help=text, **more)
    if many:
        more |= {"multiple": True, "callback": lambda context, parameter, values: many(values)}
    more = {"type": kind or Text(), "show_default": "default" in more, **more}
    return click.option(*declared, metavar=metavar, help=text, **more)


def family_option(text: str) -> Option:
    complete = completing(families.names)
    return option("--env FAMILY", text, also="family", many=only_one, shell_complete=complete)


def machine_option(text: str) -> Option:
    complete = completing(lambda: catalogue().entries)
    return option("--machine NAME", text, many=only_one, shell_complete=complete)


def numenv_option(default: str) -> Option:
    text = f"Environments per vector step.  [default: {default}]"
    return option("--numenv N[,N…]", text, click.STRING, also="--num-envs", many=numenvs)


def backends_option(default: str) -> Option:
    text = f"Backends by name, or all.  [default: {default}]"
    complete = completing(lambda: [*registry(), "all"])
    return option(
        "--backend NAME[,NAME…]", text, also="backends", many=names, shell_complete=complete
    )


PYTHONS = option(
    "--python BACKEND=PATH",
    "Run a backend in this interpreter. Repeatable.",
    also="pythons",
    many=parse_overrides,
)
RESULTS = option(
    "--results DIRECTORY",
    "Folder of the results.  [default: results]",
    FilePath(file_okay=False),
    many=results_folder,
)
WAIT = option("--wait", "Wait until no other envbench measures on this machine.")


def _log_installers(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        handler = logging.StreamHandler()  # stderr
        handler.setFormatter(logging.Formatter("  | %(message)s"))
        LOG.addHandler(handler)
        LOG.setLevel(logging.INFO)


VERBOSE = option(
    "-v", "Show what the installer prints.", also="--verbose", callback=_log_installers,
    expose_value=False,
)  # fmt: skip
AS_JSON = option("--json", "Print one JSON document on stdout.", also="as_json")


def refuse_together(first: str, *others: str, because: str = "") -> None:
    """Raise ``UsageError`` where the command line has the first option and any of the others."""
    context = click.get_current_context()
    given = [
        each.opts[0]
        for each in context.command.params
        if each.opts[0] in (first, *others)
        and context.get_parameter_source(each.name or "") is ParameterSource.COMMANDLINE
    ]
    if first in given and len(given) > 1:
        raise click.UsageError(f"{listed(given)} cannot be combined{because}.")


# ---------------------------------------------------------------- groups of options


def grouped(name: str, kind: type[msgspec.Struct], *options: Option, prefix: str = "") -> Option:
    """Pass the options to the command as one argument ``name``: a value of ``kind``.

    The name of each option is ``prefix`` and then a field of ``kind``. A field keeps its default
    where the option was left out.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def called(**given: Any) -> None:
            values = {field: given.pop(prefix + field, None) for field in kind.__struct_fields__}
            named = {field: value for field, value in values.items() if value is not None}
            command(**{name: kind(**named)}, **given)

        for each in reversed(options):
            called = each(called)
        return called

    return decorate


_FAMILIES = f"Env family: {', '.join(families.names())}. With gym, give your own --task."
_CHECKED = "those listed under `check` in the profile"


def cell_options(*options: Option) -> Option:
    """Add the options that say which cells, as ``cells: CellRequest``."""
    return grouped(
        "cells",
        CellRequest,
        *options,
        option("--task ID", "Task id.  [default: the family's, such as Pong-v5]", many=only_one),
        option(
            "--set KEY=VALUE",
            "Change a setting of a backend; `envbench backends --settings` lists them. Repeatable.",
            also="settings",
            many=settings_by_key,
        ),
    )


def measured_cells(*options: Option) -> Option:
    """Options as ``cells: CellRequest``. By default, all that the profile lists."""
    skips = Number(SMALLEST_SKIP, LARGEST_SKIP)
    return cell_options(
        family_option(f"{_FAMILIES}  [default: those that the profile lists]"),
        backends_option("those of the profile, otherwise all except ceiling"),
        *options,
        option(
            "--frame-skip N",
            "Frames per step, for --env gym [default: 1] and for MuJoCo tasks that envbench does "
            "not know.",
            skips,
        ),
    )


def checked_cells() -> Option:
    """Options as ``cells: CellRequest``. By default, those that the profile lists for checks."""
    return cell_options(
        family_option(f"{_FAMILIES}  [default: {_CHECKED}]"),
        backends_option(_CHECKED),
        numenv_option(_CHECKED),
    )


def measuring_options(*, runtimes: bool) -> Option:
    """Add the options of every measuring command, as ``options: Options``.

    ``runtimes``: the command runs each backend in its usual runtime, which options can change.
    """
    seeds = Whole(0, 2**31 - 1)
    no_setup = option(
        "--no-setup",
        "Do not build isolated runtimes. (By default, envbench asks on a terminal.)",
        also="setup",
        callback=lambda context, parameter, forbidden: not forbidden,
    )
    yes = option("--yes", "Build missing runtimes without a question.")
    return grouped(
        "options",
        Options,
        machine_option("Machine profile.  [default: the one that fits this machine]"),
        option("--seed N", "Seed for environments, actions and cell order.", seeds, default=0),
        option(
            "--cpus LIST",
            "Measure only on these cores, such as 0-3,8.  [default: all that can be used]",
            many=cores,
        ),
        *([PYTHONS, no_setup, yes] if runtimes else []),
        VERBOSE,
        RESULTS,
        option("--fresh", "Begin a new plan instead of resuming an unfinished one."),
        WAIT,
    )
