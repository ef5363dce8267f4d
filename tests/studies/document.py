"""Exact bounds of shares, and filling a study's table in docs/studies.md."""

from __future__ import annotations

import re
from pathlib import Path

from scipy.stats import beta

STUDIES = Path(__file__).parents[2] / "docs" / "studies.md"


def bounds(hits: int, of: int) -> tuple[float, float]:
    """The exact 95 % interval of a share (Clopper and Pearson)."""
    low = 0.0 if hits == 0 else float(beta.ppf(0.025, hits, of - hits + 1))
    high = 1.0 if hits == of else float(beta.ppf(0.975, hits + 1, of - hits))
    return low, high


def share(hits: int, of: int, digits: int = 2) -> str:
    """A share with its bounds, such as ``0.00 % (0.00–0.02)``; ``-`` if ``of`` is 0."""
    if of == 0:
        return "-"
    low, high = bounds(hits, of)
    return f"{100 * hits / of:.{digits}f} % ({100 * low:.{digits}f}–{100 * high:.{digits}f})"


def fill(name: str, text: str, document: Path = STUDIES) -> None:
    """Put the text between the two markers ``<!-- study: NAME -->``."""
    mark = f"<!-- study: {name} -->"
    old = document.read_text(encoding="utf-8")
    if old.count(mark) != 2:
        raise SystemExit(f"{document} does not have two lines {mark}")
    block = f"{mark}\n\n{text.strip()}\n\n{mark}"
    new = re.sub(f"{re.escape(mark)}.*{re.escape(mark)}", lambda _: block, old, flags=re.DOTALL)
    document.write_text(new, encoding="utf-8")
