"""Records as envbench writes them, made by hand for the tests of store and report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, groupby
from pathlib import Path
from typing import Any

import msgspec

from envbench import families
from envbench.model import (
    Agreement,
    Apart,
    Audit,
    BlockRecord,
    Cell,
    FactsRecord,
    Failure,
    Fingerprint,
    Load,
    MachineFact,
    Plan,
    Protocol,
    Record,
    Run,
    RunDesign,
    Stored,
    Times,
    TrialRecord,
    Verification,
    Verify,
    VerifyDesign,
    Windows,
    arm_key,
    digest,
)
from envbench.results import store

_IDS = count(1)
LAPTOP = Fingerprint(
    cpu="Intel(R) Core(TM) i7-8750H CPU @ 2.20GHz",
    logical_cpus=12,
    physical_cores=6,
    usable_cpus=12,
    memory_gib=16,
)
OTHER = Fingerprint(cpu="Some CPU", logical_cpus=2, physical_cores=1, usable_cpus=2, memory_gib=8)


def make_cell(backend: str = "for-loop", numenv: int = 1, **given: Any) -> Cell:
    values: dict[str, Any] = {
        "machine": "laptop",
        "env": "atari",
        "task": "Pong-v5",
        "frame_skip": 4,
        "env_instances": 3 * numenv if backend == "envpool-async" else numenv,
        "settings": {"actions": "bank"},
    }
    return Cell(backend=backend, numenv=numenv, **{**values, **given})


def make_windows(steps: list[int], ns: int | list[int] = 250_000_000, **given: Any) -> Windows:
    n = len(steps)
    values: dict[str, Any] = {
        "start_ns": [i * 250_000_000 for i in range(n)],
        "ns": ns if isinstance(ns, list) else [ns] * n,
        "calls": steps,
        "steps": steps,
        "resets": [1] * n,
    }
    return Windows(**{**values, **given})


def make_run(cell: Cell | None = None, steps: list[int] | None = None, **given: Any) -> Run:
    """A run of windows of 0.25 s; by default four of 100 steps (400 steps and 1,600 FPS).

    It is alone in its block. Runs with the same ``block`` alternated.
    """
    name = given.get("run_id", f"r{next(_IDS)}")
    values: dict[str, Any] = {
        "run_id": name,
        "block": f"{name}-b",
        "plan_id": "plan",
        "round": 0,
        "seed": 0,
        "started_utc": "2025-11-20T10:00:00Z",
        "fingerprint": digest(LAPTOP),
        "runtime": "runtime",
        "times": Times(import_ns=1, build_ns=1, first_step_ns=1, warmup_ns=1, measured_ns=1),
        "measured": make_windows(steps or [100] * 4),
        "steady": True,
        "load": Load(cpu_s=1.0, other_cpu_s=0.0),
    }
    return Run(cell=cell or make_cell(), **{**values, **given})


def make_failure(**given: Any) -> Failure:
    return Failure(**{"reason": "signal", "message": "the worker died", **given})


def make_plan(
    cells: list[Cell],
    repeats: int = 5,
    *,
    quick: bool = False,
    worker: str = "worker",
    **given: Any,
) -> Plan:
    """A plan of ``run``; ``worker`` is the hash of the code of all its cells."""
    design = RunDesign(
        repeats={cell.backend: repeats for cell in cells},
        protocol={cell.backend: Protocol() for cell in cells},
        quick=quick,
    )
    values: dict[str, Any] = {
        "plan_id": "plan",
        "experiment": "run",
        "spec": "spec",
        "design": design,
        "seed": 0,
        "fingerprint": digest(LAPTOP),
        "code": {f"{arm_key('', cell)}/measure": worker for cell in cells},
        "started_utc": "2025-11-20T10:00:00Z",
        "command": ["envbench", "run"],
        "envbench_version": "0",
    }
    return Plan(cells=cells, **{**values, **given})


def make_refusal(cell: Cell) -> Verification:
    """A verification that failed: the backend claims more frames than its environments made."""
    return Verification(
        verification_id="refusal", cell=cell, started_utc="2026", fingerprint="", runtime="",
        worker="", verifier="0 ", seed=0, audit=Audit(calls=100, steps=100, resets=0, frames=4.0),
    )  # fmt: skip


def make_fact(fingerprint: Fingerprint = LAPTOP) -> MachineFact:
    return MachineFact(hash=digest(fingerprint), fingerprint=fingerprint)


def measured_plan(
    speeds: dict[tuple[str, int], int], repeats: int = 5, windows: int = 4, **given: Any
) -> list[Plan | Run | MachineFact]:
    """A whole plan: (backend, numenv) -> steps per window of 0.25 s; five equal runs per cell.

    All cells alternate in one block per round, unless ``alternate`` is False. ``cell`` in ``given``
    holds fields of every cell, ``run`` of every run, the rest of the plan.
    """
    of_cell, of_run = given.pop("cell", {}), given.pop("run", {})
    alternate = given.pop("alternate", True)
    cells = [make_cell(name, numenv, **of_cell) for name, numenv in speeds]
    never_run = make_cell("isaac-gym")  # so that a single cell is not "measured alone"
    plan = make_plan([*cells, never_run], repeats, **given)
    shared = {
        "plan_id": plan.plan_id,
        "quick": plan.design_as(RunDesign).quick,
        "started_utc": plan.started_utc,
        "fingerprint": plan.fingerprint,
    }
    runs = []
    for number in range(repeats):
        if alternate:
            shared["block"] = f"{plan.plan_id}-b{number}"
        runs += [
            make_run(cell, [speed] * windows, round=number, **{**shared, **of_run})
            for cell, speed in zip(cells, speeds.values(), strict=True)
        ]
    return [make_fact(), make_fact(OTHER), plan, *runs]


def varied_plan(
    speeds: Mapping[tuple[str, int], Sequence[int]], **given: Any
) -> list[Plan | Run | MachineFact]:
    """A whole plan whose rounds differ: (backend, numenv) -> steps per window in each round."""
    (repeats,) = {len(each) for each in speeds.values()}
    records = measured_plan(dict.fromkeys(speeds, 1), repeats, **given)
    return [
        msgspec.structs.replace(
            each,
            measured=make_windows([speeds[each.cell.backend, each.cell.numenv][each.round]] * 4),
        )
        if isinstance(each, Run)
        else each
        for each in records
    ]


def plan_of_rounds(
    name: str, speeds: Sequence[int], backend: str = "for-loop", **given: Any
) -> list[Plan | Run | MachineFact]:
    """A whole plan of one cell of eight environments; each round has its own speed."""
    return varied_plan({(backend, 8): speeds}, plan_id=name, **given)


# ---------------------------------------------------------------- as they are stored


def new_results_file(results: Path, machine: str, started_utc: str) -> Path:
    """The path of a new empty file."""
    with store.Journal.create(results, machine, started_utc) as journal:
        return journal.path


def add_record(path: Path, record: Stored) -> None:
    """Add one record to the file at ``path``. Creates the file if it does not exist."""
    path.touch()
    with store.Journal.open(path) as journal:
        journal.append(record)


def write(path: Path, records: Iterable[Record | Stored]) -> None:
    """Append these to a results file as envbench stores them."""
    for record in as_stored(records):
        add_record(path, record)


def as_stored(records: Iterable[Record | Stored]) -> Iterator[Stored]:
    """One block per run, or per consecutive runs that alternated, one plan and one block per
    verification, everything else unchanged.

    A run must agree with its plan and its block.
    """
    plans: dict[str, Plan] = {}
    known: set[str] = set()
    for _, group in groupby(records, key=_of_one_block):
        record, *others = group
        if isinstance(record, Run):
            runs = [record, *(each for each in others if isinstance(each, Run))]
            plan = plans.get(record.plan_id)
            if plan is not None:
                assert record.fingerprint == plan.fingerprint
                assert record.quick == plan.design_as(RunDesign).quick
            facts, block = block_of(runs)
        elif isinstance(record, Verification):
            yield verify_plan(record)
            facts, block = block_of_verification(record)
        else:
            if isinstance(record, Plan):
                plans[record.plan_id] = record
            yield record
            continue
        for shared in facts:
            if shared.hash not in known:
                known.add(shared.hash)
                yield shared
        yield block


def _of_one_block(record: Record | Stored) -> tuple[str, ...]:
    """Equal for runs that alternated, and for nothing else."""
    if isinstance(record, Run):
        return record.plan_id, record.block
    return (f"{next(_IDS)}",)


def make_block(block_id: str = "block", **given: Any) -> BlockRecord:
    """A block of one trial without facts; ``given`` as in ``make_run``."""
    return block_of([make_run(**given, block=block_id)])[1]


def block_of(runs: Sequence[Run]) -> tuple[list[FactsRecord], BlockRecord]:
    """The block of runs that alternated, and the facts that they refer to."""
    first = runs[0]
    for run in runs:
        assert (run.plan_id, run.block, run.round, run.started_utc, run.fingerprint, run.quick) == (
            first.plan_id, first.block, first.round, first.started_utc, first.fingerprint,
            first.quick,
        )  # fmt: skip
    facts: list[FactsRecord] = []
    trials = []
    for run in runs:
        shared, trial = trial_of(run)
        facts += [shared] if shared else []
        trials.append(trial)
    return facts, BlockRecord(
        block_id=first.block,
        plan_id=first.plan_id,
        round=first.round,
        started_utc=first.started_utc,
        trials=trials,
    )


def trial_of(run: Run) -> tuple[FactsRecord | None, TrialRecord]:
    """A run's trial, and the facts that it refers to."""
    facts = {key: run.facts[key] for key in run.facts if key not in ("before", "environment")}
    shared = FactsRecord(hash=digest(facts), facts=facts) if facts else None
    return shared, TrialRecord(
        trial_id=run.run_id,
        arm=run.arm,
        cell=run.cell,
        agreement=run.agreement,
        seed=run.seed,
        runtime=run.runtime,
        times=run.times,
        warmup=run.warmup,
        measured=run.measured,
        steady=run.steady,
        stopped_ns=run.stopped_ns,
        latency=run.latency,
        returns=run.returns,
        resets=run.resets,
        peak_memory_bytes=run.peak_memory_bytes,
        peak_gpu_memory_bytes=run.peak_gpu_memory_bytes,
        load=run.load,
        before=run.facts.get("before", {}),
        facts=shared.hash if shared else "",
        environment=run.facts.get("environment", {}),
        failure=run.failure,
    )


def verify_plan(found: Verification) -> Plan:
    """The plan of that one verification."""
    return Plan(
        plan_id=f"{found.verification_id}-p",
        experiment="verify",
        spec="spec",
        cells=[found.cell],
        design=VerifyDesign(verify=Verify()),
        seed=found.seed,
        fingerprint=found.fingerprint,
        code={f"{arm_key('', found.cell)}/measure": found.worker},
        started_utc=found.started_utc,
        command=["envbench", "verify"],
        envbench_version="0",
    )


def block_of_verification(found: Verification) -> tuple[list[FactsRecord], BlockRecord]:
    facts = {"work": found.work}
    shared = FactsRecord(hash=digest(facts), facts=facts) if found.work else None
    trial = TrialRecord(
        trial_id=found.verification_id,
        cell=found.cell,
        seed=found.seed,
        runtime=found.runtime,
        facts=shared.hash if shared else "",
        audit=found.audit,
        agreement=found.agreement,
        responds=found.responds,
        failure=found.failure,
    )
    return [shared] if shared else [], BlockRecord(
        block_id=f"{found.verification_id}-b",
        plan_id=f"{found.verification_id}-p",
        started_utc=found.started_utc,
        trials=[trial],
    )


def make_agreement(apart: float = 0.0, reward: float = 0.0, **given: Any) -> Agreement:
    """Of one environment, all of whose steps are equally far from the reference's."""
    same, rewards = (Apart(median=each, p90=each, largest=each) for each in (apart, reward))
    values = {"steps": 1200, "observations": [same], "rewards": [rewards], **given}
    return Agreement(reference="for-loop", **values)


DIFFERENT = make_agreement(9.0)


def make_verification(cell: Cell | None = None, **given: Any) -> Verification:
    """A backend of equal work, except for what is ``given``."""
    values: dict[str, Any] = {
        "verification_id": "v",
        "cell": cell or make_cell("subprocess"),
        "started_utc": "2025-11-20T10:00:00Z",
        "fingerprint": "f",
        "runtime": "r",
        "worker": "w",
        "verifier": "0 ",
        "seed": 0,
        "audit": Audit(calls=20, steps=20, resets=0, frames=80.0, counted_by="the emulator"),
        "agreement": make_agreement(),
        "responds": True,
        "work": dict(families.get("atari").work["env"]),
    }
    return Verification(**{**values, **given})
