"""``envbench baseline save``: cells measured against the reference kernel, for another day."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from envbench.cli.options import (
    CHECKED_BACKENDS,
    CHECKED_FAMILY,
    CHECKED_NUMENV,
    MACHINE,
    SEED,
    SETTINGS,
    TASK,
    WAIT,
)


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
@CHECKED_FAMILY
@CHECKED_BACKENDS
@CHECKED_NUMENV
@TASK
@MACHINE
@SETTINGS
@click.option("--pairs", type=click.IntRange(5, 1000), help="Of kernel and cell.  [default: 13]")
@SEED
@WAIT
def save(**given: Any) -> None:
    """Measure cells beside the reference kernel, by turns, and keep the raw records in a file."""
    from envbench.cli.gauges import Gauging

    Gauging(given).save(given["output"])
