"""Run ``envbench check`` on equal arms, and on arms with a slowdown planted in one of them.

    python tests/studies/check_live.py                 # everything; resumes if it was stopped
    python tests/studies/check_live.py --at-most 2 --results build/trial     # a short trial

Each check is the command itself with real workers. It steps MuJoCo's Ant with ``for-loop`` in two
interpreters, one of which is slower (``planted.py``). The cells of the laptop's profile are checked
in equal arms, as noise for ``check_traces.py`` to replay. Each finished check is a line of
``checks.jsonl`` beside the raw records of the checks. A check that has a line is not repeated. One
that was stopped resumes. At the end the table of docs/studies.md is computed from the raw records.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

import click
import msgspec
from document import fill, share
from planted import TASK, make_arm
from tabulate import tabulate

from envbench.decisions.slowdown import ALL_STEPS, STEPS
from envbench.experiments.check import verdicts
from envbench.experiments.pairs import trial_of
from envbench.model import BlockRecord, Plan
from envbench.results import store

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "studies" / "check-live"
ARMS = ROOT / "build" / "check-live"
CELL = ("--env", "gym", "--task", TASK, "--backend", "for-loop", "--numenv", "1")
VERDICTS = ("REGRESSION", "PASS", "IMPROVEMENT", "INCONCLUSIVE", "BROKEN")


@dataclass(frozen=True, kw_only=True)
class Study:
    """A number of checks of one kind. ``quantities``: what was made slower. The table shows the
    ratio of the first."""

    name: str
    title: str
    checks: int
    quantities: tuple[str, ...] = ()
    cells: tuple[str, ...] = CELL


STUDIES = (
    Study(name="same", title="nothing (A/A)", checks=60),
    Study(name="step", title="every step + 5 %", checks=30, quantities=(STEPS, ALL_STEPS)),
    Study(name="reset", title="every reset + 50 %", checks=5, quantities=("reset",)),
    Study(name="start", title="start-up + 50 %", checks=5, quantities=("start-up",)),
    Study(
        name="cells", title="nothing, six cells", checks=6, cells=("--machine", "laptop")
    ),  # noise for check_traces.py
)


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """A finished check. ``whole``: one call finished it, so ``seconds`` is its duration."""

    study: str
    seed: int
    seconds: float
    whole: bool
    exit_code: int
    file: str


# ---------------------------------------------------------------- running the checks


def make_all(results: Path, studies: Sequence[Study], at_most: int) -> None:
    results.mkdir(parents=True, exist_ok=True)
    todo = list(missing(results, studies, at_most))
    for number, (study, seed) in enumerate(todo, start=1):
        arms = make_arms(study, results)
        click.echo(f"[{number}/{len(todo)}] {study.title}, seed {seed} … ", nl=False)
        made = one_check(results, study, seed, arms)
        with (results / "checks.jsonl").open("ab") as file:
            file.write(msgspec.json.encode(made) + b"\n")
        click.echo(f"exit code {made.exit_code} after {made.seconds:.0f} s")


def missing(results: Path, studies: Sequence[Study], at_most: int) -> Iterator[tuple[Study, int]]:
    """The checks that are not on disk yet. No two checks share a seed."""
    done = {(made.study, made.seed) for made in all_made(results)}
    for study in studies:
        for seed in seeds(study)[:at_most]:
            if (study.name, seed) not in done:
                yield study, seed


def seeds(study: Study) -> range:
    first = 1000 * STUDIES.index(study)
    return range(first, first + study.checks)


def make_arms(study: Study, results: Path) -> tuple[str, ...]:
    """The options that name the two interpreters, relative to ``ARMS``."""
    if study.name == "cells":
        return ()
    make_arm(ARMS / "baseline")
    if study.name == "same":
        make_arm(ARMS / "same")
    elif study.name == "step":
        make_arm(ARMS / "step", step=0.05)
    elif study.name == "reset":
        make_arm(ARMS / "reset", reset=0.5)
    else:
        make_arm(ARMS / "start", start=round(0.5 * usual_start_s(results), 3))
    return ("--baseline-python", "baseline/bin/python", "--candidate-python",
            f"{study.name}/bin/python")  # fmt: skip


def usual_start_s(results: Path) -> float:
    """The median start-up of the baseline in all equal checks of that cell, in seconds."""
    times = [
        trial_of(pair, verdicts.BASELINE).times
        for made in all_made(results)
        if made.study == "same"
        for pair in read(results / made.file)[1]
    ]
    known = [each.import_ns + each.build_ns for each in times if each is not None]
    if not known:
        raise SystemExit(
            "The equal checks give the duration of a start-up. Run them first: --only same"
        )
    return median(known) / 1e9


def one_check(results: Path, study: Study, seed: int, arms: Sequence[str]) -> Made:
    """Call the command once. ``SystemExit`` if it does not finish."""
    ARMS.mkdir(parents=True, exist_ok=True)
    asked = ["check", *study.cells, *arms, "--seed", str(seed), "--wait", "--json"]
    before = set(store.files(results))
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-m", "envbench", *asked, "--results", os.path.relpath(results, ARMS)],
        cwd=ARMS,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            out, err = process.communicate()
        except KeyboardInterrupt:  # the command received the signal too
            process.communicate()
            raise SystemExit("Stopped. Run the same command again to resume.") from None
    if process.returncode not in (0, 1, 4) or not out.strip():
        raise SystemExit(f"exit code {process.returncode}:\n{err[-2000:]}")
    document = json.loads(out)
    path = next(path for path in store.files(results) if document["check"] in path.read_text())
    return Made(
        study=study.name,
        seed=seed,
        seconds=round(time.monotonic() - began, 1),
        whole=path not in before,
        exit_code=process.returncode,
        file=str(path.relative_to(results)),
    )


# ---------------------------------------------------------------- what is on disk


def all_made(results: Path) -> list[Made]:
    path = results / "checks.jsonl"
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [msgspec.json.decode(line, type=Made) for line in lines]


def read(path: Path) -> tuple[Plan, list[BlockRecord]]:
    """The plan and the pairs of a check, from its raw records."""
    records = [record for _, record in store.read(path).records]
    (plan,) = (record for record in records if isinstance(record, Plan))
    return plan, [record for record in records if isinstance(record, BlockRecord)]


# ---------------------------------------------------------------- the table


@dataclass(frozen=True, kw_only=True)
class Outcome:
    verdict: str
    slower: list[str]
    ratio: float  # of steps per second, or of the cost that was planted
    stages: int
    seconds: float | None  # None if it was stopped in between


def outcomes(results: Path, study: Study) -> list[Outcome]:
    found = []
    for made in all_made(results):
        if made.study != study.name or made.seed not in seeds(study):
            continue
        plan, pairs = read(results / made.file)
        for cell in plan.cells:
            verdict = verdicts.verdict(plan, pairs, cell)
            stages = verdict.stages
            found.append(
                Outcome(
                    verdict=verdict.verdict,
                    slower=verdict.slower,
                    ratio=stages[0][(*study.quantities, STEPS)[0]].ratio
                    if stages
                    else float("nan"),
                    stages=len(stages),
                    seconds=made.seconds if made.whole and len(plan.cells) == 1 else None,
                )
            )
    return found


def row(study: Study, found: Sequence[Outcome]) -> list[str]:
    meant = set(study.quantities)
    hits = sum(
        each.verdict == "REGRESSION" and (not meant or not meant.isdisjoint(each.slower))
        for each in found
    )
    others = sorted({name for each in found for name in each.slower} - meant)
    rest = [
        f"{count} {verdict}"
        for verdict in VERDICTS[1:]
        if (count := sum(each.verdict == verdict for each in found))
    ]
    return [
        study.title,
        str(len(found)),
        f"{hits}: {share(hits, len(found), 1)}",
        ", ".join(rest) or "-",
        f"{fmean(each.ratio for each in found):.3f}",
        ", ".join(others) or "-",
    ]


def table(results: Path) -> str:
    found = {study: outcomes(results, study) for study in STUDIES}
    heads = ["planted slowdown", "checks of one cell", "REGRESSION, exact 95 % bounds",
             "other verdicts", "candidate / baseline", "other slower quantities"]  # fmt: skip
    rows = [row(study, each) for study, each in found.items() if each]
    text = tabulate(rows, heads, tablefmt="github", disable_numparse=True)
    return f"{text}\n\n{durations([each for group in found.values() for each in group])}"


def durations(found: Sequence[Outcome]) -> str:
    def sentence(stages: int, what: str) -> str:
        known = [each.seconds for each in found if each.stages == stages and each.seconds]
        if not known:
            return f"{what}: none yet."
        return (
            f"{what} took a median of {median(known):.0f} s and at most {max(known):.0f} s  "
            f"({len(known)} calls of the whole command)."
        )

    first, second = "A check without an alarm", "A check with an alarm and a second stage"
    return f"{sentence(1, first)} {sentence(2, second)}"


@click.command()
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS)
@click.option("--at-most", default=1000, help="Run at most this many checks of each study.")
@click.option(
    "--only", help="Run only these studies, such as same,step. Names: same,step,reset,start,cells."
)
@click.option("--table", "only_table", is_flag=True, help="Run no check; only compute the table.")
def main(results: Path, at_most: int, only: str | None, only_table: bool) -> None:
    """Run the missing checks, and fill the table of docs/studies.md."""
    names = only.split(",") if only else [study.name for study in STUDIES]
    results = results.absolute()
    if not only_table:
        make_all(results, [study for study in STUDIES if study.name in names], at_most)
    text = table(results)
    click.echo(text)
    if results == RESULTS:
        fill("check-live", text)


if __name__ == "__main__":
    main()
