"""One call of ``check``, from options to exit code."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envbench.cli import tell
from envbench.errors import Interrupted

if TYPE_CHECKING:
    from envbench.arms import Source
    from envbench.check_plan import Sizes
    from envbench.machine import Profile
    from envbench.model import Cell, Check
    from envbench.pairing import Arm
    from envbench.regression import Rule

_ARM_OPTIONS = [
    f"{arm}{how}" for arm in ("baseline", "candidate") for how in ("", "_python", "_ref")
]


class Checking:
    """What was asked for, and what came of it."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self.results: Path = given["results"]

    def carry_out(self) -> int:
        """The exit code."""
        from envbench import lock
        from envbench.check_plan import sizes
        from envbench.cli.checked_cells import checked_cells
        from envbench.machine import choose, fingerprint, valid_name

        sources = self._sources()
        named = self.given["machine"]
        self.fingerprint = fingerprint()
        profile = choose(None if named is None else valid_name(named), self.fingerprint)
        rule = self._rule()
        if self.given["against"] is not None:
            return self._against(self.given["against"], rule)
        cells = checked_cells(self.given, profile, self.fingerprint.usable_cpus)
        planned = sizes(
            cells,
            rule,
            pairs=self.given["pairs"],
            budget=self.given["budget"],
            precise=self.given["precise"],
        )
        if self.given["only_plan"]:
            return self._show_plan(cells, planned, sources)
        with lock.acquire(wait=self.given["wait"], on_wait=tell):
            arms = self._arms(cells, sources)
            return self._compare(profile, cells, planned, sources, arms)

    # ------------------------------------------------------------ what was asked

    def _sources(self) -> tuple[Source, Source]:
        from envbench.arms import WORKING_TREE, Source

        made = {}
        if self.given["against"] is not None and any(self.given[name] for name in _ARM_OPTIONS):
            raise click.UsageError("--against compares what is here with a file: it takes no arms.")
        for name in ("baseline", "candidate"):
            ref, python = self.given[f"{name}_ref"], self.given[f"{name}_python"]
            required = list(self.given[name])
            if python and (ref or required):
                raise click.UsageError(f"--{name}-python is taken as it is: nothing is installed.")
            made[name] = Source(python=python, requirements=required, ref=ref)
        baseline, candidate = made["baseline"], made["candidate"]
        if baseline.ref and candidate == Source():
            candidate = Source(ref=WORKING_TREE)  # installed as the baseline is
        if baseline == candidate and self.given["against"] is None:
            tell("Note: both arms are the same: what is found is this machine's own noise.")
        return baseline, candidate

    def _rule(self) -> Rule:
        from envbench.regression import Rule

        if self.given["tolerance"] <= self.given["margin"]:
            raise click.UsageError("--tolerance has to be greater than --margin.")
        return Rule(
            margin=self.given["margin"],
            tolerance=self.given["tolerance"],
            false_alarm=self.given["false_alarm"],
        )

    def _arms(
        self, cells: list[Cell], sources: tuple[Source, Source]
    ) -> dict[str, tuple[Arm, Arm]]:
        """Each backend's two arms, made and asked whether they know the tasks."""
        from envbench import arms
        from envbench.backends import get
        from envbench.cli.selection import unknown_task
        from envbench.errors import BackendUnavailable
        from envbench.preflight import Cannot, check

        made: dict[str, tuple[Arm, Arm]] = {}
        for name in dict.fromkeys(cell.backend for cell in cells):
            backend = get(name)
            baseline, candidate = (
                arms.make(side, source, backend, tell)
                for side, source in zip(("baseline", "candidate"), sources, strict=True)
            )
            made[name] = baseline, candidate
        for cell in {(cell.env, cell.task, cell.backend): cell for cell in cells}.values():
            for arm in made[cell.backend]:
                found = check(cell, {cell.backend: arm.python}, setup=False, say=tell)
                if isinstance(found, Cannot):
                    if found.known_tasks is not None:
                        raise unknown_task(cell, found.known_tasks)
                    raise BackendUnavailable(
                        f"{cell.backend} cannot run {cell.env} in the {arm.name}: "
                        f"{found.failure.message}",
                        hint=found.failure.hint,
                    )
        return made

    # ------------------------------------------------------------ done, and shown

    def _against(self, old: Path, rule: Rule) -> int:
        """Against a stored baseline: advice, and said to be that."""
        from envbench import campaign, lock, store
        from envbench.cli.gauges import Gauging
        from envbench.cli.verdicts import exit_code, show_advice

        gauging = Gauging(self.given)
        now = datetime.now(UTC).strftime(campaign.STAMP)
        gauging.read(old)  # before anything is measured
        path = store.new_file(self.results, gauging.profile.name, now)
        with lock.acquire(wait=self.given["wait"], on_wait=tell):
            verdicts = gauging.compare(old, path, rule)
        show_advice(verdicts, old, path, as_json=self.given["as_json"])
        return exit_code(verdicts)

    def _show_plan(self, cells: list[Cell], planned: Sizes, sources: tuple[Source, Source]) -> int:
        from envbench.cli.verdicts import plan_json, plan_table

        if self.given["as_json"]:
            click.echo(plan_json(cells, planned, sources))
        else:
            click.echo(plan_table(cells, planned, sources))
        return 0

    def _compare(
        self,
        profile: Profile,
        cells: list[Cell],
        planned: Sizes,
        sources: tuple[Source, Source],
        arms: dict[str, tuple[Arm, Arm]],
    ) -> int:
        from envbench import store
        from envbench.checking import Checker
        from envbench.cli.verdicts import Told, exit_code, show
        from envbench.model import MachineFact, digest

        made = self._check(cells, planned, sources, arms)
        path = store.new_file(self.results, profile.name, made.started_utc)
        store.append(path, MachineFact(hash=digest(self.fingerprint), fingerprint=self.fingerprint))
        store.append(path, made)
        checker = Checker(made, arms, path, Told(planned))
        try:
            verdicts = checker.carry_out()
        except Interrupted as stop:
            tell(f"Stopped: {len(checker.pairs)} pairs are in {path}, and no verdict.")
            return stop.exit_code
        show(made, verdicts, path, as_json=self.given["as_json"], summary=self.given["summary"])
        return exit_code(verdicts)

    def _check(
        self,
        cells: list[Cell],
        planned: Sizes,
        sources: tuple[Source, Source],
        arms: dict[str, tuple[Arm, Arm]],
    ) -> Check:
        from envbench import __version__, campaign, check_plan
        from envbench.model import ArmFact, Check, digest

        now = datetime.now(UTC)
        commit, dirty = campaign.git_state()
        facts = [
            ArmFact(source=str(source), worker=campaign.worker_hash(arm.worker.parents[1]))
            for source, arm in zip(sources, next(iter(arms.values())), strict=True)
        ]
        return Check(
            check_id=campaign.new_id(now),
            cells=cells,
            baseline=facts[0],
            candidate=facts[1],
            pairs=planned.pairs,
            blocks=check_plan.BLOCKS,
            slice_s=check_plan.SLICE_S,
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
