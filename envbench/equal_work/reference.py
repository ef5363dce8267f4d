"""Compare what one step of a backend does with the reference of its family. Pure.

An adapter's ``facts()["work"]`` says what it does, by the names that the family's file explains.
What it leaves out is reported as unknown. Every family may use ``autoreset`` (next-step,
same-step, none), ``observation_shape``, ``observation_dtype`` and ``returned_to`` (host, device).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envbench import families
from envbench.model import Kind


def differences(
    family: str, kind: Kind, work: Mapping[str, Any], *, task: str = ""
) -> dict[str, tuple[Any, Any]]:
    """What differs from the family's reference: name -> (reference's value, backend's value).

    A value that the backend does not report is ``"unknown"``. ``task`` empty: the family's default.
    """
    own = families.of_record(family)
    reference = own.work.get(kind, {})
    if task and task != own.default_task:
        reference = {name: reference[name] for name in own.any_task if name in reference}
    found = {name: (wanted, work.get(name, "unknown")) for name, wanted in reference.items()}
    return {
        name: pair
        for name, pair in found.items()
        if (pair[0] is None and pair[1] == "unknown") or (pair[0] is not None and not _same(*pair))
    }


def other_work(family: str, kind: Kind, work: Mapping[str, Any], *, task: str = "") -> set[str]:
    """The names whose values say that the backend's step computes something else."""
    apart = differences(family, kind, work, task=task)
    return {name for name, (_, own) in apart.items() if own != "unknown"} - {
        *families.of_record(family).reported
    }


def _same(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, float) and isinstance(found, int | float):
        return abs(wanted - found) < 1e-9
    return bool(wanted == found) and isinstance(wanted, bool) == isinstance(found, bool)
