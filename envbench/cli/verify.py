"""``envbench verify``: are the backends doing the same work? One table per family.

Findings are stored beside the results, and ``envbench report`` shows them. Exit code 1 where a
backend's figures are refused (its steps counted otherwise than it claims, or observations that do
not follow its actions), or where it differs from the reference too early.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from envbench.cli import tell
from envbench.cli.options import (
    AS_JSON,
    BACKENDS,
    FAMILY,
    FRAME_SKIP,
    NO_SETUP,
    PYTHONS,
    cells_asked,
    measuring,
)

if TYPE_CHECKING:
    from envbench.engine.experiment import Options
    from envbench.engine.request import CellRequest
    from envbench.engine.session import Outcome
    from envbench.model import Verification

NUMENV = click.option(
    "--numenv",
    type=click.IntRange(2, 1024),
    default=2,
    show_default=True,
    help="Environments per vector step: two are needed to see that actions matter.",
)


@click.command()
@cells_asked(FAMILY, BACKENDS, NUMENV, FRAME_SKIP)
@click.option(
    "--total-step",
    type=click.IntRange(10, 10**6),
    default=1000,
    show_default=True,
    help="Vector steps that are counted twice, at least.",
)
@measuring(PYTHONS, NO_SETUP)
@AS_JSON
def verify(cells: CellRequest, options: Options, total_step: int, as_json: bool) -> None:
    """Find out whether backends do the same work, and as much as they claim.

    Left-out options mean: both families, and every backend that can run here. Each backend starts
    from a fixed state and gets the same actions as the reference, and its steps are counted twice.
    The same command resumes where it was stopped.
    """
    from envbench.cli.conduct import conduct
    from envbench.experiments.verify import VerifyExperiment

    experiment = VerifyExperiment(cells=cells, audit_calls=total_step)
    conduct(experiment, options, partial(_show, as_json=as_json), partly=True)


def _show(outcome: Outcome[list[Verification]], *, as_json: bool) -> int:
    """What was found; the exit code."""
    from envbench.equal_work.judge import judge
    from envbench.errors import CELL_FAILED

    found = outcome.findings
    if outcome.stopped is None:
        tell(f"Recorded in {outcome.path}; `envbench report` shows it beside the figures.")
    click.echo(_document(found) if as_json else _tables(found))
    verdicts = [judge(each) for each in found]
    wrong = any(verdict.refused or verdict.unequal for verdict in verdicts)
    return CELL_FAILED if wrong or any(each.failure for each in found) else 0


def _tables(found: Sequence[Verification]) -> str:
    from tabulate import tabulate

    from envbench.backends import row_label
    from envbench.equal_work.judge import judge
    from envbench.text import printable

    groups: dict[str, list[list[str]]] = {}
    for each in found:
        verdict, cell = judge(each), each.cell
        label = f"{verdict.badge} {row_label(cell.backend, cell.variant)}"
        differences = "\n".join(verdict.differences) or "none"
        row = [label, verdict.audit, verdict.lock_step, differences]
        section = f" ({cell.kind})" if cell.kind != "env" else ""
        groups.setdefault(f"{cell.env} {cell.task}{section}", []).append(
            [printable(t) for t in row]
        )
    heads = ["backend", "audit", "equivalence", "differences"]
    widths = [26, 32, 34, 52]
    return "\n\n".join(
        f"{printable(name)}\n{tabulate(rows, heads, maxcolwidths=widths, disable_numparse=True)}"
        for name, rows in groups.items()
    )


def _document(found: Sequence[Verification]) -> str:
    import msgspec

    from envbench.equal_work.judge import judge

    rows = [
        {
            "machine": each.cell.machine,
            "env": each.cell.env,
            "task": each.cell.task,
            "backend": each.cell.backend,
            "settings": dict(each.cell.settings),
            "verdict": msgspec.to_builtins(judge(each)),
            "audit": msgspec.to_builtins(each.audit),
            "agreement": msgspec.to_builtins(each.agreement),
            "responds": each.responds,
            "work": each.work,
            "failure": msgspec.to_builtins(each.failure),
        }
        for each in found
    ]
    return msgspec.json.encode({"schema": 1, "verifications": rows}).decode()
