"""The types, checks and tab completion of options."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

LARGEST_NUMENV = 1_000_000


class NumEnvs(click.ParamType["list[int]"]):
    """``8`` or ``1,2,4,8``: whole numbers from 1, none twice."""

    name = "N[,N…]"

    def convert(self, value: Any, param: Any, ctx: Any) -> list[int]:
        if isinstance(value, list):
            return value
        numbers = [self._number(part, value, param, ctx) for part in str(value).split(",")]
        for number in numbers:
            if numbers.count(number) > 1:
                self.fail(f"{value!r} names {number} twice.", param, ctx)
        return numbers

    def _number(self, part: str, value: Any, param: Any, ctx: Any) -> int:
        text = part.strip()
        if not (text.isascii() and text.isdigit() and 1 <= len(text) <= 7):
            self._refuse(value, param, ctx)
        number = int(text)
        if not 1 <= number <= LARGEST_NUMENV:
            self._refuse(value, param, ctx)
        return number

    def _refuse(self, value: Any, param: Any, ctx: Any) -> None:
        self.fail(
            f"{str(value)[:60]!r} is not N or N,N,…: whole numbers of environments "
            f"from 1 to {LARGEST_NUMENV:,}, such as 8 or 1,2,4,8.",
            param,
            ctx,
        )


class Number(click.FloatRange):
    """A number within bounds. NaN is refused: a comparison would not find it outside of them."""

    what = "a number"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        number = float(super().convert(value, param, ctx))
        if number != number:
            self.fail(f"{value!r} is not {self.what}.", param, ctx)
        return number


class Seconds(Number):
    """A number of seconds within bounds."""

    what = "a number of seconds"


class Names(click.ParamType["list[str]"]):
    """``NAME`` or ``NAME,NAME``; what names there are is checked where they are used."""

    name = "NAME[,NAME…]"

    def convert(self, value: Any, param: Any, ctx: Any) -> list[str]:
        if isinstance(value, list):
            return value
        names = [part.strip() for part in str(value).split(",")]
        if not all(names):
            self.fail(f"{str(value)[:60]!r} has an empty name in it.", param, ctx)
        return list(dict.fromkeys(names))


class KeyValue(click.ParamType["tuple[str, str]"]):
    """``KEY=VALUE``."""

    name = "KEY=VALUE"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        key, equals, text = str(value).partition("=")
        if not equals or not key.strip():
            self.fail(f"{value!r} is not KEY=VALUE.", param, ctx)
        return key.strip(), text.strip()


class Cores(click.ParamType["str"]):
    """``0-3`` or ``0,2,4-7``: numbers of CPU cores."""

    name = "CORES"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        from envbench.backends.settings import CORES

        if not re.fullmatch(CORES, str(value)):
            self.fail(f"{str(value)[:60]!r} is not a list of cores, such as 0-3.", param, ctx)
        return str(value)


def only_one(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> str | None:
    """Of an option that takes one name: a second would silently replace the first."""
    if len(values) > 1:
        raise click.BadParameter(
            f"given more than once: {' and '.join(map(repr, values))}. It takes one.", ctx, param
        )
    return values[0] if values else None


def results_folder(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> Path | None:
    """Where the option was left out: what was given before the subcommand, or ``results``."""
    given = only_one(ctx, param, values)
    before = ctx.parent.params.get("results") if ctx.parent else None
    return Path(given or before or "results")


def no_key_twice(
    ctx: click.Context, param: click.Parameter, values: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    """Of settings: a second value would silently replace the first."""
    keys = [key for key, _ in values]
    for key in keys:
        if keys.count(key) > 1:
            raise click.BadParameter(f"the setting {key!r} is given twice.", ctx, param)
    return values


def joined(ctx: click.Context, param: click.Parameter, values: tuple[list[Any], ...]) -> Any:
    """An option that takes a list takes it in parts, too; None where it was left out."""
    every = [each for part in values for each in part]
    for each in every:
        if isinstance(each, int) and every.count(each) > 1:
            raise click.BadParameter(f"names {each} twice.", ctx, param)
    return list(dict.fromkeys(every)) or None


def complete_presets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Tab completion of presets."""
    from envbench.backends.builtin import PRESETS

    return [name for name in PRESETS if name.startswith(incomplete)]


def complete_backends(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Tab completion of the last name in a comma-separated list of backends."""
    from envbench.backends import registry

    before, comma, last = incomplete.rpartition(",")
    names = [*registry(), "all"] if not comma else list(registry())
    return [before + comma + name for name in names if name.startswith(last)]


def complete_machines(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Tab completion of machine profiles."""
    from envbench.machine import profiles

    return [name for name in profiles() if name.startswith(incomplete)]


def complete_families(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Tab completion of env families."""
    from envbench import families

    return [name for name in families.names() if name.startswith(incomplete)]
