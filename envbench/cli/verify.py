"""``envbench verify``: find out whether the backends do the same work. One table per task.

Findings are stored with the results, and ``envbench report`` shows them. The exit code is 1 if a
backend failed, if its figures are refused (it counted its steps wrongly, or its observations do not
follow its actions), or if it does not equal the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import click

from envbench.backends import row_label
from envbench.cli.conduct import conduct
from envbench.cli.options import AS_JSON, measured_cells, measuring_options, option
from envbench.cli.terminal import print_json, program, table, tell, tell_failures
from envbench.cli.value_types import Whole
from envbench.decisions.equal_work import judge
from envbench.engine.campaign import Campaign
from envbench.engine.experiment import Options
from envbench.engine.request import CellRequest
from envbench.errors import CELL_FAILED
from envbench.experiments.verify import VerifyExperiment
from envbench.model import Verification, fields
from envbench.report.tables.details import explained
from envbench.report.tables.footnotes import BADGES
from envbench.results import store
from envbench.text import printable

NUMENV = option(
    "--numenv N",
    "Environments per vector step. At least two are needed to show whether actions have an effect.",
    Whole(2, 1024, "With one, nothing shows whether actions have an effect."),
    also="ladder",
    default=4,
    callback=lambda context, parameter, value: [value],
)


@click.command()
@measured_cells(NUMENV)
@option(
    "--total-step K",
    "Make at least this many vector steps, and count them in two ways.",
    Whole(10, 10**6),
    default=1000,
)
@measuring_options(runtimes=True)
@AS_JSON
def verify(cells: CellRequest, options: Options, total_step: int, as_json: bool) -> None:
    """Find out whether backends do the same work and count it correctly.

    Each step of a backend is compared with the step of a reference backend from the same state,
    with the same action (in `gym`, from the same seed on; in `box2d`, whole episodes are compared).
    Steps are counted twice, by the adapter and by the environments
    themselves. By default, verify the families and backends that the profile lists. To resume a
    stopped verification, run the same command again.
    """
    experiment = VerifyExperiment(cells=cells, audit_calls=total_step)
    conduct(experiment, options, partial(_show, as_json=as_json), partly=True)


def _show(outcome: Campaign[list[Verification]], *, as_json: bool) -> int:
    """Show the findings. Returns the exit code."""
    found = outcome.findings
    if outcome.stopped is None:
        file = outcome.journal.path
        report = f"{program()} report{store.option(file.parents[1])}"
        tell(f"Recorded in {file}; `{report}` shows it beside the measured figures of these rows.")
    if as_json:
        rows = [
            fields(each.cell, "machine env task backend settings")
            | {"verdict": judge(each)}
            | fields(each, "audit agreement responds work failure")
            for each in found
        ]
        print_json({"schema": 1, "verifications": rows}, indent=-1)
    else:
        click.echo(_tables(found))
        tell_failures((each.cell, each.failure) for each in found)
    verdicts = [judge(each) for each in found]
    wrong = any(verdict.refused or verdict.unequal for verdict in verdicts)
    return CELL_FAILED if wrong or any(each.failure for each in found) else 0


def _tables(found: Sequence[Verification]) -> str:
    groups: dict[str, list[list[str]]] = {}
    for each in found:
        verdict, cell = judge(each), each.cell
        label = f"{verdict.badge} {row_label(cell.backend, cell.variant)}"
        differences = "\n".join(verdict.differences) or ("" if each.failure else "none")
        section = f" ({cell.kind})" if cell.kind != "env" else ""
        rows = groups.setdefault(f"{cell.env} {cell.task}{section}", [])
        rows.append([label, verdict.audit, verdict.lock_step, differences])
    heads = ["backend", "audit", "lock-step", "other settings"]
    marks = {judge(each).badge for each in found}
    legend = ", ".join(f"{mark} {what}" for mark, what in BADGES.items() if mark in marks)
    tables = [
        f"{printable(name)}\n{table(rows, heads, widths=[26, 32, 34, 52])}"
        for name, rows in groups.items()
    ]
    notes = explained(judge(each).lock_step for each in found)
    return "\n\n".join([*([legend] if legend else []), *tables, *notes])
