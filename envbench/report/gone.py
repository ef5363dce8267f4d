"""A block of the results page that no record stands behind any more. PURE.

What stays of it can be read, but is not bold, and says so; a person's own table keeps every byte.
"""

from __future__ import annotations

from envbench.report.existing import parse
from envbench.report.markdown import render
from envbench.report.table import Table, kept


def without_records(text: str) -> str | None:
    """The block's text as it shall be; None where no report wrote its figures alone."""
    existing = parse(text)
    if not existing.measured:
        return None
    heading, *columns = existing.header
    rows = [
        (label, [kept(text, existing, name) for name, text in zip(columns, entries, strict=True)])
        for label, *entries in existing.rows
    ]
    table = Table(
        heading=heading,
        columns=columns,
        rows=rows,
        footnotes=existing.footnotes,
        before=existing.before,
        after=existing.after,
    )
    return render(table)
