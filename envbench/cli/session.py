"""One call of ``envbench run``: from its options to its exit code.

In this order: what is asked (usage errors), which machine, whether results can be written, the
machine's measuring lock, what can run here, the plan to go on with or a new one, the campaign,
and what it came to. Nothing is measured before all that can be wrong has been looked at.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envbench.cli import tell
from envbench.errors import CELL_FAILED, BackendUnavailable, EnvbenchError, Interrupted, UsageError

if TYPE_CHECKING:
    from envbench.campaign import Campaign
    from envbench.cli.selection import Asked
    from envbench.machine import Profile
    from envbench.model import Cell, Plan
    from envbench.plan import Measure
    from envbench.preflight import Cannot, Ready


class Session:
    """One call of ``run``, from options to exit code."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self.as_json: bool = given["as_json"]
        self.exit_code = 0
        self.other_hardware = False

    def carry_out(self) -> None:
        from envbench import lock, store
        from envbench.cli.selection import cells, settings_without
        from envbench.machine import choose, fingerprint, valid_name
        from envbench.runtimes import parse_overrides

        if sys.platform == "win32":
            raise EnvbenchError(
                "measuring needs the process control of Linux or macOS.", hint="Use WSL 2."
            )
        asked, measure = self._asked(), self._measure()
        self.overrides = parse_overrides(self.given["pythons"])
        named = self.given["machine"]
        self.fingerprint = fingerprint()
        profile = choose(None if named is None else valid_name(named), self.fingerprint)
        self._say_other_hardware(profile)
        wanted = cells(asked, profile, self.fingerprint.usable_cpus)
        self.say_plugin_warnings()
        for name, without in settings_without(asked, wanted).items():
            tell(f"Note: {name} is no setting of {', '.join(without)}: measured without it.")
        store.check_folder(self.given["results"], profile.name)
        with lock.acquire(wait=self.given["wait"], on_wait=tell):
            self._measure_all(asked, measure, profile, wanted)
        sys.exit(self.exit_code)

    def _say_other_hardware(self, profile: Profile) -> None:
        self.other_hardware = not profile.match.empty and not profile.fits(self.fingerprint)
        if self.other_hardware:
            tell(
                f"Note: this machine is not the hardware of the profile {profile.name!r} "
                f"({profile.hardware}): its figures will bear a footnote. "
                "`envbench machines init NAME` makes a profile for this one."
            )

    def _asked(self) -> Asked:
        from envbench.cli.selection import Asked

        nodes = "/".join(self.given["numa_nodes"])
        given = [*self.given["given"], *([("nodes", nodes)] if nodes else [])]
        if self.given["overcommit"] is not None:
            given.append(("overcommit", self.given["overcommit"]))
        settings = dict(given)
        if len(settings) < len(given):
            twice = next(key for key, _ in given if [k for k, _ in given].count(key) > 1)
            raise click.UsageError(f"the setting {twice!r} is given twice.")
        return Asked(
            family=self.given["family"],
            task=self.given["task"],
            backends=self.given["backend_names"],
            numenv=self.given["numenv"],
            settings=settings,
            preset=self.given["preset"],
            frame_skip=self.given["frame_skip"],
        )

    def _measure(self) -> Measure:
        from envbench.plan import DEFAULT_DURATION_S, Measure

        given = self.given
        if given["duration"] is not None and given["total_step"] is not None:
            raise click.UsageError("--duration and --total-step exclude each other.")
        if given["quick"] and (given["duration"] is not None or given["repeats"] is not None):
            raise click.UsageError("--quick is one run of 3 s: without --duration and --repeats.")
        return Measure(
            duration_s=given["duration"] or DEFAULT_DURATION_S,
            total_steps=given["total_step"],
            repeats=given["repeats"],
            quick=given["quick"],
            seed=given["seed"],
        )

    def say_plugin_warnings(self) -> None:
        from envbench.backends import plugin_warnings

        for warning in plugin_warnings():
            tell(f"Warning: {warning}")

    # ------------------------------------------------------------ with the lock held

    def _measure_all(
        self, asked: Asked, measure: Measure, profile: Profile, wanted: list[Cell]
    ) -> None:
        ready, cannot = self._preflight(wanted)
        kept = self._kept(asked, wanted, ready, cannot)
        self._keep_profile(profile)
        campaign = self._campaign(measure, profile, kept, ready)
        for cell in kept:
            trouble = cannot.get((cell.env, cell.backend))
            if trouble and not any(run.cell == cell for run in campaign.runs):
                campaign.record_failure(cell, trouble.failure)
        self._carry_out(campaign)

    def _preflight(
        self, wanted: list[Cell]
    ) -> tuple[dict[str, Ready], dict[tuple[str, str], Cannot]]:
        """Each (family, backend) once: what is ready, and what cannot run."""
        from envbench.preflight import Ready, check

        ready: dict[str, Ready] = {}
        cannot: dict[tuple[str, str], Cannot] = {}
        tell("Looking at what can run here …")
        for cell in {(cell.env, cell.backend): cell for cell in wanted}.values():
            found = check(cell, self.overrides, setup=not self.given["no_setup"], say=tell)
            if isinstance(found, Ready):
                ready[cell.backend] = found
            else:
                cannot[cell.env, cell.backend] = found
        return ready, cannot

    def _kept(
        self,
        asked: Asked,
        wanted: list[Cell],
        ready: dict[str, Ready],
        cannot: dict[tuple[str, str], Cannot],
    ) -> list[Cell]:
        """The cells that belong to the plan; says what cannot run and why.

        A backend that was named and cannot run stays, as a failure (exit 3); of ``all``, those
        that cannot run are only listed.
        """
        from envbench.cli.selection import unknown_task

        for (family, name), trouble in cannot.items():
            knows = any(c.env == family and (family, c.backend) not in cannot for c in wanted)
            cell = next(c for c in wanted if (c.env, c.backend) == (family, name))
            if trouble.known_tasks is not None and not (asked.takes_all and knows):
                raise unknown_task(cell, trouble.known_tasks)
            if trouble.own_package and not knows:
                raise UsageError(
                    f"--task {cell.task}: {trouble.failure.message}", hint=trouble.failure.hint
                )
            tell(f"{name} cannot run {family} here: {trouble.failure.message}")
            nothing_left = len(cannot) == len({(c.env, c.backend) for c in wanted})
            if trouble.failure.hint and (nothing_left or not asked.takes_all):
                tell(f"  {trouble.failure.hint}")
        if asked.takes_all:
            wanted = [cell for cell in wanted if (cell.env, cell.backend) not in cannot]
        elif cannot:
            self.exit_code = BackendUnavailable.exit_code
        if not wanted:
            raise BackendUnavailable(
                "no backend can run this here.",
                hint="The lines above say what each lacks; `envbench backends` lists them all.",
            )
        return wanted

    def _keep_profile(self, profile: Profile) -> None:
        """A profile made for this host is written down, so that the report knows its table."""
        from envbench.machine import catalogue, write_profile

        if profile.name not in catalogue().entries:
            path = write_profile(profile, Path("machines"))
            tell(f"No profile fits this machine: made {path}. Its title and ladder are yours.")

    def _campaign(
        self, measure: Measure, profile: Profile, kept: list[Cell], ready: dict[str, Ready]
    ) -> Campaign:
        """The unfinished one of this command, or a new one in a file of its own."""
        from envbench import campaign as campaigns
        from envbench import store
        from envbench.model import MachineFact, digest

        plan = self._plan(measure, kept, ready)
        listener = self._listener()
        old = campaigns.unfinished(self.given["results"], profile.name, plan.spec)
        if old is not None and not self.given["fresh"]:
            changed = campaigns.differences(old.plan, plan)
            if not changed:
                tell("\n".join([*old.warnings, f"Going on with {old.path}"]))
                return campaigns.Campaign(old.path, old.plan, ready, listener, old.runs)
            tell(f"{old.path} is unfinished, but cannot be gone on with. Changed: ")
            tell("  " + "; ".join(changed) + ". Beginning a new plan.")
        path = store.new_file(self.given["results"], profile.name, plan.started_utc)
        made = campaigns.Campaign(path, plan, ready, listener)
        made.begin(MachineFact(hash=digest(self.fingerprint), fingerprint=self.fingerprint))
        return made

    def _plan(self, measure: Measure, kept: list[Cell], ready: dict[str, Ready]) -> Plan:
        from envbench import __version__, campaign
        from envbench.model import digest
        from envbench.plan import make_plan

        now = datetime.now(UTC)
        commit, dirty = campaign.git_state()
        return make_plan(
            kept,
            measure,
            plan_id=campaign.new_id(now),
            fingerprint=digest(self.fingerprint),
            worker=campaign.worker_hash(),
            runtimes={name: each.runtime.hash for name, each in ready.items()},
            started_utc=now.strftime(campaign.STAMP),
            command=["envbench", *sys.argv[1:]],
            envbench_version=__version__,
            git_commit=commit,
            git_dirty=dirty,
        )

    def _listener(self) -> Any:
        from envbench.cli.progress import Bar, Lines

        return Bar() if sys.stderr.isatty() else Lines()

    def _carry_out(self, campaign: Campaign) -> None:
        from envbench.cli.outcome import show

        try:
            campaign.carry_out()
        except Interrupted as stop:
            self.exit_code = stop.exit_code
            tell("Stopped. The same command goes on from here.")
        finally:
            campaign.listener.close()
        failed = show(
            campaign,
            self.fingerprint.logical_cpus,
            as_json=self.as_json,
            other_hardware=self.other_hardware,
        )
        self.exit_code = self.exit_code or (CELL_FAILED if failed else 0)
