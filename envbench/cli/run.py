"""``envbench run``: measure one cell, a plan, or a whole profile; goes on where it was stopped."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envbench.cli.options import (
    KeyValue,
    Names,
    NumEnvs,
    Seconds,
    complete_backends,
    complete_families,
    complete_machines,
)

if TYPE_CHECKING:
    from envbench.campaign import Campaign
    from envbench.cli.selection import Asked
    from envbench.machine import Profile
    from envbench.model import Cell, Plan
    from envbench.plan import Measure
    from envbench.preflight import Cannot, Ready


@click.command()
@click.option(
    "--env",
    "family",
    metavar="FAMILY",
    shell_complete=complete_families,
    help="atari, mujoco, or gym (a task of your own).  [default: atari and mujoco]",
)
@click.option(
    "--backend",
    "backend_names",
    type=Names(),
    shell_complete=complete_backends,
    help="Backends by name, or all.  [default: all that can run here]",
)
@click.option(
    "--numenv",
    "--num-envs",
    type=NumEnvs(),
    help="Environments a vector step.  [default: the profile's ladder]",
)
@click.option("--task", metavar="ID", help="Task id.  [default: Pong-v5, Ant-v3]")
@click.option(
    "--machine",
    metavar="NAME",
    shell_complete=complete_machines,
    help="Machine profile.  [default: the one that fits this machine]",
)
@click.option(
    "--duration",
    type=Seconds(1, 86400),
    default=None,
    metavar="SECONDS",
    help="Measured seconds a cell, over all its runs.  [default: 40]",
)
@click.option(
    "--total-step",
    type=click.IntRange(1, 10**12),
    metavar="K",
    help="Vector steps a cell, over all its runs, instead of a duration.",
)
@click.option(
    "--repeats",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Fresh processes a cell.  [default: 5 for most backends]",
)
@click.option(
    "--overcommit",
    metavar="X",
    help="Environments in flight for each one received (async EnvPool).  [default: 3]",
)
@click.option(
    "--set",
    "given",
    type=KeyValue(),
    multiple=True,
    help="A backend's setting; see `envbench backends --settings`. Repeatable.",
)
@click.option("--preset", metavar="NAME", help="Settings under a name: envpool-published.")
@click.option(
    "--frame-skip",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="Frames a step, for --env gym.  [default: 1]",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**31 // 1000 - 1),
    default=0,
    show_default=True,
    help="Of environments, actions and the order of runs.",
)
@click.option(
    "--python",
    "pythons",
    multiple=True,
    metavar="BACKEND=PATH",
    help="The interpreter of a backend. Repeatable.",
)
@click.option("--no-setup", is_flag=True, help="Do not make isolated runtimes on first use.")
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("results"),
    show_default=True,
    help="Where results are kept.",
)
@click.option("--quick", is_flag=True, help="One process, 3 s a cell, no interval: a look.")
@click.option("--fresh", is_flag=True, help="Begin anew, even where a plan was left unfinished.")
@click.option("--wait", is_flag=True, help="Wait while another envbench measures here.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def run(**given: Any) -> None:
    """Measure how fast environments step on this machine.

    One cell takes about a minute. Left-out options mean: both families, every backend that can
    run here, the profile's ladder. The same command goes on where it was stopped.
    """
    from envbench.cli.interrupts import raise_on_signals

    with raise_on_signals():
        Session(given).carry_out()


class Session:
    """One call of ``run``, from options to exit code."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self.as_json: bool = given["as_json"]
        self.exit_code = 0

    def carry_out(self) -> None:
        from envbench import lock, store
        from envbench.cli.selection import cells
        from envbench.machine import choose, fingerprint, valid_name
        from envbench.runtimes import parse_overrides

        asked, measure = self._asked(), self._measure()
        self.overrides = parse_overrides(self.given["pythons"])
        named = self.given["machine"]
        self.fingerprint = fingerprint()
        profile = choose(None if named is None else valid_name(named), self.fingerprint)
        wanted = cells(asked, profile)
        self.say_plugin_warnings()
        store.check_folder(self.given["results"], profile.name)
        with lock.acquire(wait=self.given["wait"], on_wait=say):
            self._measure_all(asked, measure, profile, wanted)
        sys.exit(self.exit_code)

    def _asked(self) -> Asked:
        from envbench.cli.selection import Asked

        settings = dict(self.given["given"])
        if self.given["overcommit"] is not None:
            settings["overcommit"] = self.given["overcommit"]
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
            say(f"Warning: {warning}")

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
        for cell in {(cell.env, cell.backend): cell for cell in wanted}.values():
            found = check(cell, self.overrides, setup=not self.given["no_setup"], say=say)
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
        from envbench.errors import BackendUnavailable, UnknownName

        for (family, name), trouble in cannot.items():
            knows = any(c.env == family and (family, c.backend) not in cannot for c in wanted)
            if trouble.known_tasks is not None and not (asked.takes_all and knows):
                task = next(c.task for c in wanted if (c.env, c.backend) == (family, name))
                raise UnknownName(f"{family} task of {name}", task, trouble.known_tasks)
            say(f"{name} cannot run {family} here: {trouble.failure.message}")
            if trouble.failure.hint:
                say(f"  {trouble.failure.hint}")
        if asked.takes_all:
            wanted = [cell for cell in wanted if (cell.env, cell.backend) not in cannot]
        elif cannot:
            self.exit_code = BackendUnavailable.exit_code
        if not wanted:
            raise BackendUnavailable(
                "no backend can run here.", hint="`envbench backends` says what to do about it."
            )
        return wanted

    def _keep_profile(self, profile: Profile) -> None:
        """A profile made for this host is written down, so that the report knows its table."""
        from envbench.machine import catalogue, write_profile

        if profile.name not in catalogue().entries:
            path = write_profile(profile, Path("machines"))
            say(f"No profile fits this machine: made {path}. Its title and ladder are yours.")

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
                say("\n".join([*old.warnings, f"Going on with {old.path}"]))
                return campaigns.Campaign(old.path, old.plan, ready, listener, old.runs)
            say(f"{old.path} is unfinished, but cannot be gone on with. Changed: ")
            say("  " + "; ".join(changed) + ". Beginning a new plan.")
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
        from envbench.errors import CELL_FAILED, Interrupted

        try:
            campaign.carry_out()
        except Interrupted as stop:
            self.exit_code = stop.exit_code
            say("Stopped. The same command goes on from here.")
        finally:
            campaign.listener.close()
        failed = show(campaign, as_json=self.as_json)
        self.exit_code = self.exit_code or (CELL_FAILED if failed else 0)


def say(text: str) -> None:
    """A message for a person, on stderr."""
    from envbench.cli import printable

    click.echo(printable(text), err=True)
