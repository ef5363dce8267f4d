"""How long should the slices of a block be, and how long the lead-in before each?

    python tests/studies/switching.py                  # the missing sessions, then the tables

A session starts a process per backend. They alternate, like the cells of a block of ``envbench
run``. Two kinds of slices are mixed at random:

* *Profiles* of 0.6 s, divided into windows of about 5 ms (1 s and 50 ms for backends that make
  large batches). They show how a backend speeds up after it was stopped. The later half is its
  normal speed, as in back-to-back windows. So the time that a slice loses, or gains, after a
  lead-in is known without any comparison between different minutes.
* *Stretches* of 3 s per backend in slices of one length: 0.1, 0.25, 0.5 or 1 s. They show what
  switching costs, and how much of the machine's drift remains in the ratios of the backends.

Sessions of their own (``--long``) have profiles of 4 s in windows of 0.1 s: does a backend keep
the speed of a short slice if nothing stops it? Others (``--pools``) have profiles of 1.5 s in
windows of 10 ms, of the backends that do not: which slice, after which lead-in, has the speed of
later steps?

Slices are lines of ``results/studies/switching/slices.jsonl``. The tables are in
docs/studies.md.
"""

from __future__ import annotations

import math
import os
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any, NamedTuple

import click
import msgspec
import numpy as np
from document import fill
from tabulate import tabulate

from envbench import backends, runtimes
from envbench.backends.builtin import KERNEL, POOLED_KERNEL
from envbench.decisions import slowdown
from envbench.engine import request
from envbench.engine.request import CellRequest
from envbench.engine.target import Target, kernel_target
from envbench.engine.worker_job import make_job
from envbench.experiments.run.rounds import slices_of
from envbench.machine import choose, fingerprint, lock
from envbench.model import Job, Programme, Protocol, Trial
from envbench.process.alternate import Launch, alternate
from envbench.process.reply import Reply, WindowEnded
from envbench.process.slice_order import Slice, SliceOrder
from envbench.process.starting import clock
from envbench.stats.intervals import TWO_SIDED, t_quantile

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "studies" / "switching"
SLICES_S = (0.1, 0.25, 0.5, 1.0)
STRETCH_S = 3.0  # of each backend
LEADS_MS = (0, 5, 10, 20)
LEAD_IN_S = 0.01  # of the stretches
BOOTSTRAPS = 400
EARLY_S = 0.05  # of a profile: caches are full again by then


class Group(NamedTuple):
    """Backends that alternate. A profile has ``windows`` of ``window_s`` seconds each."""

    cells: tuple[str, ...]
    kernels: bool
    window_s: float
    windows: int
    profiles: int  # of each backend, per session
    stretches: bool


GROUPS = {
    "small": Group(
        ("atari/for-loop/8", "atari/subprocess/8", "atari/envpool-sync/8", "atari/envpool-async/8"),
        kernels=True,
        window_s=0.005,
        windows=120,
        profiles=15,
        stretches=True,
    ),
    "large": Group(
        ("atari/sample-factory/8", "atari/envpool-numa/8", "mujoco/mujoco-rollout/16"),
        kernels=False,
        window_s=0.05,
        windows=20,
        profiles=12,
        stretches=False,
    ),
    "long": Group(
        (
            "atari/for-loop/8",
            "atari/subprocess/8",
            "atari/envpool-sync/8",
            "atari/envpool-async/8",
            "atari/ale-vector/8",
        ),
        kernels=True,
        window_s=0.1,
        windows=40,
        profiles=5,
        stretches=False,
    ),
    "pools": Group(
        ("atari/subprocess/8", "atari/envpool-sync/8", "atari/ale-vector/8"),
        kernels=True,
        window_s=0.01,
        windows=150,
        profiles=20,
        stretches=False,
    ),
}
# of a long profile, after its first slice
PARTS_S = ((0.1, 0.5), (0.5, 1.0), (1.0, 2.0), (2.0, 4.0))
# a lead-in and a slice, in seconds
CHOICES_S = (
    (0.01, 0.1),
    (0.05, 0.1),
    (0.1, 0.1),
    (0.02, 0.2),
    (0.05, 0.2),
    (0.1, 0.2),
    (0.05, 0.4),
)
LATE_S = 0.75  # a profile of pools has its normal speed from here on
SLOWER = 0.1  # this share below the speed of its first slice


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """A slice. ``slice_s``: 0.0 for a profile, whose windows are ``lead_ns`` and, last, ``ns``.

    ``since_ns`` is the time from the end of the slice before it (of any backend) to its own end, by
    the controller's clock.
    """

    group: str
    session: int
    cell: str
    slice_s: float
    calls: int
    lead_ns: list[int]
    ns: int
    since_ns: int


# ---------------------------------------------------------------- measuring


class Planned(NamedTuple):
    """``leads`` windows of ``lead_calls`` vector steps each come before the slice."""

    slice_s: float
    leads: int
    lead_calls: int
    since_ns: list[int]


class Order(SliceOrder):
    """Profiles and stretches, in a random order."""

    def __init__(self, group: Group, programme: Programme, jobs: Sequence[Job]) -> None:
        super().__init__(programme, jobs)
        self.group = group
        self.planned: list[Planned] = []
        self.ended_ns = 0

    def _choose(self) -> None:
        if not self.planned:
            self.steps = self._all_slices()

    def _all_slices(self) -> list[Slice]:
        chance = random.Random(self.programme.seed)
        group, workers = self.group, sorted(self.ns_per_call)
        pieces: list[list[tuple[float, int]]] = [
            [(0.0, worker) for worker in chance.sample(workers, len(workers))]
            for _ in range(group.profiles)
        ]
        for slice_s in SLICES_S if group.stretches else ():
            stretch = [(slice_s, worker) for worker in workers] * round(STRETCH_S / slice_s)
            pieces.append(chance.sample(stretch, len(stretch)))
        chance.shuffle(pieces)
        steps = []
        for slice_s, worker in (each for piece in pieces for each in piece):
            wanted = slice_s or group.window_s
            calls = max(1, round(wanted * 1e9 / self.ns_per_call[worker]))
            lead = max(1, round(LEAD_IN_S * 1e9 / self.ns_per_call[worker]))
            leads, lead_calls = (1, lead) if slice_s else (group.windows - 1, calls)
            self.planned.append(Planned(slice_s, leads, lead_calls, []))
            steps.append(Slice("step", worker, calls))
        return steps

    def order(self, due: Slice) -> str:
        planned = self.planned[self.next]
        return f"lead {planned.lead_calls}\n" * planned.leads + f"step {due.calls}\n"

    def slice_made(self, index: int, window: WindowEnded) -> None:
        now = clock()
        if self.next < len(self.planned) and self.next:
            self.planned[self.next].since_ns.append(now - self.ended_ns)
        self.ended_ns = now
        super().slice_made(index, window)


def session(name: str, number: int) -> list[Made]:
    """Start the group's processes, and let them make all slices of a session."""
    group, made = GROUPS[name], []
    targets = list(targets_of(group))
    orders: list[Order] = []

    def order_of(programme: Programme, jobs: Sequence[Job]) -> Order:
        orders.append(Order(group, programme, jobs))
        return orders[0]

    programme = Programme(mixed=[1.0] * len(targets), seed=1000 * number + len(targets))
    launches = [launch(each, number) for each in targets]
    replies, turns = alternate(launches, programme, order_of=order_of)
    for target, reply in zip(targets, replies, strict=True):
        if reply.failure is not None:
            raise SystemExit(f"{target.backend.name}: {reply.failure.message}")
    own = [windows(reply, orders[0], index) for index, reply in enumerate(replies)]
    for index, planned in zip(turns, orders[0].planned, strict=True):
        leads, ns, calls = next(own[index])
        made.append(
            Made(
                group=name,
                session=number,
                cell=targets[index].backend.name,
                slice_s=planned.slice_s,
                calls=calls,
                lead_ns=leads,
                ns=ns,
                since_ns=sum(planned.since_ns),
            )
        )
    return made


def targets_of(group: Group) -> Iterator[Target]:
    machine = fingerprint()
    profile = choose(None, machine)
    for text in group.cells:
        family, backend, numenv = text.split("/")
        asked = CellRequest(family=family, backends=[backend], numenv=[int(numenv)])
        yield from request.choose(asked, profile, machine.usable_cpus).targets
    for kernel in (KERNEL, POOLED_KERNEL) if group.kernels else ():
        yield kernel_target(profile.name, kernel)


def launch(target: Target, seed: int) -> Launch:
    protocol = Protocol(warmup_min_s=1.0, warmup_max_s=2.0, calls=1)
    trial = Trial(cell=target.cell, seed=seed, protocol=protocol)
    found = runtimes.find(target.backend, {}, target.cell.env)
    ours = target.backend in (KERNEL, POOLED_KERNEL)
    return Launch(
        job=make_job(trial, target, target.cell.key),
        python=sys.executable if ours else found.python,
        environment={**os.environ, **runtimes.environment(target.backend)},
    )


def windows(reply: Reply, order: Order, index: int) -> Iterator[tuple[list[int], int, int]]:
    """The lead-ins, nanoseconds and calls of each slice of this worker, in order."""
    planned = [
        each for worker, each in zip(order.made, order.planned, strict=True) if worker == index
    ]
    first = len(reply.warmup.ns) - sum(each.leads for each in planned)
    for each, ns, calls in zip(planned, reply.measured.ns, reply.measured.calls, strict=True):
        yield reply.warmup.ns[first : first + each.leads], ns, calls
        first += each.leads


# ---------------------------------------------------------------- the tables


def fastest(windows: Any, axis: int | None = None) -> Any:
    """The time of an undisturbed window: a tenth of the windows are faster. On a shared machine,
    other programs slow many windows down."""
    return np.quantile(windows, 0.1, axis=axis)


def lost_ms(profiles: Any, early: int, lead_ms: float) -> float:
    """Milliseconds that a slice after this lead-in loses in its ``early`` first windows, compared
    with the speed of its later half. Below zero: it gains.

    ``profiles``: nanoseconds of each window, one row per profile.
    """
    normal = fastest(profiles[:, profiles.shape[1] // 2 :])
    first = fastest(profiles[:, :early], axis=0)
    counts = np.clip((np.cumsum(first) - lead_ms * 1e6) / first, 0.0, 1.0)  # the lead-in's do not
    return float(((first - normal) * counts).sum() / 1e6)


def interval(profiles: Any, early: int, lead_ms: float) -> tuple[float, float]:
    """``lost_ms``, and twice its bootstrapped standard error."""
    chance = np.random.default_rng(0)
    rows = len(profiles)
    picks = [chance.integers(rows, size=rows) for _ in range(BOOTSTRAPS)]
    again = [lost_ms(profiles[pick], early, lead_ms) for pick in picks]
    return lost_ms(profiles, early, lead_ms), 2 * float(np.std(again))


def recovery(made: Sequence[Made]) -> str:
    """A row per backend: time lost after each lead-in."""
    rows = []
    short = [each for each in made if each.group in ("small", "large")]
    for group, cell in dict.fromkeys((each.group, each.cell) for each in short):
        profiles = profiles_of(
            [e for e in short if not e.slice_s and (e.group, e.cell) == (group, cell)]
        )
        early = math.ceil(EARLY_S / GROUPS[group].window_s)
        found = [interval(profiles, early, lead) for lead in LEADS_MS]
        shown = [f"{lost:+.1f} ±{width:.1f} ms" for lost, width in found]
        known = {each.name: each for each in (*backends.BUILT_IN, KERNEL, POOLED_KERNEL)}
        behaviour = known[cell].behaviour
        seconds, lead_in_s = slices_of(behaviour)
        lost, width = interval(profiles, early, 1e3 * lead_in_s)
        own = f"{lost / seconds / 10:+.1f} ±{width / seconds / 10:.1f} %"
        slices = f"{1e3 * lead_in_s:g} ms, {seconds:g} s"
        rows.append([cell, behaviour.steps_in, str(len(profiles)), *shown, slices, own])
    heads = ["backend", "class", "profiles", *(f"after {lead} ms" for lead in LEADS_MS)]
    heads += ["run's lead-in, slice", "lost there"]
    return tabulate(rows, heads, tablefmt="github", disable_numparse=True)


def profiles_of(made: Sequence[Made]) -> Any:
    """The windows of these profiles, one row each. The machine was slower in some sessions than in
    others, so each session's are scaled to one speed."""
    sessions: dict[int, list[list[int]]] = defaultdict(list)
    for each in made:
        sessions[each.session].append([*each.lead_ns, each.ns])
    every = [np.array(own, dtype=float) for own in sessions.values()]
    normal = [fastest(own[:, own.shape[1] // 2 :]) for own in every]
    middle = float(np.median(normal))
    return np.concatenate([own * middle / n for own, n in zip(every, normal, strict=True)])


def without_a_stop(made: Sequence[Made]) -> str:
    """A row per backend: its speed in each part of a long profile, relative to its first window.

    A session is one process, so the interval is that of the sessions' means.
    """
    logs: dict[str, dict[int, list[list[float]]]] = defaultdict(lambda: defaultdict(list))
    for each in made:
        if each.group == "long":
            own, window_s = [*each.lead_ns, each.ns], GROUPS["long"].window_s
            parts = [own[round(a / window_s) : round(b / window_s)] for a, b in PARTS_S]
            row = [math.log(own[0] / fmean(part)) for part in parts]
            logs[each.cell][each.session].append(row)
    rows = []
    for cell, sessions in logs.items():
        if len(sessions) < 2:
            continue
        profiles = [row for own in sessions.values() for row in own]
        shown = []
        for part in range(len(PARTS_S)):
            means = [fmean(row[part] for row in own) for own in sessions.values()]
            half = t_quantile(TWO_SIDED, len(means) - 1) * stdev(means) / math.sqrt(len(means))
            shown.append(f"{100 * math.expm1(fmean(means)):+.1f} ±{100 * half:.1f} %")
        slower = fmean(row[-1] < math.log(1 - SLOWER) for row in profiles)
        rows.append([cell, str(len(sessions)), str(len(profiles)), *shown, f"{100 * slower:.0f} %"])
    heads = ["backend", "processes", "profiles", *(f"{a:g} to {b:g} s" for a, b in PARTS_S)]
    heads += ["over 10 % slower at the end"]
    return tabulate(rows, heads, tablefmt="github", disable_numparse=True)


def slices_and_lead_ins(made: Sequence[Made]) -> str:
    """A row per backend of ``pools``: how much slower its slices are than its later steps, by the
    length of the lead-in and of the slice. Plus is slower.

    Rates are total steps / total time of all profiles of a process. The interval is that of the
    processes' logarithms.
    """
    window_s = GROUPS["pools"].window_s
    profiles: dict[str, dict[int, list[list[int]]]] = defaultdict(lambda: defaultdict(list))
    for each in made:
        if each.group == "pools":
            profiles[each.cell][each.session].append([*each.lead_ns, each.ns])
    rows = []
    for cell, sessions in profiles.items():
        if len(sessions) < 2:
            continue
        means = [np.mean(own, axis=0) for own in sessions.values()]  # ns of each window
        late = [own[round(LATE_S / window_s) :].mean() for own in means]
        row = [cell, str(len(means)), str(sum(map(len, sessions.values())))]
        for lead_s, slice_s in CHOICES_S:
            first, last = round(lead_s / window_s), round((lead_s + slice_s) / window_s)
            early = [own[first:last].mean() for own in means]
            logs = [math.log(one / other) for one, other in zip(early, late, strict=True)]
            half = t_quantile(TWO_SIDED, len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
            row.append(f"{100 * math.expm1(fmean(logs)):+.1f} ±{100 * half:.1f} %")
        rows.append(row)
    heads = ["backend", "processes", "profiles"]
    heads += [f"{1e3 * lead_s:g} ms, {slice_s:g} s" for lead_s, slice_s in CHOICES_S]
    return tabulate(rows, heads, tablefmt="github", disable_numparse=True)


def switching(made: Sequence[Made]) -> str:
    """A row per length: the cost of switching, and the noise that is left in ratios."""
    rows = []
    for length in SLICES_S:
        own = [each for each in made if each.slice_s == length and each.since_ns]
        if not own:
            continue
        switches = [each.since_ns - each.ns - sum(each.lead_ns) for each in own]
        alone = [sum(each.lead_ns) for each in own]
        spent = sum(each.since_ns for each in own)
        row = [f"{length:g} s", str(len(own)), f"{median(switches) / 1e6:.1f} ms"]
        row += [f"{100 * sum(alone) / spent:.1f} %", f"{100 * sum(switches) / spent:.1f} %"]
        spreads = residuals([each for each in made if each.slice_s == length])
        rows.append([*row, *map(shown_spread, spreads)])
    heads = ["slice", "slices", "stop and resume", "lead-in", "switching"]
    heads += ["threads", "processes"]
    return tabulate(rows, heads, tablefmt="github", disable_numparse=True)


class Spread(NamedTuple):
    """A standard deviation with its degrees of freedom."""

    value: float
    degrees: int


def shown_spread(spread: Spread) -> str:
    low, high = slowdown.spread_interval(spread.value, spread.degrees + 1)
    return f"{100 * spread.value:.1f} % ({100 * low:.0f}–{100 * high:.0f})"


def residuals(made: Sequence[Made]) -> tuple[Spread, Spread]:
    """How log rate - session - backend varies: of backends in one process, and of ``subprocess``.
    One stretch per session and backend, at least two sessions."""
    rates: dict[tuple[int, str], tuple[int, int]] = {}
    for each in made:
        calls, ns = rates.get((each.session, each.cell), (0, 0))
        rates[each.session, each.cell] = calls + each.calls, ns + each.ns
    logs = {key: math.log(calls / ns) for key, (calls, ns) in rates.items()}
    single = sorted({cell for _, cell in logs if cell != "subprocess"})
    sessions = sorted({number for number, _ in logs})
    level = {n: fmean(logs[n, cell] for cell in single) for n in sessions}
    off = {key: each - level[key[0]] for key, each in logs.items()}
    usual = {cell: fmean(off[n, cell] for n in sessions) for _, cell in logs}
    left = {key: each - usual[key[1]] for key, each in off.items()}
    free = (len(sessions) - 1) * (len(single) - 1)
    threads = math.sqrt(sum(left[n, c] ** 2 for n in sessions for c in single) / free)
    processes = stdev(left[n, "subprocess"] for n in sessions)
    return Spread(threads, free), Spread(processes, len(sessions) - 1)


# ---------------------------------------------------------------- the command


def read(path: Path) -> list[Made]:
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [msgspec.json.decode(line, type=Made) for line in lines]


@click.command()
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS)
@click.option("--sessions", default=5, show_default=True, help="Sessions of small batches.")
@click.option("--large", default=2, show_default=True, help="Sessions of large batches.")
@click.option("--long", "long_", default=2, show_default=True, help="Sessions of long profiles.")
@click.option("--pools", default=2, show_default=True, help="Sessions of pools and processes.")
def main(results: Path, sessions: int, large: int, long_: int, pools: int) -> None:
    """Measure the missing sessions, and fill the tables of docs/studies.md."""
    path = results / "slices.jsonl"
    results.mkdir(parents=True, exist_ok=True)
    with lock.acquire(wait=True, on_wait=click.echo):
        wanted = {"small": sessions, "large": large, "long": long_, "pools": pools}
        for name, count in wanted.items():
            for number in range(count):
                if (name, number) in {(each.group, each.session) for each in read(path)}:
                    continue
                made = session(name, number)
                with path.open("ab") as file:
                    file.writelines(msgspec.json.encode(each) + b"\n" for each in made)
                click.echo(f"{name}: session {number + 1} of {count}")
    made = read(path)
    tables = {
        "recovery": recovery(made),
        "switching": switching(made),
        "without-a-stop": without_a_stop(made),
        "slices-and-lead-ins": slices_and_lead_ins(made),
    }
    for name, text in tables.items():
        click.echo(f"{text}\n")
        if results.absolute() == RESULTS:
            fill(name, text)


if __name__ == "__main__":
    main()
