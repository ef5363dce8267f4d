"""The note under a table: what all its figures are. Pure.

Each text here is one line of Markdown and safe to print: text from records is escaped. What is to
be known about a few entries is in footnotes (``footnotes.py``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from envbench import backends, families
from envbench.model import Published
from envbench.report.machine_results import MachineResults
from envbench.report.tables.footnotes import BADGES, FLAGS, SAME_EPISODES, hardware
from envbench.results.measured_cells import Measured
from envbench.text import counted, listed, markdown, percent

# How the note begins: a later report recognises its own note by it.
OPENING = "FPS is frames per second"
OTHERS = "The other figures are the document's own."  # in the note
UNSTOPPED_SHARE = 0.03  # a smaller difference between slices and stepping without stops is not said
MOST_REACH = 1.0  # a bound of more than 100 % says nothing
DAY_S = 24 * 3600.0
DEGREES_FOR_REACH = 2  # one gives a bound of up to thousands of per cent
TIES = (
    "Bold: shown to be the fastest of the rows that do the same work. "
    "≈: not shown to differ from the highest of these."
)
_OF_ENTRIES = ("one-go", "few-runs")  # flags that say something about the ± of an entry
COMPARES = "± is a 95 % interval that compares rows of one session"
ONE_SESSION = f"{COMPARES}, not hours or days."
UNKNOWN_DAY = "how much another day differs is not known."
ADJUSTED = "Figures are adjusted: the cells alternated in short slices."
PLAIN = "The ranks come from figures that are adjusted to the same time; these are not adjusted."
NO_CEILING = "No ceiling was measured (`--backend ceiling` measures it)."
NOT_RANKED = "No row is ranked: that needs several cells that alternated in one session."


def of_table(results: MachineResults, *, others: bool = False) -> str:
    """The note of a table; "" without measured figures.

    ``others``: the table also contains figures that the document's author wrote.
    """
    measured = results.with_figures
    if not measured:
        return ""
    sentences = [
        _opening((found.cell.frame_skip for found in measured), [results.task]),
        *_about_rows(measured),
        *(_ties(results) if results.plain else _intervals(results)),
        *_ceiling(results),
        *_without_stops(results),
        *_equal_work(results),
        _machines(measured),
        *([OTHERS] if others else []),
    ]
    return " ".join(sentences)


def of_published(figures: Sequence[Published], sources: Iterable[str]) -> str:
    """The note of a table of published figures."""
    return (
        f"{_opening((each.frame_skip for each in figures), (each.task for each in figures))} "
        f"Published, not measured by envbench: {'; '.join(map(markdown, sources))}."
    )


def _opening(frame_skips: Iterable[float], tasks: Iterable[str]) -> str:
    skips = ", ".join(f"{skip:g}" for skip in sorted(set(map(float, frame_skips))))
    of = listed([markdown(each) for each in sorted(set(tasks))])
    return f"{OPENING}: steps per second of {of} × frame_skip ({skips})."


def _about_rows(measured: Sequence[Measured]) -> list[str]:
    """What only some rows do: more in flight, a single pool on one node, another task, or that
    their code is not envbench's."""
    instances: dict[str, dict[int, int]] = defaultdict(dict)
    alone, stand_ins, plugins = [], [], []
    for found in measured:
        if not backends.is_built_in(found.cell.backend):
            plugins.append((found.label, "from a plugin, not from envbench"))
        if found.cell.env_instances != found.numenv:
            instances[found.label][found.numenv] = found.cell.env_instances
        if found.pools == 1 and backends.with_role(backends.of_record(found.cell.backend), "nodes"):
            alone.append((found.label, "a single pool: the machine has one NUMA node"))
        if found.ran:
            what = f"{markdown(found.ran)} in place of {markdown(found.cell.task)}"
            stand_ins.append((found.label, what))
    kept = [(label, _kept(counts)) for label, counts in sorted(instances.items())]
    return [
        *_of_rows(kept, "keeps", "keep"),
        *_of_rows(alone, "uses", "use"),
        *_of_rows(stand_ins, "ran", "ran"),
        *_of_rows(plugins, "comes", "come"),
    ]


def _of_rows(said: Iterable[tuple[str, str]], one: str, several: str) -> list[str]:
    """A sentence for each thing that is said of some rows: ``Brax and MJX keep …``."""
    rows: dict[str, list[str]] = defaultdict(list)
    for label, what in dict.fromkeys(said):
        rows[what].append(markdown(label))
    return [
        f"{listed(labels)} {one if len(labels) == 1 else several} {what}."
        for what, labels in rows.items()
    ]


def _kept(counts: Mapping[int, int]) -> str:
    factors = {instances / numenv for numenv, instances in counts.items()}
    if len(factors) == 1:
        return f"{factors.pop():g} environments in flight for each one in the batch"
    each = ", ".join(f"{instances} at {numenv}" for numenv, instances in sorted(counts.items()))
    return f"more environments in flight than the batch has: {each}"


def _ties(results: MachineResults) -> list[str]:
    """What ≈ means, where the table has one, and which figures bold and ≈ compare."""
    leaders = results.leaders.values()
    ties = any(len(each) > 1 for each in leaders)
    return [*([TIES] if ties else []), *([PLAIN] if any(leaders) else [])]


def _intervals(results: MachineResults) -> list[str]:
    """What ± means, and how much the host drifts."""
    measured = results.with_figures
    if all(found.span is None for found in measured):
        return ["No figure has an interval."]
    alternated = [found for found in measured if found.adjusted and found.span]
    drift = _drift(results)
    sentences = []
    if alternated:
        says = ONE_SESSION if drift else f"{COMPARES}; {UNKNOWN_DAY}"
        sentences.append(f"{ADJUSTED} {says} {TIES}")
    own = [found for found in measured if found.plan_id == results.session]
    if any(found.span and not found.adjusted for found in own):
        alone = "± is the 95 % interval of the cell alone"
        sentences.append(
            f"A cell that alternated with no other one is not ranked. Its {alone}."
            if alternated
            else "No cell alternated with another one, so none is ranked. "
            f"{alone}{'.' if drift else f'; {UNKNOWN_DAY}'}"
        )
    return [*sentences, *drift]


def _drift(results: MachineResults) -> list[str]:
    """How much figures differ between sessions, where the records show it."""
    drift = results.relations.figures
    if drift is None or drift.hosts.isdisjoint(e.plan.fingerprint for e in results.with_figures):
        return []
    sessions = counted(drift.sessions, "session")
    own = (results.env, results.task) in results.relations.tasks
    sessions += "" if own else " with other tasks"
    hosts = f" of {len(drift.hosts)} hosts" if len(drift.hosts) > 1 else ""
    if drift.degrees >= DEGREES_FOR_REACH and drift.reach <= MOST_REACH:
        return [
            f"Measured {_later(results.relations.span_s)}, a figure can differ by up to "
            f"{_whole(drift.reach)} (in 95 of 100 cases, estimated from {sessions}{hosts})."
        ]
    return [
        f"Between {sessions}{hosts}, figures differed by {_whole(drift.typical)}. "
        "These are too few to say how far they can differ on another day."
    ]


def _later(span_s: float) -> str:
    """``on another day``; ``again within 3 hours`` if the sessions span no day."""
    if span_s >= DAY_S:
        return "on another day"
    minutes = max(1, int(span_s / 60))
    time = counted(minutes // 60, "hour") if minutes >= 60 else counted(minutes, "minute")
    return f"again within {time}"


def _whole(share: float) -> str:
    """``6 %``, but never ``0 %``."""
    return f"{100 * share:.0f} %" if share >= 0.0095 else percent(share)


def _ceiling(results: MachineResults) -> list[str]:
    ceiling = results.ceiling
    if ceiling is None or not results.top:
        missing = backends.has_ceiling(results.env) and results.section != "accelerators"
        return [NO_CEILING] if missing else []
    family = families.of_record(ceiling.cell.env)
    alone, cores = family.engine, counted(ceiling.numenv // family.ceiling_states, "core")
    when = markdown(ceiling.when[:10])
    beyond = "A share over 100 % can come from another engine, lower precision, drift or noise."
    top = results.top * (1 + 1e-9)  # adjusted figures are rounded in their last digits
    other = ceiling.plan_id != results.session
    bounded = [found for found in results.with_figures if not found.on_gpu]
    above = any(results.value(found) > top for found in bounded)
    on_gpu = len(bounded) < len(results.with_figures)
    return [
        f"Ceiling: {alone} alone, on {cores}: {results.text(ceiling)} FPS ({when}).",
        *(["It is of another session: shares are approximate."] if other else []),
        *([beyond] if above else []),
        *(["It does not limit a GPU."] if on_gpu else []),
        *(FLAGS[flag] for flag in ceiling.summary.flags if flag not in _OF_ENTRIES),
    ]


def _without_stops(results: MachineResults) -> list[str]:
    """Which rows are surely slower or faster if they step without stops, and by how much."""
    said = []
    for label, found in results.without_stops.items():
        low, high = found.interval or (1.0, 1.0)
        if high < 1 - UNSTOPPED_SHARE or low > 1 + UNSTOPPED_SHARE:
            how = "slower" if found.ratio < 1 else "faster"
            change = f"{_whole(abs(found.ratio - 1))} {how} ({low:.2f} to {high:.2f} times)"
            said.append(f"{markdown(label)} {change}")
    return [f"Speed without stops (in the warm-up): {listed(said)}."] if said else []


def _equal_work(results: MachineResults) -> list[str]:
    verified = results.verified_rows
    if not verified:
        return _spots(results)
    badges = {each.verdict.badge for each in verified.values()}
    badges |= {"–"} if results.rows.keys() - verified.keys() else set()
    standard = _standard(results)
    meanings = {**BADGES, "✓": SAME_EPISODES} if standard and standard.episodes else BADGES
    legend = ", ".join(f"{mark} {what}" for mark, what in meanings.items() if mark in badges)
    stale = [label for label in results.labels if label in verified and verified[label].stale]
    rows = "all rows" if len(stale) == len(verified) else listed([markdown(each) for each in stale])
    packages = f"For {rows}: the packages or envbench changed between measuring and verifying."
    shared = markdown(", ".join(results.shared_differences), 600)
    return [
        f"Equal work: {legend}.",
        *_spots(results),
        *([f"All rows differ from the reference settings in {shared}."] if shared else []),
        *([packages] if stale else []),
    ]


def _spots(results: MachineResults) -> list[str]:
    """How many cells the reference followed while they were measured, and which rows have none.
    Nothing, if all rows have other engines."""
    spots = [found for found in results.measured if found.spot]
    standard = _standard(results)
    if not spots:
        able = (
            not each.quick and not backends.of_record(each.cell.backend).own_engine
            for each in results.with_figures
        )
        none = standard is not None and any(able)
        return ["No cell was spot-checked."] if none else []
    checked = {each.label for each in spots}
    others = [
        label
        for label, row in results.rows.items()
        if label not in checked and standard and row[0].cell.backend != standard.reference
    ]
    rest = f" Not checked: {listed([markdown(each) for each in others])}." if others else ""
    return [f"{markdown(spot_checks(spots), 600)}{rest}"]


def _standard(results: MachineResults) -> families.Standard | None:
    """What the rows are compared with. A table has one kind of backends."""
    kind = results.measured[0].cell.kind
    return families.of_record(results.env).standard(kind, results.task)


def spot_checks(spots: Sequence[Measured]) -> str:
    """How many of these cells made the reference's steps. The reference itself is not checked."""
    others = [f"{each.label} at {each.numenv}" for each in spots if each.spot_agrees is not True]
    agree, cells = len(spots) - len(others), counted(len(spots), "cell")
    named = f", not {listed(others)}" if others else ""
    return f"Spot checks while measuring, besides the reference: {agree} of {cells} agreed{named}."


def _machines(measured: Sequence[Measured]) -> str:
    found = [hardware(each.fingerprint) for each in measured if each.fingerprint is not None]
    days = sorted({markdown(each.when[:10]) for each in measured})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return f"Measured on {'; '.join(dict.fromkeys(found)) or 'unknown hardware'}, {when}."
