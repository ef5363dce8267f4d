"""Text from elsewhere made safe for a terminal and for Markdown, and small pieces of English.

Package names, firmware, profiles, results and commands come from untrusted sources. They must not
control a terminal. In a document they stay text: they cannot open a tag, a link, a column or a
line, or mention anyone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;"}
_SPECIAL = re.compile(r"[&<>|\\`*_\[\]~#$]|@(?=\w)|:(?=//)|(?<=www)\.")


def printable(text: str, keep: str = "\n\t") -> str:
    """Return the text without control characters: each is replaced, except those in ``keep``."""
    kept = (c if c.isprintable() or c in keep else "\ufffd" for c in text)
    return text if text.isprintable() else "".join(kept)


def one_line(text: str, limit: int = 300) -> str:
    """Put it on a single line, with single spaces. Text over the limit is cut and ends in …"""
    shown = printable(" ".join(text[: 4 * limit].split()), keep="")
    return shown if len(shown) <= limit else shown[: limit - 1].rstrip() + "…"


def spelt_out(text: str) -> str:
    r"""The text with each control character as an escape (``\x1b``).

    A byte that is not UTF-8, which Python holds as a surrogate, becomes an escape with its value,
    such as ``\xff``.
    """
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(c: str) -> str:
    if "\udc80" <= c <= "\udcff":
        return f"\\x{ord(c) - 0xDC00:02x}"
    return c.encode("unicode_escape").decode()


def cut(text: str) -> str:
    """Return the text; one over 100 characters loses its middle."""
    return text if len(text) <= 100 else f"{text[:60]}...{text[-30:]}"


def names_cut(text: str) -> str:
    """Return the text with each long name cut. A path stays whole where its parts are short."""
    return re.sub(r"[^\s/]{101,}", lambda name: cut(name[0]), text)


def rounded(value: float, half: float | None = None) -> str:
    """``20,700 ±2 %``: a positive value, rounded to what the half-width of its interval supports.

    ``half`` is a share of the value (0.02). Two to five significant digits remain; without ``half``
    there are three. Over 100 %, the interval says nothing useful, so it is not shown.
    """
    if half is None:
        return three_digits(value)
    size = math.floor(math.log10(value))
    uncertain = math.floor(math.log10(value * min(max(half, 1e-6), 1.0)))
    text = _digits(value, min(max(uncertain, size - 4), size - 1))
    width = 100 * half
    if width > 100:
        return f"{text} (no useful interval)"
    if width >= 0.95:
        return f"{text} ±{width:.0f} %"
    return f"{text} ±{width:.1g} %" if width >= 0.005 else f"{text} ±0 %"


def without_interval(value: float, half: float | None) -> str:
    """As ``rounded``, but only the figure, with at most as many digits as 0.4 % supports."""
    return rounded(value, None if half is None else max(half, 0.004)).partition(" ")[0]


def three_digits(value: float) -> str:
    """``20,700``, ``9.96`` or ``0.789``."""
    value = float(f"{value:.3g}")
    return _digits(value, math.floor(math.log10(value)) - 2) if value > 0 else f"{value:.2f}"


def _digits(value: float, place: int) -> str:
    """The value rounded to a power of ten: 2 for hundreds, -2 for hundredths."""
    return f"{round(value, -place):,.{max(0, -place)}f}"


def percent(share: float) -> str:
    """``87 %`` for 0.87; two digits below a tenth: ``0.38 %``."""
    return f"{100 * share:.0f} %" if share >= 0.0995 else f"{100 * share:.2g} %"


def times(ratio: float) -> str:
    """``2.6 ×``; below 2 with two decimals, below a tenth with two digits."""
    return f"{ratio:.{_places(ratio)}f} ×"


def times_from_to(ratio: float, interval: tuple[float, float] | None, to: str = " to ") -> str:
    """The interval of a ratio, with as many decimals: ``2.5 to 2.7``. "" for None."""
    if interval is None:
        return ""
    return to.join(f"{each:.{_places(ratio)}f}" for each in interval)


def _places(ratio: float) -> int:
    return (
        1 if ratio >= 2 else 2 if ratio >= 0.1 or ratio <= 0 else 1 - math.floor(math.log10(ratio))
    )


def duration(seconds: float | None) -> str:
    """With three digits: ``12.3 µs``, ``4.56 ms`` or ``0.789 s``. "" for None."""
    if seconds is None:
        return ""
    for unit, factor in (("µs", 1e6), ("ms", 1e3)):
        if seconds * factor < 999.5:
            return f"{three_digits(seconds * factor)} {unit}"
    return f"{three_digits(seconds)} s"


def memory(size: float | None) -> str:
    """Bytes with three digits: ``12.3 KiB`` or ``456 MiB``. "" for None."""
    if size is None:
        return ""
    if size <= 0:
        return "none"
    kib = size / 2**10
    return f"{three_digits(kib)} KiB" if kib < 999.5 else f"{three_digits(kib / 2**10)} MiB"


def disk(megabytes: float) -> str:
    """``110 MB``, ``1.4 GB`` or ``12 kB``; ``size unknown`` for 0."""
    if not megabytes:
        return "size unknown"
    if megabytes < 0.95:
        return f"{1000 * megabytes:.0f} kB"
    return f"{megabytes / 1000:.1f} GB" if megabytes >= 950 else f"{megabytes:.0f} MB"


def counted(count: float, noun: str) -> str:
    """``1 pair``, ``2 pairs``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def markdown(text: str, limit: int = 300) -> str:
    """Text that Markdown shows literally, in a table's cell or a paragraph."""
    return _SPECIAL.sub(_harmless, one_line(text, limit))


def _harmless(found: re.Match[str]) -> str:
    char = found[0]
    if char in "@:.":  # an entity alone would become a mention or a link again in HTML
        return f"{char}&#8203;"
    return _ENTITIES.get(char, f"\\{char}")


def code(text: str, limit: int = 4000) -> str:
    """Return a code span in a table's cell, for text that readers copy."""
    shown = one_line(text, limit).replace("|", "\\|")
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{space}{shown}{space}{fence}" if shown else ""


def comment(text: str) -> str:
    """Text for the inside of an HTML comment, such as a marker."""
    return re.sub(r"-{2,}", "-", re.sub(r"[<>|`]", "", one_line(text, 200))).strip(" -")
