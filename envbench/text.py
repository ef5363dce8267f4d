"""A stranger's text made harmless for a terminal and for a line: what every room has to do.

Package names, firmware, profiles, results and commands come from elsewhere; nothing in them may
steer a terminal. (What Markdown needs besides is ``envbench.report.escape``'s.)
"""

from __future__ import annotations

import re
from collections.abc import Sequence

REPLACEMENT = "\ufffd"


def printable(text: str, keep: str = "\n\t") -> str:
    """The text with everything that a terminal might obey replaced; ``keep`` stays as it is."""
    return "".join(c if c.isprintable() or c in keep else REPLACEMENT for c in text)


def one_line(text: str, limit: int = 300) -> str:
    """The same on a single line, runs of space made one. Longer text is cut, marked by …"""
    shown = printable(" ".join(text[: 4 * limit].split()), keep="")
    return shown if len(shown) <= limit else shown[: limit - 1].rstrip() + "…"


def spelt_out(text: str) -> str:
    r"""The text with what a terminal might obey written as an escape (``\x1b``).

    So is a byte that is not UTF-8, which Python has as a surrogate: as ``\xff``.
    """
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(c: str) -> str:
    if "\udc80" <= c <= "\udcff":
        return f"\\x{ord(c) - 0xDC00:02x}"
    return c.encode("unicode_escape").decode()


def cut(text: str) -> str:
    """The text, without its middle where it is long."""
    return text if len(text) <= 100 else f"{text[:60]}...{text[-30:]}"


def names_cut(text: str) -> str:
    """The text, each long name in it cut. A path stays whole where its parts are short."""
    return re.sub(r"[^\s/]{101,}", lambda name: cut(name[0]), text)


def counted(count: int, noun: str) -> str:
    """``1 pair``, ``2 pairs``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
