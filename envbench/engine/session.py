"""From an experiment to its outcome: the one way in which all of them are carried out.

In this order: the profile, the cells (usage errors), whether results can be written, the machine's
measuring lock, what can run here, the plan to resume or a new one, the campaign. Nothing is
measured before everything that can be wrong has been looked at.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol

import msgspec

from envbench.engine import resume
from envbench.engine.campaign import Campaign, Executor, Listener
from envbench.engine.executor import LocalExecutor
from envbench.engine.experiment import (
    ArmsToAsk,
    Experiment,
    Findings,
    Options,
    Site,
    one_per_arm,
)
from envbench.engine.planning import make_plan
from envbench.engine.preflight import Arm, Cannot, ask, package_differences
from envbench.engine.request import Target, unknown_task
from envbench.errors import BackendUnavailable, EnvbenchError, Interrupted, UsageError
from envbench.machine import catalogue, choose, fingerprint, lock, valid_name, write_profile
from envbench.model import (
    BlockRecord,
    Cell,
    MachineFact,
    Plan,
    Shared,
    arm_key,
)
from envbench.results import store
from envbench.results.store import Journal


class Console(Protocol):
    """Where messages for a person go."""

    def say(self, text: str, /) -> None: ...
    def listener(self) -> Listener: ...


@dataclass(frozen=True, kw_only=True)
class Outcome(Generic[Findings]):
    """What came of an experiment. ``stopped``: a person or the system ended it before its end.
    ``unavailable``: a backend cannot run here."""

    site: Site
    campaign: Campaign[Findings]
    arms: Mapping[str, Arm | Cannot]
    findings: Findings
    stopped: Interrupted | None
    unavailable: bool

    @property
    def plan(self) -> Plan:
        return self.campaign.plan

    @property
    def done(self) -> Sequence[BlockRecord]:
        return self.campaign.done

    @property
    def path(self) -> Path:
        return self.campaign.journal.path

    @property
    def left(self) -> int:
        return self.campaign.left

    def concluded(self) -> None:
        """It was shown, or saved: the same command begins a new plan."""
        self.campaign.journal.end(self.plan.plan_id, "concluded")


def carry_out(
    experiment: Experiment[Findings],
    options: Options,
    console: Console,
    show: Callable[[Outcome[Findings]], None],
    executor: Executor | None = None,
) -> None:
    """Carry the experiment out, or continue where the same one was stopped, and show the outcome.

    A complete plan is over once ``show`` has returned; where it raises, the same command shows the
    outcome again. The measuring lock is held until then.
    """
    _Session(experiment, options, console, show, executor or LocalExecutor()).carry_out()


def site_of(options: Options) -> Site:
    """The profile to measure under, and what this machine is found to be."""
    found = fingerprint()
    name = None if options.machine is None else valid_name(options.machine)
    return Site(profile=choose(name, found), fingerprint=found, options=options)


# ---------------------------------------------------------------- one call


class _Session(Generic[Findings]):
    def __init__(
        self,
        experiment: Experiment[Findings],
        options: Options,
        console: Console,
        show: Callable[[Outcome[Findings]], None],
        executor: Executor,
    ) -> None:
        self.experiment = experiment
        self.options = options
        self.console = console
        self.show = show
        self.executor = executor
        self.unavailable = False

    def carry_out(self) -> None:
        if sys.platform == "win32":
            raise EnvbenchError(
                "measuring needs the process control of Linux or macOS.", hint="Use WSL 2."
            )
        self.site = site_of(self.options)
        chosen = self.experiment.choose(self.site)
        for note in chosen.notes:
            self.console.say(note)
        store.check_folder(self.options.results, self.site.profile.name)
        with lock.acquire(wait=self.options.wait, on_wait=self.console.say):
            campaign = self._prepare(chosen.targets)
            with campaign.journal:
                outcome = self._measure(campaign)
                self.show(outcome)
                if outcome.stopped is None:
                    outcome.concluded()

    def _prepare(self, targets: list[Target]) -> Campaign[Findings]:
        asked = self.experiment.arms(targets, self.site, self.console.say)
        self.arms = self._ask(asked)
        targets = self._settle(targets)
        self._say_differences(targets, list(asked.sources))
        self._keep_profile()
        plan = make_plan(self.experiment, targets, self.site, self.arms, asked.sources)
        return self._campaign(plan, asked)

    def _measure(self, campaign: Campaign[Findings]) -> Outcome[Findings]:
        stopped = None
        try:
            findings = campaign.carry_out()
        except Interrupted as error:
            findings, stopped = campaign.conclude(), error
        return Outcome(
            site=self.site,
            campaign=campaign,
            arms=self.arms,
            findings=findings,
            stopped=stopped,
            unavailable=self.unavailable,
        )

    # ------------------------------------------------------------ what can run here

    def _ask(self, asked: ArmsToAsk) -> dict[str, Arm | Cannot]:
        found: dict[str, Arm | Cannot] = {arm_key(arm.name, cell): arm for arm, cell in asked.known}
        answers: dict[tuple[str, ...], Arm | Cannot] = {}
        if asked.of:
            self.console.say("Looking at what can run here …")
        for arm, cell in asked.of:
            key = arm_key(arm.name, cell)
            if isinstance(arm, Cannot):
                found[key] = arm
                continue
            place = (arm.python, str(arm.worker), arm_key("", cell), cell.task)
            if place not in answers:
                answers[place] = ask(self.executor.look, arm, cell)
            found[key] = msgspec.structs.replace(answers[place], name=arm.name)
        return found

    def _settle(self, targets: list[Target]) -> list[Target]:
        """The targets that belong to the plan; says what cannot run and why."""
        able = [each for each in targets if self._able(each.cell)]
        for target in one_per_arm(targets):
            if cannot := [e for e in self._arms_of(target.cell) if isinstance(e, Cannot)]:
                self._say_cannot(target.cell, cannot, able)
        if self.experiment.missing == "leave out":
            targets = able
        if not targets:
            raise BackendUnavailable(
                "no backend can run this here.",
                hint="The lines above say what each lacks; `envbench backends` lists them all.",
            )
        return targets

    def _able(self, cell: Cell) -> bool:
        """Is there an arm that can run it?"""
        return any(isinstance(each, Arm) for each in self._arms_of(cell))

    def _arms_of(self, cell: Cell) -> list[Arm | Cannot]:
        tail = arm_key("", cell)
        return [arm for key, arm in self.arms.items() if key == tail or key.endswith(f"/{tail}")]

    def _say_cannot(self, cell: Cell, cannot: list[Cannot], able: Sequence[Target]) -> None:
        first, policy = cannot[0], self.experiment.missing
        some = any(each.cell.env == cell.env for each in able)
        if not self._able(cell):
            if first.known_tasks is not None and (self.experiment.named or not some):
                raise unknown_task(cell, first.known_tasks)
            if first.own_package and not some:
                raise UsageError(
                    f"--task {cell.task}: {first.failure.message}", hint=first.failure.hint
                )
            if policy == "refuse":
                raise BackendUnavailable(
                    f"{cell.backend} cannot run {cell.env}: {first.failure.message}",
                    hint=first.failure.hint,
                )
        for each in cannot:
            where = f"{cell.task} in the {each.name}" if each.name else f"{cell.env} here"
            self.console.say(f"{cell.backend} cannot run {where}: {each.failure.message}")
            if each.failure.hint and (self.experiment.named or not able):
                self.console.say(f"  {each.failure.hint}")
        self.unavailable = self.unavailable or not self._able(cell)

    def _say_differences(self, targets: Sequence[Target], names: Sequence[str]) -> None:
        """Where two sides are compared: what their runtimes do not have in common."""
        if len(names) != 2:
            return
        for cell in (each.cell for each in one_per_arm(targets)):
            first, last = (self.arms.get(arm_key(name, cell)) for name in names)
            if differ := package_differences(first, last):
                self.console.say(f"{cell.backend}: {' → '.join(names)}: {', '.join(differ)}")

    def _keep_profile(self) -> None:
        """A profile made for this host is written down, so that the report knows its table."""
        profile = self.site.profile
        if self.experiment.keeps_profile and profile.name not in catalogue().entries:
            path = write_profile(profile, Path("machines"))
            self.console.say(
                f"No profile fits this machine: made {path}. Edit its title and ladder as you like."
            )

    # ------------------------------------------------------------ the plan

    def _campaign(self, plan: Plan, asked: ArmsToAsk) -> Campaign[Findings]:
        """The unfinished one of this experiment, or a new one in a file of its own."""
        old = None if self.options.fresh else self._unfinished(plan, asked)
        if old is None:
            journal, shared = self._begin(plan)
        else:
            journal, plan, shared = Journal.open(old.path), old.plan, old.shared
        return Campaign(
            journal,
            plan,
            self.experiment,
            self.arms,
            executor=self.executor,
            listener=self.console.listener(),
            done=old.done if old else [],
            shared=shared,
        )

    def _begin(self, plan: Plan) -> tuple[Journal, list[Shared]]:
        """A new file with all that the plan refers to, and the plan last: then it is whole."""
        machine = MachineFact(hash=plan.fingerprint, fingerprint=self.site.fingerprint)
        runtimes = [arm.runtime for arm in self.arms.values() if isinstance(arm, Arm)]
        shared = {each.hash: each for each in (machine, *runtimes) if each is not None}
        journal = Journal.create(self.options.results, self.site.profile.name, plan.started_utc)
        journal.begin([*shared.values(), plan])
        return journal, [*shared.values()]

    def _unfinished(self, plan: Plan, asked: ArmsToAsk) -> resume.Recorded | None:
        def changes(old: resume.Recorded) -> list[str]:
            changed = resume.differences(old.plan, plan)
            changed += resume.paused_too_long(old, self.experiment.longest_pause_s)
            ready = [each for each in self.arms.values() if isinstance(each, Arm)]
            if not changed and asked.watched:
                changed += resume.edited_since(old.done, ready)
            return changed

        results, machine = self.options.results, self.site.profile.name
        plans = resume.recorded(results, machine, self.experiment.name)
        found = resume.find(plans, plan, self.experiment, changes)
        if found is None:
            return None
        old = found.recorded
        if not found.changed:
            whole = not self.experiment.left(old.plan, old.done)
            complete = ": all of it is measured, and its outcome was not shown." if whole else ""
            warnings = [f"Warning: {each}" for each in old.warnings]
            self.console.say("\n".join([*warnings, f"Resuming {old.path}{complete}"]))
            return old
        self.console.say(
            f"{old.path} is unfinished, but cannot resume; changed: {'; '.join(found.changed)}. "
            "Beginning a new plan."
        )
        return None
