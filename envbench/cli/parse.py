"""From the text of one option to a checked value, and its completion by the shell."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from envbench import families
from envbench.backends import registry
from envbench.backends.builtin import PRESETS
from envbench.backends.settings import CORES
from envbench.machine import profiles

LARGEST_NUMENV = 1_000_000


class Number(click.FloatRange):
    """A number within bounds. Refuses NaN, which every comparison with the bounds lets pass."""

    name = "number"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        number = float(super().convert(value, param, ctx))
        if number != number:
            self.fail(f"{value!r} is not a valid {self.name}.", param, ctx)
        return number


class Seconds(Number):
    """A number of seconds within bounds."""

    name = "number of seconds"


def numenv_list(text: str) -> list[int]:
    """``8`` or ``1,2,4,8``: whole numbers from 1."""
    parts = [part.strip() for part in text.split(",")]
    numbers = [int(part) for part in parts if re.fullmatch("[0-9]{1,7}", part)]
    if len(numbers) < len(parts) or not all(1 <= each <= LARGEST_NUMENV for each in numbers):
        raise click.BadParameter(
            f"{text[:60]!r} is not N or N,N,…: whole numbers of environments "
            f"from 1 to {LARGEST_NUMENV:,}, such as 8 or 1,2,4,8."
        )
    return numbers


def name_list(text: str) -> list[str]:
    """``NAME`` or ``NAME,NAME``. Whoever uses the names checks that they exist."""
    names = [part.strip() for part in text.split(",")]
    if not all(names):
        raise click.BadParameter(f"{text[:60]!r} contains an empty name.")
    return names


def key_value(text: str) -> tuple[str, str]:
    """``KEY=VALUE``."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise click.BadParameter(f"{text!r} is not KEY=VALUE.")
    return key.strip(), value.strip()


def core_list(text: str) -> str:
    """``0-3`` or ``0,2,4-7``: numbers of CPU cores."""
    if not re.fullmatch(CORES, text):
        raise click.BadParameter(f"{text[:60]!r} is not a list of cores, such as 0-3.")
    return text


# ---------------------------------------------------------------- several values of one option


def only_one(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> str | None:
    """The one value. Click alone would silently use the last of several."""
    if len(values) > 1:
        raise click.BadParameter(
            f"given more than once: {' and '.join(map(repr, values))}. It takes one.", ctx, param
        )
    return values[0] if values else None


def results_folder(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> Path | None:
    """The option's value, else the one given before the subcommand, else ``results``."""
    given = only_one(ctx, param, values)
    before = ctx.parent.params.get("results") if ctx.parent else None
    return Path(given or before or "results")


def settings_by_key(
    ctx: click.Context, param: click.Parameter, values: tuple[tuple[str, str], ...]
) -> dict[str, str]:
    """Settings by key. Refuses a key that is given twice."""
    settings: dict[str, str] = {}
    for key, value in values:
        if key in settings:
            raise click.BadParameter(f"the setting {key!r} is given twice.", ctx, param)
        settings[key] = value
    return settings


def one_list(ctx: click.Context, param: click.Parameter, values: tuple[list[Any], ...]) -> Any:
    """The lists of a repeated option as one, without repeated names; None where it was left out.

    Refuses a number that is given twice.
    """
    every = [each for part in values for each in part]
    for each in every:
        if isinstance(each, int) and every.count(each) > 1:
            raise click.BadParameter(f"{each} is given twice.", ctx, param)
    return list(dict.fromkeys(every)) or None


# ---------------------------------------------------------------- completion by the shell


Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def _completing(names: Callable[[], Iterable[str]]) -> Complete:
    return lambda ctx, param, text: [name for name in names() if name.startswith(text)]


complete_presets = _completing(lambda: PRESETS)
complete_backend = _completing(registry)
complete_machines = _completing(profiles)
complete_families = _completing(families.names)


def complete_backends(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The last name in a comma-separated list of backends."""
    before, comma, last = incomplete.rpartition(",")
    names = complete_backend(ctx, param, last)
    if not comma and "all".startswith(last):
        names.append("all")
    return [before + comma + name for name in names]


def complete_plans(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from envbench.experiments.recorded_plans import listing

    every, _ = listing(ctx.params.get("results") or Path("results"))
    return [each.plan for each in every if each.plan.startswith(incomplete)]
