"""The overview: which rows are fastest, a single environment's FPS, and what to use. Pure.

A table covers the environments of one family and task, including those on accelerators, but not raw
physics and ceilings, which are other kinds. Refused rows have no figure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from envbench import backends
from envbench.decisions import fastest
from envbench.report.tables.footnotes import DRIFT, OPENING, of_entry
from envbench.report.tables.machine_results import MachineResults, family_title
from envbench.report.tables.table import Entry, Table, entries, grid
from envbench.results.measured_cells import Measured, drift, within_noise
from envbench.text import counted, listed, markdown, percent

BASE = "for-loop"  # speed-ups are relative to it
DIFFERENT_WORK = (
    "≠: different work from the reference: another engine, or settings that change the work."
)

_Place = tuple[str, str]  # row label, machine title
_Figure = Callable[[Measured], float]


def _shown(every: Iterable[MachineResults]) -> list[MachineResults]:
    return [each for each in every if each.section in ("", "accelerators") and each.with_figures]


def _fps(found: Measured) -> float:
    return found.fps or 0.0


# ---------------------------------------------------------------- all machines


def _grouped(every: Iterable[MachineResults]) -> Iterable[list[MachineResults]]:
    """The results with figures by family and task: the machines of one table."""
    groups: dict[tuple[str, str], list[MachineResults]] = defaultdict(list)
    for results in _shown(every):
        groups[results.env, results.task].append(results)
    return groups.values()


def highest(every: Iterable[MachineResults]) -> Iterator[Table]:
    """*Highest FPS*: a table per family and task, each machine's best in bold.

    Different work is never bold.
    """
    for group in _grouped(every):
        best: dict[_Place, Measured] = {}
        best_equal: dict[str, float] = defaultdict(float)
        for results in group:
            for label, row in results.rows.items():
                found = best[label, results.title] = max(row, key=_fps)
                if results.competes(found):
                    best_equal[results.title] = max(best_equal[results.title], _fps(found))
        known = {}
        for (label, machine), found in best.items():
            bold = "**" if found.fps == best_equal[machine] else ""
            known[label, machine] = _entry(found, f"{bold}{found.fps:.2f}{bold} at {found.numenv}")
        note = (
            f"{OPENING}: steps per second × frame_skip. Each entry is the row's highest FPS, and "
            "the number of environments that reached it. A maximum is biased upward; expect less "
            "when re-measured."
        )
        sessions = {(machine, found.plan_id) for (_, machine), found in best.items()}
        if len(sessions) > len({machine for machine, _ in sessions}):
            note += f" A machine's rows come from several sessions: {DRIFT}."
        yield _table("Highest FPS", group, known, note)


def single(every: Iterable[MachineResults]) -> Iterator[Table]:
    """*Single environment*: the FPS of one environment, and its ratio to the Python loop's."""
    base = backends.row_label(BASE, {})
    for group in _grouped(every):
        alone = {
            (found.label, results.title): found
            for results in group
            for found in results.with_figures
            if found.numenv == 1
        }
        known = {}
        for (label, machine), found in alone.items():
            text = f"{found.fps:.2f}{_speed_up(found, alone.get((base, machine)))}"
            instances = found.cell.env_instances
            in_flight = f"{instances} environments are in flight for a batch of one."
            known[label, machine] = _entry(found, text, *([in_flight] if instances > 1 else []))
        note = (
            f"{OPENING} of one environment, including frame_skip. In brackets: the ratio to "
            "For-loop. ≈: the difference is within noise."
        )
        if known:
            yield _table("Single environment", group, known, note)


def _entry(found: Measured, text: str, *notes: str) -> Entry:
    """The entry, marked where the row is known to do different work."""
    if found.badge != "≠" and backends.same_work(found.cell):
        return Entry(text=text, notes=notes, measured=found)
    return Entry(text=f"≠ {text}", notes=(DIFFERENT_WORK, *notes), measured=found)


def _speed_up(found: Measured, base: Measured | None) -> str:
    if base is None or found is base or not found.fps or not base.fps:
        return ""
    near = "≈ " if within_noise(found, base) else ""
    return f" ({near}{found.fps / base.fps:.2f}×)"


def _table(
    name: str, group: Sequence[MachineResults], known: Mapping[_Place, Entry], note: str
) -> Table:
    machines = list(dict.fromkeys(results.title for results in group))
    labels = dict.fromkeys(label for results in group for label in results.labels)
    present = {label for label, _ in known}
    return Table(
        heading=markdown(f"{name} - {family_title(group[0].env, group[0].task)}"),
        columns=[markdown(machine) for machine in machines],
        rows=grid({each: each for each in labels if each in present}, machines, known),
        note=note,
    )


# ---------------------------------------------------------------- one machine


def recommendation(every: Iterable[MachineResults]) -> Iterator[Table]:
    """Which row to use, and why: a table for each group with at least two that compete.

    A row ties if ``decisions.fastest`` cannot tell it from the best. A maximum is biased upward, so
    footnotes say what was measured only once.
    """
    for results in _shown(every):
        able = [each for each in results.with_figures if results.competes(each) and not each.quick]
        if len(able) > 1:
            yield _recommendation(results, able)


def _recommendation(results: MachineResults, able: Sequence[Measured]) -> Table:
    best = max(able, key=_fps)
    alone = [
        each
        for each in able
        if backends.of_record(each.cell.backend).behaviour.steps_in != "processes"
    ]
    rows = [("highest FPS", best)]
    notes = [*_scaling(best, able), _tied_rows(best, able, "the highest FPS")]
    if alone:
        rows.append(("highest FPS in one process", max(alone, key=_fps)))
        if rows[-1][1] is not best:
            notes.append(_tied_rows(rows[-1][1], alone, "the highest FPS in one process"))
    if efficient := [each for each in able if each.summary.frames_per_cpu_s is not None]:
        rows.append(("most frames per CPU second", max(efficient, key=_per_cpu_s)))
        if near := _ties(rows[-1][1], efficient, _per_cpu_s):
            rows_make = "This row makes" if len(near) == 1 else "These rows make"
            about = "about as many frames per CPU second (without interval)"
            notes.append(f"{rows_make} {about}: {listed(near)}.")
    notes.append(
        f"The highest of {len(able)} figures is biased upward: measure the one you choose again."
    )
    return Table(
        heading=markdown(f"Recommendation - {results.heading}"),
        first="criterion",
        columns=["Use", "FPS", "Frames per CPU second", *(["Of ceiling"] if results.top else [])],
        rows=[(name, _choice(found, results)) for name, found in rows],
        note=" ".join(notes),
    )


def _per_cpu_s(found: Measured) -> float:
    return found.summary.frames_per_cpu_s or 0.0


def _choice(found: Measured, results: MachineResults) -> list[Entry]:
    cell, per_cpu_s = found.cell, found.summary.frames_per_cpu_s
    more = "" if cell.env_instances == cell.numenv else f" ({cell.env_instances} in flight)"
    once = [] if found.times > 1 else ["Measured only once."]
    notes = (*once, *of_entry(found, results))
    texts = [f"{_fps(found):.2f}", "" if per_cpu_s is None else f"{per_cpu_s:.0f}"]
    if top := results.top:
        texts.append(percent(_fps(found) / top))
    name = Entry(text=f"**{_named(found)}**{more}", notes=notes, measured=found)
    return [name, *entries(texts, found)]


def _named(found: Measured) -> str:
    return f"{markdown(found.label)} at {found.numenv}"


def _scaling(best: Measured, able: Sequence[Measured]) -> list[str]:
    row = [each for each in able if each.label == best.label]
    enough = min(each.numenv for each in row if _is_tied(each, best))
    if enough == best.numenv:
        return []
    return [
        f"{markdown(best.label)} shows no gain beyond noise above {counted(enough, 'environment')}."
    ]


def _tied_rows(best: Measured, able: Sequence[Measured], what: str) -> str:
    tied = _ties(best, able, _fps)
    if not tied:
        return f"No other row is within noise of {what}."
    rows = "This row ties" if len(tied) == 1 else "These rows tie"
    return f"{rows} with {what} (within noise): {listed(tied)}."


def _ties(best: Measured, able: Sequence[Measured], figure: _Figure) -> list[str]:
    """The other rows that are as good, from the highest, each at its best numenv."""
    rows = {each.label: each for each in sorted(able, key=figure) if each.label != best.label}
    tied = [each for each in rows.values() if _is_tied(each, best, figure)]
    return [_with_flags(each, figure) for each in sorted(tied, key=figure, reverse=True)]


def _with_flags(found: Measured, figure: _Figure) -> str:
    """``EnvPool (sync) at 12 (18283.56; steal)``."""
    text = f"{figure(found):.{2 if figure is _fps else 0}f}"
    return f"{_named(found)} ({'; '.join([text, *found.summary.flags])})"


def _is_tied(found: Measured, best: Measured, figure: _Figure = _fps) -> bool:
    """Whether it cannot be distinguished from the best. Only FPS have an interval."""
    tie = within_noise(best, found) if figure is _fps else None
    return fastest.near(figure(found), figure(best), drift(found, best)) if tie is None else tie
