"""plan × runner × store: the only loop. One run after another, each flushed to disk when it ends.

A campaign that was stopped goes on in the same file when the same command is given again:
``unfinished`` finds it. What must match is the plan's spec, the worker's source, the runtimes'
packages and the machine's fingerprint; where one differs a new plan is begun, and ``differences``
says which, so that nothing is ever mixed.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import msgspec

from envbench import plan as planning
from envbench import runtimes, store
from envbench.backends import get
from envbench.errors import Interrupted, StorageError
from envbench.model import Cell, Failure, MachineFact, Plan, Run, RuntimeFact
from envbench.preflight import Ready, runtime_fact
from envbench.process import execute as runner
from envbench.statistics import schedule

WORKER_PATH = Path(__file__).parent / "worker_path"
STAMP = "%Y-%m-%dT%H-%M-%SZ"
CHANGED = Failure(
    reason="setup",
    message="the packages of its runtime changed while the plan ran",
    hint="Leave the environment alone while it is measured, and run the command again.",
)


class Listener(Protocol):
    """Who wants to know how a campaign goes: the progress bar, or nobody."""

    def started(self, plan: Plan, runs: int, todo: int) -> None: ...
    def close(self) -> None: ...
    def run_started(self, index: int, round_: int, cell: Cell) -> None: ...
    def event(self, event: Mapping[str, Any]) -> None: ...
    def run_ended(self, run: Run) -> None: ...


class Unfinished(msgspec.Struct, frozen=True, kw_only=True):
    """A plan on disk that was stopped before its end."""

    path: Path
    plan: Plan
    runs: list[Run]
    warnings: list[str] = []  # lines of the file that could not be read


# ---------------------------------------------------------------- finding one to go on with


def unfinished(results: Path, machine: str, spec: str) -> Unfinished | None:
    """The newest plan that asked for the same, where it is incomplete.

    Where there is none, the newest plan of all where that one is incomplete: a person who
    changed an option wants to be told why it is not gone on with.
    """
    newest = None
    for path in reversed([p for p in store.files(results) if p.parent.name == machine]):
        found = _plan_in(path)
        if found is None:
            continue
        left = bool(planning.remaining(found.plan, order_of(found.plan), found.runs))
        if found.plan.spec == spec:
            return found if left else None
        newest = newest or (found, left)
    return newest[0] if newest and newest[1] else None


def _plan_in(path: Path) -> Unfinished | None:
    reading = store.read(path)
    records = [record for _, record in reading.records]
    plans = [record for record in records if isinstance(record, Plan)]
    if not plans:
        return None
    plan = plans[-1]
    runs = {  # of this plan alone, each once, whatever files were joined by hand
        record.run_id: record
        for record in records
        if isinstance(record, Run) and record.plan_id == plan.plan_id
    }
    return Unfinished(path=path, plan=plan, runs=[*runs.values()], warnings=reading.warnings)


def differences(old: Plan, new: Plan) -> list[str]:
    """What keeps ``old`` from being gone on with as ``new``; empty where nothing does."""
    asked = {
        "the cells (environments, backends, numenv or settings)": old.cells != new.cells,
        "the number of processes a cell": old.repeats != new.repeats,
        "the measured time or steps": old.protocol != new.protocol,
        "--quick": old.quick != new.quick,
        "--seed": old.seed != new.seed,
    }
    named = asked | {
        "what is asked for": old.spec != new.spec and not any(asked.values()),
        "envbench's worker code": old.worker != new.worker,
        "the machine": old.fingerprint != new.fingerprint,
    }
    changed = [what for what, differs in named.items() if differs]
    for backend in old.runtimes.keys() & new.runtimes.keys():
        if old.runtimes[backend] != new.runtimes[backend]:
            changed.append(f"the packages or Python of {backend}")
    if not changed and old.runtimes.keys() != new.runtimes.keys():
        changed.append("which backends can run here")
    return sorted(changed)


def order_of(plan: Plan) -> list[tuple[int, Cell]]:
    """The plan's runs in order: rounds, each a seeded shuffle of its cells."""
    return schedule(plan.cells, plan.repeats, plan.seed)


# ---------------------------------------------------------------- identity of a new plan


def worker_hash(root: Path = WORKER_PATH) -> str:
    """A hash of the worker's source: what ran inside the measured process."""
    seen = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        seen.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return seen.hexdigest()[:12]


def git_state() -> tuple[str | None, bool | None]:
    """Commit and dirtiness of the envbench that runs, where it runs from a git checkout."""
    root = Path(__file__).parent.parent
    if not (root / ".git").exists():
        return None, None

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(root), *words],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        return done.stdout.strip()

    try:
        commit = git("rev-parse", "HEAD")
        return commit, bool(git("status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.SubprocessError):
        return None, None


def new_id(now: datetime) -> str:
    """Sorts by time, and is not the same twice."""
    return f"{now.strftime(STAMP)}-{secrets.token_hex(3)}"


# ---------------------------------------------------------------- the loop


class Campaign:
    """Carries a plan out, or goes on with one, in its file."""

    def __init__(
        self,
        path: Path,
        plan: Plan,
        ready: Mapping[str, Ready],
        listener: Listener,
        earlier: Sequence[Run] = (),
    ) -> None:
        self.path = path
        self.plan = plan
        self.ready = ready
        self.listener = listener
        self.runs = [run for run in earlier if not planning.interrupted(run)]
        self._known_runtimes = {fact.runtime.hash for fact in ready.values()}

    def begin(self, machine: MachineFact) -> None:
        """Write what all runs share; the plan last, so that a file with a plan is whole."""
        runtimes_used = {each.runtime.hash: each.runtime for each in self.ready.values()}
        try:
            store.append(self.path, machine)
            for fact in runtimes_used.values():
                store.append(self.path, fact)
            store.append(self.path, self.plan)
        except StorageError:
            store.discard_empty(self.path)
            raise

    def carry_out(self) -> None:
        """Measure what remains; ``runs`` are then all of the plan's. ``Interrupted`` passes
        through, with the run in hand recorded as interrupted."""
        order = order_of(self.plan)
        todo = planning.remaining(self.plan, order, self.runs)
        self.listener.started(self.plan, len(order), len(todo))
        failed: set[str] = set()
        for index in todo:
            round_, cell = order[index]
            if cell.key in failed:
                continue
            self.listener.run_started(index, round_, cell)
            run = self._measure(round_, cell)
            if run.failure:
                failed.add(cell.key)

    @property
    def unfinished(self) -> bool:
        """Are there runs left to make?"""
        return bool(planning.remaining(self.plan, order_of(self.plan), self.runs))

    def record_failure(self, cell: Cell, failure: Failure) -> None:
        """A cell whose backend never came up is a row with a reason, not a missing row."""
        self._keep(self._blank(0, cell, datetime.now(UTC), failure))

    def _measure(self, round_: int, cell: Cell) -> Run:
        now = datetime.now(UTC)
        ready = self.ready[cell.backend]
        blank = self._blank(round_, cell, now, None)
        try:
            reply = runner.execute(
                planning.make_job(self.plan, cell, round_, blank.run_id),
                python=ready.python,
                environment={**os.environ, **self._pins(cell)},
                on_event=self.listener.event,
            )
        except Interrupted:
            stopped = Failure(reason="interrupted", message="stopped before its end")
            self._keep(msgspec.structs.replace(blank, failure=stopped))
            raise
        run = self._run(blank, reply)
        self._keep(run)
        return run

    def _pins(self, cell: Cell) -> dict[str, str]:
        return runtimes.environment(get(cell.backend), cell.settings)

    def _blank(self, round_: int, cell: Cell, now: datetime, failure: Failure | None) -> Run:
        ready = self.ready.get(cell.backend)
        return Run(
            run_id=new_id(now),
            plan_id=self.plan.plan_id,
            round=round_,
            cell=cell,
            seed=planning.seed_of_round(self.plan.seed, round_),
            started_utc=now.isoformat(timespec="milliseconds"),
            fingerprint=self.plan.fingerprint,
            runtime=ready.runtime.hash if ready else "",
            quick=self.plan.quick,
            failure=failure,
        )

    def _run(self, blank: Run, reply: runner.Reply) -> Run:
        runtime = runtime_fact(reply) if reply.python else None
        if runtime is not None:
            self._keep_runtime(runtime)
            if runtime.hash != self.ready[blank.cell.backend].runtime.hash:
                reply = msgspec.structs.replace(reply, ok=False, failure=CHANGED)
        facts = {**reply.facts, "environment": self._pins(blank.cell)}
        return msgspec.structs.replace(
            blank,
            runtime=runtime.hash if runtime else blank.runtime,
            times=reply.times,
            warmup=reply.warmup,
            measured=reply.measured,
            steady=reply.steady,
            peak_memory_bytes=reply.peak_memory_bytes,
            peak_gpu_memory_bytes=reply.peak_gpu_memory_bytes,
            load=reply.load,
            facts=facts,
            failure=reply.failure,
        )

    def _keep_runtime(self, runtime: RuntimeFact) -> None:
        if runtime.hash not in self._known_runtimes:
            store.append(self.path, runtime)
            self._known_runtimes.add(runtime.hash)

    def _keep(self, run: Run) -> None:
        store.append(self.path, run)
        self.runs.append(run)
        self.listener.run_ended(run)
