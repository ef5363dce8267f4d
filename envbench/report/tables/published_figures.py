"""Tables of the figures that others have published: ``Atari (published) - Laptop``. PURE.

Rows and columns come from the data, in the registry's order of backends and the numeric order of
numenv. The best of a column is bold among these figures; nothing measured stands beside them.
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
from envbench.report.tables.subjects import heading
from envbench.report.tables.table import Entry, Table

Group = tuple[str, str, str]  # machine, family, task


def by_heading(
    figures: Sequence[Published], profiles: Mapping[str, Profile]
) -> dict[str, list[Published]]:
    """Each table's figures by its heading, small machines first."""
    groups: dict[Group, list[Published]] = defaultdict(list)
    size: dict[str, int] = defaultdict(int)
    for figure in figures:
        groups[figure.machine, figure.env, figure.task].append(figure)
        size[figure.machine] = max(size[figure.machine], figure.numenv)
    found: dict[str, list[Published]] = {}
    for group in sorted(groups, key=lambda group: (size[group[0]], group)):
        first, profile = groups[group][0], profiles.get(group[0])
        machine = profile.title if profile else group[0]
        name = _heading(first, machine)
        if name in found:  # two machines of one title
            name = _heading(first, f"{machine} ({group[0]})")
        found[name] = groups[group]
    return found


def _heading(figure: Published, machine: str) -> str:
    return heading((figure.env, figure.task, "published"), machine)


def table(name: str, figures: Sequence[Published], existing: Existing) -> Table:
    """The table, with a person's own lines around it kept."""
    sources = list(dict.fromkeys(figure.source for figure in figures))
    numenvs = sorted({figure.numenv for figure in figures})
    best = {
        numenv: max(figure.fps for figure in figures if figure.numenv == numenv)
        for numenv in numenvs
    }
    values = {(_row(each), each.numenv): each.fps for each in figures}
    labels = {
        row: _label(row, sources) for row in sorted({_row(each) for each in figures}, key=_place)
    }
    return Table(
        heading=markdown(name),
        columns=[str(numenv) for numenv in numenvs],
        rows=[
            (label, [_entry(values.get((row, numenv)), best[numenv]) for numenv in numenvs])
            for row, label in labels.items()
        ],
        note=_note(figures, sources),
        before=existing.before,
        after=existing.after,
    )


def _row(figure: Published) -> tuple[str, str]:
    return figure.backend, figure.source


def _place(row: tuple[str, str]) -> tuple[int, str, str]:
    known = list(backends.registry())
    name, source = row
    return (known.index(name) if name in known else len(known), name, source)


def _label(row: tuple[str, str], sources: Sequence[str]) -> str:
    name, source = row
    label = backends.row_label(name, {})
    return markdown(label if len(sources) == 1 else f"{label}, {source}")


def _entry(fps: float | None, best: float) -> Entry:
    return Entry() if fps is None else Entry(fps=fps, best=f"{fps:.2f}" == f"{best:.2f}")


def _note(figures: Sequence[Published], sources: Sequence[str]) -> str:
    skips = ", ".join(f"{skip:g}" for skip in sorted({float(each.frame_skip) for each in figures}))
    told = "; ".join(map(markdown, sources))
    return (
        f"{OPENING}: steps per second × frame_skip ({skips}). Published, not measured by envbench: "
        f"{told}."
    )
