"""``load``: the results of a folder as pandas DataFrames."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from envbench.errors import hints_shown
from envbench.model import fields
from envbench.report.data_export import of_cell, of_runs, of_slices
from envbench.results.folder import Loaded, load_folder
from envbench.text import counted

if TYPE_CHECKING:
    from pandas import DataFrame

LOG = logging.getLogger("envbench")  # messages, such as a note or a warning


def warn(warnings: Iterable[str]) -> None:
    for each in warnings:
        LOG.warning(each)


def html(cells: DataFrame) -> str:
    """What a notebook shows: the columns that most readers want."""
    names = "machine env task backend numenv fps fps_low fps_high flags failure"
    shown: str = cells.reindex(columns=names.split()).to_html(max_rows=20, na_rep="")
    return shown


@dataclass(frozen=True, repr=False)
class Results:
    """The results in a folder, as ``envbench report`` shows them."""

    _loaded: Loaded

    def __repr__(self) -> str:
        cells = counted(len(self._loaded.selection.measured), "cell")
        return f"<envbench.Results: {cells}; .cells, .runs, .slices and .published are DataFrames>"

    def _repr_html_(self) -> str:
        return html(self.cells)

    @cached_property
    def cells(self) -> DataFrame:
        """One row per cell, with the columns of ``envbench export``."""
        from pandas import DataFrame

        return DataFrame([of_cell(each) for each in self._loaded.selection.measured])

    @cached_property
    def runs(self) -> DataFrame:
        """One row per process, with the columns of ``envbench export --runs``."""
        from pandas import DataFrame

        found = self._loaded
        return DataFrame(of_runs(found.records, found.locations, found.selection))

    @cached_property
    def slices(self) -> DataFrame:
        """One row per timed slice: its run, its start and length in ns, its vector steps (calls),
        its steps and resets of single environments, and what disturbed it ("" if nothing)."""
        from pandas import DataFrame

        return DataFrame(of_slices(self._loaded.records))

    @cached_property
    def published(self) -> DataFrame:
        """One row per figure that others published, with its source. None was measured here."""
        from pandas import DataFrame

        names = "machine env task backend numenv frame_skip fps source"
        return DataFrame([fields(each, names) for each in self._loaded.selection.published])


@hints_shown()
def load(results: str | Path = "results") -> Results:
    """Read a folder of results. Raises ``envbench.EnvbenchError`` if it has none."""
    return Results(load_folder(Path(results), warn, every_window=True))
