"""The measured cells of a page: their addresses, and what a click on one opens."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from envbench import backends
from envbench.model import Fingerprint, Run, RuntimeFact, Windows, fields
from envbench.report.machine_results import MachineResults, in_order
from envbench.report.tables.details import shown_command
from envbench.report.tables.footnotes import hardware, of_entry
from envbench.report.tables.table import Entry, Table, entries
from envbench.results.measured_cells import Measured
from envbench.stats.summary import rate
from envbench.text import markdown, one_line, printable, without_interval

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markupsafe import Markup

MOST_CODE = 4000  # characters
CODE_WIDTH = 44  # of a card
# Slices that the page shows: of a run, at least and at most, and of all runs. More are joined.
FEWEST_SLICES, MOST_SLICES, PAGE_SLICES = 12, 80, 20_000
ALL_CELLS = "All measured cells"
LOADS = ("cpu_s", "other_cpu_s", "steal_s")  # that the page shows of a run

Cells = Sequence[tuple[Measured, MachineResults]]


def address(found: Measured) -> str:
    """The part of the page's address that opens a cell: ``cell/epyc-vm/atari/Pong-v5/brax/8``."""
    return quote(f"cell/{found.cell.machine}/{found.cell.key}", safe="/")


def cells_of(every: Iterable[MachineResults]) -> Cells:
    """Each measurement with the first table that shows it: two tables can share a ceiling."""
    first: dict[int, tuple[Measured, MachineResults]] = {}
    for results in every:
        for each in in_order(results) if results.measured else []:
            first.setdefault(id(each), (each, results))
    return list(first.values())


def _notes(found: Measured, results: MachineResults) -> list[str]:
    """What to know about a cell, as text without markup."""
    notes = of_entry(found, results)
    if verified := results.verified.get(found.label):
        verdict, at = verified.verdict, verified.location
        where = f" ({at.place})" if at else ""
        notes.append(markdown(f"{verdict.badge} {verdict.audit}; {verdict.lock_step}.{where}", 900))
    return [inline(note).striptags() for note in notes]


def slices_per_run(cells: Cells) -> int:
    """How many slices of each run the page shows, so that it stays small."""
    runs = sum(len(found.summary.runs) for found, _ in cells)
    return min(MOST_SLICES, max(FEWEST_SLICES, PAGE_SLICES // max(1, runs)))


def opened(found: Measured, results: MachineResults, slices: int) -> dict[str, Any]:
    """One cell as plain values, for the page's script. ``slices``: of each run, at most."""
    summary, cell, plan = found.summary, found.cell, found.plan
    low, high = summary.interval or (None, None)
    adjusted_low, adjusted_high = (found.adjusted and found.adjusted.interval) or (None, None)
    places = {at.record: at.place for at in found.locations}
    runs = {run.run_id: run for run in found.runs}
    return {
        "address": address(found),
        "machine": results.title,
        "hardware": _hardware(found.fingerprint),
        "task": one_line(cell.task),
        "label": one_line(found.label),
        **fields(cell, "numenv env_instances frame_skip"),
        **fields(summary, "fps steps_per_second"),
        "low": low,
        "high": high,
        "adjusted": found.adjusted.rate if found.adjusted else None,
        "adjusted_low": adjusted_low,
        "adjusted_high": adjusted_high,
        "ran": one_line(found.ran),
        "settings": _lines(cell.settings),
        "code": code_of(found),
        "flags": _notes(found, results),
        "command": one_line(shown_command(plan), 4000),
        "envbench": one_line(f"{plan.envbench_version}, commit {plan.git_commit or 'unknown'}"),
        "plan": one_line(plan.plan_id),
        "runtime": one_line(found.runtime),
        "runs": [
            _run(runs[name], places.get(name, ""), slices) for name in summary.runs if name in runs
        ],
    }


def code_of(found: Measured) -> str:
    """Python that makes the same environments and steps them; "" where the adapter has none."""
    if not found.code or len(found.code) > MOST_CODE:
        return ""
    stepping = backends.of_record(found.cell.backend).stepping
    return printable("\n\n".join(each for each in (_wrapped(found.code), stepping) if each))


def _wrapped(code: str) -> str:
    """The code with each long call that makes something in several lines, as a card shows it.
    Recorded code that is not Python stays as it is."""
    try:
        statements = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return code
    lines = code.splitlines()
    for each in reversed(statements):
        long = each.lineno == each.end_lineno and len(lines[each.lineno - 1]) > CODE_WIDTH
        if long and isinstance(each, ast.Assign) and isinstance(each.value, ast.Call):
            target, call = each.targets[0], each.value
            made = [f"{ast.unparse(target)} = {ast.unparse(call.func)}(", "   "]
            for argument in (*call.args, *call.keywords):
                text = f" {ast.unparse(argument)},"
                if len(made[-1]) + len(text) > CODE_WIDTH and made[-1].strip():
                    made.append("   ")
                made[-1] += text
            lines[each.lineno - 1 : each.lineno] = [*made, ")"]
    return "\n".join(lines)


def _hardware(found: Fingerprint | None) -> str:
    """``AMD EPYC, 2 CPUs, 24 GiB, Linux 6.1``"""
    if found is None:
        return ""
    system = " ".join(each for each in (found.system, found.kernel) if each)
    parts = [inline(hardware(found)).striptags(), f"{found.memory_gib} GiB", one_line(system)]
    return ", ".join(each for each in parts if each)


def runtime_json(fact: RuntimeFact) -> dict[str, str]:
    """The interpreter and packages of cells, as texts."""
    packages = [f"{name} {version}" for name, version in _lines(fact.packages).items()]
    return {
        "python": one_line(f"{fact.implementation} {fact.python}"),
        "packages": ", ".join(packages),
    }


def _lines(texts: Mapping[str, object]) -> dict[str, str]:
    return {one_line(name): one_line(str(value)) for name, value in texts.items()}


def _run(run: Run, place: str, slices: int) -> dict[str, Any]:
    """``where`` is the file and line of its record."""
    return {
        "id": one_line(run.run_id),
        "where": one_line(place),
        "failure": f"{run.failure.reason}: {one_line(run.failure.message)}" if run.failure else "",
        **fields(run, "round seed started_utc"),
        "fps": None if run.failure else rate(run).fps,
        **fields(run, "steady times peak_memory_bytes"),
        "load": run.load and {name: _milli(getattr(run.load, name)) for name in LOADS},
        "slices": _slices(run, slices),
    }


def _milli(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def _slices(run: Run, most: int) -> list[list[float | str]]:
    """Start and length in seconds from the first warm-up step, FPS, and what it was: 0 (warm-up), 1
    (measured), or the reason why it is invalid.

    Measuring follows the warm-up. Lead-ins are left out. Neighbours are joined where a run has many
    slices.
    """
    warm = run.warmup.without_gap if run.warmup.whole else 0
    end = run.warmup.start_ns[warm - 1] + run.warmup.ns[warm - 1] if warm else 0
    found = _joined(run, run.warmup, warm, 0, 0, max(1, most // 4))
    return found + _joined(run, run.measured, len(run.measured.ns), end, 1, most)


def _joined(
    run: Run, windows: Windows, count: int, offset: int, what: int, most: int
) -> list[list[float | str]]:
    if not windows.whole:
        return []
    together = math.ceil(count / most) or 1
    found: list[list[float | str]] = []
    for first in range(0, count, together):
        own = range(first, min(first + together, count))
        ns = sum(windows.ns[i] for i in own)
        frames = sum(windows.steps[i] for i in own) * run.cell.frame_skip
        start = windows.start_ns[own[0]] + offset
        length = windows.start_ns[own[-1]] + windows.ns[own[-1]] - windows.start_ns[own[0]]
        reasons = [windows.invalid[str(i)] for i in own if str(i) in windows.invalid]
        kind = reasons[0] if reasons else what
        fps = round(frames / ns * 1e9) if ns > 0 else 0
        found.append([round(start / 1e9, 2), round(length / 1e9, 2), fps, kind])
    return found


def all_cells(cells: Cells) -> Table:
    """A row per cell."""
    return Table(
        heading=ALL_CELLS,
        first="machine",
        columns=[
            *("family", "task", "backend", "environments", "FPS", "rank", "steps/s"),
            *("equal work", "flags"),
        ],
        rows=[(markdown(results.title), _cell_row(each, results)) for each, results in cells],
    )


def _cell_row(found: Measured, results: MachineResults) -> list[Entry]:
    summary, cell, rank = found.summary, found.cell, ""
    standing = found.session.standings.get(cell.key)
    ranked = found.plan_id == results.session and not results.has_quick
    if standing and ranked and found.adjusted and found.adjusted.interval:
        rank = standing.text
    steps = ""
    if found.fps is not None:
        steps = without_interval(results.value(found) / cell.frame_skip, found.half)
    names = [cell.env, markdown(cell.task), markdown(found.label), str(cell.numenv)]
    rest = [rank, steps, found.badge, ", ".join(summary.flags)]
    figure = Entry(measured=found)
    if found.fps is not None:
        figure = Entry(text=results.text(found), fps=results.value(found), measured=found)
    return [*entries(names), figure, *entries(rest)]


def inline(markdown: str) -> Markup:
    """Return one line of Markdown as markup; HTML in it stays text."""
    from markupsafe import Markup

    return Markup(_parser().renderInline(markdown))


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False})
