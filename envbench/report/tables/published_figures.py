"""Tables of the figures that others have published: ``Atari (published) - Laptop``. Pure.

Rows and columns come from the data. The best of a column is bold among these figures; measured
figures never appear beside them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from envbench import backends
from envbench.machine import Profile
from envbench.model import Published
from envbench.report.escape import markdown
from envbench.report.tables.existing import Existing
from envbench.report.tables.footnotes import OPENING
from envbench.report.tables.machine_results import backend_order, heading
from envbench.report.tables.table import Entry, Table

_Group = tuple[str, str, str]  # machine, family, task


def by_heading(
    figures: Sequence[Published], profiles: Mapping[str, Profile]
) -> dict[str, list[Published]]:
    """Each table's figures by its heading, small machines first."""
    groups: dict[_Group, list[Published]] = defaultdict(list)
    size: dict[str, int] = defaultdict(int)
    for figure in figures:
        groups[figure.machine, figure.env, figure.task].append(figure)
        size[figure.machine] = max(size[figure.machine], figure.numenv)
    found: dict[str, list[Published]] = {}
    for group in sorted(groups, key=lambda group: (size[group[0]], group)):
        first, profile = groups[group][0], profiles.get(group[0])
        title = profile.title if profile else group[0]
        key = first.env, first.task, "published"
        name = heading(key, title)
        if name in found:  # two machines have the same title
            name = heading(key, f"{title} ({group[0]})")
        found[name] = groups[group]
    return found


def table(name: str, figures: Sequence[Published], existing: Existing) -> Table:
    """The table, with the author's own lines around it."""
    sources = list(dict.fromkeys(figure.source for figure in figures))
    best: dict[int, float] = defaultdict(float)
    for figure in figures:
        best[figure.numenv] = max(best[figure.numenv], figure.fps)
    numenvs = sorted(best)
    values = {
        (each.backend, each.source, each.numenv): Entry(
            fps=each.fps, best=f"{each.fps:.2f}" == f"{best[each.numenv]:.2f}"
        )
        for each in figures
    }
    names = {(each.backend, each.source) for each in figures}
    return Table(
        heading=markdown(name),
        columns=[str(numenv) for numenv in numenvs],
        rows=[
            (
                _label(backend, source, sources),
                [values.get((backend, source, n), Entry()) for n in numenvs],
            )
            for backend, source in sorted(names, key=lambda row: (backend_order(row[0]), *row))
        ],
        note=_note(figures, sources),
        existing=Existing(before=existing.before, after=existing.after),
    )


def _label(backend: str, source: str, sources: Sequence[str]) -> str:
    label = backends.row_label(backend, {})
    return markdown(label if len(sources) == 1 else f"{label}, {source}")


def _note(figures: Sequence[Published], sources: Sequence[str]) -> str:
    skips = ", ".join(f"{skip:g}" for skip in sorted({float(each.frame_skip) for each in figures}))
    return (
        f"{OPENING}: steps per second × frame_skip ({skips}). Published, not measured by envbench: "
        f"{'; '.join(map(markdown, sources))}."
    )
