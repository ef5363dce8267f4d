"""``envbench verify``: are the backends doing the same work? One table a family.

Findings are stored beside the results, and ``envbench report`` shows them. Exit code 1 where a
backend's figures are refused (its steps counted otherwise than it claims, or observations that do
not follow its actions), or where it parts from the reference too early.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from envbench.cli import tell
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
)
from envbench.errors import Interrupted

if TYPE_CHECKING:
    from envbench.model import Cell, Verification
    from envbench.preflight import Ready


@click.command()
@FAMILY
@BACKENDS
@TASK
@MACHINE
@click.option(
    "--numenv",
    type=click.IntRange(2, 1024),
    default=2,
    show_default=True,
    help="Environments a vector step: two are needed to see that actions matter.",
)
@click.option(
    "--total-step",
    type=click.IntRange(10, 10**6),
    default=1000,
    show_default=True,
    help="Vector steps that are counted twice, at least.",
)
@SETTINGS
@FRAME_SKIP
@SEED
@PYTHONS
@NO_SETUP
@RESULTS
@WAIT
@AS_JSON
def verify(**given: Any) -> None:
    """Find out whether backends do the same work, and claim what they do.

    Left-out options mean: both families, and every backend that can run here. Each backend is led
    from a fixed start by the same actions as the reference, and its steps are counted twice.
    """
    sys.exit(_Verifying(given).carry_out())


class _Verifying:
    """One call of ``verify``, from options to exit code."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given

    def carry_out(self) -> int:
        from envbench import lock, store
        from envbench.machine import choose, fingerprint, valid_name

        named = self.given["machine"]
        self.fingerprint = fingerprint()
        self.profile = choose(None if named is None else valid_name(named), self.fingerprint)
        cells, self.takes_all = self._cells()
        store.check_folder(self.given["results"], self.profile.name)
        with lock.acquire(wait=self.given["wait"], on_wait=tell):
            ready, self.exit_code = self._ready(cells)
            cells = [cell for cell in cells if (cell.env, cell.backend) in ready]
            found = self._verify(cells, ready)
        self._show(found)
        return self.exit_code

    def _cells(self) -> tuple[list[Cell], bool]:
        """What was asked for, with the reference of each kind that is to be compared."""
        from envbench.cli.selection import Asked, cells
        from envbench.equivalence import STANDARDS

        asked = Asked(
            family=self.given["family"],
            task=self.given["task"],
            backends=self.given["backend_names"],
            # a ceiling has as many environments as there are cores, and takes no number
            numenv=None if self.given["backend_names"] == ["ceiling"] else [self.given["numenv"]],
            settings=dict(self.given["given"]),
            frame_skip=self.given["frame_skip"],
        )
        chosen = cells(asked, self.profile, self.fingerprint.usable_cpus)
        for cell in list(chosen):
            standard = STANDARDS.get((cell.env, cell.kind))
            if standard and not any(_same_group(cell, c, standard.reference) for c in chosen):
                led = Asked(
                    family=cell.env,
                    task=cell.task,
                    backends=[standard.reference],
                    numenv=[cell.numenv],
                    frame_skip=self.given["frame_skip"],
                )
                chosen += cells(led, self.profile)
        return chosen, asked.takes_all

    def _ready(self, cells: list[Cell]) -> tuple[dict[tuple[str, str], Ready], int]:
        from envbench.cli.selection import unknown_task
        from envbench.errors import UNAVAILABLE, BackendUnavailable
        from envbench.preflight import Ready, check
        from envbench.runtimes import parse_overrides

        overrides = parse_overrides(self.given["pythons"])
        ready: dict[tuple[str, str], Ready] = {}
        exit_code = 0
        for cell in {(cell.env, cell.backend): cell for cell in cells}.values():
            found = check(cell, overrides, setup=not self.given["no_setup"], say=tell)
            if isinstance(found, Ready):
                ready[cell.env, cell.backend] = found
                continue
            if found.known_tasks is not None and not self.takes_all:
                raise unknown_task(cell, found.known_tasks)
            tell(f"{cell.backend} cannot run {cell.env} here: {found.failure.message}")
            tell(f"  {found.failure.hint}")
            exit_code = exit_code if self.takes_all else UNAVAILABLE
        if not ready:
            raise BackendUnavailable("no backend can run this here.", hint="envbench backends")
        return ready, exit_code

    def _verify(self, cells: list[Cell], ready: dict[tuple[str, str], Ready]) -> list[Verification]:
        from datetime import UTC, datetime

        from envbench import campaign, store
        from envbench.model import MachineFact, digest
        from envbench.verification import Verifier, in_order

        now = datetime.now(UTC).strftime(campaign.STAMP)
        path = store.new_file(self.given["results"], self.profile.name, now)
        machine = MachineFact(hash=digest(self.fingerprint), fingerprint=self.fingerprint)
        store.append(path, machine)
        calls = self.given["total_step"]
        verifier = Verifier(ready, machine.hash, self.given["seed"], calls)
        runtimes: set[str] = set()
        found: list[Verification] = []
        try:
            for cell in in_order(cells):
                tell(f"verifying {cell.key} …")
                verification, runtime = verifier.check(cell)
                if runtime is not None and runtime.hash not in runtimes:
                    store.append(path, runtime)
                    runtimes.add(runtime.hash)
                store.append(path, verification)
                found.append(verification)
        except Interrupted as stop:
            self.exit_code = stop.exit_code
            tell(f"Stopped. {len(found)} of {len(cells)} are in {path}; begin again for the rest.")
            return found
        tell(f"Recorded in {path}; `envbench report` shows it beside the figures.")
        return found

    def _show(self, found: list[Verification]) -> None:
        from envbench.errors import CELL_FAILED
        from envbench.verdict import judge

        verdicts = [judge(each) for each in found]
        if self.given["as_json"]:
            click.echo(_document(found))
        else:
            click.echo(_tables(found))
        wrong = any(verdict.refused or verdict.unequal for verdict in verdicts)
        if wrong or any(each.failure for each in found):
            self.exit_code = self.exit_code or CELL_FAILED


def _same_group(cell: Cell, other: Cell, reference: str) -> bool:
    mine, its = (cell.env, cell.task, cell.kind), (other.env, other.task, other.kind)
    return mine == its and other.backend == reference and not other.variant


def _tables(found: list[Verification]) -> str:
    from tabulate import tabulate

    from envbench.backends import row_label
    from envbench.text import printable
    from envbench.verdict import judge

    groups: dict[str, list[list[str]]] = {}
    for each in found:
        verdict, cell = judge(each), each.cell
        label = f"{verdict.badge} {row_label(cell.backend, cell.shown)}"
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


def _document(found: list[Verification]) -> str:
    import msgspec

    from envbench.verdict import judge

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
