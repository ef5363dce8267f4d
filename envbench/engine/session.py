"""From an experiment to its outcome: the one way in which all of them are carried out.

In this order: the profile, the cells (usage errors), whether results can be written, the machine's
measuring lock, what can run here, the plan to resume or a new one, the campaign. Nothing is
measured before all of these are checked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol

import msgspec

from envbench.engine import resume
from envbench.engine.availability import Arm, Arms, Unavailable, package_differences, probe
from envbench.engine.campaign import Campaign, Executor, Listener
from envbench.engine.executor import LocalExecutor
from envbench.engine.experiment import ArmChoice, Experiment, Findings, Options, Site, one_per_arm
from envbench.engine.planning import make_plan
from envbench.engine.request import Target, unknown_task
from envbench.errors import BackendUnavailable, EnvbenchError, Interrupted, UsageError
from envbench.machine import catalogue, choose, fingerprint, lock, valid_name, write_profile
from envbench.model import BlockRecord, Cell, MachineFact, Plan, Shared, arm_key
from envbench.results import store
from envbench.results.store import Journal


class Console(Protocol):
    """Where messages for a person go."""

    def say(self, text: str, /) -> None: ...
    def listener(self) -> Listener: ...


@dataclass(frozen=True, kw_only=True)
class Outcome(Generic[Findings]):
    """The outcome of an experiment. ``stopped``: a person or the system ended it early.
    ``unavailable``: a backend cannot run here."""

    site: Site
    campaign: Campaign[Findings]
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

    @property
    def package_differences(self) -> dict[str, list[str]]:
        """How the packages of the two named arms differ, by backend; empty without named arms."""
        names = [each.name for each in self.plan.arms]
        return package_differences(self.campaign.arms, names, self.plan.cells)

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
    """Carry out the experiment, or continue where the same one stopped, and show the outcome.

    A complete plan is over when ``show`` has returned; if it raises, the same command shows the
    outcome again. The measuring lock is held until then.
    """
    if sys.platform == "win32":
        raise EnvbenchError(
            "measuring needs the process control of Linux or macOS.", hint="Use WSL 2."
        )
    site = site_of(options)
    chosen = experiment.choose(site)
    for note in chosen.notes:
        console.say(note)
    store.check_folder(options.results, site.profile.name)
    with lock.acquire(wait=options.wait, on_wait=console.say):
        session = _Session(experiment, site, console, executor or LocalExecutor())
        campaign = session.campaign(chosen.targets)
        with campaign.journal:
            outcome = session.measure(campaign)
            show(outcome)
            if outcome.stopped is None:
                outcome.concluded()


def site_of(options: Options) -> Site:
    """The profile to measure under, and this machine's fingerprint."""
    here = fingerprint()
    name = None if options.machine is None else valid_name(options.machine)
    return Site(profile=choose(name, here), fingerprint=here, options=options)


@dataclass
class _Session(Generic[Findings]):
    """One call, from the targets to the outcome, while the measuring lock is held."""

    experiment: Experiment[Findings]
    site: Site
    console: Console
    executor: Executor
    arms: Arms = field(default_factory=dict)
    unavailable: bool = False

    def campaign(self, targets: list[Target]) -> Campaign[Findings]:
        """The unfinished campaign of the same experiment, or a new one in a file of its own."""
        choice = self.experiment.arms(targets, self.site, self.console.say)
        self.arms = self._probe(choice)
        targets = self._able_targets(targets)
        cells = [each.cell for each in targets]
        for backend, differ in package_differences(self.arms, [*choice.sources], cells).items():
            if differ:
                self.console.say(f"{backend}: {' → '.join(choice.sources)}: {', '.join(differ)}")
        self._keep_profile()
        plan = make_plan(self.experiment, targets, self.site, self.arms, choice.sources)
        old = None if self.site.options.fresh else self._unfinished(plan, choice)
        if old is None:
            journal, shared, done = *self._begin(plan), []
        else:
            journal, plan, shared, done = Journal.open(old.path), old.plan, old.shared, old.done
        return Campaign(
            journal,
            plan,
            self.experiment,
            self.arms,
            self.executor,
            self.console.listener(),
            done=list(done),
            shared={each.hash: each for each in shared},
        )

    def measure(self, campaign: Campaign[Findings]) -> Outcome[Findings]:
        stopped = None
        try:
            findings = campaign.carry_out()
        except Interrupted as error:
            findings, stopped = campaign.conclude(), error
        return Outcome(
            site=self.site,
            campaign=campaign,
            findings=findings,
            stopped=stopped,
            unavailable=self.unavailable,
        )

    # ------------------------------------------------------------ what can run here

    def _probe(self, choice: ArmChoice) -> dict[str, Arm | Unavailable]:
        """Every arm, by its key. Arms with the same interpreter and code are probed once."""
        arms: dict[str, Arm | Unavailable] = {
            arm_key(arm.name, cell): arm for arm, cell in choice.known
        }
        answers: dict[tuple[str, ...], Arm | Unavailable] = {}
        if choice.to_probe:
            self.console.say("Looking at what can run here …")
        for arm, cell in choice.to_probe:
            key = arm_key(arm.name, cell)
            if isinstance(arm, Unavailable):
                arms[key] = arm
                continue
            place = (arm.python, str(arm.worker), arm_key("", cell), cell.task)
            if place not in answers:
                answers[place] = probe(self.executor.probe, arm, cell)
            arms[key] = msgspec.structs.replace(answers[place], name=arm.name)
        return arms

    def _able_targets(self, targets: list[Target]) -> list[Target]:
        """The targets of the plan, after a message for each backend that cannot run."""
        able = [each for each in targets if self._able(each.cell)]
        for target in one_per_arm(targets):
            if missing := [e for e in self._arms_of(target.cell) if isinstance(e, Unavailable)]:
                self._say_unavailable(target.cell, missing, able)
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

    def _arms_of(self, cell: Cell) -> list[Arm | Unavailable]:
        tail = arm_key("", cell)
        return [arm for key, arm in self.arms.items() if key == tail or key.endswith(f"/{tail}")]

    def _say_unavailable(
        self, cell: Cell, missing: list[Unavailable], able: Sequence[Target]
    ) -> None:
        named = self.experiment.named
        if not self._able(cell):
            others = any(each.cell.env == cell.env for each in able)
            self._refuse(cell, missing[0], others=others)
            self.unavailable = True
        for each in missing:
            where = f"{cell.task} in the {each.name}" if each.name else f"{cell.env} here"
            self.console.say(f"{cell.backend} cannot run {where}: {each.failure.message}")
            if each.failure.hint and (named or not able):
                self.console.say(f"  {each.failure.hint}")

    def _refuse(self, cell: Cell, arm: Unavailable, *, others: bool) -> None:
        """Raise the error, if it is one that no arm runs the cell. ``others`` run its family."""
        failure = arm.failure
        if arm.known_tasks is not None and (self.experiment.named or not others):
            raise unknown_task(cell, arm.known_tasks)
        if arm.own_package and not others:
            raise UsageError(f"--task {cell.task}: {failure.message}", hint=failure.hint)
        if self.experiment.missing == "refuse":
            raise BackendUnavailable(
                f"{cell.backend} cannot run {cell.env}: {failure.message}", hint=failure.hint
            )

    def _keep_profile(self) -> None:
        """Write down a profile that was made for this host, so that the report knows its table."""
        profile = self.site.profile
        if self.experiment.keeps_profile and profile.name not in catalogue().entries:
            path = write_profile(profile, Path("machines"))
            self.console.say(
                f"No profile fits this machine: made {path}. Edit its title and ladder as you like."
            )

    # ------------------------------------------------------------ the plan

    def _begin(self, plan: Plan) -> tuple[Journal, list[Shared]]:
        """A new file with all that the plan refers to, and the plan last: then it is whole."""
        machine = MachineFact(hash=plan.fingerprint, fingerprint=self.site.fingerprint)
        runtimes = [arm.runtime for arm in self.arms.values() if isinstance(arm, Arm)]
        shared = {each.hash: each for each in (machine, *runtimes) if each is not None}
        results, machine_name = self.site.options.results, self.site.profile.name
        journal = Journal.create(results, machine_name, plan.started_utc)
        journal.begin([*shared.values(), plan])
        return journal, [*shared.values()]

    def _unfinished(self, plan: Plan, choice: ArmChoice) -> resume.Recorded | None:
        """The plan to resume. Says which one, or why an unfinished one cannot be resumed."""

        def changes(old: resume.Recorded) -> list[str]:
            changed = resume.differences(old.plan, plan)
            changed += resume.paused_too_long(old, self.experiment.longest_pause_s)
            ready = [each for each in self.arms.values() if isinstance(each, Arm)]
            if not changed and choice.watched:
                changed += resume.edited_since(old.done, ready)
            return changed

        results, machine = self.site.options.results, self.site.profile.name
        plans = resume.recorded(results, machine, self.experiment.name)
        found = resume.find(plans, plan, self.experiment, changes)
        if found is None:
            return None
        old = found.recorded
        if found.changed:
            self.console.say(
                f"{old.path} is unfinished, but cannot resume; changed: "
                f"{'; '.join(found.changed)}. Beginning a new plan."
            )
            return None
        whole = not self.experiment.left(old.plan, old.done)
        complete = ": all of it is measured, and its outcome was not shown." if whole else ""
        warnings = [f"Warning: {each}" for each in old.warnings]
        self.console.say("\n".join([*warnings, f"Resuming {old.path}{complete}"]))
        return old
