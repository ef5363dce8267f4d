"""The overview: which rows are fastest, a single environment's FPS, and what to use. Pure.

A table covers the environments of one family and task, including those on accelerators, but not raw
physics and ceilings, which are other kinds. Refused rows have no figure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from envbench import backends, families
from envbench.decisions.ranking import near
from envbench.report.conclusion import (
    BASE,
    Conclusion,
    best_of_rows,
    conclude,
    leading,
)
from envbench.report.machine_results import MachineResults
from envbench.report.tables.footnotes import of_doubt, of_entry, of_other_session, quick
from envbench.report.tables.note import NOT_RANKED, ONE_SESSION, OPENING, TIES
from envbench.report.tables.table import TIE, Entry, Table, entries, grid
from envbench.results.measured_cells import Measured
from envbench.text import counted, listed, markdown, rounded

DIFFERENT_WORK = (
    "≠: different work from the reference: another engine, or settings that change the work."
)

_Place = tuple[str, str]  # row label, machine title


def _shown(every: Iterable[MachineResults]) -> list[MachineResults]:
    return [each for each in every if each.section in ("", "accelerators") and each.with_figures]


# ---------------------------------------------------------------- all machines


def _grouped(every: Iterable[MachineResults]) -> Iterable[list[MachineResults]]:
    """The results with figures by family and task: the machines of one table. The order of families
    is that of their registry."""
    groups: dict[tuple[str, str], list[MachineResults]] = defaultdict(list)
    for results in _shown(every):
        groups[results.env, results.task].append(results)
    order = [*families.names(), *(env for env, _ in groups)]
    return [groups[key] for key in sorted(groups, key=lambda key: order.index(key[0]))]


def highest(every: Iterable[MachineResults]) -> Iterator[Table]:
    """*Highest FPS*: a table per family and task, each machine's best in bold, or its ties marked.

    Different work, quick figures and those of another session are never bold.
    """
    groups = list(_grouped(every))
    ranked = any(results.fastest for group in groups for results in group)
    spans = any(
        found.span and not results.plain
        for group in groups
        for results in group
        for found in results.with_figures
    )
    note = (
        f"{OPENING}: steps per second × frame_skip. Each entry is the row's highest FPS, and the "
        "number of environments that reached it. A maximum is biased upward; expect less when "
        f"re-measured. {f'{ONE_SESSION} ' if spans else ''}{TIES if ranked else NOT_RANKED}"
    )
    for group in groups:
        known = {}
        for results in group:
            leaders = [each.label for each in results.fastest]
            for label, found in results.highest.items():
                leads = label in leaders and results.competes(found)
                bold = "**" if leads and len(leaders) == 1 else ""
                tie = TIE if leads and len(leaders) > 1 else ""
                text = f"{tie}{bold}{results.text(found)}{bold} at {found.numenv}"
                known[label, results.title] = _entry(found, text, *of_other_session(found, results))
        yield _table("Highest FPS", group, known, note)


def single(every: Iterable[MachineResults]) -> Iterator[Table]:
    """*Single environment*: the FPS of one environment, and its ratio to the Python loop's."""
    base = backends.row_label(BASE, {})
    note = (
        f"{OPENING} of one environment, including frame_skip. In brackets: the ratio to For-loop. "
        "≈: the difference is within noise."
    )
    for group in _grouped(every):
        known = {}
        for results in group:
            alone = {found.label: found for found in results.with_figures if found.numenv == 1}
            for label, found in alone.items():
                text = f"{results.text(found)}{_speed_up(found, alone.get(base), results)}"
                instances = found.cell.env_instances
                in_flight = f"{instances} environments are in flight for a batch of one."
                notes = [*([in_flight] if instances > 1 else []), *of_other_session(found, results)]
                known[label, results.title] = _entry(found, text, *notes)
        if known:
            yield _table("Single environment", group, known, note)


def _entry(found: Measured, text: str, *notes: str) -> Entry:
    """The entry, marked where the row is known to do different work."""
    notes = (*quick(found), *of_doubt(found), *notes)
    if found.badge != "≠" and backends.same_work(found.cell):
        return Entry(text=text, notes=notes, measured=found)
    return Entry(text=f"≠ {text}", notes=(DIFFERENT_WORK, *notes), measured=found)


def _speed_up(found: Measured, base: Measured | None, results: MachineResults) -> str:
    """Its ratio to the base; none of quick figures, none between sessions whose drift is unknown,
    and none relative to the kernel, which the figures are not. Cells that alternated tie as in
    their column."""
    if base is None or found is base or found.doubt or base.doubt or found.quick or base.quick:
        return ""
    relation = results.relations.between(found, base)
    one_session = found.plan_id == base.plan_id
    if relation is None or relation.kernel or (relation.interval is None and not one_session):
        return ""
    tied = relation.verdict == "~"
    if one_session and relation.interval and found.session.ratio(found.cell, base.cell):
        tied = base.cell.key in found.session.standings[found.cell.key].ties
    return f" ({TIE if tied else ''}{relation.ratio:.2f}×)"


def _table(
    name: str, group: Sequence[MachineResults], known: Mapping[_Place, Entry], note: str
) -> Table:
    family = families.of_record(group[0].env).title
    labels = dict.fromkeys(label for results in group for label in results.labels)
    present, with_figures = {label for label, _ in known}, {machine for _, machine in known}
    machines = list(dict.fromkeys(e.title for e in group if e.title in with_figures))
    return Table(
        heading=markdown(f"{name} - {family} {group[0].task}"),
        columns=[markdown(machine) for machine in machines],
        rows=grid({each: each for each in labels if each in present}, machines, known),
        note=note,
    )


# ---------------------------------------------------------------- one machine


def recommendation(every: Iterable[MachineResults]) -> Iterator[Table]:
    """Which row to use, and why: a table for each group with at least two that compete.

    Rows tie as in *Highest FPS*. Rows that did not alternate tie if the interval of their ratio
    contains 1. A maximum is biased upward, so footnotes say what was measured in one session only.
    """
    for results in _shown(every):
        found = conclude(results)
        if found is not None and len(found.able) > 1:
            yield _recommendation(found)


def _recommendation(found: Conclusion) -> Table:
    results, able, best, why = found.results, found.able, found.best, found.provisional
    alone = [
        each
        for each in able
        if backends.of_record(each.cell.backend).behaviour.steps_in != "processes"
    ]
    rows = [("highest FPS", best)]
    notes = [f"Provisional: {why}."] if why else []
    if found.enough != best.numenv:
        number = counted(found.enough, "environment")
        notes.append(f"{markdown(best.label)} shows no gain beyond noise above {number}.")
    sure = found.rows > 1 and not why
    notes += [_ties(found.ties, results, "the highest FPS")] if sure else []
    if alone:
        first, *others = leading(alone, results)
        rows.append(("highest FPS in one process", first))
        if first is not best and sure:
            notes.append(_ties(others, results, "the highest FPS in one process"))
    if efficient := [each for each in able if each.summary.frames_per_cpu_s is not None]:
        thrifty = max(efficient, key=_per_cpu_s)
        if as_many := _near(thrifty, efficient):
            rows_make = "This row makes" if len(as_many) == 1 else "These rows make"
            about = "about as many frames per CPU second (without interval)"
            notes.append(f"{rows_make} {about}: {listed(as_many)}.")
    if results.plain:
        notes.append("Rows are compared by figures that are adjusted for the time of measuring.")
    notes.append(
        f"The highest of {len(able)} figures is biased upward: measure the one you choose again."
    )
    leaders = results.leading_rows(able)
    chosen = [(name, _choice(each, results, sure=leaders == [each])) for name, each in rows]
    if efficient:  # frames per CPU second have no interval, so none is shown to be the best
        chosen.append(("most frames per CPU second", _choice(thrifty, results, sure=False)))
    return Table(
        heading=markdown(f"Recommendation{' (provisional)' if why else ''} - {results.heading}"),
        first="criterion",
        columns=["Use", "FPS", "Frames per CPU second", *(["Of ceiling"] if results.top else [])],
        rows=chosen,
        note=" ".join(notes),
    )


def _per_cpu_s(found: Measured) -> float:
    return found.summary.frames_per_cpu_s or 0.0


def _choice(found: Measured, results: MachineResults, *, sure: bool) -> list[Entry]:
    """``sure``: it is shown to be the fastest, and nothing ties with it."""
    cell, per_cpu_s = found.cell, found.summary.frames_per_cpu_s
    more = "" if cell.env_instances == cell.numenv else f" ({cell.env_instances} in flight)"
    once = [] if found.times > 1 else ["Measured in one session."]
    notes = (*once, *of_entry(found, results))
    texts = [results.text(found), "" if per_cpu_s is None else rounded(per_cpu_s)]
    if results.top:
        texts.append(results.share(found))
    bold = "**" if sure else ""
    name = Entry(text=f"{bold}{_named(found)}{bold}{more}", notes=notes, measured=found)
    return [name, *entries(texts, found)]


def _named(found: Measured) -> str:
    return f"{markdown(found.label)} at {found.numenv}"


def _ties(tied: Sequence[Measured], results: MachineResults, what: str) -> str:
    if not tied:
        return f"No other row is within noise of {what}."
    rows = "This row ties" if len(tied) == 1 else "These rows tie"
    texts = [_with_flags(each, results.text(each)) for each in tied]
    return f"{rows} with {what} (within noise): {listed(texts)}."


def _near(best: Measured, able: Sequence[Measured]) -> list[str]:
    others = best_of_rows(best, able, _per_cpu_s)
    close = [each for each in others if near(_per_cpu_s(each), _per_cpu_s(best))]
    return [_with_flags(each, rounded(_per_cpu_s(each))) for each in close]


def _with_flags(found: Measured, text: str) -> str:
    """``EnvPool (sync) at 12 (18,300 ±2 %; steal)``."""
    return f"{_named(found)} ({'; '.join([text, *found.summary.flags])})"
