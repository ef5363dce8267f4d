"""Options of several commands, and how they become the values that experiments take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import click

from envbench.cli.option_types import (
    KeyValue,
    Names,
    Number,
    NumEnvs,
    complete_backends,
    complete_families,
    complete_machines,
    joined,
    no_key_twice,
    only_one,
    results_folder,
)
from envbench.families import SMALLEST_SKIP
from envbench.model import LARGEST_SKIP

# ---------------------------------------------------------------- options of several commands

Option = Callable[[Any], Any]


def family_option(text: str) -> Option:
    """``--env``: one family; ``text`` is what it does here."""
    return click.option(
        "--env",
        "family",
        multiple=True,
        callback=only_one,
        metavar="FAMILY",
        shell_complete=complete_families,
        help=text,
    )


def machine_option(text: str) -> Option:
    """``--machine``: one profile; ``text`` is what it does here."""
    return click.option(
        "--machine",
        multiple=True,
        callback=only_one,
        metavar="NAME",
        shell_complete=complete_machines,
        help=text,
    )


def numenv_option(default: str) -> Option:
    """``--numenv``: numbers of environments; ``default`` is what leaving it out means here."""
    return click.option(
        "--numenv",
        "--num-envs",
        type=NumEnvs(),
        multiple=True,
        callback=joined,
        help=f"Environments per vector step.  [default: {default}]",
    )


def backends_option(default: str) -> Option:
    """``--backend``: several by name; ``default`` is what leaving it out means here."""
    return click.option(
        "--backend",
        "backend_names",
        type=Names(),
        multiple=True,
        callback=joined,
        shell_complete=complete_backends,
        help=f"Backends by name, or all.  [default: {default}]",
    )


_FAMILIES = "atari, mujoco, or gym (a task of your own)."
FAMILY = family_option(f"{_FAMILIES}  [default: atari and mujoco]")
BACKENDS = backends_option("all that can run here")
TASK = click.option(
    "--task",
    multiple=True,
    callback=only_one,
    metavar="ID",
    help="Task id.  [default: Pong-v5, Ant-v3]",
)
# Of commands that compare a few cells: those that the profile names for it.
CHECKED = "the profile's cells under `check`; beside another of --env, --backend, --numenv: all"
CHECKED_FAMILY = family_option(f"{_FAMILIES}  [default: {CHECKED}]")
CHECKED_BACKENDS = backends_option(CHECKED)
CHECKED_NUMENV = numenv_option(CHECKED)
MACHINE = machine_option("Machine profile.  [default: the one that fits this machine]")
SETTINGS = click.option(
    "--set",
    "given",
    type=KeyValue(),
    multiple=True,
    callback=no_key_twice,
    help="A backend's setting; see `envbench backends --settings`. Repeatable.",
)
FRAME_SKIP = click.option(
    "--frame-skip",
    type=Number(SMALLEST_SKIP, LARGEST_SKIP),
    metavar="N",
    help="Frames per step, for --env gym.  [default: 1]",
)
SEED = click.option(
    "--seed",
    type=click.IntRange(0, 2**31 - 1),
    default=0,
    show_default=True,
    metavar="N",
    help="Seed for environments, actions and cell order.",
)
PYTHONS = click.option(
    "--python",
    "pythons",
    multiple=True,
    metavar="BACKEND=PATH",
    help="The interpreter of a backend. Repeatable.",
)
NO_SETUP = click.option(
    "--no-setup", is_flag=True, help="Do not make isolated runtimes on first use."
)
RESULTS = click.option(
    "--results",
    type=click.Path(file_okay=False),
    multiple=True,
    callback=results_folder,
    help="Where results are kept.  [default: results]",
)
FRESH = click.option(
    "--fresh", is_flag=True, help="Begin anew, even where a plan was left unfinished."
)
WAIT = click.option("--wait", is_flag=True, help="Wait while another envbench measures here.")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")


# ---------------------------------------------------------------- options that become one value


def cells_asked(*options: Option) -> Option:
    """The options that say which cells, for a command that takes them as ``cells: CellRequest``."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def called(
            *,
            family: str | None,
            backend_names: list[str] | None,
            task: str | None,
            given: tuple[tuple[str, str], ...],
            numenv: list[int] | int | None = None,
            overcommit: str | None = None,
            numa_nodes: tuple[str, ...] = (),
            preset: str | None = None,
            frame_skip: float | None = None,
            **others: Any,
        ) -> None:
            from envbench.engine.request import CellRequest

            cells = CellRequest(
                family=family,
                task=task,
                backends=backend_names,
                numenv=None if isinstance(numenv, int) else numenv,
                ladder=[numenv] if isinstance(numenv, int) else None,
                settings=dict(given),
                in_flight=overcommit,
                nodes="/".join(numa_nodes),
                preset=preset,
                frame_skip=frame_skip,
            )
            command(cells=cells, **others)

        return _with([*options, TASK, SETTINGS], called)

    return decorate


def measuring(*options: Option) -> Option:
    """The options of every measuring command, for one that takes them as ``options: Options``."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def called(
            *,
            machine: str | None,
            seed: int,
            results: Path,
            wait: bool,
            fresh: bool,
            pythons: tuple[str, ...] = (),
            no_setup: bool = False,
            **others: Any,
        ) -> None:
            from envbench.engine.experiment import Options
            from envbench.runtimes.interpreters import parse_overrides

            options = Options(
                results=results,
                machine=machine,
                seed=seed,
                wait=wait,
                fresh=fresh,
                setup=not no_setup,
                pythons=parse_overrides(pythons),
            )
            command(options=options, **others)

        return _with([MACHINE, SEED, *options, RESULTS, FRESH, WAIT], called)

    return decorate


def _with(options: Sequence[Option], command: Callable[..., None]) -> Callable[..., None]:
    """The command with these options, in this order in its help."""
    for option in reversed(options):
        command = option(command)
    return command
