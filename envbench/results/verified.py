"""Which result of ``envbench verify`` a report shows for each row. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from envbench import backends
from envbench.equal_work.judge import Verdict, judge
from envbench.model import Cell, RuntimeFact, Verification, arm_key
from envbench.results.join import Location
from envbench.results.shown import Measured

Row = tuple[str, str, str, str]  # machine, family, task, label

# Packages of envbench's controller and its tests: their versions do not affect a measurement.
NOT_MEASURING = frozenset(
    "click filelock jinja2 markdown-it-py matplotlib msgspec pandas pip platformdirs psutil rich "  # noqa: SIM905
    "setuptools tabulate uv hypothesis mypy playwright pyarrow pytest pytest-timeout pytest-xdist "
    "ruff".split()
)


@dataclass(frozen=True, kw_only=True)
class Verified:
    """A row's verification. ``stale``: other packages or another worker measured the row."""

    verification: Verification
    stale: bool = False
    location: Location | None = None

    @cached_property
    def verdict(self) -> Verdict:
        return judge(self.verification)


def newest(
    verifications: Iterable[Verification],
    shown: Iterable[Measured],
    runtimes: Mapping[str, RuntimeFact],
    locations: Mapping[str, Location],
) -> dict[Row, Verified]:
    """For each row the newest verification of the measured packages, else the newest of all.

    A later worker checks more, so its result replaces an earlier one, even where it could not
    verify the row.
    """
    measured: dict[Row, list[Measured]] = defaultdict(list)
    for each in shown:
        measured[row_of(each.cell)].append(each)
    found: dict[Row, Verified] = {}
    for verification in sorted(verifications, key=lambda each: each.started_utc):
        row = row_of(verification.cell)
        stale = any(_other_packages(each, verification, runtimes) for each in measured[row])
        if not stale or row not in found or found[row].stale:
            location = locations.get(verification.verification_id)
            found[row] = Verified(verification=verification, stale=stale, location=location)
    for row, verified in found.items():
        workers = {
            each.plan.code.get(f"{arm_key('', each.cell)}/measure", "") for each in measured[row]
        }
        if workers - {verified.verification.worker}:
            found[row] = replace(verified, stale=True)
    return found


def _other_packages(
    found: Measured, verification: Verification, runtimes: Mapping[str, RuntimeFact]
) -> bool:
    """Whether another Python, or another version of a package that both have, measured it."""
    here, there = runtimes.get(found.runtime), runtimes.get(verification.runtime)
    if here is None or there is None:
        return found.runtime != verification.runtime
    both = (here.packages.keys() & there.packages.keys()) - NOT_MEASURING
    other = any(here.packages[name] != there.packages[name] for name in both)
    return here.python != there.python or other


def row_of(cell: Cell) -> Row:
    """The table row of a cell, for any numenv."""
    return cell.machine, cell.env, cell.task, backends.row_label(cell.backend, cell.variant)
