"""Which finding of ``envbench verify`` a report tells of each row. PURE."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from envbench import backends
from envbench.model import Cell, RuntimeFact, Verification, arm_key
from envbench.results.shown import Measured

Row = tuple[str, str, str, str]  # machine, family, task, label


# What only envbench's controller loads, or its tests: another version of it measures the same.
NOT_MEASURING = frozenset(
    {
        "click",
        "filelock",
        "jinja2",
        "markdown-it-py",
        "matplotlib",
        "msgspec",
        "pandas",
        "pip",
        "platformdirs",
        "psutil",
        "rich",
        "setuptools",
        "tabulate",
        "tomli-w",
        "uv",
        "hypothesis",
        "mypy",
        "playwright",
        "pyarrow",
        "pytest",
        "pytest-timeout",
        "pytest-xdist",
        "ruff",
    }
)


def newest(
    findings: Iterable[Verification],
    shown: Iterable[Measured],
    runtimes: Mapping[str, RuntimeFact],
) -> tuple[dict[Row, Verification], set[Row]]:
    """About each row's work the newest finding about just the packages that were measured, else the
    newest of all, be it that it could not be verified; and the rows where it is about others, or
    made by another worker than measured.

    A later worker asks more: what it found takes the place of what an earlier one did.
    """
    measured: dict[Row, list[Measured]] = defaultdict(list)
    for each in shown:
        measured[row_of(each.summary.cell)].append(each)
    verified: dict[Row, Verification] = {}
    elsewhere: set[Row] = set()
    for found in sorted(findings, key=lambda found: found.started_utc):
        row = row_of(found.cell)
        others = any(_of_others(each, found, runtimes) for each in measured[row])
        if others and row in verified and row not in elsewhere:
            continue
        verified[row] = found
        elsewhere = elsewhere | {row} if others else elsewhere - {row}
    by_another = {
        row
        for row, found in verified.items()
        if any(_worker(each) != found.worker for each in measured[row])
    }
    return verified, elsewhere | by_another


def _worker(found: Measured) -> str:
    """The hash of the code that measured it."""
    return found.plan.code.get(f"{arm_key('', found.summary.cell)}/measure", "")


def _of_others(
    found: Measured, verified: Verification, runtimes: Mapping[str, RuntimeFact]
) -> bool:
    """Was it measured by another Python or version of a package than it was verified with?

    A package that only one of the two runtimes has does not count, nor one that nobody measures
    with.
    """
    here, there = runtimes.get(found.runtime), runtimes.get(verified.runtime)
    if here is None or there is None:
        return found.runtime != verified.runtime
    both = (here.packages.keys() & there.packages.keys()) - NOT_MEASURING
    other = any(here.packages[name] != there.packages[name] for name in both)
    return here.python != there.python or other


def row_of(cell: Cell) -> Row:
    """Where a cell stands, whatever its numenv."""
    return cell.machine, cell.env, cell.task, backends.row_label(cell.backend, cell.variant)
