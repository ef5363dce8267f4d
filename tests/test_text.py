"""Text from elsewhere stays harmless text, and small pieces of English are right."""

from __future__ import annotations

import math

import pytest

from envbench.text import code, listed, markdown, names_cut, one_line, rounded

HOSTILE = [
    "<script>alert(1)</script>",
    "[x](javascript:alert(1))",
    "a|b||c",
    "`x` ``",
    "**b** __i__ ~~s~~ \\",
    "@team and @org/team",
    "line\nbreak\r\n\u2028\x85end",
    "\x1b[31mred\x1b]0;title\x07\x9b2J",
    "--> <!-- Atari - Laptop -->",
    "\u202eabc\u200b",
    "https://example.org www.example.org #12",
    "&lt;b&gt;",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text):
    shown = markdown(text)
    assert shown.replace("\\", "").isprintable()
    assert not any(mark in shown for mark in ("<", ">", "|", "@t", "@o", "://", "www.e"))
    for mark in "`*_[]~#":
        assert shown.count(mark) == shown.count(f"\\{mark}") + shown.count(f"&{mark}")
    assert one_line(text).isprintable()


def test_a_command_with_backticks_stays_in_its_code_span() -> None:
    assert code("a `b` ``c`` d") == "```a `b` ``c`` d```"
    assert code("`x`") == "`` `x` ``"
    assert code("") == ""


def test_a_path_of_many_short_names_stays_whole() -> None:
    path = "/".join(["folder"] * 60)
    assert names_cut(f"cannot read {path}.") == f"cannot read {path}."


def test_words_are_joined_as_an_english_list() -> None:
    assert [listed(list("abc"[:n])) for n in range(4)] == ["", "a", "a and b", "a, b and c"]


@pytest.mark.parametrize(
    ("value", "half", "text"),
    [
        (20_735.12, 0.02, "20,700 ±2 %"),
        (20_735.12, 0.008, "20,700 ±0.8 %"),
        (20_735.12, 0.0003, "20,735 ±0.03 %"),
        (20_735.12, 0.13, "21,000 ±13 %"),
        (20_735.12, None, "20,700"),
        (8_049.0, 0.19, "8,000 ±19 %"),
        (95.24, 0.02, "95 ±2 %"),
        (0.01234, 0.05, "0.0123 ±5 %"),
        (1.0, 1.0, "1.0 ±100 %"),
        (1_234.0, 46.92, "1,200 (no useful interval)"),
        (1_232.0, 0.0, "1,232.0 ±0 %"),  # equal runs
        (20_735.12, 1e-9, "20,735 ±0 %"),  # five digits at most
        (160.0, math.inf, "160 (no useful interval)"),
        (999.96, None, "1,000"),
        (4.567, None, "4.57"),
        (1e-9, None, "0.00000000100"),
    ],
)
def test_a_figure_has_the_digits_that_its_interval_supports(
    value: float, half: float | None, text: str
) -> None:
    assert rounded(value, half) == text
