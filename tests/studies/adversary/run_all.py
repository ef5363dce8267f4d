"""Run each new cheat and each honest variant through envbench's own verification, one at a time.

    python tests/studies/adversary/run_all.py                        # everything; resumes
    python tests/studies/adversary/run_all.py --list
    python tests/studies/adversary/run_all.py --only euler-in-run,ring-of-two --no-measure

The cheats were written by a reader of the code who looked for ways through it. (The tests have a
few of their own, in tests/fixtures/cheats.) Their files begin with ``xc_``, so that none hides a
library, such as mujoco. ``believed`` is what that reader expected of the code before the ways were
closed.

For each case there are up to two steps, both by the project's own code:

1. *verify*: the block that ``VerifyExperiment.block`` makes (default size: --numenv 4, 1,000
   audited steps), executed by ``LocalExecutor``, read by ``verification_of``, judged by ``judge``.
2. *measure*: a measured trial with the spot check that ``envbench run`` would order for that number
   of environments (``MOST_SPOT``, ``SPOT_STEPS``), judged by ``spot_check``. Its rate is compared
   with that of for-loop (or of the backend that the case is based on), measured in the same way.

It holds envbench's measuring lock, so it cannot disturb a measurement (--wait waits for it).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
import uuid
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
WORK = Path(tempfile.gettempdir()) / "envbench-adversary"  # interpreters of the cheats
sys.dont_write_bytecode = True


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--project", type=Path, default=ROOT)
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--family", default="")
    parser.add_argument("--kind", choices=["cheat", "honest", ""], default="")
    parser.add_argument("--no-verify", action="store_true")
    parser.add_argument("--no-measure", action="store_true")
    parser.add_argument("--fresh", action="store_true", help="do not skip cases with a result")
    parser.add_argument("--wait", action="store_true", help="wait for the measuring lock")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--audit", type=int, default=1000)
    parser.add_argument(
        "--results",
        type=Path,
        default=ROOT / "results" / "studies" / "adversary" / "findings.jsonl",
    )
    return parser.parse_args()


GIVEN = arguments()
sys.path.insert(0, str(GIVEN.project))  # before site-packages, so another checkout can be tested

import msgspec  # noqa: E402

from envbench import backends, families, runtimes  # noqa: E402
from envbench.decisions.equal_work import judge, spot_check  # noqa: E402
from envbench.decisions.pace import SLOWEST_SHORT_CALLS  # noqa: E402
from envbench.engine.availability import Arm  # noqa: E402
from envbench.engine.experiment import Options, Site  # noqa: E402
from envbench.engine.local_executor import LocalExecutor  # noqa: E402
from envbench.engine.request import CellRequest  # noqa: E402
from envbench.engine.target import make_cell, reference_of, target_of  # noqa: E402
from envbench.experiments.run import rounds as run_module  # noqa: E402
from envbench.experiments.verify import VerifyExperiment  # noqa: E402
from envbench.machine import Profile, Table, lock  # noqa: E402
from envbench.model import (  # noqa: E402
    Block,
    BlockRecord,
    FactsRecord,
    Fingerprint,
    Plan,
    Programme,
    Protocol,
    Trial,
    arm_key,
)
from envbench.results.joining import verification_of  # noqa: E402
from envbench.stats.without_stops import in_short_calls  # noqa: E402


@dataclass(frozen=True)
class Case:
    """``expect``: "found" or "accepted". ``believe``: what the reviewer expects of today's code."""

    name: str
    family: str
    adapter: str = ""  # "" : the base itself (a built-in backend)
    expect: str = "found"
    believe: str = "passes"
    base: str = "for-loop"
    task: str = ""
    numenv: int = 4  # of the measured trial; verify always has four
    verify: bool = True
    measure: bool = True

    @property
    def key(self) -> str:
        task = f":{self.task}" if self.task else ""
        return f"{self.name}@{self.family}{task}/{self.numenv}"


def both(name: str, adapter: str, **more: object) -> list[Case]:
    return [Case(name, family, adapter, **more) for family in ("atari", "mujoco")]  # type: ignore[arg-type]


D, C, M, A, S, H = "xc_detects:", "xc_counts:", "xc_mujoco:", "xc_atari:", "xc_small:", "xc_honest:"
L = "xc_later:"
CHEETAH = "HalfCheetah-v4"
CHEATS = [
    # --- they know when they are looked at
    *both("knows-the-mode", D + "KnowsTheMode"),
    Case("sees-the-stack", "atari", D + "SeesTheStack"),
    Case("reads-the-job", "mujoco", D + "ReadsTheJob"),
    *both("spot-dodger", D + "SpotDodger"),
    *both("short-spot", D + "ShortSpot"),
    Case("trace-remover", "mujoco", D + "TraceRemover"),
    *both("many-environments", D + "ManyEnvironments", numenv=64),
    Case("euler-after-the-audit", "mujoco", D + "EulerAfterTheAudit"),
    Case("blank-after-the-audit", "atari", D + "BlankAfterTheAudit"),
    # --- `run` is not `follow`
    Case("euler-in-run", "mujoco", D + "EulerInRun"),
    Case("no-screens-in-run", "atari", D + "NoScreensInRun"),
    *both("aliases-in-run", D + "AliasesInRun"),
    Case("hollow-in-run", "classic_control", D + "HollowInRun"),
    # --- counts
    *both("recount-lies", C + "RecountLies"),
    Case("recount-lies", "classic_control", C + "RecountLies"),
    Case("fakes-time", "mujoco", C + "FakesTime"),
    Case("ends-inside", "atari", C + "EndsInside"),
    Case("hides-ends", "mujoco", C + "HidesEnds"),
    Case("hides-ends", "classic_control", C + "HidesEnds"),
    *both("counts-in-flight", C + "CountsInFlight", believe="found"),
    *both("fakes-the-rest", C + "FakesTheRest", base="envpool-async"),
    *both("ring-of-two", C + "RingOfTwo"),
    # --- MuJoCo
    Case("half-precision", "mujoco", M + "HalfPrecision"),
    Case("big-steps-in-the-air", "mujoco", M + "BigStepsInTheAir"),
    Case("four-substeps", "mujoco", M + "FourSubsteps", believe="unsure"),
    Case("loose-tolerance", "mujoco", M + "LooseTolerance", believe="unsure"),
    Case("spends-the-tolerance", "mujoco", M + "SpendsTheTolerance"),
    Case("seldom-reward", "mujoco", M + "SeldomReward"),
    Case("no-contact-forces", "mujoco", M + "NoContactForces"),
    Case("no-contacts-when-high", "mujoco", M + "NoContactsWhenHigh"),
    Case("only-the-last-environment", "mujoco", M + "OnlyTheLastEnvironment", believe="found"),
    Case("jittered-cache", "mujoco", M + "JitteredCache"),
    Case("no-time-limit", "mujoco", M + "NoTimeLimit"),
    Case("no-time-limit", "classic_control", M + "NoTimeLimit"),
    Case("late-ends", "mujoco", M + "LateEnds"),
    Case("every-end-late", "mujoco", M + "EveryEndLate", believe="found"),
    Case("every-end-late", "atari", M + "EveryEndLate", believe="found"),
    Case("short-limit", "mujoco", M + "ShortLimit", task=CHEETAH, believe="found"),
    Case("swaps-ends", "mujoco", M + "SwapsEnds", task=CHEETAH),
    # --- both kinds of family
    *both("same-seeds", M + "SameSeeds", believe="found"),
    Case("paired-seeds", "atari", M + "PairedSeeds"),
    *both("stale-one-environment", M + "StaleOneEnvironment", believe="found"),
    *both("late-rewards", M + "LateRewards", believe="found"),
    *both("omits-a-setting", M + "OmitsASetting", believe="only ≠"),
    # --- Atari
    Case("cached-noops", "atari", A + "CachedNoops"),
    Case("few-noops", "atari", A + "FewNoops"),
    Case("no-max-pool", "atari", A + "NoMaxPool", believe="found"),
    Case("three-frames", "atari", A + "ThreeFrames", believe="found"),
    Case("blank-at-the-end", "atari", A + "BlankAtTheEnd"),
    Case("nearest-resize", "atari", A + "NearestResize", believe="found"),
    Case("fewer-stacked", "atari", A + "FewerStacked", believe="found"),
    # --- thousands of steps after a reset, or only after the end of an episode
    Case("euler-since-reset", "mujoco", L + "EulerSinceReset"),
    Case("no-max-pool-since-reset", "atari", L + "NoMaxPoolSinceReset"),
    Case("other-euler-since-reset", "gym", L + "OtherEulerSinceReset", task="CartPole-v1"),
    Case("one-noop-after-an-end", "atari", L + "OneNoop"),
    Case("stored-games-after-an-end", "atari", L + "StoredGames"),
    Case("five-states-after-an-end", "mujoco", L + "FiveStates"),
    Case("five-states-after-an-end", "mujoco", L + "FiveStates", task=CHEETAH),
    # --- steps left out in long calls, and in short ones when no check seems to be possible
    *(
        Case(name, family, L + attribute, numenv=numenv)
        for name, attribute in [("long-and-late", "LongAndLate"), ("long-and-many", "LongAndMany")]
        for family, numenv in [("mujoco", 4), ("classic_control", 16)]
    ),
    Case("long-and-many", "gym", L + "LongAndMany", task="Acrobot-v1"),
    # --- CartPole, LunarLander
    Case("jittered-carts", "classic_control", S + "JitteredCarts"),
    Case("acts-on-its-own", "box2d", S + "ActsOnItsOwn"),
    Case("zero-observations", "box2d", S + "ZeroObservations"),
    Case("tape", "box2d", S + "Tape"),
    Case("one-lander-for-all", "box2d", S + "OneLanderForAll", believe="mostly passes"),
]


def honest(name: str, family: str, adapter: str = "", **more: object) -> Case:
    given = {"expect": "accepted", "believe": "accepted", **more}
    return Case(name, family, adapter, **given)  # type: ignore[arg-type]


HONEST = [
    *(honest("threads", f, H + "Threads") for f in ("atari", "mujoco")),
    *(honest("shuffled-order", f, H + "ShuffledOrder") for f in ("atari", "mujoco")),
    *(honest("same-step", f, H + "SameStep") for f in ("atari", "mujoco", "classic_control")),
    *(honest("float32", f, H + "Float32") for f in ("atari", "mujoco")),
    honest("float32", "dm_control", H + "Float32", believe="accused (tolerance 1e-6)"),
    honest("other-shape", "mujoco", H + "OtherShape", expect="≠"),
    honest("other-shape", "classic_control", H + "OtherShape", expect="≠"),
    honest("other-shape", "gym", H + "OtherShape", task="CartPole-v1", expect="≠"),
    *(honest("two-halves", f, H + "TwoHalves") for f in ("atari", "mujoco")),
    honest("threads", "gym", H + "Threads", task="CartPole-v1"),
    honest("threads", "gym", H + "Threads", task="Acrobot-v1"),
    *(honest("spare-environments", f, H + "SpareEnvironments") for f in ("atari", "mujoco")),
    *(honest("other-seeds", f, H + "OtherSeeds") for f in ("atari", "mujoco", "box2d")),
    *(honest("separate-chunks", f, H + "SeparateChunks") for f in ("atari", "mujoco")),
    honest("direct-ale", "atari", H + "DirectAle"),
    # In some games, the memory after a reset depends on a timer that starts at a random value.
    *(
        honest("same-step", "atari", H + "SameStep", task=task)
        for task in ("Boxing-v5", "Assault-v5", "Freeway-v5")
    ),
    *(
        honest("envpool-sync", "atari", base="envpool-sync", task=task)
        for task in ("Boxing-v5", "Assault-v5", "Freeway-v5", "Solaris-v5")
    ),
    # Other games: do their starts depend on the emulator's seed, which libraries derive otherwise?
    *(
        honest("other-seeds", "atari", H + "OtherSeeds", task=task, measure=False, believe="unsure")
        for task in ("Breakout-v5", "Pitfall-v5", "Skiing-v5", "Seaquest-v5")
    ),
    *(
        honest("envpool-sync", "atari", base="envpool-sync", task=task, believe="unsure")
        for task in ("Breakout-v5", "Pitfall-v5", "Skiing-v5", "Seaquest-v5", "MsPacman-v5")
    ),
    # Many environments and few steps: the worst of 50 environments decides.
    *(
        honest(
            name, "mujoco", base=name, numenv=numenv, verify=False, believe="doubt (nine of ten)"
        )
        for name, numenv in (("envpool-sync", 50), ("envpool-async", 12))
    ),
]


# ---------------------------------------------------------------- interpreters


def interpreter(family: str) -> str:
    """A virtual environment without pip that finds the cheats, and the packages that for-loop has
    for this family. Raises ``LookupError`` if that runtime is not made yet."""
    found = runtimes.find(backends.get("for-loop"), {}, family)
    if not found.ready:
        raise LookupError(f"skipped: no runtime for {family} (envbench setup for-loop)")
    own = Path(found.python) == Path(sys.executable)
    folder = WORK / "interpreters" / ("own" if own else family)
    python = folder / "bin" / "python"
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    lent = subprocess.run([found.python, "-I", "-c", code], capture_output=True, text=True).stdout
    lines = ["import sys; sys.dont_write_bytecode = True", str(HERE / "cheats"), lent.strip()]
    if not python.exists():
        subprocess.run([found.python, "-m", "venv", "--without-pip", str(folder)], check=True)
    asked = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True)
    Path(asked.stdout.strip(), "lent.pth").write_text("\n".join(lines) + "\n")
    return str(python)


# ---------------------------------------------------------------- the two steps


def registered(case: Case) -> str:
    """Make envbench know the case as a backend; return its name."""
    base = backends.get(case.base)
    if not case.adapter:
        return base.name
    own = msgspec.structs.replace(base, name=case.name, label=case.name, adapter=case.adapter)
    backends.BACKENDS.loaded = ({**backends.registry(), case.name: own}, [])  # type: ignore[misc]
    return case.name


def verified(case: Case, name: str, python: str) -> dict[str, object]:
    """One block of ``envbench verify``: the case and its reference."""
    tables = {case.family: Table(numenv=[4], rows=["for-loop"])}
    profile = Profile(name="here", title="Here", **tables)
    machine = Fingerprint(cpu="c", logical_cpus=2, physical_cores=2, usable_cpus=2, memory_gib=8)
    site = Site(profile=profile, fingerprint=machine, options=Options(results=WORK / "unused"))
    request = CellRequest(family=case.family, task=case.task or None, backends=[name], numenv=[4])
    experiment = VerifyExperiment(cells=request, audit_calls=GIVEN.audit)
    targets = experiment.choose(site).targets
    seed = GIVEN.seed if GIVEN.seed is not None else uuid.uuid4().int % 10**6
    plan = Plan(
        plan_id=uuid.uuid4().hex,
        experiment="verify",
        spec="s",
        cells=[each.cell for each in targets],
        design=experiment.design(targets, site),
        seed=seed,
        fingerprint="f",
        started_utc="2026-01-02T03-04-05Z",
        command=["envbench", "verify"],
        envbench_version="0",
    )
    arms = {arm_key("", each.cell): Arm(target=each, python=python) for each in targets}
    (cell,) = (each.cell for each in targets if each.cell.backend == name)
    began = time.monotonic()
    block = experiment.block(plan, cell)
    executed = LocalExecutor().run(block, arms, lambda _: None)
    took = time.monotonic() - began
    facts = {e.hash: e.facts for e in executed.shared if isinstance(e, FactsRecord)}
    record = BlockRecord(
        block_id="b",
        plan_id=plan.plan_id,
        started_utc="2026-01-02T03:04:05",
        seconds=took,
        trials=executed.trials,
    )
    found = verification_of(plan, record, facts)
    verdict = judge(found)
    return {
        "badge": verdict.badge,
        "refused": verdict.refused,
        "unequal": verdict.unequal,
        "audit": verdict.audit,
        "lock_step": verdict.lock_step,
        "differences": verdict.differences,
        "p_values": found.agreement.p_values if found.agreement else {},
        "stderr": found.failure.stderr_tail[-1500:] if found.failure else "",
        "seconds": round(took, 1),
    }


def measured(case: Case, name: str, python: str) -> dict[str, object]:
    """One measured trial, with the spot check of ``envbench run``, and its claimed rate."""
    backend = backends.get(name)
    family = families.get(case.family)
    task = case.task or family.default_task
    cell = make_cell("here", case.family, task, backend, case.numenv, {})
    target, reference = target_of(cell), reference_of(cell)
    steps = run_module.MOST_SPOT // cell.env_instances
    spot = min(run_module.SPOT_STEPS, max(20, steps))
    spot = spot if reference is not None else 0
    both_targets = [target, *([reference] if reference is not None else [])]
    arms = {arm_key("", each.cell): Arm(target=each, python=python) for each in both_targets}
    after = {} if backends.is_built_in(cell.backend) else {"short_calls": run_module.SHORT_CALLS_S}
    protocol = Protocol(warmup_min_s=2.0, warmup_max_s=4.0, measured_s=3.0, after=after)
    trial = Trial(cell=cell, seed=uuid.uuid4().int % 10**6, protocol=protocol, spot=spot)
    block = Block(trials=[trial], programme=Programme(mixed=[0.1], lead_in_s=[0.0]))
    began = time.monotonic()
    executed = LocalExecutor().run(block, arms, lambda _: None)
    took = round(time.monotonic() - began, 1)
    (record,) = executed.trials
    if record.failure is not None:
        return {"failure": record.failure.message, "seconds": took}
    fps = sum(record.measured.steps) * cell.frame_skip / (sum(record.measured.ns) / 1e9)
    short = in_short_calls(record)
    found: dict[str, object] = {"fps": fps, "spot": spot, "seconds": took, "short_calls": short}
    if record.agreement is None:
        return {**found, "checked": "none" if not spot else "evaded"}
    facts = {e.hash: e.facts for e in executed.shared if isinstance(e, FactsRecord)}
    work = facts.get(record.facts, {}).get("work") or {}
    same, text, refused = spot_check(cell, work, record.agreement)
    return {
        **found, "checked": f"{record.agreement.steps} steps", "same": same, "text": text,
        "refused": refused,
    }  # fmt: skip


_RATES: dict[tuple[str, str, int, str], float] = {}


def rate_of_base(case: Case, python: str) -> float | None:
    key = case.family, case.task, case.numenv, case.base
    if key not in _RATES:
        plain = Case(case.base, case.family, base=case.base, task=case.task, numenv=case.numenv)
        _RATES[key] = float(measured(plain, case.base, python).get("fps") or 0.0)  # type: ignore[arg-type]
    return _RATES[key] or None


def outcome(case: Case, verify: dict[str, object], measure: dict[str, object]) -> str:
    """In order: refused, unequal (≠), doubtful, undecided (–), failed, passed (✓)."""
    if verify.get("refused") or measure.get("refused"):
        return "REFUSED"
    if verify.get("unequal") or verify.get("badge") == "≠":
        return "unequal"
    slow = (measure.get("short_calls") or 1.0) < SLOWEST_SHORT_CALLS
    if measure.get("same") is False or slow:
        return "doubted"
    broken = "error" in verify or str(verify.get("audit", "")).startswith("failed")
    if broken or measure.get("failure"):
        return "failed"
    if verify.get("badge") == "–":
        return "undecided"
    return "passed" if verify.get("badge") == "✓" or measure.get("fps") else "nothing ran"


def right(case: Case, found: str) -> str:
    if found in ("failed", "nothing ran") or found.startswith("skipped"):
        return "?"
    if case.expect == "≠":
        return "ok" if found == "unequal" else "ACCUSED" if found == "REFUSED" else "not shown"
    if case.expect == "accepted":
        return "ok" if found == "passed" else "ACCUSED" if found in _ACCUSED else "not shown"
    return "ok" if found == "REFUSED" else "weak" if found != "passed" else "MISSED"


_ACCUSED = ("REFUSED", "unequal", "doubted")


def carry_out(case: Case) -> dict[str, object]:
    began = time.monotonic()
    row: dict[str, object] = {"key": case.key, "expect": case.expect, "believe": case.believe}
    verify: dict[str, object] = {}
    measure: dict[str, object] = {}
    try:
        python = interpreter(case.family)
        name = registered(case)
    except LookupError as why:
        return {**row, "outcome": str(why), "right": "?", "seconds": 0.0}
    if case.verify and not GIVEN.no_verify:
        try:
            verify = verified(case, name, python)
        except Exception:  # noqa: BLE001 - the next case still runs
            verify = {"error": traceback.format_exc()[-2000:]}
    if case.measure and not GIVEN.no_measure:
        try:
            base = rate_of_base(case, python)
            measure = measured(case, name, python)
            if base and measure.get("fps"):
                measure["times_base"] = round(float(measure["fps"]) / base, 2)  # type: ignore[arg-type]
        except Exception:  # noqa: BLE001
            measure = {"failure": traceback.format_exc()[-2000:]}
    found = outcome(case, verify, measure)
    return {
        **row, "outcome": found, "right": right(case, found), "verify": verify,
        "measure": measure, "seconds": round(time.monotonic() - began, 1),
    }  # fmt: skip


# ---------------------------------------------------------------- the table


def known() -> dict[str, dict[str, object]]:
    if not GIVEN.results.exists():
        return {}
    rows = [json.loads(line) for line in GIVEN.results.read_text(encoding="utf-8").splitlines()]
    return {row["key"]: row for row in rows}


def table(rows: list[dict[str, object]]) -> str:
    heads = ["name @ family", "expected", "believed", "outcome", "right", "×base", "s", "says"]
    lines = [heads]
    for row in rows:
        verify, measure = row.get("verify") or {}, row.get("measure") or {}
        says = " | ".join(
            str(each)
            for each in (
                f"{verify.get('badge', '')} {verify.get('lock_step', '')}".strip(),  # type: ignore[union-attr]
                str(verify.get("error", "")).strip().splitlines()[-1:] or "",  # type: ignore[union-attr]
                f"spot: {measure.get('text') or measure.get('checked')}"  # type: ignore[union-attr]
                if measure
                else "",
                str(measure.get("failure", "")).strip().splitlines()[-1:] or "",  # type: ignore[union-attr]
            )
            if each
        )
        lines.append(
            [str(row[name]) for name in ("key", "expect", "believe", "outcome", "right")]
            + [str(measure.get("times_base", "")), str(row["seconds"]), says[:150]]  # type: ignore[union-attr]
        )
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=False)).rstrip() for line in lines
    )


def main() -> int:
    wanted = set(filter(None, GIVEN.only.split(",")))
    cases = [
        each
        for each in [*CHEATS, *HONEST]
        if (not wanted or each.name in wanted or each.key in wanted)
        and GIVEN.family in ("", each.family)
        and GIVEN.kind in ("", "cheat" if each.expect == "found" else "honest")
    ]
    if GIVEN.list:
        for each in cases:
            print(f"{each.key:55} {each.expect:9} {each.believe:12} {each.adapter or each.base}")
        print(f"{len(cases)} cases")
        return 0
    rows = known()
    print(f"envbench of {Path(backends.__file__).parents[2]}", flush=True)
    with lock.acquire(wait=GIVEN.wait, on_wait=print):
        for number, case in enumerate(cases, 1):
            if case.key in rows and not GIVEN.fresh:
                continue
            print(f"[{number}/{len(cases)}] {case.key} …", flush=True)
            row = carry_out(case)
            rows[case.key] = row
            with GIVEN.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row, default=str) + "\n")
            print(f"    {row['outcome']} ({row['right']}) in {row['seconds']} s", flush=True)
    chosen = [rows[each.key] for each in cases if each.key in rows]
    print("\n" + table(chosen))
    missed = [row["key"] for row in chosen if row["right"] == "MISSED"]
    weak = [row["key"] for row in chosen if row["right"] == "weak"]
    accused = [row["key"] for row in chosen if row["right"] == "ACCUSED"]
    print(f"\n{len(missed)} cheats missed, {len(weak)} only doubted or unequal, "
          f"{len(accused)} honest variants accused, of {len(chosen)}")  # fmt: skip
    return 1 if missed or accused else 0


if __name__ == "__main__":
    WORK.mkdir(exist_ok=True)
    os.chdir(WORK)
    sys.exit(main())
