"""Text from elsewhere made safe for a terminal, and small pieces of English.

Package names, firmware, profiles, results and commands come from strangers, and must not control
a terminal. ``envbench.report.escape`` does the same for Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence


def printable(text: str, keep: str = "\n\t") -> str:
    """The text without control characters: each is replaced, except those in ``keep``."""
    return "".join(c if c.isprintable() or c in keep else "\ufffd" for c in text)


def one_line(text: str, limit: int = 300) -> str:
    """The same on a single line, with single spaces. Text over the limit is cut and ends in …"""
    shown = printable(" ".join(text[: 4 * limit].split()), keep="")
    return shown if len(shown) <= limit else shown[: limit - 1].rstrip() + "…"


def spelt_out(text: str) -> str:
    r"""The text with each control character as an escape (``\x1b``).

    A byte that is not UTF-8, which Python holds as a surrogate, becomes ``\xff``.
    """
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(c: str) -> str:
    if "\udc80" <= c <= "\udcff":
        return f"\\x{ord(c) - 0xDC00:02x}"
    return c.encode("unicode_escape").decode()


def cut(text: str) -> str:
    """The text; one over 100 characters loses its middle."""
    return text if len(text) <= 100 else f"{text[:60]}...{text[-30:]}"


def names_cut(text: str) -> str:
    """The text with each long name cut. A path stays whole where its parts are short."""
    return re.sub(r"[^\s/]{101,}", lambda name: cut(name[0]), text)


def counted(count: int, noun: str) -> str:
    """``1 pair``, ``2 pairs``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
