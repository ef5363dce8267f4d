"""``envbench plans``: list finished and unfinished plans; abandon or delete one."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from envbench.cli.options import AS_JSON, RESULTS, flag, machine_option
from envbench.cli.output import print_json, table, tell, warn
from envbench.cli.parse import complete_plans
from envbench.errors import LockHeld, UsageError
from envbench.experiments import recorded_plans as every
from envbench.experiments.recorded_plans import Listed
from envbench.machine import lock, valid_name
from envbench.text import counted, listed, one_line, printable

WIDEST = 60  # characters of a command in the table
PLAN = click.argument("plan", metavar="PLAN", shell_complete=complete_plans)


@click.group(invoke_without_command=True)
@RESULTS
@machine_option("List only the plans of this machine profile.")
@flag("--unfinished", "List only unfinished plans.")
@AS_JSON
@click.pass_context
def plans(
    context: click.Context, results: Path, machine: str | None, unfinished: bool, as_json: bool
) -> None:
    """List the finished and unfinished plans of a results folder.

    \b
    envbench plans                      list every plan, newest first
    envbench plans abandon PLAN         do not resume it; keep what was measured
    envbench plans delete PLAN          remove its file

    To resume an unfinished plan, give its command again. That begins a new plan instead if a newer
    plan is finished, if something that matters has changed, or if the pause was too long.
    """
    if subcommand := context.invoked_subcommand:
        given = {"--machine": machine, "--unfinished": unfinished, "--json": as_json}
        if options := [name for name, value in given.items() if value]:
            raise UsageError(
                f"{listed(options)} cannot be given with `envbench plans {subcommand}`.",
                hint="Only the list of plans takes --machine, --unfinished and --json.",
            )
        return
    from envbench.experiments.recorded_plans import listing

    if machine is not None:
        valid_name(machine)
    found, warnings = listing(results, machine)
    warn(warnings)
    if unfinished:
        found = [each for each in found if each.state in ("unfinished", "measured")]
    if as_json:
        print_json({"schema": 1, "plans": found, "warnings": warnings})
    elif found:
        click.echo(_table(found))
    else:
        place = results / (machine or "")
        missing = "" if place.is_dir() else ": that folder does not exist"
        tell(f"There are no {'unfinished ' if unfinished else ''}plans in {place}{missing}.")


def _table(found: Sequence[Listed]) -> str:
    rows = [
        [each.plan, each.experiment, each.machine, each.state, _blocks(each.done, each.left),
         str(each.failed or ""), one_line(shlex.join(each.command), WIDEST)]
        for each in found
    ]  # fmt: skip
    rows = [[printable(text, keep="") for text in row] for row in rows]  # a row is one line
    return table(rows, ["plan", "experiment", "machine", "state", "blocks", "failed", "command"])


def _blocks(done: int, left: int | None) -> str:
    return f"{done} of ?" if left is None else f"{done} of {done + left}"


@contextmanager
def _lock() -> Iterator[None]:
    """Hold the measuring lock; never wait for it."""
    try:
        with lock.acquire(wait=False):
            yield
    except LockHeld as error:
        raise LockHeld(str(error), hint="Give the command again when it has finished.") from error


@plans.command()
@PLAN
@RESULTS
def abandon(plan: str, results: Path) -> None:
    """Do not resume PLAN any more; keep what was measured."""
    with _lock():
        found = every.named(results, plan)
        every.abandon(found)
        resumed = every.next_resumed(found)
    then = f"resumes {resumed}" if resumed else "begins a new plan"
    tell(f"{found.plan.plan_id} is abandoned: the same command {then}.")


@plans.command(short_help="Remove the file of PLAN.")
@PLAN
@RESULTS
@flag("--yes", "Do not ask.")
def delete(plan: str, results: Path, yes: bool) -> None:
    """Remove the file of PLAN with everything that was measured for it."""
    found = every.named(results, plan)
    question = f"Delete {found.path} with {counted(len(found.done), 'block')}?"
    if not yes and not sys.stdin.isatty():
        raise UsageError(question.replace("?", " needs --yes where no one can be asked."))
    if not yes and not click.confirm(question, err=True):
        tell("Nothing was deleted.")
        return
    with _lock():  # a plan that is being measured may have grown since the question
        path, *by_products = every.delete(every.named(results, found.plan.plan_id))
    more = f" and {counted(len(by_products), 'by-product')}" if by_products else ""
    tell(f"Deleted {path}{more}.")
