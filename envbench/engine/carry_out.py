"""Carry out an experiment and show its outcome. Every measuring command does this.

In this order: the profile, the cells (usage errors), whether results can be written, the machine's
measuring lock, what can run here, the plan to resume or a new one, the campaign. Nothing is
measured before the campaign begins.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Generic

from msgspec.structs import replace

from envbench.engine import availability, resume
from envbench.engine.availability import Arm, Arms
from envbench.engine.campaign import Campaign, Executor, Listener
from envbench.engine.experiment import Experiment, Findings, Options, Site, one_per_arm
from envbench.engine.local_executor import LocalExecutor
from envbench.engine.new_plan import make_plan
from envbench.engine.target import Target
from envbench.errors import EnvbenchError, Interrupted, Unavailable, UsageError
from envbench.machine import catalogue, choose, fingerprint, lock, valid_name, write_profile
from envbench.machine.host import busy_cores, kept_to
from envbench.model import (
    BlockRecord,
    Cell,
    Failure,
    MachineFact,
    Plan,
    Shared,
    arm_key,
)
from envbench.results import store
from envbench.results.store import Journal
from envbench.text import listed

NEWEST = 4  # plans that show how long cells take; the first may be this one


def carry_out(
    experiment: Experiment[Findings],
    options: Options,
    listener: Listener,
    show: Callable[[Campaign[Findings]], int],
    executor: Executor | None = None,
) -> int:
    """Carry out the experiment, or continue where the same one stopped, and show the outcome.

    A complete plan is over when ``show`` has returned; if it raises, the same command shows the
    outcome again. It holds the measuring lock until it returns. Returns what ``show`` returned.
    """
    if sys.platform == "win32":
        raise EnvbenchError(
            "measuring needs the process control of Linux or macOS.", hint="Use WSL 2."
        )
    with kept_to(options.cpus):
        return _carried_out(experiment, options, listener, show, executor)


def _carried_out(
    experiment: Experiment[Findings],
    options: Options,
    listener: Listener,
    show: Callable[[Campaign[Findings]], int],
    executor: Executor | None,
) -> int:
    site = site_of(options, experiment)
    chosen = experiment.choose(site)
    for note in chosen.notes:
        listener.say(note)
    store.check_folder(options.results, site.profile.name)
    site = _with_builds(experiment, site, chosen.targets, listener)
    with lock.acquire(wait=options.wait, on_wait=listener.say):
        if options.cpus and (busy := busy_cores(options.cpus)):
            cores = listed([f"core {core}" for core in busy])
            listener.say(
                f"Warning: other programs are using {cores}. What they use while cells are "
                "measured is recorded."
            )
        session = _Session(experiment, site, listener, executor or LocalExecutor())
        campaign = session.campaign(chosen.targets)
        with campaign.journal:
            try:
                campaign.carry_out()
            except Interrupted as error:
                campaign.stopped = error
            result = show(campaign)
            if campaign.stopped is None:
                campaign.concluded()
    return result


def _with_builds(
    experiment: Experiment[object], site: Site, targets: Sequence[Target], listener: Listener
) -> Site:
    """The site; missing runtimes of backends are made only if the person agrees to it."""
    options = site.options
    if not (experiment.own_runtimes and options.setup):
        return site
    needs = [(each.backend, each.cell.env, each.cell.workload) for each in targets]
    builds = availability.builds(needs, options.pythons)
    agreed = not builds or listener.agrees(builds)
    return dataclasses.replace(site, options=replace(options, setup=agreed))


def site_of(options: Options, experiment: Experiment[object]) -> Site:
    """The profile to measure under, and this machine's fingerprint.

    A report never shows results of two hosts under one name.
    """
    here = fingerprint()

    @cache
    def taken(name: str) -> bool:
        return experiment.in_tables and resume.has_other_hosts(options.results, name, here)

    name = None if options.machine is None else valid_name(options.machine)
    return Site(profile=choose(name, here, taken), fingerprint=here, options=options)


@dataclass
class _Session(Generic[Findings]):
    """One call, from the targets to the outcome, while the measuring lock is held."""

    experiment: Experiment[Findings]
    site: Site
    listener: Listener
    executor: Executor
    arms: Arms = field(default_factory=dict)
    unavailable: bool = False

    def campaign(self, targets: list[Target]) -> Campaign[Findings]:
        """The unfinished campaign of the same experiment, or a new one in a file of its own."""
        self.arms = self._probe(self.experiment.arms(targets, self.site, self.listener.say))
        plan = make_plan(self.experiment, self._able_targets(targets), self.site, self.arms)
        for backend, differ in availability.package_differences(self.arms).items():
            if differ:
                names = " → ".join(each.name for each in plan.arms)
                self.listener.say(f"{backend}: {names}: {', '.join(differ)}")
        self._keep_profile()
        found = None if self.site.options.fresh else self._unfinished(plan)
        if found is None:
            journal, shared, done = *self._begin(plan), []
        else:
            journal, old = found
            plan, shared, done = old.plan, old.shared, old.done
        return Campaign(
            journal,
            plan,
            self.experiment,
            self.arms,
            self.executor,
            self.listener,
            done=done,
            before=before(self.site, plan),
            shared={each.hash: each for each in shared},
            other_hardware=self.site.other_hardware,
            unavailable=self.unavailable,
        )

    # ------------------------------------------------------------ what can run here

    def _probe(self, found: Sequence[Arm]) -> Arms:
        """Every arm, by its key. Arms with the same interpreter and code are probed once."""
        arms = {arm.key: arm for arm in found}
        answers: dict[tuple[str, ...], Arm] = {}
        for arm in found:
            if arm.to_probe:
                place = (arm.python, str(arm.worker), arm_key("", arm.cell), arm.cell.task)
                if place not in answers:
                    self.listener.doing(f"Looking at what can run here: {arm.backend.name} …")
                    answers[place] = availability.probe(self.executor.probe, arm)
                arms[arm.key] = replace(answers[place], name=arm.name, source=arm.source)
        return arms

    def _able_targets(self, targets: list[Target]) -> list[Target]:
        """The targets of the plan, after a message for each backend that cannot run."""
        requested = targets
        able = [
            each for each in targets if any(not arm.failure for arm in self._arms_of(each.cell))
        ]
        for target in one_per_arm(targets):
            self._say_unavailable(target.cell, able)
        if self.experiment.missing == "leave out":
            targets = able
        made = {arm_key("", arm.cell) for arm in self.arms.values() if not arm.not_made}
        targets = [each for each in targets if arm_key("", each.cell) in made]
        if not targets:
            lacks = {
                f"{each.cell.backend}: {arm.failure.message}"
                for each in requested
                for arm in self._arms_of(each.cell)
                if arm.failure
            }
            reasons = f" ({'; '.join(sorted(lacks))})" if len(lacks) == 1 else ""
            raise Unavailable(
                f"no backend can run this here{reasons}.",
                hint="`envbench backends` says what each lacks.",
            )
        return targets

    def _arms_of(self, cell: Cell) -> list[Arm]:
        key = arm_key("", cell)
        return [arm for arm in self.arms.values() if arm_key("", arm.cell) == key]

    def _say_unavailable(self, cell: Cell, able: Sequence[Target]) -> None:
        """Say which arms cannot run the cell. If none can, that may be an error."""
        arms = self._arms_of(cell)
        missing = [(arm, arm.failure) for arm in arms if arm.failure]
        if missing and len(missing) == len(arms):
            others = any(each.cell.env == cell.env for each in able)
            self._refuse(*missing[0], others=others)
            self.unavailable = True
        for arm, failure in missing:
            where = f"{cell.task} in the {arm.name}" if arm.name else f"{cell.env} here"
            self.listener.say(f"{cell.backend} cannot run {where}: {failure.message}")
            if failure.hint and (arm.not_made or self.experiment.named or not able):
                self.listener.say(f"  To fix it: {failure.hint}")

    def _refuse(self, arm: Arm, failure: Failure, *, others: bool) -> None:
        """Raise if it is an error that no arm can run the cell. ``others``: other cells of its
        family can run."""
        cell = arm.cell
        if arm.known_tasks is not None and (self.experiment.named or not others):
            raise availability.unknown_task(arm, arm.known_tasks)
        if not others and availability.lacks_own_package(arm, failure):
            raise UsageError(f"--task {cell.task}: {failure.message}", hint=failure.hint)
        if self.experiment.missing == "refuse":
            raise Unavailable(
                f"{cell.backend} cannot run {cell.env}: {failure.message}", hint=failure.hint
            )

    def _keep_profile(self) -> None:
        """Write down a profile that was made for this host, so that the report knows its table."""
        profile, known = self.site.profile, catalogue()
        if self.experiment.in_tables and profile.name not in known.entries:
            other, options = known.matching(self.site.fingerprint), self.site.options
            why = "No profile fits this computer"
            if other is not None and options.machine is None:
                folder = options.results / other.name
                why = f"The results in {folder} are of another computer, or of an unknown one"
            try:
                path = write_profile(profile, Path("machines"))
            except UsageError:
                if profile.name in catalogue().entries:  # another call has just written it
                    return
                raise
            self.listener.say(
                f"{why}, so results of this computer go to "
                f"{self.site.options.results / profile.name}. Its profile is {path}: you can edit "
                "its title, and what `envbench run` measures."
            )

    # ------------------------------------------------------------ the plan

    def _begin(self, plan: Plan) -> tuple[Journal, list[Shared]]:
        """Begin a new file. The plan comes last, so a plan in a file has all that it refers to."""
        machine = MachineFact(hash=plan.fingerprint, fingerprint=self.site.fingerprint)
        runtimes = [arm.runtime for arm in self.arms.values()]
        shared = {each.hash: each for each in (machine, *runtimes) if each is not None}
        results, machine_name = self.site.options.results, self.site.profile.name
        journal = Journal.create(results, machine_name, plan.started_utc)
        journal.begin([*shared.values(), plan])
        return journal, [*shared.values()]

    def _unfinished(self, plan: Plan) -> tuple[Journal, resume.Recorded] | None:
        """The plan to resume, read when its file is locked: until then another call may add to it.
        Says which one, or why an unfinished one cannot be resumed."""
        found = self._find(plan)
        while found and not found[1]:
            journal = Journal.open(found[0].path)
            found = self._find(plan)
            if found and not found[1] and found[0].path == journal.path:
                old = found[0]
                whole = not self.experiment.left(old.plan, old.done)
                more = ": everything is measured, but the outcome was not shown." if whole else ""
                warnings = [f"Warning: {each}" for each in old.warnings]
                self.listener.say("\n".join([*warnings, f"Resuming {old.path}{more}"]))
                return journal, old
            journal.close()
        if found:
            self.listener.say(
                f"{found[0].path} is unfinished, but cannot resume; changed: "
                f"{'; '.join(found[1])}. Beginning a new plan."
            )
        return None

    def _find(self, plan: Plan) -> tuple[resume.Recorded, list[str]] | None:
        """The unfinished plan and what has changed since (``resume.find``)."""
        results, machine = self.site.options.results, self.site.profile.name
        plans = resume.recorded(results, machine, self.experiment.name)
        return resume.find(plans, plan, self.experiment, self.arms)


def before(site: Site, plan: Plan) -> list[BlockRecord]:
    """The blocks of the newest plans of this kind and machine: quick ones, or others."""
    every = resume.recorded(site.options.results, site.profile.name, plan.experiment)
    newest = islice((each for each in every if each.plan.quick == plan.quick), NEWEST)
    return [block for each in newest for block in each.done if each.plan != plan]
