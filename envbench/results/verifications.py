"""Which verification of each row a report shows, and whether it fits what was measured. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from envbench.model import RuntimeFact, Verification, arm_key
from envbench.results.measured_cells import Location, Measured, Row, Verified, row_of

# Packages of envbench's controller and its tests: their versions do not affect a measurement.
NOT_MEASURING = frozenset(
    "click filelock jinja2 markdown-it-py matplotlib msgspec packaging pandas pip platformdirs "  # noqa: SIM905
    "psutil rich setuptools tabulate tomli-w uv hypothesis import-linter mypy playwright pyarrow "
    "pytest pytest-timeout pytest-xdist ruff".split()
)


def newest_verifications(
    verifications: Iterable[Verification],
    shown: Iterable[Measured],
    runtimes: Mapping[str, RuntimeFact],
    locations: Mapping[str, Location],
) -> dict[Row, Verified]:
    """For each row the newest verification with the packages that were measured, else the newest.

    Newer code checks more, so its result replaces an older one, even if it could not verify the
    row. But a refusal stays if an attempt fails, or if the same packages and the same code of
    envbench pass later: chance must not decide.
    """
    measured: dict[Row, list[Measured]] = defaultdict(list)
    for each in shown:
        measured[row_of(each.cell)].append(each)
    found: dict[Row, Verified] = {}
    for verification in sorted(verifications, key=lambda each: each.started_utc):
        row = row_of(verification.cell)
        ran = verification.runtime
        stale = any(_other_packages(each.runtime, ran, runtimes) for each in measured[row])
        before = found.get(row)
        if before is not None and before.verdict.refused and before.stale == stale:
            old, new = before.verification, verification
            same_code = (old.worker, old.verifier) == (new.worker, new.verifier)
            same = same_code and not _other_packages(before.verification.runtime, ran, runtimes)
            if verification.failure or same:
                continue
        if not stale or before is None or before.stale:
            location = locations.get(verification.verification_id)
            found[row] = Verified(verification=verification, stale=stale, location=location)
    for row, verified in found.items():
        workers = {
            each.plan.code.get(f"{arm_key('', each.cell)}/measure", "")
            for each in measured[row]
            if each.runtime  # otherwise no worker of it could answer
        }
        if workers - {verified.verification.worker}:
            found[row] = replace(verified, stale=True)
    return found


def with_refusals(
    verified: Mapping[Row, Verified], measured: Iterable[Measured], credible: Iterable[Measured]
) -> dict[Row, Verified]:
    """The verifications, with the reason if a figure of the row is not ``credible``, although the
    row claims the reference's work. ``measured``: the same cells before that was judged."""
    reasons = {
        row_of(after.cell): after.summary.failure.message
        for before, after in zip(measured, credible, strict=True)
        if after.summary.failure is not None and before.summary.failure is None
    }
    return {row: replace(each, refuted=reasons.get(row, "")) for row, each in verified.items()}


def _other_packages(one: str, other: str, runtimes: Mapping[str, RuntimeFact]) -> bool:
    """Does another Python, or another version of a package that both have, make these runtimes?

    A trial that failed before its worker could answer has no runtime, and no figure."""
    here, there = runtimes.get(one), runtimes.get(other)
    if here is None or there is None:
        return bool(one) and one != other
    both = (here.packages.keys() & there.packages.keys()) - NOT_MEASURING
    differ = any(here.packages[name] != there.packages[name] for name in both)
    return here.python != there.python or differ
