"""``envbench check``: find out whether a change made environments slower. ``envbench baseline``:
store the records of a baseline for a check on another day. The exit codes are in docs/check.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import NoReturn

import click
from click.core import ParameterSource

from envbench.cli.check_verdicts import show, show_plan
from envbench.cli.conduct import conduct, warn_of_left_out
from envbench.cli.options import (
    AS_JSON,
    Option,
    checked_cells,
    grouped,
    measuring_options,
    option,
    refuse_together,
)
from envbench.cli.terminal import tell, tell_failure
from envbench.cli.value_types import FilePath, Number, Output, Whole
from envbench.decisions.slowdown import FEWEST_PAIRS
from envbench.engine.campaign import Campaign
from envbench.engine.carry_out import site_of
from envbench.engine.experiment import Options
from envbench.engine.request import CellRequest
from envbench.errors import CELL_FAILED, UsageError
from envbench.experiments.check import against as stored
from envbench.experiments.check.baseline import BaselineExperiment, refuse_existing
from envbench.experiments.check.baseline import save as save_records
from envbench.experiments.check.cells import MOST_PRECISE_PAIRS, PRECISE, Size
from envbench.experiments.check.sources import WORKING_TREE, Source, refuse_impossible, untracked
from envbench.experiments.check.stages import CheckExperiment
from envbench.experiments.pairs import DEFAULT_PAIRS
from envbench.machine import fingerprint, kept_to
from envbench.model import MOST_ROUNDS, Failure, Rule
from envbench.results.folder import load_files
from envbench.text import counted, printable


def _arm_options(arm: str, title: str) -> Option:
    """The three ways to choose an arm, as an argument with the arm's name: a ``Source``."""
    return grouped(
        arm,
        Source,
        option(
            f"--{arm} REQUIREMENT",
            f"{title}: install this, such as envpool==1.2.4 or a wheel. Repeatable.",
            also=f"{arm}_requirements",
            many=list,
        ),
        option(f"--{arm}-python PATH", f"{title}: use this interpreter and its packages."),
        option(
            f"--{arm}-ref REF",
            f"{title}: install this git project as it is at a branch, tag or commit.",
        ),
        prefix=f"{arm}_",
    )


RULE = grouped(
    "rule",
    Rule,
    option(
        "--margin SHARE", "Ignore a slowdown up to this share.", Number(0.0005, 0.5), default=0.01
    ),
    option(
        "--tolerance SHARE",
        "PASS rules out a slowdown of the usual pace by this share, and of all steps by four times "
        "this share.",
        Number(0.0005, 0.5),
        default=0.05,
    ),
    option(
        "--cost-tolerance SHARE",
        "Allow start-up, first step, resets and memory to grow by this share.",
        Number(0.01, 10),
        default=0.25,
    ),
    option(
        "--false-alarm SHARE",
        "Allow a false alarm with this probability per stage (one-sided). For costs, it is ten "
        "times as large, but at most 0.05.",
        Number(1e-6, 0.1),
        default=0.001,
    ),
)
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"  # the variable in which GitHub names its file
PAIRS = Whole(FEWEST_PAIRS, MOST_ROUNDS)
SIZE = grouped(
    "size",
    Size,
    option(
        "--pairs N",
        f"Pairs of fresh processes per cell and stage.  [default: {DEFAULT_PAIRS}, or by --budget]",
        PAIRS,
    ),
    option(
        "--budget SECONDS",
        "Fit the pairs into this time. A check with an alarm takes longer.",
        Number(10, 86400),
    ),
    option(
        "--precise",
        f"Use enough pairs to find a slowdown of {100 * PRECISE:.0f} %, but at most "
        f"{MOST_PRECISE_PAIRS} pairs.",
    ),
)


@click.command()
@_arm_options("baseline", "Baseline")
@_arm_options("candidate", "Candidate")
@checked_cells()
@RULE
@SIZE
@option(
    "--against FILE",
    "Compare with a file of `envbench baseline save` or `envbench run` from this machine. The "
    "verdict is only advice.",
    FilePath(dir_okay=False),
)
@option("--plan", "Show what would be measured and what it could find, and exit.", also="only_plan")
@option(
    "--summary FILE",
    "Append the verdicts to this file as Markdown.  [default: GitHub's step summary]",
    FilePath(),
    envvar=STEP_SUMMARY,
)
@measuring_options(runtimes=False)
@AS_JSON
def check(
    baseline: Source,
    candidate: Source,
    cells: CellRequest,
    rule: Rule,
    size: Size,
    options: Options,
    against: Path | None,
    only_plan: bool,
    summary: Path | None,
    as_json: bool,
) -> None:
    """Find out whether a change made environments slower.

    A baseline and a candidate step alternately, in pairs of fresh processes.

    \b
    envbench check --baseline envpool==1.2.4 --candidate envpool==1.2.5 --backend envpool-sync \\
        --env atari --numenv 8
    envbench check --baseline-python old/bin/python --candidate-python new/bin/python
    envbench check --baseline-ref main

    By default, both use the backend's own interpreter. With --baseline-ref alone, the candidate
    is the working tree (tracked files only). By default, compare the cells listed under `check` in
    the profile. If you give any of --env, --backend, --numenv and --task, the defaults of the
    others are those of `envbench run`. To resume a stopped check, run the same command again.

    Both arms get the same seed and actions, and the results of their steps are compared. If they
    differ, a note says so, but the verdict does not change. Exit codes: 0 PASS or IMPROVEMENT,
    1 REGRESSION or BROKEN (an arm failed), 4 INCONCLUSIVE.
    """
    if rule.tolerance <= rule.margin:
        raise click.UsageError("--tolerance has to be greater than --margin.")
    _refuse_combinations()
    summary = _writable(summary)
    experiment = CheckExperiment(
        cells=cells, baseline=baseline, candidate=candidate, rule=rule, size=size
    )
    shown = partial(show, as_json=as_json, summary=summary, against=against)
    if against is not None:
        _check_against(against, cells, rule, size, options, shown)
    sources = experiment.arm_sources
    for name, source in sources.items():
        refuse_impossible(name, source)
    if any(source.ref for source in sources.values()):
        tell(f"Comparing the project in {printable(str(Path.cwd()))}.")
    working = any(source.ref == WORKING_TREE for source in sources.values())
    records = f"{os.path.relpath(os.path.realpath(options.results))}/"  # not a part of the project
    if working and (left_out := [each for each in untracked() if not each.startswith(records)]):
        names = ", ".join(map(printable, left_out[:3])) + (", …" if len(left_out) > 3 else "")
        tell(f"Note: untracked files are not included: {names}. Add them with git add.")
    if only_plan:
        warn_of_left_out(options)
        with kept_to(options.cpus):
            chosen = experiment.choose(site_of(options, experiment))
        for note in chosen.notes:
            tell(note)
        show_plan(chosen.targets, size.of(chosen.targets, rule), sources, as_json=as_json)
        return
    conduct(experiment, options, lambda outcome: shown(outcome, outcome.findings))


def _check_against(
    path: Path,
    cells: CellRequest,
    rule: Rule,
    size: Size,
    options: Options,
    show_verdicts: Callable[..., int],
) -> NoReturn:
    """Measure the cells of a file anew, and compare."""
    loaded = cache(partial(load_files, [path], lambda _: None))
    with kept_to(options.cpus):
        here = fingerprint()
    then = stored.read(path, cells, here, tell, lambda cell: loaded().selection.refuses(cell))
    conduct(
        stored.anew(path, then, rule, size),
        options,
        lambda done: show_verdicts(done, [stored.verdict(done, each, rule) for each in then]),
    )


def _refuse_combinations() -> None:
    refuse_together("--pairs", "--budget", "--precise")
    refuse_together("--budget", "--precise")
    for arm in ("--baseline", "--candidate"):
        because = ": envbench installs nothing into an interpreter that you name"
        refuse_together(f"{arm}-python", arm, f"{arm}-ref", because=because)
        refuse_together("--against", arm, f"{arm}-python", f"{arm}-ref")
    because = ": the file's cells are measured with their settings"
    refuse_together("--against", "--set", because=because)
    because = ": a comparison with a file has one stage, of steps only"
    refuse_together("--against", "--cost-tolerance", because=because)
    because = ": a comparison with a file cannot predict how small a slowdown it finds"
    refuse_together("--against", "--plan", "--precise", because=because)


def _writable(summary: Path | None) -> Path | None:
    """The file, if it can be written. A wrong option is wrong usage. A wrong variable, which GitHub
    sets, gives a warning."""
    if summary is None or not (trouble := _why_not(summary)):
        return summary
    source = click.get_current_context().get_parameter_source("summary")
    if source is not ParameterSource.ENVIRONMENT:
        raise UsageError(f"--summary: {summary} cannot be written.", hint=trouble)
    tell(f"Warning: {STEP_SUMMARY}: {summary} cannot be written. {trouble}")
    return None


def _why_not(file: Path) -> str:
    """Why a file cannot be written; "" if it can."""
    folder = file.absolute().parent
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        file.stat()  # a name that is too long is an error of its own
    if os.path.isdir(file):
        return "It is a folder."
    if os.path.exists(file):
        return "" if os.access(file, os.W_OK) else "It is read-only."
    if not os.path.isdir(folder):
        return "Its folder has to exist already."
    return "" if os.access(folder, os.W_OK) else "Its folder is read-only."


@click.group()
def baseline() -> None:
    """Save a baseline for `envbench check --against FILE`.

    Use it if you cannot measure baseline and candidate in one run. Verdicts against it are only
    advice.
    """


@baseline.command(short_help="Measure cells, and save the raw records in a file.")
@option("--output FILE", "Write this file. It must not exist.", Output(), required=True)
@checked_cells()
@option("--pairs N", f"Pairs per cell.  [default: {DEFAULT_PAIRS}]", PAIRS)
@measuring_options(runtimes=False)
def save(cells: CellRequest, options: Options, output: Path, pairs: int | None) -> None:
    """Measure cells alternately with a reference kernel, and save the raw records in a file.

    The kernel is a fixed piece of work. The file is written when all cells are measured, without
    those that failed. To resume a stopped measurement, run the same command again.
    """
    refuse_existing(output, options.results)
    experiment = BaselineExperiment(cells=cells, pairs=pairs or DEFAULT_PAIRS)

    def saved(outcome: Campaign[dict[str, Failure]]) -> int:
        failed = outcome.findings
        for cell, failure in failed.items():
            tell_failure(f"{cell}: {failure.reason}: ", failure)
        if len(failed) == len(outcome.plan.cells):
            tell(f"Every cell failed, so {output} is not written.")
            return CELL_FAILED
        save_records(outcome, output)
        without = f" without {counted(len(failed), 'failed cell')}" if failed else ""
        tell(f"Saved in {output}{without}. Compare with it: envbench check --against {output}")
        return CELL_FAILED if failed else 0

    conduct(experiment, options, saved)
