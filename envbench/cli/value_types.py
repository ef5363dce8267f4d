"""Kinds of values that options take. Each refuses what it cannot use, and says what it needs."""

from __future__ import annotations

import math
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from envbench.errors import UsageError


class Number(click.FloatRange):
    """A number between two bounds. ``because`` says in the error why it may be no other."""

    name = "number"
    read: type[int] | type[float] = float

    def __init__(self, smallest: float, largest: float, because: str = "") -> None:
        super().__init__(smallest, largest)
        self.bounds, self.because = (smallest, largest), because

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        _not_empty(value, param, ctx)
        (smallest, largest), number = self.bounds, math.nan
        with suppress(ValueError):
            number = self.read(value)
        if not smallest <= number <= largest:  # so NaN is refused, too
            least, most = (f"{each:,.6f}".rstrip("0").rstrip(".") for each in self.bounds)
            because = f" {self.because}" if self.because else ""
            raise click.UsageError(
                f"{_name(param)} has to be a {self.name} from {least} to {most}, not "
                f"{str(value)!r}.{because}",
                ctx,
            )
        return number


class Whole(Number):
    """``Number`` without a fraction."""

    name = "whole number"
    read = int


class Text(click.types.StringParamType):
    """A text that is not empty."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        return super().convert(_not_empty(value, param, ctx), param, ctx)


class FilePath(click.Path):
    """A path that is not empty, as a ``Path``."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        return Path(str(super().convert(_not_empty(value, param, ctx), param, ctx)))


class Output(FilePath):
    """A file to write. Its folder exists: a mistyped path makes no new folders."""

    def __init__(self, *, allow_dash: bool = False) -> None:
        super().__init__(dir_okay=False, allow_dash=allow_dash)

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        path = super().convert(value, param, ctx)
        if not path.parent.is_dir():
            raise UsageError(
                f"{_name(param)} {path}: there is no folder {path.parent}.",
                hint=f"Make it: mkdir -p {shlex.quote(str(path.parent))}. Or name another file.",
            )
        return path


def _name(param: click.Parameter) -> str:
    return param.opts[0] if isinstance(param, click.Option) else param.human_readable_name


def _not_empty(value: Any, param: click.Parameter, ctx: Any) -> Any:
    """The value. Empty text is refused: in CI, an unset variable must not turn an option off."""
    if isinstance(value, str) and not value.strip():
        raise click.UsageError(
            f"{_name(param)} is empty. Give it a value, or leave it out. "
            "If the value comes from a variable, the variable is not set.",
            ctx,
        )
    return value
