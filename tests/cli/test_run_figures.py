"""What ``envbench run`` says below its figures, from records."""

from __future__ import annotations

from helpers.record_factories import make_cell, make_failure, make_verification, measured_plan

from envbench.cli.run_figures import _table, unverified
from envbench.results.selection import select

SPEEDS = {("for-loop", 1): 100, ("theirs", 1): 100, ("theirs", 8): 100, ("mine", 1): 100}


def test_a_figure_of_less_than_two_seconds_is_quick_and_has_no_rank() -> None:
    for windows, ends in ((4, ["2 400", "1 800"]), (1, ["400 quick", "800 quick"])):
        speeds = {("for-loop", 1): 100, ("envpool-sync", 1): 200}
        found = select(measured_plan(speeds, windows=windows)).measured
        shown = _table([each.summary for each in found], found[0].session).splitlines()
        rows = sorted(" ".join(line.split("%")[-1].split()) for line in shown if "±0" in line)
        assert rows == sorted(ends)


def test_plugins_that_were_never_verified_are_named_in_one_line() -> None:
    assert unverified(select(measured_plan(SPEEDS))) == [
        "mine and theirs are not recommended: nothing shows that their work is equal. "
        "`envbench verify --env atari --task Pong-v5 --backend mine,theirs` compares them."
    ]


def test_the_command_that_compares_a_plugin_has_its_settings() -> None:
    variant = {"turbo": True, "frame_skip": 2}
    runs = measured_plan({("mine", 1): 100}, cell={"variant": variant, "frame_skip": 2})
    (said,) = unverified(select(runs))
    assert "--backend mine --set turbo=true --frame-skip 2` compares it." in said


def test_a_plugin_that_was_verified_with_other_code_is_not_called_unverified() -> None:
    runs = measured_plan(SPEEDS)
    edited = make_verification(make_cell("mine"), runtime="before the edit")
    failed = make_verification(make_cell("theirs"), failure=make_failure())
    assert unverified(select([*runs, edited, failed])) == [
        "theirs is not recommended: its last verification failed. "
        "`envbench verify --env atari --task Pong-v5 --backend theirs` compares it again.",
        "mine is not recommended: it was verified with other code. "
        "`envbench verify --env atari --task Pong-v5 --backend mine` compares it again.",
    ]
