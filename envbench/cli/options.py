"""Options that several commands take, and the typed values that groups of options become."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click
import msgspec
from click.core import ParameterSource

from envbench.cli import parse
from envbench.engine.experiment import Options
from envbench.engine.request import CellRequest
from envbench.families import SMALLEST_SKIP
from envbench.model import LARGEST_SKIP
from envbench.runtimes.interpreters import parse_overrides
from envbench.text import listed

Option = Callable[[Any], Any]  # a decorator that adds an option to a command


def flag(name: str, text: str, *dest: str, **more: Any) -> Option:
    return click.option(name, *dest, is_flag=True, help=text, **more)


def valued(name: str, kind: Any, metavar: str, text: str, *dest: str, **more: Any) -> Option:
    """An option with a value. The help shows its ``default``, if it has one."""
    shown = "default" in more
    return click.option(
        name, *dest, type=kind, metavar=metavar, help=text, show_default=shown, **more
    )


def one_name(name: str, metavar: str, text: str, *dest: str, **more: Any) -> Option:
    """An option that takes one name, and refuses a second one."""
    return repeated(name, str, metavar, text, *dest, callback=parse.only_one, **more)


def repeated(name: str, kind: Any, metavar: str, text: str, *dest: str, **more: Any) -> Option:
    """An option that may be given several times. Its ``callback`` makes one value of them."""
    return valued(name, kind, metavar, text, *dest, multiple=True, **more)


def family_option(text: str) -> Option:
    complete = parse.complete_families
    return one_name("--env", "FAMILY", text, "family", shell_complete=complete)


def machine_option(text: str) -> Option:
    return one_name("--machine", "NAME", text, shell_complete=parse.complete_machines)


def numenv_option(default: str) -> Option:
    return repeated(
        "--numenv",
        parse.numenv_list,
        "N[,N…]",
        f"Environments per vector step.  [default: {default}]",
        "--num-envs",
        callback=parse.one_list,
    )


def backends_option(default: str) -> Option:
    return repeated(
        "--backend",
        parse.name_list,
        "NAME[,NAME…]",
        f"Backends by name, or all.  [default: {default}]",
        "backends",
        callback=parse.one_list,
        shell_complete=parse.complete_backends,
    )


PYTHONS = repeated(
    "--python",
    str,
    "BACKEND=PATH",
    "Run a backend in this interpreter. Repeatable.",
    "pythons",
    callback=lambda context, parameter, texts: parse_overrides(texts),
)
RESULTS = repeated(
    "--results",
    click.Path(file_okay=False),
    "DIRECTORY",
    "Folder of the results.  [default: results]",
    callback=parse.results_folder,
)
WAIT = flag("--wait", "Wait until no other envbench measures on this machine.")
AS_JSON = flag("--json", "Print one JSON document on stdout.", "as_json")


def refuse_together(*options: str) -> None:
    """Raise ``UsageError`` where the command line has more than one of these options."""
    context = click.get_current_context()
    named = [each for each in context.command.params if each.opts[0] in options]
    given = [
        each.opts[0]
        for each in named
        if context.get_parameter_source(each.name or "") is ParameterSource.COMMANDLINE
    ]
    if len(given) > 1:
        raise click.UsageError(f"{listed(given)} cannot be combined.")


# ---------------------------------------------------------------- groups of options


def grouped(name: str, kind: type[msgspec.Struct], *options: Option, prefix: str = "") -> Option:
    """The options as one argument ``name`` of the command: a value of ``kind``.

    Each option is named as a field of it, after ``prefix``. A field keeps its default where the
    option was left out.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def called(**given: Any) -> None:
            values = {field: given.pop(prefix + field, None) for field in kind.__struct_fields__}
            named = {field: value for field, value in values.items() if value is not None}
            command(**{name: kind(**named)}, **given)

        for option in reversed(options):
            called = option(called)
        return called

    return decorate


_FAMILIES = "Env family: atari, mujoco, dm_control, classic_control, box2d, or gym (your own task)."
_CHECKED = "as the profile lists under `check`"


def cell_options(*options: Option) -> Option:
    """The options that say which cells, as ``cells: CellRequest``."""
    return grouped(
        "cells",
        CellRequest,
        *options,
        one_name("--task", "ID", "Task id.  [default: Pong-v5, Ant-v3]"),
        repeated(
            "--set",
            parse.key_value,
            "KEY=VALUE",
            "Change a setting of a backend; `envbench backends --settings` lists them. Repeatable.",
            "settings",
            callback=parse.settings_by_key,
        ),
    )


def measured_cells(*options: Option) -> Option:
    """By default, every family and backend: ``cells: CellRequest``."""
    skips = parse.Number(SMALLEST_SKIP, LARGEST_SKIP)
    return cell_options(
        family_option(f"{_FAMILIES}  [default: those with a table in the profile]"),
        backends_option("all that can run here"),
        *options,
        valued("--frame-skip", skips, "N", "Frames per step, for --env gym.  [default: 1]"),
    )


def checked_cells() -> Option:
    """By default, the few cells that the profile names for a check: ``cells: CellRequest``."""
    return cell_options(
        family_option(f"{_FAMILIES}  [default: {_CHECKED}]"),
        backends_option(_CHECKED),
        numenv_option(_CHECKED),
    )


def measuring_options(*, runtimes: bool) -> Option:
    """The options of every measuring command, as ``options: Options``.

    ``runtimes``: the command runs each backend in its usual runtime, which options can change.
    """
    no_setup = flag(
        "--no-setup",
        "Do not create isolated runtimes on first use.",
        "setup",
        callback=lambda context, parameter, forbidden: not forbidden,
    )
    seeds = click.IntRange(0, 2**31 - 1)
    return grouped(
        "options",
        Options,
        machine_option("Machine profile.  [default: the one that fits this machine]"),
        valued("--seed", seeds, "N", "Seed for environments, actions and cell order.", default=0),
        *([PYTHONS, no_setup] if runtimes else []),
        RESULTS,
        flag("--fresh", "Begin a new plan instead of resuming an unfinished one."),
        WAIT,
    )
