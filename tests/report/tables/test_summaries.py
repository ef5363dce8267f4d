"""The summaries of a report: highest FPS, one environment, costs, equal work, commands."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from helpers.record_factories import (
    DIFFERENT,
    OTHER,
    make_agreement,
    make_cell,
    make_fact,
    make_failure,
    make_plan,
    make_refusal,
    make_run,
    make_windows,
    measured_plan,
    varied_plan,
)

from envbench.errors import UsageError
from envbench.machine import Match, Profile, Table
from envbench.model import (
    Audit,
    Histogram,
    Load,
    Returns,
    Run,
    RuntimeFact,
    Times,
    Verification,
    digest,
)
from envbench.report.contents import block_contents
from envbench.report.markdown.document import block_text, extended, filled, fresh
from envbench.report.markdown.table_text import split_row
from envbench.report.tables.note import NOT_RANKED, TIES
from envbench.results.measured_cells import Location
from envbench.results.selection import select

LAPTOP = Profile(
    name="laptop",
    title="Laptop",
    match=Match(),
    atari=Table(numenv=[1, 8], rows=["for-loop", "envpool-async"]),
)


def block(records: list[Any], name: str) -> str:
    contents = block_contents(select(records), {"laptop": LAPTOP})
    return block_text(contents[f"envbench: {name}"], "")


def grid(text: str, heading: str) -> dict[str, list[str]]:
    lines = [line for line in text.split("\n") if line.startswith("|")]
    rows = [split_row(line) for line in lines]
    start = next(i for i, row in enumerate(rows) if row[0] == heading)
    end = next((i for i in range(start + 2, len(rows)) if rows[i][0].startswith("---")), None)
    mine = rows[start : end - 1 if end else None]
    return {row[0]: row[1:] for row in [mine[0], *mine[2:]]}


HERE = measured_plan({("for-loop", 1): 50, ("for-loop", 8): 40, ("envpool-async", 8): 90})
THERE = measured_plan(
    {("for-loop", 1): 500, ("envpool-sync", 1): 400, ("envpool-sync", 64): 300},
    plan_id="there",
    cell={"machine": "server"},
    fingerprint=digest(OTHER),
)


def test_the_overview_has_each_rows_highest_fps_and_its_numenv_by_machine() -> None:
    table = grid(block([*HERE, *THERE], "overview"), "Highest FPS - Atari Pong-v5")
    assert table == {
        "Highest FPS - Atari Pong-v5": ["Laptop", "server"],
        "For-loop": ["800.00 ±0 % at 1", "**8,000.0 ±0 %** at 1"],
        "EnvPool (async)": ["**1,440.0 ±0 %** at 8", ""],
        "EnvPool (sync)": ["", "6,400.0 ±0 % at 1"],
    }


def test_the_overview_explains_bold_and_ties_only_if_a_row_is_ranked() -> None:
    ranked = block(HERE, "overview")
    assert TIES in ranked
    assert NOT_RANKED not in ranked
    speeds = {("for-loop", 1): 50, ("envpool-async", 8): 90}
    text = block(measured_plan(speeds, alternate=False), "overview")
    assert NOT_RANKED in text
    assert not any(mark in text for mark in (TIES, "**", "≈"))


def test_rows_that_tie_with_the_highest_are_marked_and_none_is_bold() -> None:
    records = varied_plan(
        {("for-loop", 1): SLOW, ("envpool-async", 8): FAST, ("envpool-sync", 4): AS_FAST}
    )
    table = grid(block(records, "overview"), "Highest FPS - Atari Pong-v5")
    assert table["EnvPool (async)"] == ["≈ 3,210 ±2 % at 8"]
    assert table["EnvPool (sync)"] == ["≈ 3,210 ±2 % at 4"]
    assert table["For-loop"] == ["1,600 ±2 % at 1"]


def test_a_row_with_different_work_is_shown_but_never_bold() -> None:
    constant = {"variant": {"actions": "constant"}, "settings": {"actions": "constant"}}
    cheap = measured_plan({("for-loop", 8): 999}, plan_id="cheap", cell=constant)
    table = grid(block([*HERE, *cheap], "overview"), "Highest FPS - Atari Pong-v5")
    assert table["For-loop, actions=constant"] == ["≠ 15,984 at 8<sup>a,b</sup>"]
    assert table["EnvPool (async)"] == ["**1,440.0 ±0 %** at 8"]
    note = "<sup>a</sup> ≠: different work from the reference: another engine, or settings"
    assert note in block([*HERE, *cheap], "overview")
    assert "<sup>b</sup> Measured in another session" in block([*HERE, *cheap], "overview")
    assert "≠" not in block(HERE, "overview")


def test_a_quick_figure_is_marked_in_every_summary_and_never_bold() -> None:
    quick = measured_plan({("subprocess", 1): 999}, plan_id="quick", quick=True, repeats=1)
    for name, heading, entry in (
        ("overview", "Highest FPS - Atari Pong-v5", "16,000 at 1<sup>a,b</sup>"),
        ("single", "Single environment - Atari Pong-v5", "16,000<sup>a,b</sup>"),
        ("costs", "Costs - Atari - Laptop", "1<sup>a</sup>"),
    ):
        text = block([*HERE, *quick], name)
        assert grid(text, heading)["Subprocess"][0] == entry
        assert "<sup>a</sup> Measured quickly (`--quick`, or" in text
        assert "Measured quickly" not in block(HERE, name)
    assert "**1,440.0 ±0 %** at 8" in block([*HERE, *quick], "overview")
    assert "Subprocess" not in block([*HERE, *quick], "recommendation")


def test_a_quick_figure_does_not_hide_the_best_one_of_its_row() -> None:
    quick = measured_plan({("envpool-async", 1): 99}, plan_id="quick", quick=True, repeats=1)
    table = grid(block([*HERE, *quick], "overview"), "Highest FPS - Atari Pong-v5")
    assert table["EnvPool (async)"] == ["**1,440.0 ±0 %** at 8"]


def test_another_engine_is_marked_beside_the_figure() -> None:
    finding = Verification(
        verification_id="v", cell=make_cell("envpool-async", 8), started_utc="2026",
        fingerprint="", runtime="runtime", worker="worker", seed=0, responds=True,
        audit=Audit(calls=20, steps=20, resets=0, frames=80.0, counted_by="the library"),
        agreement=DIFFERENT,
    )  # fmt: skip
    speeds = {("for-loop", 1): 50, ("subprocess", 1): 20, ("envpool-async", 8): 90}
    text = block([*measured_plan(speeds), finding], "overview")
    table = grid(text, "Highest FPS - Atari Pong-v5")
    assert table["EnvPool (async)"] == ["≠ 1,440.0 ±0 % at 8<sup>a</sup>"]
    assert table["For-loop"] == ["**800.00 ±0 %** at 1"]
    assert table["Subprocess"] == ["320.00 ±0 % at 1"]


def test_refused_and_failed_rows_are_not_in_the_overview() -> None:
    cell = next(each.cell for each in HERE if isinstance(each, Run) and each.cell.numenv == 1)
    cheat = make_refusal(cell)
    failed = make_run(cell, plan_id="failed", failure=make_failure())
    records = [*HERE, cheat, make_plan([cell], plan_id="failed"), failed]
    table = grid(block(records, "overview"), "Highest FPS - Atari Pong-v5")
    assert list(table) == ["Highest FPS - Atari Pong-v5", "EnvPool (async)"]


def test_a_refused_row_has_neither_costs_nor_a_share_of_the_ceiling() -> None:
    cheat = make_refusal(make_cell("envpool-async", 8))
    top = measured_plan({("ceiling", 12): 200}, plan_id="top", cell={"kind": "ceiling"})
    assert "EnvPool (async)" in grid(block(HERE, "costs"), "Costs - Atari - Laptop")
    assert "EnvPool (async)" not in block([*HERE, cheat], "costs")
    contents = block_contents(select([*HERE, *top, cheat]), {"laptop": LAPTOP})
    table = grid(block_text(contents["Atari - Laptop"], ""), "Atari - Laptop")
    assert table["For-loop"][-2:] == ["25 %", "–<sup>a</sup>"]
    assert table["EnvPool (async)"][-2:] == ["", "✗<sup>c</sup>"]


def test_what_the_tables_of_equal_work_mean_is_below_the_first_of_them() -> None:
    other = measured_plan({("subprocess", 1): 20}, plan_id="other", cell={"task": "Breakout-v5"})
    cells = [each.cell for each in (*HERE, *other) if isinstance(each, Run)]
    text = block([*HERE, *other, *map(make_refusal, cells)], "equal work")
    first, second = text.split("| Equal work - ")[1:]
    assert "Audit: steps are counted a second way." in first
    assert "Audit" in second.partition("\n")[0]
    assert "a second way" not in second


def test_figures_are_traced_to_the_lines_of_their_records() -> None:
    runs = [each for each in HERE if isinstance(each, Run)]
    locations = {
        run.run_id: Location(run.run_id, "laptop/x.jsonl", n) for n, run in enumerate(runs, 4)
    }
    contents = block_contents(select(HERE, locations), {"laptop": LAPTOP})
    table = grid(block_text(contents["envbench: commands"], ""), "Records - Atari - Laptop")
    assert table["Records - Atari - Laptop"][0] == "File"
    assert table["For-loop"][:2] == ["`laptop/x.jsonl`", "4, 7, 10, 13, 16"]


def test_a_row_shows_the_versions_of_the_packages_that_step_its_environments() -> None:
    packages = {"Box2D": "2.3.10", "ale_py": "0.12.1", "envpool": "1.2.5", "gymnasium": "1.4.0"}
    fact = RuntimeFact(hash="runtime", python="3.11.7", implementation="CPython", packages=packages)
    table = grid(block([fact, *HERE], "commands"), "Packages - Atari - Laptop")
    assert table == {
        "Packages - Atari - Laptop": ["Python", "Packages"],
        "For-loop": ["3.11.7", "ale-py 0.12.1, gymnasium 1.4.0"],
        "EnvPool (async)": ["3.11.7", "envpool 1.2.5, gymnasium 1.4.0"],
    }
    assert "Packages - " not in block(HERE, "commands")  # not recorded


def test_a_single_environment_is_compared_with_the_python_loop() -> None:
    table = grid(block([*HERE, *THERE], "single"), "Single environment - Atari Pong-v5")
    assert table == {
        "Single environment - Atari Pong-v5": ["Laptop", "server"],
        "For-loop": ["800.00 ±0 %", "8,000.0 ±0 %"],
        "EnvPool (sync)": ["", "6,400.0 ±0 % (0.80×)"],
    }


def test_a_ratio_that_is_not_shown_to_differ_from_one_is_marked() -> None:
    text = block(varied_plan({("for-loop", 1): FAST, ("envpool-sync", 1): AS_FAST}), "single")
    table = grid(text, "Single environment - Atari Pong-v5")
    assert table["EnvPool (sync)"] == ["3,210 ±2 % (≈ 1.00×)"]


def test_a_batch_of_one_with_more_in_flight_has_a_footnote() -> None:
    text = block(measured_plan({("for-loop", 1): 50, ("envpool-async", 1): 70}), "single")
    assert "1,120.0 ±0 % (1.40×)<sup>a</sup>" in text
    assert "<sup>a</sup> 3 environments are in flight for a batch of one." in text


def test_a_single_environment_of_another_session_has_no_ratio_without_a_common_kernel() -> None:
    other = varied_plan({("envpool-sync", 1): FAST}, plan_id="b")
    base = varied_plan({("for-loop", 1): SLOW, ("for-loop", 8): SLOW})
    text = block([*base, *other], "single")
    assert "3,210<sup>a</sup>" in text
    assert "×)" not in text
    assert "<sup>a</sup> Measured in another session (2025-11-20)" in text
    days = [
        record
        for k in range(9)
        for record in measured_plan({("for-loop", 8): 100 + k % 2}, plan_id=f"day{k}")
    ]
    assert "×)" not in block([*days, *base, *other], "single")  # although the drift is known


def test_costs_are_those_of_the_largest_number_of_environments() -> None:
    times = Times(
        import_ns=10**9, build_ns=5 * 10**8, first_step_ns=10**8, warmup_ns=1, measured_ns=1
    )
    records = measured_plan(
        {("for-loop", 1): 50, ("for-loop", 8): 40},
        run={"times": times, "peak_memory_bytes": 2**30},
    )
    assert grid(block(records, "costs"), "Costs - Atari - Laptop") == {
        "Costs - Atari - Laptop": [
            "Environments",
            "Start-up",
            "First step",
            "Host memory",
            "Frames per CPU second",
        ],
        "For-loop": ["8", "1.50 s", "100 ms", "1,020 MiB", "640"],
    }


def test_latency_and_resets_are_in_the_costs_where_they_were_measured() -> None:
    latency = Histogram(values=[10_000, 2_000_000], counts=[99, 1])
    resets = make_windows([0], 40_000_000, resets=[80])
    resets = msgspec.structs.replace(resets, calls=[10])
    records = measured_plan({("for-loop", 8): 40}, run={"latency": latency, "resets": resets})
    records += measured_plan({("subprocess", 8): 40}, plan_id="without")
    text = block(records, "costs")
    costs, latencies = "Costs - Atari - Laptop", "Latency - Atari - Laptop"
    table = grid(text, costs)
    column = table[costs].index("Reset")
    assert [table[row][column] for row in ("For-loop", "Subprocess")] == ["4.00 ms", ""]
    assert grid(text, latencies) == {
        latencies: ["Environments", "Median", "95 %", "99 %", "Slowest 1 %"],
        "For-loop": ["8", "10.0 µs", "10.0 µs", "10.0 µs", "67 %"],
    }


def test_service_and_energy_are_shown_where_they_were_recorded() -> None:
    returns = Returns(calls=30, counts=[10] * 24, ages=Histogram(values=[3], counts=[200]))
    given = {"returns": returns, "load": Load(cpu_energy_j=32.0)}
    records = measured_plan({("envpool-async", 8): 5}, run=given)  # 80 frames per run
    records += measured_plan({("for-loop", 8): 40}, plan_id="without")
    text = block(records, "costs")
    costs, service = "Costs - Atari - Laptop", "Service - Atari - Laptop"
    table = grid(text, costs)
    column = table[costs].index("Frames per joule")
    assert [table[row][column] for row in ("EnvPool (async)", "For-loop")] == ["2.50", ""]
    assert grid(text, service) == {
        service: [
            *("Environments", "In flight", "Fairness", "Least served", "Most served"),
            *("Age if all were equal", "Median age", "Age, 99 %"),
        ],
        "EnvPool (async)": ["8", "24", "1.000", "1.00", "1.00", "3", "3", "3"],
    }


def test_the_speed_without_stops_is_shown_and_the_note_says_which_rows_differ() -> None:
    records = [
        msgspec.structs.replace(each, alternated=True, warmup=make_windows(steps))
        if isinstance(each, Run)
        and (steps := {"for-loop": [40] * 8, "envpool-sync": [32] * 8}.get(each.cell.backend))
        else each
        for each in measured_plan(
            {("for-loop", 8): 40, ("envpool-sync", 8): 40, ("subprocess", 8): 40}
        )
    ]
    without = "Without stops - Atari - Laptop"
    assert grid(block(records, "costs"), without) == {
        without: ["Speed without stops", "Processes"],
        "For-loop": ["1.00 (1.00 to 1.00)", "5"],
        "EnvPool (sync)": ["0.80 (0.80 to 0.80)", "5"],
    }
    sentence = "without stops (in the warm-up): EnvPool (sync) 20 % slower (0.80 to 0.80 times)."
    contents = block_contents(select(records), {"laptop": LAPTOP})
    assert sentence in block_text(contents["Atari - Laptop"], "")


def test_phases_of_the_start_are_cold_and_warm_and_memory_has_a_part_per_environment() -> None:
    def times(seconds: int) -> Times:
        ns = seconds * 10**9
        return Times(import_ns=ns, build_ns=ns, first_step_ns=ns, warmup_ns=1, measured_ns=1)

    records = [
        msgspec.structs.replace(
            each,
            times=times(9 if each.round == 0 else 2),
            peak_memory_bytes=(100 + 10 * each.cell.numenv) * 2**20,
        )
        if isinstance(each, Run)
        else each
        for each in measured_plan(
            {("for-loop", numenv): 5 for numenv in (1, 4, 8)}, free_memory=2**30
        )
    ]
    text = block(records, "costs")
    starts, memory = "Start-up - Atari - Laptop", "Memory - Atari - Laptop"
    assert grid(text, starts) == {
        starts: [
            "Environments",
            *("Import, cold", "Import, warm", "Build, cold", "Build, warm"),
            *("First step, cold", "First step, warm"),
        ],
        "For-loop": ["8", *["9.00 s", "2.00 s"] * 3],
    }
    assert grid(text, memory) == {
        memory: [
            "Environments",
            *("Measured with", "Fixed part", "Per environment", "Largest deviation", "Fit"),
        ],
        "For-loop": ["8", "1, 4, 8", "100 MiB", "10.0 MiB", "0 %", "92"],
    }


def test_every_row_has_its_command_and_every_machine_its_fingerprint() -> None:
    text = block(
        [*measured_plan({("for-loop", 1): 5},
                        command=["envbench", "run", "--env", "a|b", "--task", "me@lab//x:E-v0",
                                 "--results", "/tmp/mine"],
                        git_commit="0123456789abcdef", git_dirty=True), make_fact()],
        "commands",
    )  # fmt: skip
    table = grid(text, "Commands - Laptop")
    # A code span: readers copy the command.
    assert table["`envbench run --env 'a\\|b' --task me@lab//x:E-v0`"] == [
        "Atari: For-loop", "2025-11-20T10:00:00Z", "0, commit 0123456789ab with changes",
    ]  # fmt: skip
    assert "Laptop is Intel(R) Core(TM) i7-8750H CPU @ 2.20GHz, 12 CPUs, 16 GiB." in text


@pytest.mark.parametrize(
    "name", ["overview", "single", "recommendation", "costs", "equal work", "commands"]
)
def test_a_new_page_has_no_block_for_an_empty_summary(name: str) -> None:
    found = block_contents(select([]), {"laptop": LAPTOP})
    marker = f"<!-- envbench: {name} -->"
    assert marker not in fresh(found)
    document = f"{marker}\nold\n{marker}\n"
    assert filled(document, "D", found).text == document


def test_a_new_page_has_the_summaries_and_filling_it_again_changes_nothing() -> None:
    found = block_contents(select(HERE), {"laptop": LAPTOP})
    page = filled(fresh(found), "R", found).text
    for name in ("overview", "single", "costs", "commands"):
        assert page.count(f"<!-- envbench: {name} -->") == 2
    assert filled(extended(page, "R", found), "R", found).text == page


def test_a_summary_that_the_pages_owner_removed_does_not_come_back() -> None:
    found = block_contents(select(HERE), {"laptop": LAPTOP})
    page = filled(extended("# Mine\n", "R", found), "R", found).text
    assert "envbench:" not in page
    assert "<!-- Atari - Laptop -->" in page


def test_an_unknown_envbench_marker_is_an_error_with_the_nearest_name() -> None:
    found = block_contents(select(HERE), {"laptop": LAPTOP})
    marker = "<!-- envbench: overvew -->"
    with pytest.raises(UsageError, match=r"D.md:1: .*did you mean 'envbench: overview'"):
        filled(f"{marker}\nx\n{marker}\n", "D.md", found)


# ---------------------------------------------------------------- recommendation


FAST, AS_FAST, SLOW = (200, 204, 198, 202, 199), (201, 197, 203, 199, 202), (99, 101, 100, 98, 102)


def test_the_best_is_recommended_with_its_ties() -> None:
    records = varied_plan(
        {
            ("for-loop", 1): SLOW,
            ("envpool-sync", 8): AS_FAST,
            ("envpool-async", 4): SLOW,
            ("envpool-async", 8): FAST,
        }
    )
    text = block(records, "recommendation")
    table = grid(text, "Recommendation - Atari - Laptop")
    assert table["highest FPS"][:2] == [
        "EnvPool (async) at 8 (24 in flight)<sup>a</sup>",  # not bold: a row ties with it
        "3,210 ±1 %",
    ]
    assert "<sup>a</sup> Measured in one session." in text
    assert (
        "This row ties with the highest FPS (within noise): EnvPool (sync) at 8 (3,210 ±1 %)."
        in text
    )
    assert "The highest of 4 figures is biased upward" in text
    assert "no gain" not in text


def test_the_note_says_where_more_environments_bring_no_gain() -> None:
    records = varied_plan({("envpool-async", 4): AS_FAST, ("envpool-async", 8): FAST})
    text = block(records, "recommendation")
    assert "EnvPool (async) shows no gain beyond noise above 4 environments." in text
    assert "No other row" not in text  # there is none


def test_only_rows_of_the_tables_session_are_recommended() -> None:
    """The higher figure of another session may come from a faster day."""
    own = varied_plan({("for-loop", 1): SLOW, ("envpool-sync", 8): FAST})
    once = varied_plan({("envpool-async", 8): tuple(2 * each for each in FAST)}, plan_id="2")
    text = block([*own, *once], "recommendation")
    assert grid(text, "Recommendation - Atari - Laptop")["highest FPS"][0].startswith(
        "**EnvPool (sync) at 8**"
    )
    assert "async" not in text
    assert "No other row is within noise of the highest FPS." in text
    alone = varied_plan({("envpool-sync", 8): FAST})
    assert block([*alone, *once], "recommendation") == ""


def test_rows_that_did_not_alternate_are_recommended_by_the_spread_of_their_processes() -> None:
    records = varied_plan(
        {("for-loop", 1): SLOW, ("envpool-sync", 8): AS_FAST, ("envpool-async", 8): FAST},
        alternate=False,
    )
    text = block(records, "recommendation")
    assert "ties with the highest FPS (within noise): EnvPool (sync) at 8 (3,210 ±2 %)." in text


def test_one_process_and_frames_per_cpu_second_have_their_own_rows() -> None:
    records = varied_plan({("subprocess", 8): FAST, ("for-loop", 1): SLOW})
    table = grid(block(records, "recommendation"), "Recommendation - Atari - Laptop")
    assert table["highest FPS"][0].startswith("**Subprocess at 8**")
    assert table["highest FPS in one process"][0].startswith("For-loop at 1")
    # five runs of one CPU second each: 4 windows of 200 steps and 4 frames per step
    assert table["most frames per CPU second"][2] == "3,210"


def test_different_work_and_quick_measurements_are_never_recommended() -> None:
    cheap = varied_plan(
        {("envpool-async", 8): (900, 901, 902, 903, 904)},
        plan_id="cheap",
        cell={"variant": {"actions": "constant"}, "settings": {"actions": "constant"}},
    )
    quick = measured_plan({("ale-vector", 8): 999}, plan_id="quick", repeats=1, quick=True)
    records = [*varied_plan({("for-loop", 1): SLOW, ("envpool-sync", 8): FAST}), *cheap, *quick]
    assert "EnvPool (sync) at 8" in block(records, "recommendation")
    assert "constant" not in block(records, "recommendation")
    assert "ALE" not in block(records, "recommendation")


def test_a_quick_measurement_does_not_count_as_a_second_one() -> None:
    once = varied_plan({("envpool-async", 4): SLOW, ("envpool-async", 8): FAST})
    quick = measured_plan({("envpool-async", 8): 10}, plan_id="q", quick=True, run={"quick": True})
    cell = make_cell("envpool-async", 8)
    failed = [make_plan([cell], plan_id="f"), make_run(cell, plan_id="f", failure=make_failure())]
    text = block([*once, *quick, *failed], "recommendation")
    assert "Measured in one session." in text
    again = varied_plan({("envpool-async", 4): SLOW, ("envpool-async", 8): FAST}, plan_id="again")
    assert "Measured in one session." not in block([*once, *again], "recommendation")


def test_a_recommended_cells_flags_are_footnotes() -> None:
    load = Load(cpu_s=1.0, other_cpu_s=900.0)
    records = varied_plan({("for-loop", 1): SLOW, ("envpool-async", 8): FAST}, run={"load": load})
    text = block(records, "recommendation")
    table = grid(text, "Recommendation - Atari - Laptop")
    assert table["highest FPS"][0] == "**EnvPool (async) at 8** (24 in flight)<sup>a,b</sup>"
    assert "<sup>b</sup> Other programs used over a tenth" in text


def test_ties_are_listed_from_the_highest_with_their_figures_and_flags() -> None:
    speeds = {"envpool-async": FAST, "ale-vector": (199, 203, 197, 201, 198), "for-loop": SLOW}
    speeds["envpool-sync"] = AS_FAST
    records = varied_plan({(name, 8): found for name, found in speeds.items()})
    text = block(records, "recommendation")
    assert (
        "These rows tie with the highest FPS (within noise): EnvPool (sync) at 8 "
        "(3,210 ±1 %) and ALE (vector) at 8 (3,190 ±1 %)." in text
    )


def test_every_recommended_row_has_its_ties() -> None:
    records = varied_plan(
        {("subprocess", 8): FAST, ("for-loop", 1): SLOW, ("envpool-sync", 1): SLOW}
    )
    text = block(records, "recommendation")
    assert "This row ties with the highest FPS in one process (within noise):" in text
    assert "as many frames per CPU second" not in text


def doubtful(numenv: int = 1) -> list[Any]:
    """EnvPool at that number of environments shows no steps of its spot check."""
    hidden = make_agreement(steps=0, observations=[], rewards=[])
    cells = [make_cell(name, many) for name in ("for-loop", "envpool-sync") for many in (1, 8)]
    speeds = {"for-loop": 50, "envpool-sync": 60}
    runs = [
        make_run(
            cell,
            [speeds[cell.backend] + cell.numenv + round % 3] * 4,
            round=round,
            block=f"b{round}",
            agreement=hidden
            if round == 1 and cell.backend == "envpool-sync" and cell.numenv == numenv
            else None,
        )
        for round in range(5)
        for cell in cells
    ]
    return [make_fact(), make_plan(cells), *runs]


def test_a_single_environments_figure_in_doubt_has_no_ratio_and_says_why() -> None:
    text = block(doubtful(), "single")
    row = next(line for line in text.splitlines() if line.startswith("| EnvPool (sync)"))
    assert "×" not in row
    assert "It is not ranked." in text


def test_a_figure_in_doubt_is_a_rows_highest_only_if_the_row_has_no_other() -> None:
    text = block(doubtful(numenv=8), "overview")
    assert " at 1" in next(line for line in text.splitlines() if line.startswith("| EnvPool"))
