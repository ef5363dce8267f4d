"""Which verification of a row a report shows, and whether it still describes the measured code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from helpers.record_factories import (
    LAPTOP,
    digest,
    make_cell,
    make_fact,
    make_verification,
    measured_plan,
)

from envbench.model import Audit, Failure, RuntimeFact, Verification
from envbench.results.measured_cells import Location, Verified
from envbench.results.selection import select
from envbench.results.verifications import newest_verifications

MEASURED = RuntimeFact(
    hash="measured", python="3.11", implementation="CPython", packages={"envpool": "1", "rich": "1"}
)
RUNTIMES = {
    each.hash: each
    for each in (
        MEASURED,
        RuntimeFact(
            hash="other-tests", python="3.11", implementation="CPython",
            packages={"envpool": "1", "rich": "2", "only-here": "1"},
        ),
        RuntimeFact(
            hash="other-envpool", python="3.11", implementation="CPython", packages={"envpool": "2"}
        ),
        RuntimeFact(
            hash="other-python", python="3.12", implementation="CPython", packages={"envpool": "1"}
        ),
    )
}  # fmt: skip


def finding(name: str, day: int, **given: Any) -> Verification:
    values = {"verification_id": name, "runtime": "measured", "worker": "worker", **given}
    return make_verification(started_utc=f"2025-11-{day}T10:00:00Z", **values)


def shown_of(
    *verifications: Verification, speeds: tuple[int, ...] = (1,), runtime: str = "measured"
) -> Verified:
    """What is shown of the only row, which was measured with the packages of ``MEASURED``."""
    plan = measured_plan({("subprocess", n): 100 for n in speeds}, run={"runtime": runtime})
    measured = select(plan).measured
    (found,) = newest_verifications(verifications, measured, RUNTIMES, {}).values()
    return found


def name_of(found: Verified) -> tuple[str, bool]:
    return found.verification.verification_id, found.stale


def test_a_verification_of_another_computer_is_not_shown() -> None:
    plan = measured_plan({("subprocess", 1): 100}, run={"runtime": "measured"})
    other = msgspec.structs.replace(LAPTOP, host="another")
    facts = [make_fact(other), *RUNTIMES.values()]
    for fingerprint, shown in ((LAPTOP, True), (other, False)):
        found = finding("found", 20, fingerprint=digest(fingerprint))
        assert bool(select([*plan, *facts, found]).verified) is shown


def test_the_newest_verification_of_the_measured_packages_is_shown() -> None:
    early, late = finding("early", 20), finding("late", 21)
    for given in ((early, late), (late, early)):
        assert name_of(shown_of(*given)) == ("late", False)


def test_a_later_verification_of_other_packages_does_not_replace_one_of_the_measured() -> None:
    own, other = finding("own", 20), finding("other", 21, runtime="other-envpool")
    for given in ((own, other), (other, own)):
        assert name_of(shown_of(*given)) == ("own", False)


def test_if_no_verification_has_the_measured_packages_the_newest_is_shown_as_stale() -> None:
    first, last = (
        finding("first", 20, runtime="other-envpool"),
        finding("last", 21, runtime="other-python"),
    )
    for given in ((first, last), (last, first)):
        assert name_of(shown_of(*given)) == ("last", True)


def test_a_failed_attempt_does_not_lift_a_refusal_of_the_same_packages() -> None:
    wrong = Audit(calls=20, steps=20, resets=0, frames=4.0)
    stalled = Failure(reason="stalled", message="no progress")
    refusal, attempt = finding("refusal", 20, audit=wrong), finding("attempt", 21, failure=stalled)
    assert name_of(shown_of(refusal, attempt)) == ("refusal", False)
    assert shown_of(refusal, attempt).verdict.refused
    assert name_of(shown_of(finding("good", 20), attempt)) == ("attempt", False)
    older = finding("older", 20, audit=wrong, runtime="other-envpool")
    assert name_of(shown_of(older, attempt)) == ("attempt", False)
    newer = finding("newer", 22, worker="another")
    assert name_of(shown_of(refusal, attempt, newer)) == ("newer", True)


def test_a_refusal_stays_until_the_packages_or_the_code_change() -> None:
    wrong = Audit(calls=20, steps=20, resets=0, frames=4.0)
    refusal, again = finding("refusal", 20, audit=wrong), finding("again", 21)
    assert name_of(shown_of(refusal, again)) == ("refusal", False)
    assert name_of(shown_of(again, refusal)) == ("refusal", False)
    other = finding("other", 20, audit=wrong, runtime="other-envpool")
    assert name_of(shown_of(other, again)) == ("again", False)


@pytest.mark.parametrize(
    ("runtime", "stale"),
    [
        ("measured", False),
        ("other-tests", False),  # packages of the controller, and one that only one runtime has
        ("other-envpool", True),
        ("other-python", True),
        ("unknown", True),
    ],
)
def test_only_another_python_or_version_of_a_measuring_package_makes_it_stale(
    runtime: str, stale: bool
) -> None:
    assert shown_of(finding("v", 20, runtime=runtime)).stale is stale


def test_a_measurement_that_failed_before_it_had_packages_makes_nothing_stale() -> None:
    assert not shown_of(finding("v", 20), runtime="").stale


def test_a_verification_by_another_worker_is_shown_and_stale() -> None:
    assert name_of(shown_of(finding("v", 20, worker="another"))) == ("v", True)
    assert name_of(shown_of(finding("v", 20), finding("w", 21, worker="another"))) == ("w", True)


def test_each_row_has_its_own_verification_with_the_place_of_its_record() -> None:
    places = {"b": Location("b", "laptop/x.jsonl", 7)}
    found = newest_verifications(
        [finding("a", 20), finding("b", 19, cell=make_cell("for-loop"))], [], RUNTIMES, places
    )
    rows = {
        row[3]: (each.verification.verification_id, each.location) for row, each in found.items()
    }
    assert rows == {"Subprocess": ("a", None), "For-loop": ("b", places["b"])}


def test_every_number_of_environments_of_a_row_shares_its_verification() -> None:
    assert name_of(shown_of(finding("v", 20), speeds=(1, 8))) == ("v", False)


def test_a_cell_that_never_started_makes_nothing_stale() -> None:
    failed = measured_plan({("subprocess", 1): 100}, run={"runtime": ""})
    measured = [
        replace(each, plan=msgspec.structs.replace(each.plan, code={}))
        for each in select(failed).measured
    ]
    (found,) = newest_verifications([finding("v", 20)], measured, RUNTIMES, {}).values()
    assert not found.stale


def test_a_refusal_by_an_older_verification_code_can_be_lifted() -> None:
    wrong = Audit(calls=20, steps=20, resets=0, frames=4.0)
    refusal = finding("refusal", 20, audit=wrong, verifier="1.0 a")
    assert name_of(shown_of(refusal, finding("same", 21, verifier="1.0 a"))) == ("refusal", False)
    assert name_of(shown_of(refusal, finding("newer", 21, verifier="1.1 b"))) == ("newer", False)
