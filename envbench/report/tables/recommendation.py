"""Which row to use on a machine, and why: a table for each machine, family and task. Pure.

Only rows that do the same work compete (``table.competes``), and never raw physics or ceilings. A
row that cannot be distinguished from the best (the interval of their ratio contains 1, or there is
no interval) is a tie. A maximum is biased upward, so the table shows which cells were measured only
once, and their flags.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from envbench import backends
from envbench.report.escape import markdown
from envbench.report.tables.footnotes import of_entry
from envbench.report.tables.machine_results import MachineResults
from envbench.report.tables.table import Entry, Table, competes, entries
from envbench.results.shown import Measured, drift, within_noise
from envbench.text import counted, listed

ONCE = "Measured only once."
NEAR = 0.95  # of the best is a tie where there is no interval


def tables(every: Iterable[MachineResults]) -> list[Table]:
    """A table for each group of results in which at least two measurements compete."""
    found = (results for results in every if results.section in ("", "accelerators"))
    return [made for results in found if (made := _table(results)) is not None]


def _table(results: MachineResults) -> Table | None:
    able = [each for each in results.with_figures if competes(each, results) and not each.quick]
    if len(able) < 2:
        return None
    best = max(able, key=_fps)
    alone = [each for each in able if not backends.steps_in_processes(each.cell.backend)]
    efficient = [each for each in able if each.summary.frames_per_cpu_s is not None]
    rows = [("highest FPS", best)]
    notes = [*_scaling(best, able), *_tied_rows(best, able, "the highest FPS")]
    if alone:
        single = max(alone, key=_fps)
        rows.append(("highest FPS in one process", single))
        if single is not best:
            notes += _tied_rows(single, alone, "the highest FPS in one process")
    if efficient:
        most = max(efficient, key=_per_cpu_s)
        rows.append(("most frames per CPU second", most))
        notes += _as_efficient(most, efficient)
    share = ["Of ceiling"] if _ceiling_fps(results) else []
    notes.append(
        f"The highest of {len(able)} figures is biased upward: measure the one you choose again."
    )
    return Table(
        heading=markdown(f"Recommendation - {results.heading}"),
        first="criterion",
        columns=["Use", "FPS", "Frames per CPU second", *share],
        rows=[(name, _entries(found, results)) for name, found in rows],
        note=" ".join(notes),
    )


def _fps(found: Measured) -> float:
    return found.fps or 0.0


def _per_cpu_s(found: Measured) -> float:
    return found.summary.frames_per_cpu_s or 0.0


def _ceiling_fps(results: MachineResults) -> float | None:
    return results.ceiling.fps if results.ceiling else None


def _entries(found: Measured, results: MachineResults) -> list[Entry]:
    cell, per_cpu_s = found.cell, found.summary.frames_per_cpu_s
    more = "" if cell.env_instances == cell.numenv else f" ({cell.env_instances} in flight)"
    once = [] if found.times > 1 else [ONCE]
    notes = (*once, *of_entry(found, results.profile))
    texts = [f"{_fps(found):.2f}", "" if per_cpu_s is None else f"{per_cpu_s:.0f}"]
    if top := _ceiling_fps(results):
        texts.append(f"{100 * _fps(found) / top:.0f} %")
    name = Entry(text=f"**{_named(found)}**{more}", notes=notes, measured=found)
    return [name, *entries(texts, found)]


def _named(found: Measured) -> str:
    return f"{markdown(found.label)} at {found.numenv}"


def _is_tied(found: Measured, best: Measured) -> bool:
    """Whether it cannot be distinguished from the best."""
    tie = within_noise(best, found)
    return _fps(found) >= _near(found, best) * _fps(best) if tie is None else tie


def _scaling(best: Measured, able: Sequence[Measured]) -> list[str]:
    row = [each for each in able if each.label == best.label]
    enough = min(each.numenv for each in row if _is_tied(each, best))
    if enough == best.numenv:
        return []
    return [
        f"{markdown(best.label)} shows no gain beyond noise above {counted(enough, 'environment')}."
    ]


def _tied_rows(best: Measured, able: Sequence[Measured], what: str) -> list[str]:
    """The other rows that are as fast, each at its best number of environments."""
    tied = [each for each in _other_rows(best, able, _fps) if _is_tied(each, best)]
    if not tied:
        return [f"No other row is within noise of {what}."]
    names = [_with(each, f"{_fps(each):.2f}") for each in sorted(tied, key=_fps, reverse=True)]
    return [f"Within noise of {what}, so a tie: {listed(names)}."]


def _as_efficient(best: Measured, able: Sequence[Measured]) -> list[str]:
    """The other rows with about as many frames per CPU second, which has no interval."""
    rows = _other_rows(best, able, _per_cpu_s)
    near = [each for each in rows if _per_cpu_s(each) >= _near(each, best) * _per_cpu_s(best)]
    if not near:
        return []
    near.sort(key=_per_cpu_s, reverse=True)
    names = [_with(each, f"{_per_cpu_s(each):.0f}") for each in near]
    return [f"About as many frames per CPU second (no interval is known): {listed(names)}."]


def _with(found: Measured, figure: str) -> str:
    """``EnvPool (sync) at 12 (18283.56; steal)``: its figure and its flags."""
    return f"{_named(found)} ({'; '.join([figure, *found.summary.flags])})"


def _other_rows(
    best: Measured, able: Sequence[Measured], order: Callable[[Measured], float]
) -> list[Measured]:
    """The best measurement of each other row."""
    rows = {each.label: each for each in sorted(able, key=order)}
    return [each for label, each in rows.items() if label != best.label]


def _near(found: Measured, best: Measured) -> float:
    return NEAR / drift(found, best)
