"""``envbench run``: measure one cell, a plan, or a whole profile; goes on where it was stopped."""

from __future__ import annotations

from typing import Any

import click

from envbench.cli.options import (
    AS_JSON,
    BACKENDS,
    FAMILY,
    FRAME_SKIP,
    MACHINE,
    NO_SETUP,
    PYTHONS,
    RESULTS,
    SEED,
    SETTINGS,
    TASK,
    WAIT,
    Cores,
    Seconds,
    complete_presets,
    numenv_option,
)


@click.command()
@FAMILY
@BACKENDS
@numenv_option("the profile's ladder")
@TASK
@MACHINE
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
@SETTINGS
@click.option(
    "--preset",
    metavar="NAME",
    shell_complete=complete_presets,
    help="Settings under a name: envpool-published.",
)
@FRAME_SKIP
@SEED
@PYTHONS
@NO_SETUP
@RESULTS
@click.option("--quick", is_flag=True, help="One process, 3 s a cell, no interval: a look.")
@click.option("--fresh", is_flag=True, help="Begin anew, even where a plan was left unfinished.")
@WAIT
@AS_JSON
def run(**given: Any) -> None:
    """Measure how fast environments step on this machine.

    One cell takes about a minute. Left-out options mean: both families, every backend that can
    run here, the profile's ladder. The same command goes on where it was stopped.
    """
    from envbench.cli.session import Session

    Session(given).carry_out()
