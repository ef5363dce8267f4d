"""Which row to take on a machine, and why: a table for each machine, family and task. PURE.

Only rows that do the same work compete (``table.competes``). What cannot be told
from the highest (the interval of their ratio holds 1, or there is none) is a tie and not a loser.
The highest of many measurements is flattered by chance: a cell that was measured once only says
so, and one with flags tells them. Raw physics and ceilings are never recommended: they are no
environments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from envbench import backends
from envbench.report.escape import markdown
from envbench.report.tables.footnotes import of_entry
from envbench.report.tables.subjects import Subject
from envbench.report.tables.table import Entry, Table, competes
from envbench.results.shown import Measured, drift, within_noise
from envbench.text import listed

ONCE = "Measured once only."
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
    alone = [each for each in able if not backends.steps_in_processes(each.summary.cell.backend)]
    thrifty = [each for each in able if each.summary.frames_per_cpu_s is not None]
    rows = [("highest FPS", best)]
    notes = [*_scaling(best, able), *_ties(best, able)]
    if alone:
        single = max(alone, key=_fps)
        rows.append(("highest FPS in one process", single))
        notes += _ties(single, alone, "the highest in one process") if single is not best else []
    if thrifty:
        thriftiest = max(thrifty, key=_per_cpu_s)
        rows.append(("most frames a CPU second", thriftiest))
        notes += _as_thrifty(thriftiest, thrifty)
    return Table(
        heading=markdown(f"Recommendation - {subject.heading}"),
        first="what counts",
        columns=["Take", "FPS", "Frames a CPU second", *(["Of ceiling"] if _top(subject) else [])],
        rows=[(name, _entries(found, subject)) for name, found in rows],
        note=" ".join([*notes, *_bias(able)]),
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
        f"**{_named(found)}**{_in_flight(found)}",
        f"{_fps(found):.2f}",
        "" if thrift is None else f"{thrift:.0f}",
    ]
    if top := _top(subject):
        texts.append(f"{100 * _fps(found) / top:.0f} %")
    first = Entry(written=texts[0], notes=_caveats(found, subject), of=found)
    return [first, *(Entry(written=text, of=found) for text in texts[1:])]


def _caveats(found: Measured, subject: Subject) -> tuple[str, ...]:
    """What is to be known of a cell before one relies on it."""
    once = [] if found.times > 1 else [ONCE]
    return (*once, *of_entry(found, subject.profile))


def _named(found: Measured) -> str:
    return f"{markdown(found.label)} at {found.summary.cell.numenv}"


def _in_flight(found: Measured) -> str:
    cell = found.summary.cell
    return "" if cell.env_instances == cell.numenv else f" ({cell.env_instances} in flight)"


def _tied(found: Measured, best: Measured) -> bool:
    """Can it not be told from the best?"""
    tie = within_noise(best, found)
    return _fps(found) >= _near(found, best) * _fps(best) if tie is None else tie


def _scaling(best: Measured, able: Sequence[Measured]) -> list[str]:
    row = [each for each in able if each.label == best.label]
    enough = min((each for each in row if _tied(each, best)), key=_numenv)
    if enough.summary.cell.numenv == best.summary.cell.numenv:
        return []
    return [
        f"{markdown(best.label)} gains nothing that can be told from noise beyond "
        f"{enough.summary.cell.numenv} environment{'s' if _numenv(enough) > 1 else ''}."
    ]


def _numenv(found: Measured) -> int:
    return found.summary.cell.numenv


def _ties(best: Measured, able: Sequence[Measured], what: str = "the highest") -> list[str]:
    """The other rows' that are as good, at the number where each is best."""
    tied = [each for each in _others(best, able, _fps) if _tied(each, best)]
    if not tied:
        return [f"Nothing else is within the noise of {what}."]
    names = [_with(each, f"{_fps(each):.2f}") for each in sorted(tied, key=_fps, reverse=True)]
    return [f"Within the noise of {what}: {listed(names)}. That is a tie."]


def _as_thrifty(best: Measured, able: Sequence[Measured]) -> list[str]:
    """CPU seconds have no interval: what is near is told."""
    rows = _others(best, able, _per_cpu_s)
    near = [each for each in rows if _per_cpu_s(each) >= _near(each, best) * _per_cpu_s(best)]
    if not near:
        return []
    names = [
        _with(each, f"{_per_cpu_s(each):.0f}")
        for each in sorted(near, key=_per_cpu_s, reverse=True)
    ]
    told = listed(names)
    return [f"As many frames a CPU second, as far as can be told without an interval: {told}."]


def _with(found: Measured, figure: str) -> str:
    """``EnvPool (sync) at 12 (18283.56; steal)``: its figure, and its flags."""
    return f"{_named(found)} ({'; '.join([figure, *found.summary.flags])})"


def _others(
    best: Measured, able: Sequence[Measured], order: Callable[[Measured], float]
) -> list[Measured]:
    """Of each other row its best."""
    rows = {each.label: each for each in sorted(able, key=order)}
    return [each for label, each in rows.items() if label != best.label]


def _near(found: Measured, best: Measured) -> float:
    return NEAR / drift(found, best)


def _bias(able: Sequence[Measured]) -> list[str]:
    return [
        f"The highest of {len(able)} figures is flattered by chance: measure the one you choose "
        "again."
    ]
