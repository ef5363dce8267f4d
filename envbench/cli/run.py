"""``envbench run``: measure one cell, a plan, or a whole profile; goes on where it was stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from envbench.cli.options import (
    Cores,
    KeyValue,
    Names,
    NumEnvs,
    Seconds,
    complete_backends,
    complete_families,
    complete_machines,
    complete_presets,
    joined,
    only_one,
)


@click.command()
@click.option(
    "--env",
    "family",
    multiple=True,
    callback=only_one,
    metavar="FAMILY",
    shell_complete=complete_families,
    help="atari, mujoco, or gym (a task of your own).  [default: atari and mujoco]",
)
@click.option(
    "--backend",
    "backend_names",
    type=Names(),
    multiple=True,
    callback=joined,
    shell_complete=complete_backends,
    help="Backends by name, or all.  [default: all that can run here]",
)
@click.option(
    "--numenv",
    "--num-envs",
    type=NumEnvs(),
    multiple=True,
    callback=joined,
    help="Environments a vector step.  [default: the profile's ladder]",
)
@click.option("--task", metavar="ID", help="Task id.  [default: Pong-v5, Ant-v3]")
@click.option(
    "--machine",
    metavar="NAME",
    shell_complete=complete_machines,
    help="Machine profile.  [default: the one that fits this machine]",
)
@click.option(
    "--duration",
    type=Seconds(1, 86400),
    default=None,
    metavar="SECONDS",
    help="Measured seconds a cell, over all its runs.  [default: 40]",
)
@click.option(
    "--total-step",
    type=click.IntRange(1, 10**12),
    metavar="K",
    help="Vector steps a cell, over all its runs, instead of a duration.",
)
@click.option(
    "--repeats",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Fresh processes a cell.  [default: 5 for most backends]",
)
@click.option(
    "--overcommit",
    metavar="X",
    help="Environments in flight for each one received (async EnvPool).  [default: 3]",
)
@click.option(
    "--numa-node",
    "numa_nodes",
    type=Cores(),
    multiple=True,
    help="Cores of one node, such as 0-3, for envpool-numa; repeatable.  [default: the system's]",
)
@click.option(
    "--set",
    "given",
    type=KeyValue(),
    multiple=True,
    help="A backend's setting; see `envbench backends --settings`. Repeatable.",
)
@click.option(
    "--preset",
    metavar="NAME",
    shell_complete=complete_presets,
    help="Settings under a name: envpool-published.",
)
@click.option(
    "--frame-skip",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="Frames a step, for --env gym.  [default: 1]",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**31 - 1),
    default=0,
    show_default=True,
    metavar="N",
    help="Of environments, actions and the order of runs.",
)
@click.option(
    "--python",
    "pythons",
    multiple=True,
    metavar="BACKEND=PATH",
    help="The interpreter of a backend. Repeatable.",
)
@click.option("--no-setup", is_flag=True, help="Do not make isolated runtimes on first use.")
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("results"),
    show_default=True,
    help="Where results are kept.",
)
@click.option("--quick", is_flag=True, help="One process, 3 s a cell, no interval: a look.")
@click.option("--fresh", is_flag=True, help="Begin anew, even where a plan was left unfinished.")
@click.option("--wait", is_flag=True, help="Wait while another envbench measures here.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def run(**given: Any) -> None:
    """Measure how fast environments step on this machine.

    One cell takes about a minute. Left-out options mean: both families, every backend that can
    run here, the profile's ladder. The same command goes on where it was stopped.
    """
    from envbench.cli.session import Session

    Session(given).carry_out()
