"""Untrusted text made harmless in Markdown and in an HTML comment.

Names of tasks and machines, failure messages and hardware come from results files that anyone may
have written. They stay text: they cannot open a tag, a link, a column or a line, mention anyone, or
control a terminal.
"""

from __future__ import annotations

import re

from envbench.text import one_line

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;"}
_SPECIAL = re.compile(r"[&<>|\\`*_\[\]~#$]|@(?=\w)|:(?=//)|(?<=www)\.")


def markdown(text: str, limit: int = 300) -> str:
    """Text that Markdown shows literally, in a table's cell or a paragraph."""
    return _SPECIAL.sub(_harmless, one_line(text, limit))


def _harmless(found: re.Match[str]) -> str:
    char = found[0]
    if char == "@":  # an entity alone would become a mention again in HTML
        return "@&#8203;"
    if char in ":.":
        return f"{char}&#8203;"
    return _ENTITIES.get(char, f"\\{char}")


def code(text: str, limit: int = 4000) -> str:
    """A code span in a table's cell, for text that readers copy."""
    shown = one_line(text, limit).replace("|", "\\|")
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{space}{shown}{space}{fence}" if shown else ""


def comment(text: str) -> str:
    """Text for the inside of an HTML comment, such as a marker."""
    return re.sub(r"-{2,}", "-", re.sub(r"[<>|`]", "", one_line(text, 200))).strip(" -")
