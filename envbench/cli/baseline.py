"""``envbench baseline save``: store cells and a reference kernel for a check on another day."""

from __future__ import annotations

from pathlib import Path

import click

from envbench.cli.options import checked_cells, measuring_options, valued
from envbench.cli.output import tell
from envbench.cli.run_experiment import conduct
from envbench.engine.campaign import Campaign
from envbench.engine.experiment import Options
from envbench.engine.pairs import DEFAULT_PAIRS
from envbench.engine.request import CellRequest
from envbench.errors import EnvbenchError
from envbench.experiments.check.baseline import BaselineExperiment, refuse_existing
from envbench.experiments.check.baseline import save as write
from envbench.model import Failure


@click.group()
def baseline() -> None:
    """Save a baseline for `envbench check --against FILE`.

    Use it where both sides cannot be measured in one run. Its verdicts are only advice.
    """


@baseline.command(short_help="Measure cells, and save the raw records in a file.")
@valued(
    "--output",
    click.Path(path_type=Path, dir_okay=False),
    "FILE",
    "Write this file. It must not exist.",
    required=True,
)
@checked_cells()
@valued("--pairs", click.IntRange(5, 1000), "N", f"Pairs per cell.  [default: {DEFAULT_PAIRS}]")
@measuring_options(runtimes=False)
def save(cells: CellRequest, options: Options, output: Path, pairs: int | None) -> None:
    """Measure cells alternately with a reference kernel, and save the raw records in a file.

    The records first go into the results folder. The file is written when all are complete. To
    resume a stopped measurement, give the same command again.
    """
    refuse_existing(output)
    experiment = BaselineExperiment(cells=cells, pairs=pairs or DEFAULT_PAIRS, stop_at_failure=True)

    def show(outcome: Campaign[dict[str, Failure]]) -> int:
        for cell, failure in outcome.findings.items():
            outcome.concluded()
            raise EnvbenchError(f"{cell}: {failure.message}", hint=failure.hint)
        write(outcome, output)
        tell(f"Saved in {output}. Compare with it: envbench check --against {output}")
        return 0

    conduct(experiment, options, show)
