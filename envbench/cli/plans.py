"""``envbench plans``: list finished and unfinished plans; abandon or delete one."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from envbench.cli.options import AS_JSON, RESULTS, machine_option, option
from envbench.cli.terminal import print_json, table, tell, warn
from envbench.cli.value_types import Text
from envbench.errors import UsageError
from envbench.experiments import recorded_plans as recorded
from envbench.machine import lock, valid_name
from envbench.text import counted, listed, one_line


def _complete(context: click.Context, parameter: click.Parameter, text: str) -> list[str]:
    every, _ = recorded.listing(context.params.get("results") or Path("results"))
    return [each.plan for each in every if each.plan.startswith(text)]


PLAN = click.argument("plan", type=Text(), metavar="PLAN", shell_complete=_complete)


@click.group(invoke_without_command=True)
@RESULTS
@machine_option("List only the plans of this machine profile.")
@option("--unfinished", "List only unfinished plans.")
@AS_JSON
@click.pass_context
def plans(
    context: click.Context, results: Path, machine: str | None, unfinished: bool, as_json: bool
) -> None:
    """List the finished and unfinished plans of a results folder.

    \b
    envbench plans                      list every plan, newest first
    envbench plans abandon PLAN         never resume it; keep what was measured
    envbench plans delete PLAN          remove its file

    To resume an unfinished plan, run its command again. It begins a new plan if a later one has
    finished, if a package, the code or the machine has changed, or after a pause (an hour for
    baseline and check --against, ten minutes for doctor).
    """
    if subcommand := context.invoked_subcommand:
        given = {"--machine": machine, "--unfinished": unfinished, "--json": as_json}
        if options := [name for name, value in given.items() if value]:
            raise UsageError(
                f"{listed(options)} cannot be given with `envbench plans {subcommand}`.",
                hint="Only the list of plans takes --machine, --unfinished and --json.",
            )
        return
    if machine is not None:
        valid_name(machine)
    found, warnings = recorded.listing(results, machine)
    warn(warnings)
    if unfinished:
        found = [each for each in found if each.state in ("unfinished", "measured")]
    if as_json:
        print_json({"schema": 1, "plans": found, "warnings": warnings})
    elif found:
        rows = []
        for each in found:
            of = "?" if each.left is None else each.done + each.left
            blocks, command = f"{each.done} of {of}", one_line(shlex.join(each.command), 60)
            what = [each.plan, each.experiment, each.machine, each.state]
            rows.append([*what, blocks, each.failed or "", command])
        heads = ["plan", "experiment", "machine", "state", "blocks", "failed", "command"]
        click.echo(table(rows, heads))
    else:
        place = results / (machine or "")
        missing = "" if place.is_dir() else ": that folder does not exist"
        tell(f"There are no {'unfinished ' if unfinished else ''}plans in {place}{missing}.")


@plans.command()
@PLAN
@RESULTS
def abandon(plan: str, results: Path) -> None:
    """Never resume PLAN; keep what was measured."""
    with lock.acquire(wait=False, hint=lock.LATER):
        found = recorded.named(results, plan)
        recorded.abandon(found)
        resumed = recorded.next_resumed(found)
    then = f"resumes {resumed}" if resumed else "begins a new plan"
    tell(f"{found.plan.plan_id} is abandoned. Its command, given again, {then}.")


@plans.command(short_help="Remove the file of PLAN.")
@PLAN
@RESULTS
@option("--yes", "Do not ask.")
def delete(plan: str, results: Path, yes: bool) -> None:
    """Remove the file of PLAN with everything that was measured for it."""
    found = recorded.named(results, plan)
    question = f"Delete {found.path} with {counted(len(found.done), 'block')}?"
    if not yes and not sys.stdin.isatty():
        raise UsageError("without a terminal, `envbench plans delete` needs --yes.")
    if not yes and not click.confirm(question, err=True):
        tell("Nothing was deleted.")
        return
    with lock.acquire(wait=False, hint=lock.LATER):
        # A plan that is being measured may have grown since the question.
        path, *by_products = recorded.delete(recorded.named(results, found.plan.plan_id))
    more = f" and {counted(len(by_products), 'by-product')}" if by_products else ""
    tell(f"Deleted {path}{more}.")
