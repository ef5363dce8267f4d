"""``envbench baseline save``: cells measured against the reference kernel, for another day."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from envbench.cli import tell
from envbench.cli.options import (
    CHECKED_BACKENDS,
    CHECKED_FAMILY,
    CHECKED_NUMENV,
    cells_asked,
    measuring,
)
from envbench.errors import EnvbenchError

if TYPE_CHECKING:
    from envbench.engine.experiment import Options
    from envbench.engine.request import CellRequest
    from envbench.engine.session import Outcome
    from envbench.model import Failure


@click.group()
def baseline() -> None:
    """A stored baseline for `envbench check --against FILE`: advice, where an A/B cannot be run."""


@baseline.command()
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="The file to write; it must not exist.",
)
@cells_asked(CHECKED_FAMILY, CHECKED_BACKENDS, CHECKED_NUMENV)
@click.option("--pairs", type=click.IntRange(5, 1000), help="Pairs per cell.  [default: 13]")
@measuring()
def save(cells: CellRequest, options: Options, output: Path, pairs: int | None) -> None:
    """Measure cells alternately with the reference kernel, and save the raw records in a file.

    They are measured into the results folder first; the file is made when all of them are there.
    The same command resumes where it was stopped.
    """
    from envbench.cli.conduct import conduct
    from envbench.engine.pairs import DEFAULT_PAIRS
    from envbench.experiments.check.baseline import BaselineExperiment, refuse_existing
    from envbench.experiments.check.baseline import save as keep

    refuse_existing(output)
    experiment = BaselineExperiment(cells=cells, pairs=pairs or DEFAULT_PAIRS, stop_at_failure=True)

    def show(outcome: Outcome[dict[str, Failure]]) -> int:
        for cell, failure in outcome.findings.items():
            outcome.concluded()
            raise EnvbenchError(f"{cell}: {failure.message}", hint=failure.hint)
        keep(outcome, output)
        tell(f"Saved in {output}: `envbench check --against {output}` compares with it here.")
        return 0

    conduct(experiment, options, show)
