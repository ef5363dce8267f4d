"""Marked blocks: valid ones are found, broken ones are errors, everything else is untouched."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbench.errors import UsageError
from envbench.report.markdown import blocks

A = "<!-- Atari - Laptop -->"
B = "<!-- Mujoco - TPU-VM -->"


def headings(text: str) -> list[str]:
    return [block.heading for block in blocks.find(text, "DOC.md")]


def test_a_block_is_the_text_between_two_equal_lines():
    text = f"# x\n{A}\nold\n{A}\nrest"
    (block,) = blocks.find(text, "DOC.md")
    assert (block.heading, block.line, text[block.start : block.end]) == (
        "Atari - Laptop",
        2,
        "old\n",
    )


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        (f"x\n{A}\ntable\n", 2, "has no partner"),
        (f"{A}\n{A}\n\n{A}\n", 4, "occurs a third time"),
        (f"{A}\n{A}\n{A}\n{A}\n", 3, "occurs a third time"),
        (f"{A}\n{B}\n{A}\n{B}\n", 2, "is inside the block"),
        (f"{A}\n{B}\n{B}\n{A}\n", 2, "is inside the block"),
        (f"{A}\n```\n{A}\n```\n", 1, "has no partner"),
        (f"{A}\r\n\r\ntext {A}\r\n", 1, "has no partner"),
    ],
)
def test_missing_repeated_and_crossed_markers_are_errors_with_their_line(text, line, what):
    with pytest.raises(UsageError, match=what) as error:
        blocks.find(text, "DOC.md")
    assert str(error.value).startswith(f"DOC.md:{line}: the marker <!-- ")
    assert "not touched" in str(error.value)
    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    "text",
    [
        f"text {A}\ntext {A}\n",
        f"```\n{A}\n```\n",
        f"~~~~ md\n{A}\n~~~\n{A}\n~~~~\n",
        f"```md\n{A}\n``` no end\n{A}",
        f"    {A}\n",
        "<!-- prettier-ignore -->\n",
        "<!-- Atari -->\n<!-- Notes - Laptop -->\n",
        f"<!-- Atari - {'x - ' * 100_000}",
    ],
)
def test_other_comments_and_code_are_not_markers(text):
    assert headings(text) == []


def test_markers_after_a_code_block_and_with_odd_spaces_are_found():
    text = f"```\n{A}\n```\n  <!--Atari - Laptop-->  \n{A}\n`` ` ``\n```x`\n{B}\n{B}"
    assert headings(text) == ["Atari - Laptop", "Mujoco - TPU-VM"]


def test_a_users_own_task_has_a_marker():
    marker = "<!-- Gym my_package:MyEnv-v0 - Laptop -->"
    assert headings(f"\ufeff{marker}\n{marker}") == ["Gym my_package:MyEnv-v0 - Laptop"]


def test_only_the_content_of_filled_blocks_changes_and_line_ends_are_kept():
    text = f"a\r\n{A}\r\nold\r\n{A}\r\n{B}\nkept  \n{B}\nno end\f\x0b\u2028"
    done = blocks.fill(text, blocks.find(text, "x"), {"Atari - Laptop": "1\n2"})
    assert done == text.replace("old\r\n", "\r\n1\r\n2\r\n\r\n")


@given(st.lists(st.sampled_from([A, B, "x", "```", "", "\u2028", "\x0c", "a\r"]), max_size=12))
def test_filling_nothing_changes_nothing(lines):
    text = "\n".join(lines)
    try:
        found = blocks.find(text, "x")
    except UsageError:
        return
    assert blocks.fill(text, found, {}) == text
    filled = blocks.fill(text, found, {block.heading: "new" for block in found})
    assert [block.heading for block in blocks.find(filled, "x")] == [b.heading for b in found]
