"""A block of the results page that no record stands behind any more. PURE.

A table's figures can be read, but are not bold, and say so; a picture goes; what a person wrote
keeps every byte.
"""

from __future__ import annotations

import re

from envbench.report.curves import FOLDER
from envbench.report.existing import parse
from envbench.report.markdown import render
from envbench.report.table import Table, kept

_PICTURE = re.compile(rf"!\[[^\n]*\]\({FOLDER}/[^\s)]+\.svg\)")


def without_records(text: str) -> str | None:
    """The block's text as it shall be; None where no report wrote its figures alone."""
    if _PICTURE.fullmatch(text.strip()):
        return ""
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
