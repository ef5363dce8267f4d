"""Pure: what a backend reports of its steps, compared with the family's reference.

An adapter's ``facts()["work"]`` says what one step does, by the names that the family's file
explains. What it leaves out is reported as unknown. Every family may use ``autoreset`` (next-step,
same-step, none), ``observation_shape``, ``observation_dtype`` and ``returned_to`` (host, device).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from envbench import families
from envbench.model import Cell, Kind

Differences = dict[str, tuple[Any, Any]]  # name -> (reference's value, backend's value)


def differences(family: str, kind: Kind, work: Mapping[str, Any], *, task: str = "") -> Differences:
    """Return what differs from the family's reference.

    A value that the backend does not report is ``"unknown"``. ``task`` empty: the family's default.
    """
    own = families.of_record(family)
    reference = own.work.get(kind, {})
    if task and task != own.default_task:
        reference = {name: reference[name] for name in own.any_task if name in reference}
    found = {name: (wanted, work.get(name, "unknown")) for name, wanted in reference.items()}
    return {name: pair for name, pair in found.items() if _differ(*pair)}


def _differ(wanted: Any, own: Any) -> bool:
    if wanted is None:
        return bool(own == "unknown")
    if isinstance(wanted, float) and isinstance(own, int | float):
        return abs(wanted - own) >= 1e-9
    return bool(wanted != own) or isinstance(wanted, bool) != isinstance(own, bool)


def claims(cell: Cell, other: Differences, *, same_engine: bool) -> bool:
    """Does it claim the work of the reference: the same settings and the same engine?"""
    family = families.of_record(cell.env)
    known = bool(family.work.get(cell.kind))
    return known and same_engine and not other.keys() - {*family.reported}


def one_engine(works: Iterable[Mapping[str, Any]]) -> bool:
    """Do these reports name one engine and version? One that names none claims to use the
    reference's."""
    return len({str(each["engine"]) for each in works if each.get("engine")}) < 2
