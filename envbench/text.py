"""A stranger's text made harmless for a terminal and for a line: what every room has to do.

Package names, firmware, profiles, results and commands come from elsewhere; nothing in them may
steer a terminal. (What Markdown needs besides is ``envbench.report.escape``'s.)
"""

from __future__ import annotations

from collections.abc import Sequence

REPLACEMENT = "\ufffd"


def printable(text: str, keep: str = "\n\t") -> str:
    """The text with everything that a terminal might obey replaced; ``keep`` stays as it is."""
    return "".join(c if c.isprintable() or c in keep else REPLACEMENT for c in text)


def one_line(text: str, limit: int) -> str:
    """The same on a single line of at most ``limit`` characters, its runs of space made one."""
    return printable(" ".join(text.split()), keep="")[:limit].rstrip()


def spelt_out(text: str) -> str:
    r"""The text with what a terminal might obey written as an escape (``\x1b``)."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def listed(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
