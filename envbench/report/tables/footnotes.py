"""The sentences under a table: what its figures are, and what is to be known of some of them.

Everything here is Markdown text, one line each, safe to print: records' text is escaped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from envbench import backends, families
from envbench.equal_work.judge import judge
from envbench.machine import Profile
from envbench.model import Failure, Fingerprint, Verification
from envbench.report.escape import markdown
from envbench.results.shown import Measured
from envbench.text import listed

# How the line of notes begins: by it, a later report knows its own line from a person's.
OPENING = "FPS is frames per second"
# Told of figures that are a person's, and of those that are nobody's any more.
OTHERS = "The other figures are the document's own."
GONE = "No record in the results stands behind this figure."
DRIFTS = "between two times a shared machine drifts by 5 to 10 %, of which no interval knows"

FLAGS = {
    "quick": "Measured quickly (`--quick`): one short process, no interval.",
    "few-runs": "Fewer than five processes: there is no interval.",
    "one-go": "Measured alone, in one go: its interval is one of repeatability within minutes.",
    "unsteady": "Its speed had not settled when the longest warm-up ended.",
    "no-reset": "A process of it saw no reset while it was measured: that cost is not whole in it.",
    "disturbed": "Over half of its time was disturbed from outside: all of it counts.",
    "throttled": "The CPU quota of its container throttled it.",
    "steal": "Other virtual machines took CPU time from some of its windows (steal over 5 %).",
    "other-load": "Other programs used over a tenth of the machine's CPU time meanwhile.",
}

MARKS = {
    "✓": "Does the reference's work",
    "≠": "Does other work than the reference",
    "✗": "Refused",
    "–": "Not verified",
}


def of_entry(found: Measured, profile: Profile | None) -> list[str]:
    """The footnotes of one entry, in order."""
    if found.summary.failure is not None:
        return [of_failure(found.summary.failure)]
    notes = [FLAGS[flag] for flag in found.summary.flags]
    if other := _other_hardware(found, profile):
        notes.append(other)
    return notes


def of_verification(found: Verification, *, stale: bool = False) -> list[str]:
    """What is to be known of a row's work beside its badge (``envbench verify``). ``stale``: it
    was measured with other packages, or by another envbench, than it was verified with."""
    verdict = judge(found)
    told = [text for text in (verdict.audit, verdict.lock_step) if text]
    sentence = markdown("; ".join(told), 300) + "."
    if verdict.differences:
        sentence += f" Differs in {markdown(', '.join(verdict.differences), 600)}."
    if stale:
        sentence += " Verified with other packages, or by another envbench, than it was measured."
    return [f"{MARKS[verdict.badge]}: {sentence}"]


def of_refusal(found: Verification) -> str:
    """Why figures are not shown though there are some."""
    verdict = judge(found)
    if not verdict.follows:
        return f"No figure (equal work): {markdown(verdict.lock_step, 300)}."
    return f"No figure (accounting audit): {markdown(verdict.audit, 300)}."


def of_failure(failure: Failure) -> str:
    """Why an entry is empty."""
    phase = "" if failure.phase == failure.reason else failure.phase.replace("_", " ")
    where = f" in {phase}" if phase else ""
    died = f", {failure.signal}" if failure.signal else ""
    kind = markdown(f"{failure.reason}{where}{died}", 80)
    return f"No figure ({kind}): {markdown(failure.message, 200) or 'no reason was given'}"


def _other_hardware(found: Measured, profile: Profile | None) -> str:
    if found.fingerprint is None and profile is not None and not profile.match.empty:
        return "The hardware that this was measured on is not recorded."
    if found.fingerprint is None or not elsewhere(found, profile):
        return ""
    return f"Measured on other hardware than the profile's: {hardware(found.fingerprint)}."


def elsewhere(found: Measured, profile: Profile | None) -> bool:
    """Was it measured on other hardware than the profile's?"""
    if profile is None or profile.match.empty or found.fingerprint is None:
        return False
    return not profile.fits(found.fingerprint)


def hardware(found: Fingerprint) -> str:
    """A machine in a few words: CPU, how many, GPUs."""
    whole = found.usable_cpus == found.logical_cpus
    cpus = f"{found.logical_cpus}" if whole else f"{found.usable_cpus} of {found.logical_cpus}"
    words = f"{found.cpu}, {cpus} CPU{'' if cpus == '1' else 's'}"
    return markdown(", ".join([words, *dict.fromkeys(found.gpus)]), 200)


def of_table(
    measured: Sequence[Measured], ceiling: Measured | None = None, *, others: bool = False
) -> str:
    """The line under a table that has measured figures; "" where it has none.

    ``ceiling``: what its rows' shares are of. ``others``: figures that no result stands behind
    are in it too.
    """
    with_figures = [found for found in measured if found.summary.fps is not None]
    if not with_figures:
        return ""
    skips = sorted({float(found.summary.cell.frame_skip) for found in with_figures})
    opening = f"{OPENING}: steps per second × frame_skip ({', '.join(f'{s:g}' for s in skips)})."
    sentences = [opening, *_in_flight(with_figures), *_one_node(with_figures)]
    sentences += _stand_ins(with_figures)
    sentences.append(_intervals(with_figures))
    sentences += _ceiling(ceiling, with_figures) if ceiling else []
    sentences += _machines(with_figures)
    sentences += _times(with_figures)
    if others:
        sentences.append(OTHERS)
    return " ".join(sentences)


def _in_flight(measured: Sequence[Measured]) -> list[str]:
    ratios: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for found in measured:
        cell = found.summary.cell
        if cell.env_instances != cell.numenv:
            ratios[found.label].append((cell.numenv, cell.env_instances))
    return [f"{markdown(label)} {_kept(pairs)}" for label, pairs in sorted(ratios.items())]


def _one_node(measured: Sequence[Measured]) -> list[str]:
    """Where a backend of several NUMA nodes found a single one."""
    alone = [
        found.label
        for found in measured
        if found.pools == 1 and backends.has_role(found.summary.cell.backend, "nodes")
    ]
    return [
        f"{markdown(label)} found one NUMA node: it is one pool, in a process of its own."
        for label in dict.fromkeys(alone)
    ]


def _stand_ins(measured: Sequence[Measured]) -> list[str]:
    """Where a library no longer has the task, what ran in its stead: other work, maybe."""
    labels: dict[tuple[str, str], list[str]] = defaultdict(list)
    for found in measured:
        rows = labels[found.ran, found.summary.cell.task]
        if found.ran and found.label not in rows:
            rows.append(found.label)
    return [
        f"{listed([*map(markdown, rows)])} ran {markdown(ran)} in place of {markdown(task)}."
        for (ran, task), rows in labels.items()
        if ran
    ]


def _kept(pairs: Sequence[tuple[int, int]]) -> str:
    factors = {instances / numenv for numenv, instances in pairs}
    if len(factors) == 1:
        return f"keeps {factors.pop():g} environments in flight for each one it returns."
    listed = ", ".join(f"{instances} at {numenv}" for numenv, instances in sorted(pairs))
    return f"keeps more environments in flight than it returns: {listed}."


def _intervals(measured: Sequence[Measured]) -> str:
    widths = []
    for found in measured:
        if found.summary.interval is not None and found.summary.fps:
            low, high = found.summary.interval
            widths.append(50 * (high - low) / found.summary.fps)
    if not widths:
        return "No figure has an interval."
    small, large = f"{min(widths):.1f}", f"{max(widths):.1f}"
    reach = f"±{small} %" if small == large else f"±{small} % to ±{large} %"
    without = len(measured) - len(widths)
    return f"95 % intervals: {reach}{f'; {without} without' if without else ''}."


def _ceiling(ceiling: Measured, measured: Sequence[Measured]) -> list[str]:
    cell, fps = ceiling.summary.cell, ceiling.summary.fps
    if fps is None:
        return []
    alone = families.of_record(cell.env).engine
    cores = "1 core" if cell.numenv == 1 else f"{cell.numenv} cores"
    flags = "".join(f" {FLAGS[flag]}" for flag in ceiling.summary.flags if flag != "one-go")
    when = markdown(ceiling.when[:10])
    over = [found for found in measured if (found.summary.fps or 0.0) > fps]
    beyond = (
        " A share over 100 % is of another engine, of less exact numbers, or of another hour."
        if over
        else ""
    )
    return [f"Ceiling: {alone} alone on {cores} makes {fps:.2f} FPS ({when}).{beyond}{flags}"]


def _machines(measured: Sequence[Measured]) -> list[str]:
    found = [hardware(each.fingerprint) for each in measured if each.fingerprint is not None]
    days = sorted({markdown(each.when[:10]) for each in measured})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return [f"Measured on {'; '.join(dict.fromkeys(found)) or 'unknown hardware'}, {when}."]


def _times(measured: Sequence[Measured]) -> list[str]:
    """Where not all was measured in one plan, what was in which, for hours differ."""
    days: dict[str, str] = {}
    places: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for found in measured:
        plan = found.plan_id
        days[plan] = max(markdown(found.when[:10]), days.get(plan, ""))
        places[plan][markdown(found.label)].append(found.summary.cell.numenv)
    if len(places) < 2:
        return []
    often = {
        label
        for label in {label for rows in places.values() for label in rows}
        if sum(label in rows for rows in places.values()) > 1
    }
    listed = "; ".join(
        f"{_rows_of(places[plan], often)} on {days[plan]}"
        for plan in sorted(places, key=lambda plan: days[plan])
    )
    return [f"Not all at one time ({listed}): {DRIFTS}."]


def _rows_of(rows: Mapping[str, Sequence[int]], often: Collection[str]) -> str:
    """A plan's rows; of a row that is another plan's, too, at which numbers of environments."""
    return ", ".join(
        f"{label} at {', '.join(map(str, sorted(numenvs)))}" if label in often else label
        for label, numenvs in rows.items()
    )
