"""One call of ``check``, from options to exit code.

All that can be wrong is looked at before anything is made or measured: options, the two sides, the
cells, and whether results and summary can be written.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envbench.cli import tell
from envbench.errors import Interrupted, UsageError

if TYPE_CHECKING:
    from envbench.check.arms import Source
    from envbench.check.checking import Checker
    from envbench.check.procedure import Sizes
    from envbench.check.regression import Rule
    from envbench.cli.check_arms import Arms
    from envbench.machine import Profile
    from envbench.model import Cell, Check


class Checking:
    """What was asked for, and what came of it."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self.results: Path = given["results"]

    def carry_out(self) -> int:
        """The exit code."""
        from envbench import lock, store
        from envbench.cli.check_arms import Arms, sources
        from envbench.cli.checked_cells import checked_cells
        from envbench.machine import choose, fingerprint, valid_name

        rule = self._rule()
        self._check_summary()
        if self.given["against"] is not None:
            return self._against(self.given["against"], rule)
        asked = sources(self.given)
        named = self.given["machine"]
        self.fingerprint = fingerprint()
        profile = choose(None if named is None else valid_name(named), self.fingerprint)
        cells = checked_cells(self.given, profile, self.fingerprint.usable_cpus)
        planned = self._sizes(cells, rule)
        if self.given["only_plan"]:
            return self._show_plan(cells, planned, asked)
        store.check_folder(self.results, profile.name)
        with lock.acquire(wait=self.given["wait"], on_wait=tell):
            return self._compare(profile, cells, planned, Arms(cells, asked))

    # ------------------------------------------------------------ what was asked

    def _rule(self) -> Rule:
        from envbench.check.regression import Rule

        if self.given["tolerance"] <= self.given["margin"]:
            raise click.UsageError("--tolerance has to be greater than --margin.")
        return Rule(
            margin=self.given["margin"],
            tolerance=self.given["tolerance"],
            false_alarm=self.given["false_alarm"],
        )

    def _sizes(self, cells: list[Cell], rule: Rule) -> Sizes:
        from envbench.check.procedure import sizes

        given = {name: self.given[name] for name in ("pairs", "budget", "precise")}
        if sum(value not in (None, False) for value in given.values()) > 1:
            raise click.UsageError("--pairs, --budget and --precise exclude each other.")
        return sizes(cells, rule, **given)

    def _check_summary(self) -> None:
        path: Path | None = self.given["summary"]
        if path is None:
            return
        place = path if path.exists() else path.absolute().parent
        if not os.access(place, os.W_OK):
            raise UsageError(
                f"--summary: {path} cannot be written.", hint="Its folder has to be there."
            )

    # ------------------------------------------------------------ against a file

    def _against(self, old: Path, rule: Rule) -> int:
        """Against figures of another time: advice, and said to be that."""
        from envbench import lock, store
        from envbench.cli.check_arms import OPTIONS
        from envbench.cli.gauges import Gauging
        from envbench.cli.verdicts import exit_code, show_advice

        if any(self.given[name] for name in OPTIONS):
            raise click.UsageError("--against compares what is here with a file: it takes no arms.")
        if self.given["given"] or self.given["fresh"]:
            raise click.UsageError("--against measures the file's cells anew, with their settings.")
        if self.given["only_plan"] or self.given["precise"]:
            raise click.UsageError(
                "--against cannot promise what it finds: it does not know how the machine changed "
                "meanwhile. --plan and --precise are for two sides in one run."
            )
        gauging = Gauging(self.given)
        found = gauging.read(old)
        planned = self._sizes([each.cell for each in found], rule)
        store.check_folder(self.results, gauging.profile.name)
        with lock.acquire(wait=self.given["wait"], on_wait=tell):
            verdicts, path = gauging.compare(found, self.results, rule, planned)
        show_advice(
            verdicts, old, path, as_json=self.given["as_json"], summary=self.given["summary"]
        )
        return exit_code(verdicts)

    # ------------------------------------------------------------ done, and shown

    def _show_plan(self, cells: list[Cell], planned: Sizes, sources: tuple[Source, Source]) -> int:
        from envbench.cli.verdicts import plan_json, plan_table

        if self.given["as_json"]:
            click.echo(plan_json(cells, planned, sources))
        else:
            click.echo(plan_table(cells, planned, sources))
        return 0

    def _compare(self, profile: Profile, cells: list[Cell], planned: Sizes, arms: Arms) -> int:
        from envbench.cli.verdicts import exit_code, show

        checker = self._checker(profile, self._check(cells, planned, arms), planned, arms)
        try:
            verdicts = checker.carry_out()
        except Interrupted as stop:
            tell(
                f"Stopped: {len(checker.pairs)} pairs are in {checker.path}, and no verdict. "
                "The same command goes on from here."
            )
            return stop.exit_code
        show(
            checker.check,
            verdicts,
            checker.path,
            arms.differences,
            as_json=self.given["as_json"],
            summary=self.given["summary"],
        )
        return exit_code(verdicts)

    def _checker(self, profile: Profile, wanted: Check, planned: Sizes, arms: Arms) -> Checker:
        """Of the unfinished check of this command, or of a new one in a file of its own."""
        from envbench import store
        from envbench.check.checking import Checker
        from envbench.check.resuming import differences, unfinished
        from envbench.cli.verdicts import Told
        from envbench.model import MachineFact

        old = None if self.given["fresh"] else unfinished(self.results, profile.name, wanted)
        if old is not None:
            changed = differences(old, wanted, arms.of, arms.runtimes)
            if not changed:
                tell(f"Going on with {old.path}")
                return Checker(old.check, arms.of, old.path, Told(planned), old.pairs)
            tell(f"{old.path} is unfinished, but cannot be gone on with. Changed: ")
            tell("  " + "; ".join(changed) + ". Beginning anew.")
        path = store.new_file(self.results, profile.name, wanted.started_utc)
        store.append(path, MachineFact(hash=wanted.fingerprint, fingerprint=self.fingerprint))
        store.append(path, wanted)
        return Checker(wanted, arms.of, path, Told(planned))

    def _check(self, cells: list[Cell], planned: Sizes, arms: Arms) -> Check:
        from envbench import __version__, campaign
        from envbench.check import procedure
        from envbench.model import Check, digest

        now = datetime.now(UTC)
        commit, dirty = campaign.git_state()
        baseline, candidate = arms.facts()
        return Check(
            check_id=campaign.new_id(now),
            cells=cells,
            baseline=baseline,
            candidate=candidate,
            pairs=planned.pairs,
            blocks=procedure.BLOCKS,
            slice_s=procedure.SLICE_S,
            margin=self.given["margin"],
            tolerance=self.given["tolerance"],
            cost_tolerance=self.given["cost_tolerance"],
            false_alarm=self.given["false_alarm"],
            seed=self.given["seed"],
            fingerprint=digest(self.fingerprint),
            started_utc=now.strftime(campaign.STAMP),
            command=["envbench", *sys.argv[1:]],
            envbench_version=__version__,
            git_commit=commit,
            git_dirty=dirty,
        )
