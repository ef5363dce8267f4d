"""``envbench run``: measure one cell, a plan, or a whole profile; resumes where it was stopped."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from envbench.cli.option_types import Cores, Seconds, complete_presets
from envbench.cli.options import (
    AS_JSON,
    BACKENDS,
    FAMILY,
    FRAME_SKIP,
    NO_SETUP,
    PYTHONS,
    cells_asked,
    measuring,
    numenv_option,
)

if TYPE_CHECKING:
    from envbench.engine.experiment import Options
    from envbench.engine.request import CellRequest

OVERCOMMIT = click.option(
    "--overcommit",
    metavar="X",
    help="Environments in flight for each one received (async EnvPool).  [default: 3]",
)
NUMA_NODES = click.option(
    "--numa-node",
    "numa_nodes",
    type=Cores(),
    multiple=True,
    help="Cores of one node, such as 0-3, for envpool-numa; repeatable.  [default: the system's]",
)
PRESET = click.option(
    "--preset",
    metavar="NAME",
    shell_complete=complete_presets,
    help="Settings under a name: envpool-published.",
)


@click.command()
@cells_asked(
    FAMILY,
    BACKENDS,
    numenv_option("the profile's ladder"),
    OVERCOMMIT,
    NUMA_NODES,
    PRESET,
    FRAME_SKIP,
)
@click.option(
    "--duration",
    type=Seconds(1, 86400),
    metavar="SECONDS",
    help="Measured seconds per cell, over all its runs.  [default: 40]",
)
@click.option(
    "--total-step",
    type=click.IntRange(1, 10**12),
    metavar="K",
    help="Vector steps per cell, over all its runs, instead of a duration.",
)
@click.option(
    "--repeats",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Fresh processes per cell.  [default: 5 for most backends]",
)
@click.option("--quick", is_flag=True, help="One process, 3 s per cell, no interval: a look.")
@measuring(PYTHONS, NO_SETUP)
@AS_JSON
def run(
    cells: CellRequest,
    options: Options,
    duration: float | None,
    total_step: int | None,
    repeats: int | None,
    quick: bool,
    as_json: bool,
) -> None:
    """Measure how fast environments step on this machine.

    One cell takes about a minute. Left-out options mean: both families, every backend that can
    run here, the profile's ladder. The same command resumes where it was stopped.
    """
    from envbench.cli.conduct import conduct
    from envbench.cli.outcome import show
    from envbench.experiments.run import DEFAULT_DURATION_S, Measure, RunExperiment

    if duration is not None and total_step is not None:
        raise click.UsageError("--duration and --total-step exclude each other.")
    if quick and (duration is not None or repeats is not None):
        raise click.UsageError("--quick is one run of 3 s: without --duration and --repeats.")
    measure = Measure(
        duration_s=duration or DEFAULT_DURATION_S,
        total_steps=total_step,
        repeats=repeats,
        quick=quick,
    )
    experiment = RunExperiment(cells=cells, measure=measure)
    conduct(experiment, options, partial(show, as_json=as_json), partly=True)
