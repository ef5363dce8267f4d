"""Tables fit into the terminal, and a log gets one line per row."""

from __future__ import annotations

import os
import sys

import pytest
from helpers.record_factories import make_cell

from envbench.cli import terminal
from envbench.engine.local_executor import CHANGED
from envbench.errors import EnvbenchError

HEADS = ["cell", "steps/s", "why"]
ROWS = [
    ["atari Pong-v5 for-loop × 8", "20,700", "it keeps several environments in flight"],
    ["atari Pong-v5 envpool-async × 12", "1,234,567", ""],
]


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_a_table_fits_into_a_terminal_and_keeps_every_word(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(
        terminal.shutil, "get_terminal_size", lambda *_, **__: os.terminal_size((columns, 24))
    )
    lines = terminal.table(ROWS, HEADS, colalign=("left", "right", "left")).splitlines()
    assert max(map(len, lines)) <= columns
    words = " ".join(" ".join(row) for row in ROWS).split()
    assert sorted(words) == sorted(" ".join(lines[2:]).split())


def test_a_log_gets_one_line_per_row() -> None:
    lines = terminal.table(ROWS, HEADS).splitlines()
    assert len(lines) == 2 + len(ROWS)


def test_given_widths_hold_in_a_log_too() -> None:
    text = terminal.table([["1,000", "first\nand a second difference"]], ["a", "b"], widths=[9, 12])
    assert [line.split() for line in text.splitlines()[2:]] == [
        ["1,000", "first"], ["and", "a", "second"], ["difference"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (1.6, "2 s"), (59.7, "1 min 00 s"), (3721, "1 h 02 min")],
)
def test_a_time_is_rounded_to_the_nearest_second(seconds: float, text: str) -> None:
    assert terminal.clock(seconds) == text


@pytest.mark.parametrize(
    ("hint", "shown"), [("", "x: broken\n"), ("Try again.", "x: broken\nTry again.\n")]
)
def test_an_error_without_a_hint_is_one_line(
    capsys: pytest.CaptureFixture[str], hint: str, shown: str
) -> None:
    terminal.tell_error("x: ", EnvbenchError("broken", hint=hint))
    assert capsys.readouterr().err == shown


def test_a_failure_that_cells_share_is_shown_once_with_what_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cells = [make_cell(numenv=1), make_cell(numenv=4), make_cell("subprocess")]
    terminal.tell_failures(zip(cells, [CHANGED, CHANGED, None], strict=True))
    title, message, hint = capsys.readouterr().err.strip().splitlines()
    assert title.endswith("for-loop/1 (and 1 more cell): setup")
    assert message == CHANGED.message
    assert hint.strip() == CHANGED.hint
