"""Which row to take on a machine, and why: a table for each machine, family and task. PURE.

Only rows that do the same work compete (``envbench.report.table.competes``). What cannot be told
from the highest (the interval of their ratio holds 1, or there is none) is a tie and not a loser.
The highest of many measurements is flattered by chance; where each was measured once only, that is
said. Raw physics and ceilings are never recommended: they are no environments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from envbench import backends
from envbench.report.escape import markdown
from envbench.report.selection import Measured
from envbench.report.subjects import Subject
from envbench.report.table import Entry, Table, competes
from envbench.report.ties import within_noise

NEAR = 0.95  # of the highest, where there is no interval to judge by


def tables(subjects: Iterable[Subject]) -> list[Table]:
    """One a subject in which two measurements or more compete."""
    found = (subject for subject in subjects if subject.section in ("", "accelerators"))
    return [made for subject in found if (made := _table(subject)) is not None]


def _table(subject: Subject) -> Table | None:
    able = [
        each
        for each in subject.measured
        if each.summary.fps is not None and competes(each, subject) and not _quick(each)
    ]
    if len(able) < 2:
        return None
    best = max(able, key=_fps)
    alone = [each for each in able if not backends.many_processes(each.summary.cell.backend)]
    thrifty = [each for each in able if each.summary.frames_per_cpu_s is not None]
    rows = [("highest FPS", best)]
    if alone:
        rows.append(("highest FPS in one process", max(alone, key=_fps)))
    if thrifty:
        rows.append(("most frames a CPU second", max(thrifty, key=_per_cpu_s)))
    return Table(
        heading=markdown(f"Recommendation - {subject.heading}"),
        columns=["Take", "FPS", "Frames a CPU second", *(["Of ceiling"] if _top(subject) else [])],
        rows=[(name, _entries(found, subject)) for name, found in rows],
        note=" ".join([*_scaling(best, able), *_ties(best, able), *_bias(able)]),
    )


def _quick(found: Measured) -> bool:
    return found.quick


def _fps(found: Measured) -> float:
    return found.summary.fps or 0.0


def _per_cpu_s(found: Measured) -> float:
    return found.summary.frames_per_cpu_s or 0.0


def _top(subject: Subject) -> float | None:
    return subject.ceiling.summary.fps if subject.ceiling else None


def _entries(found: Measured, subject: Subject) -> list[Entry]:
    thrift = found.summary.frames_per_cpu_s
    texts = [
        f"**{_named(found)}**",
        f"{_fps(found):.2f}",
        "" if thrift is None else f"{thrift:.0f}",
    ]
    if top := _top(subject):
        texts.append(f"{100 * _fps(found) / top:.0f} %")
    return [Entry(written=text) for text in texts]


def _named(found: Measured) -> str:
    return f"{markdown(found.label)} at {found.summary.cell.numenv}"


def _tied(found: Measured, best: Measured) -> bool:
    """Can it not be told from the best?"""
    tie = within_noise(best, found)
    return _fps(found) >= NEAR * _fps(best) if tie is None else tie


def _scaling(best: Measured, able: Sequence[Measured]) -> list[str]:
    row = [each for each in able if each.label == best.label]
    enough = min((each for each in row if _tied(each, best)), key=_numenv)
    if enough.summary.cell.numenv == best.summary.cell.numenv:
        return []
    return [
        f"{markdown(best.label)} gains nothing that can be told from noise beyond "
        f"{enough.summary.cell.numenv} environments."
    ]


def _numenv(found: Measured) -> int:
    return found.summary.cell.numenv


def _ties(best: Measured, able: Sequence[Measured]) -> list[str]:
    """The other rows' that are as good, at the number where each is best."""
    order: Callable[[Measured], float] = _fps
    rows = {each.label: each for each in sorted(able, key=order)}
    tied = [each for label, each in rows.items() if label != best.label and _tied(each, best)]
    if not tied:
        return ["Nothing else is within the noise of it."]
    listed = " and ".join(_named(each) for each in tied)
    return [f"Within the noise of the highest: {listed}. That is a tie."]


def _bias(able: Sequence[Measured]) -> list[str]:
    if all(each.times > 1 for each in able):
        return []
    return [
        f"The highest of {len(able)} figures is flattered by chance, and not all of them were "
        "measured more than once: measure the one you choose again."
    ]
