"""``envbench plans``: list finished and unfinished plans, abandon or delete one."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from envbench.cli import tell
from envbench.cli.options import AS_JSON, RESULTS, machine_option
from envbench.errors import LockHeld, UsageError
from envbench.text import counted, listed, printable

WIDEST = 60  # characters of a command in the table


def complete_plans(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Tab completion of plan ids."""
    from envbench.experiments.plans import listing

    every = listing(ctx.params.get("results") or Path("results")).plans
    return [each.plan for each in every if each.plan.startswith(incomplete)]


PLAN = click.argument("plan", metavar="PLAN", shell_complete=complete_plans)


@click.group(invoke_without_command=True)
@RESULTS
@machine_option("Only plans of this machine profile.")
@click.option("--unfinished", is_flag=True, help="Only unfinished plans.")
@AS_JSON
@click.pass_context
def plans(
    context: click.Context, results: Path, machine: str | None, unfinished: bool, as_json: bool
) -> None:
    """List the plans of a results folder: what is finished, and what is not.

    \b
    envbench plans                      every plan, the newest first
    envbench plans abandon PLAN         do not resume it; keep what was measured
    envbench plans delete PLAN          remove its file

    To resume an unfinished plan, give its command again. The command begins a new plan where
    a newer one is finished, something that matters has changed, or the pause was too long.
    """
    of_the_list = {"--machine": machine, "--unfinished": unfinished, "--json": as_json}
    if context.invoked_subcommand is not None:
        _refuse([name for name, given in of_the_list.items() if given], context.invoked_subcommand)
        return
    from envbench.experiments.plans import listing
    from envbench.machine import valid_name

    if machine is not None:
        valid_name(machine)
    every = listing(results, machine)
    for warning in every.warnings:
        tell(f"Warning: {warning}")
    found = every.plans
    if unfinished:
        found = [each for each in found if each.state in ("unfinished", "measured")]
    if as_json:
        import msgspec

        whole = {"schema": 1, "plans": found, "warnings": every.warnings}
        click.echo(msgspec.json.format(msgspec.json.encode(whole)).decode())
        return
    if not found:
        place = results / (machine or "")
        missing = "" if place.is_dir() else ": that folder does not exist"
        tell(f"There are no {'unfinished ' if unfinished else ''}plans in {place}{missing}.")
        return
    from tabulate import tabulate

    rows = [
        [each.plan, each.experiment, each.machine, each.state, _blocks(each.done, each.left),
         str(each.failed or ""), _short(shlex.join(each.command))]
        for each in found
    ]  # fmt: skip
    rows = [[printable(text, keep="") for text in row] for row in rows]
    heads = ["plan", "experiment", "machine", "state", "blocks", "failed", "command"]
    click.echo(tabulate(rows, heads, disable_numparse=True))


def _blocks(done: int, left: int | None) -> str:
    return f"{done} of ?" if left is None else f"{done} of {done + left}"


def _short(command: str) -> str:
    return command if len(command) <= WIDEST else command[: WIDEST - 1] + "…"


def _refuse(options: list[str], subcommand: str) -> None:
    """Options of the list do nothing before a subcommand."""
    if options:
        raise UsageError(
            f"{listed(options)} cannot be given with `envbench plans {subcommand}`.",
            hint="Only the list of plans takes --machine, --unfinished and --json.",
        )


@contextmanager
def _lock() -> Iterator[None]:
    """The measuring lock. These commands have no --wait."""
    from envbench.machine import lock

    try:
        with lock.acquire(wait=False):
            yield
    except LockHeld as error:
        raise LockHeld(str(error), hint="Give the command again when it has finished.") from error


@plans.command()
@PLAN
@RESULTS
def abandon(plan: str, results: Path) -> None:
    """Do not resume PLAN any more. What was measured stays."""
    from envbench.experiments import plans as every

    with _lock():
        found = every.named(results, plan)
        every.abandon(found)
        resumed = every.next_resumed(found)
    then = f"resumes {resumed}" if resumed else "begins a new plan"
    tell(f"{found.plan.plan_id} is abandoned: the same command {then}.")


@plans.command()
@PLAN
@RESULTS
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(plan: str, results: Path, yes: bool) -> None:
    """Remove the file of PLAN with everything that was measured for it."""
    from envbench.experiments import plans as every

    found = every.named(results, plan)
    question = f"Delete {found.path} with {counted(len(found.done), 'block')}?"
    if not yes and not sys.stdin.isatty():
        raise UsageError(question.replace("?", " needs --yes where no one can be asked."))
    if not yes and not click.confirm(question, err=True):
        tell("Nothing was deleted.")
        return
    with _lock():  # only now does no one write to it
        path, *by_products = every.delete(every.named(results, found.plan.plan_id))
    more = f" and {counted(len(by_products), 'by-product')}" if by_products else ""
    tell(f"Deleted {path}{more}.")
