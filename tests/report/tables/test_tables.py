"""Tables: results merged into the rows and columns of the profile and of a document."""

from __future__ import annotations

import pytest
from helpers.record_factories import (
    OTHER,
    make_cell,
    make_failure,
    make_plan,
    make_run,
    make_windows,
    measured_plan,
    varied_plan,
)
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from envbench.machine import Match, Profile, Table
from envbench.model import Plan, Run, digest
from envbench.report.by_machine import machine_results
from envbench.report.contents import block_contents
from envbench.report.markdown.blocks import find
from envbench.report.markdown.document import block_text, extended, filled, fresh
from envbench.report.markdown.table_text import render, split_row
from envbench.report.tables import note
from envbench.report.tables.costs import FIRST_STEP, cost_texts
from envbench.report.tables.table import Entry, Existing
from envbench.report.tables.table import Table as Rows
from envbench.results.selection import select
from envbench.stats.summary import Costs
from envbench.text import markdown

PROFILE = Profile(
    name="laptop",
    title="Laptop",
    match=Match(cpu="*i7-8750H*", cores=12),
    atari=Table(numenv=[1, 8], rows=["for-loop", "envpool-async"]),
)
MARK = "<!-- Atari - Laptop -->"


def tables(records, profile=PROFILE, *, plain=False):
    """The contents that are tables of measurements, without summaries."""
    found = block_contents(select(records), {profile.name: profile}, plain=plain)
    return {name: each for name, each in found.items() if not name.startswith("envbench: ")}


def rendered(records, existing="", heading="Atari - Laptop", profile=PROFILE, *, plain=False):
    return block_text(tables(records, profile, plain=plain)[heading], existing)


def grid(text):
    """Rows of a rendered table: label -> entries, the header under its own label."""
    lines = [line for line in text.split("\n") if line.startswith("|")]
    rows = [split_row(line) for line in [lines[0], *lines[2:]]]
    return {row[0]: row[1:] for row in rows}


def into(text, records, *, plain=False):
    return filled(text, "DOC.md", tables(records, plain=plain)).text


def with_other_cell(records, replaced, **changes):
    """The records; the cell of the backend ``replaced`` is changed."""
    return [
        structs.replace(each, cell=structs.replace(each.cell, **changes))
        if isinstance(each, Run) and each.cell.backend == replaced
        else structs.replace(
            each,
            cells=[
                structs.replace(cell, **changes) if cell.backend == replaced else cell
                for cell in each.cells
            ],
        )
        if isinstance(each, Plan)
        else each
        for each in records
    ]


# ---------------------------------------------------------------- figures


def test_a_table_has_the_profiles_rows_and_columns_and_rounded_figures():
    records = varied_plan({("for-loop", 8): (77, 79, 78, 76, 80)})
    assert grid(rendered(records)) == {
        "Atari - Laptop": ["1", "8"],
        "For-loop": ["", "1,250 ±3 %"],
        "EnvPool (async)": ["", ""],
    }


def test_plain_figures_are_total_frames_over_total_time_with_two_decimals():
    records = varied_plan({("for-loop", 8): (77, 79, 78, 76, 80), ("envpool-async", 8): [9] * 5})
    table = grid(rendered(records, plain=True))
    assert table["For-loop"] == ["", "**1248.00**"]
    assert table["EnvPool (async)"] == ["", "144.00"]


def test_a_table_shows_what_cells_would_have_reached_at_the_same_time():
    """Three cells of the same speed. In every second round EnvPool is alone in a block in which the
    machine is twice as fast."""
    speeds = {("for-loop", 8): 1, ("subprocess", 8): 1, ("envpool-async", 8): 1}
    records = []
    for each in measured_plan(speeds, repeats=10):
        if isinstance(each, Run):
            fast = each.round % 2 == 1 and each.cell.backend == "envpool-async"
            wobble = (7 * each.round + 3 * len(each.cell.backend)) % 5
            steps = (20_000 if fast else 10_000) + 10 * wobble
            block = f"{each.block} alone" if fast else each.block
            each = structs.replace(each, block=block, measured=make_windows([steps] * 4))
        records.append(each)
    columns = [row[1] for row in list(grid(rendered(records)).values())[1:]]
    assert all(text.startswith("≈ ") for text in columns)
    figures = [float(text.split()[1].replace(",", "")) for text in columns]
    assert max(figures) / min(figures) == pytest.approx(1.0, abs=2e-3)
    plain = [row[1] for row in list(grid(rendered(records, plain=True)).values())[1:]]
    figures = [float(text.removeprefix("≈ ")) for text in plain]
    assert max(figures) / min(figures) == pytest.approx(1.5, abs=0.01)


def test_the_best_figure_of_each_column_is_bold_and_ties_are_marked():
    speeds = {("for-loop", 1): 10, ("envpool-async", 1): 10, ("for-loop", 8): 9}
    records = measured_plan({**speeds, ("envpool-async", 8): 20})
    table = grid(rendered(records))
    assert table["For-loop"] == ["≈ 160.00 ±0 %", "144.00 ±0 %"]
    assert table["EnvPool (async)"] == ["≈ 160.00 ±0 %", "**320.00 ±0 %**"]
    table = grid(rendered(records, plain=True))
    assert table["For-loop"] == ["≈ 160.00", "144.00"]
    assert table["EnvPool (async)"] == ["≈ 160.00", "**320.00**"]


@pytest.mark.parametrize("plain", [True, False])
def test_a_difference_that_is_not_shown_is_a_tie(plain):
    noisy = {("for-loop", 8): (90, 110, 100, 95, 105), ("envpool-async", 8): (112, 91, 98, 108, 96)}
    table = grid(rendered(varied_plan(noisy), plain=plain))
    assert [row[1][:2] for row in list(table.values())[1:]] == ["≈ ", "≈ "]


def test_cells_that_did_not_alternate_are_neither_bold_nor_ties():
    speeds = {("for-loop", 1): 10, ("envpool-async", 1): 20}
    table = grid(rendered(measured_plan(speeds, alternate=False)))
    assert table["For-loop"] == ["160.00 ±0 %", ""]
    assert table["EnvPool (async)"] == ["320.00 ±0 %", ""]


def test_a_figure_of_another_session_is_never_the_best_and_has_a_footnote():
    own = measured_plan({("for-loop", 1): 10, ("envpool-async", 1): 20})
    text = rendered([*own, *measured_plan({("subprocess", 1): 99}, plan_id="other")])
    table = grid(text)
    assert table["EnvPool (async)"][0] == "**320.00 ±0 %**"
    assert table["Subprocess"][0] == "1,584.0<sup>a</sup>"
    assert "<sup>a</sup> Measured in another session (2025-11-20): it is not ranked" in text


def test_a_row_with_different_work_is_never_the_best():
    records = with_other_cell(
        measured_plan({("for-loop", 8): 10, ("envpool-async", 8): 5, ("subprocess", 8): 99}),
        "subprocess",
        backend="for-loop",
        settings={"actions": "constant"},
        variant={"actions": "constant"},
    )
    table = grid(rendered(records))
    assert table["For-loop"] == ["", "**160.00 ±0 %**"]
    assert table["EnvPool (async)"] == ["", "80.000 ±0 %"]
    assert table["For-loop, actions=constant"] == ["", "1,584.0 ±0 %"]


def test_the_note_names_what_ran_in_place_of_the_task():
    facts = {"library_task": "Other-v9", "library_arguments": {"forces": True}}
    text = rendered(measured_plan({("for-loop", 8): 10}, run={"facts": facts}))
    assert "For-loop ran Other-v9 (forces=True) in place of Pong-v5." in text
    same = {"library_task": "ALE/Pong-v5", "library_arguments": {"frameskip": 1}}
    assert "in place of" not in rendered(measured_plan({("for-loop", 8): 10}, run={"facts": same}))


def test_other_measured_rows_and_columns_are_inserted_in_order():
    speeds = {("brax", 4): 1, ("for-loop", 16): 1, ("subprocess", 1): 1, ("my-plugin", 8): 1}
    table = grid(rendered(measured_plan(speeds)))
    assert table["Atari - Laptop"] == ["1", "4", "8", "16"]
    assert list(table)[1:] == ["For-loop", "EnvPool (async)", "Subprocess", "Brax", "my-plugin"]


def test_a_machine_without_a_profile_gets_its_columns_from_the_data():
    records = measured_plan({("for-loop", 3): 10}, cell={"machine": "unheard-of"})
    table = grid(rendered(records, heading="Atari - unheard-of"))
    assert table == {"Atari - unheard-of": ["3"], "For-loop": ["160.00 ±0 %"]}


def test_a_family_that_the_profile_does_not_list_has_the_columns_that_were_measured():
    cell = {"env": "box2d", "task": "LunarLander-v3"}
    records = measured_plan({("for-loop", 4): 10}, cell=cell)
    table = grid(rendered(records, heading="Box2D - Laptop"))
    assert table["Box2D - Laptop"] == ["4"]
    assert "EnvPool (sync)" in table


def test_two_machines_with_the_same_title_have_separate_tables():
    records = [
        *measured_plan({("for-loop", 1): 10}),
        *measured_plan({("for-loop", 1): 20}, plan_id="2", cell={"machine": "Laptop"}),
    ]
    assert {"Atari - Laptop", "Atari - Laptop (laptop)"} <= set(tables(records))


# ---------------------------------------------------------------- footnotes


def test_flags_and_other_hardware_are_footnotes_inside_the_block():
    records = measured_plan(
        {("for-loop", 1): 10, ("for-loop", 8): 10},
        quick=True,
        repeats=1,
        fingerprint=digest(OTHER),
    )
    text = rendered(records)
    assert grid(text)["For-loop"] == ["160<sup>a,b</sup>", "160<sup>a,b</sup>"]
    assert "<sup>a</sup> Measured quickly (`--quick`, or" in text
    assert "<sup>b</sup> Not measured on the profile's hardware: Some CPU, 2 CPUs." in text
    assert "No figure has an interval." in text


def test_a_quick_figure_is_marked_and_not_bold_and_so_is_its_share_of_the_ceiling():
    quick = measured_plan(
        {("for-loop", 8): 50, ("subprocess", 8): 40}, plan_id="quick", quick=True, repeats=1
    )
    whole = measured_plan(
        {
            ("for-loop", 1): 9,
            ("envpool-async", 1): 5,
            ("envpool-async", 8): 30,
            ("ale-vector", 8): 9,
        }
    )
    top = measured_plan({("ceiling", 12): 200}, plan_id="top", cell={"kind": "ceiling"})
    text = rendered([*quick, *whole, *top])
    table = grid(text)
    assert table["For-loop"] == ["**144.00 ±0 %**", "800<sup>a,b</sup>", "4.5 %"]
    assert "<sup>a</sup> Measured quickly" in text
    assert "<sup>b</sup> Measured in another session" in text
    assert table["EnvPool (async)"] == ["80.000 ±0 %", "**480.00 ±0 %**", "15 %"]
    table = grid(rendered([*quick, *top]))
    assert table["For-loop"] == ["", "800<sup>a</sup>", "25 %<sup>a</sup>"]
    assert table["Subprocess"] == ["", "640<sup>a</sup>", "20 %<sup>a</sup>"]


def test_a_failure_is_a_footnote_in_an_empty_entry():
    cell = make_cell(numenv=8)
    failure = make_failure(signal="SIGSEGV", phase="first_step", message="it | died\n@team")
    text = rendered([make_plan([cell]), make_run(cell, failure=failure)])
    assert grid(text)["For-loop"] == ["", "<sup>a</sup>"]
    assert text.endswith(
        "<sup>a</sup> No figure (signal in first step, SIGSEGV): it &#124; died @&#8203;team"
    )


def test_the_note_explains_intervals_and_the_environments_in_flight():
    records = measured_plan({("envpool-async", 1): 10, ("envpool-async", 8): 10})
    text = rendered(records)
    assert "EnvPool (async) keeps 3 environments in flight for each one in the batch." in text
    assert "± is a 95 % interval that compares rows of one session" in text
    assert "2025-11-20" in text


# ---------------------------------------------------------------- a document's own figures


OWN = """
A person's remark.

| Atari - Laptop | 1 | 4 | 8 | Notes |
|:--|--:|---|---|---|
| For-loop | **4745.54**<sup>c</sup> | 12\\|3 | 5.0 | see [x](y) |
| Homemade | 1e3 | | **9** |

<sup>a</sup> No entry refers to this.
<sup>c</sup> As a friend said.

Another remark.
"""


def test_a_figure_without_a_result_stays_as_written_with_its_own_footnote():
    text = rendered(measured_plan({("for-loop", 8): 10}, repeats=2), OWN)
    table = grid(text)
    assert table["Atari - Laptop"] == ["1", "4", "8", "Notes"]
    assert table["For-loop"] == [
        "**4745.54**<sup>c</sup>",
        "12\\|3",
        "160<sup>a</sup>",
        "see [x](y)",
    ]
    assert table["Homemade"] == ["1e3", "", "**9**", ""]
    assert list(table)[1:] == ["For-loop", "EnvPool (async)", "Homemade"]
    assert "<sup>c</sup> As a friend said." in text
    assert "<sup>a</sup> Fewer than five" in text
    assert "No entry" not in text
    assert "The other figures are the document's own." in text
    assert text.startswith("A person's remark.\n\n|")
    assert text.endswith("\n\nAnother remark.")


def test_a_table_has_at_most_five_footnotes_and_the_rarest_share_one():
    notes = ["common.", "second.", "third.", "fourth.", "rare one.", "rare two."]
    rows = [
        ("For-loop", [Entry(text="1", notes=tuple(notes[:4])) for _ in range(3)]),
        ("Subprocess", [Entry(text="2", notes=(notes[4], notes[5])), Entry(text="3"), Entry()]),
    ]
    text = render(Rows(heading="X", columns=["1", "2", "3"], rows=rows))
    assert [line for line in text.split("\n") if line.startswith("<sup>")] == [
        "<sup>a</sup> common.", "<sup>b</sup> second.", "<sup>c</sup> third.",
        "<sup>d</sup> fourth.", "<sup>e</sup> One of these: rare one. rare two.",
    ]  # fmt: skip
    assert "2<sup>e</sup>" in text


@pytest.mark.parametrize("refusal", [
    "No figure: its steps are not the reference's",
    "Refused: it claims 10 results, and its calls give at most 5.",
    "It was never verified.",
])  # fmt: skip
def test_a_refusal_never_shares_its_footnote(refusal):
    notes = ["common.", "second.", "third.", "fourth.", "rare one.", "rare two."]
    rows = [
        ("For-loop", [Entry(text="1", notes=tuple(notes[:4])) for _ in range(3)]),
        ("Subprocess", [Entry(text="2", notes=tuple(notes[4:])), Entry(notes=(refusal,)), Entry()]),
    ]
    text = render(Rows(heading="X", columns=["1", "2", "3"], rows=rows))
    assert [line for line in text.split("\n") if line.startswith("<sup>")][4:] == [
        f"<sup>e</sup> {refusal}",
        "<sup>f</sup> One of these: rare one. rare two.",
    ]


def test_each_doubtful_figure_has_its_own_footnote():
    doubts = [
        f"{n}.5 times the ceiling: its engine is unknown. It is not ranked." for n in range(8)
    ]
    row = ("mine", [Entry(text=f"{n}", notes=(doubts[n],)) for n in range(8)])
    text = render(Rows(heading="X", columns=[*"abcdefgh"], rows=[row]))
    assert [line for line in text.split("\n") if line.startswith("<sup>")] == [
        f"<sup>{letter}</sup> {doubt}" for letter, doubt in zip("abcdefgh", doubts, strict=True)
    ]


def test_new_footnotes_do_not_reuse_the_documents_letters():
    own = OWN.replace("<sup>c</sup>", "<sup>a</sup>").replace("<sup>a</sup> No entry", "x")
    text = rendered(measured_plan({("for-loop", 8): 10}, repeats=2), own)
    assert "| 160<sup>b</sup> " in text
    assert "<sup>a</sup> As a friend said." in text


def test_a_failure_leaves_a_documents_figure_as_it_is():
    cell = make_cell()
    text = rendered([make_plan([cell]), make_run(cell, failure=make_failure())], OWN)
    assert grid(text)["For-loop"][0] == "**4745.54**<sup>c</sup>"


def test_filling_a_second_time_changes_nothing():
    records = measured_plan({("for-loop", 8): 10, ("brax", 2): 3}, repeats=1)
    once = into(f"x\n{MARK}\n{OWN}{MARK}\nno end", records)
    assert into(once, records) == once
    assert once.startswith(f"x\n{MARK}\n\nA person's remark.")
    assert once.endswith(f"{MARK}\nno end")


NO_RECORD = "The results contain no record of this figure."


@pytest.mark.parametrize(("plain", "shown"), [(True, "160.00"), (False, "160.00 ±0 %")])
def test_a_figure_without_a_record_is_not_bold_and_has_a_footnote(plain, shown):
    def update(text, records):
        return into(text, records, plain=plain)

    whole = {("for-loop", 8): 10, ("envpool-async", 8): 5, ("for-loop", 1): 6}
    both = update(f"{MARK}\n{MARK}\n", measured_plan(whole))
    assert grid(both)["For-loop"][1] == f"**{shown}**"
    gone = measured_plan({("for-loop", 1): 6})
    left = update(both, gone)
    assert grid(left)["For-loop"] == [
        "96.00" if plain else "96.000 ±0 %", f"{shown}<sup>a</sup>",
    ]  # fmt: skip
    assert f"<sup>a</sup> {NO_RECORD}" in left
    assert note.OTHERS not in left
    assert update(left, gone) == left
    again = update(left, measured_plan(whole))
    assert grid(again)["For-loop"][1] == f"**{shown}**"
    assert NO_RECORD not in again


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("20,700 ±2 %", "20,700 ±2 %"), ("**20,700 ±2 %**", "20,700 ±2 %"),
        ("≈ 20,700 ±2 %", "20,700 ±2 %"), ("646", "646"), ("≈ 646", "646"),
        ("0.0123 ±5 %", "0.0123 ±5 %"), ("1,234,000 ±0.09 %", "1,234,000 ±0.09 %"),
        ("1.0 ±250 %", "1.0 ±250 %"), ("20735.12", "20735.12"), ("**20735.12**", "20735.12"),
    ],
)  # fmt: skip
def test_a_reports_figure_of_any_style_is_recognised_when_its_record_is_gone(written, kept):
    once = into(f"{MARK}\n{MARK}\n", measured_plan({("for-loop", 8): 10, ("for-loop", 1): 6}))
    old = once.replace("160.00 ±0 %", written)
    assert old != once
    left = into(old, measured_plan({("for-loop", 1): 6}))
    assert grid(left)["For-loop"][1] == f"{kept}<sup>a</sup>"
    assert f"<sup>a</sup> {NO_RECORD}" in left


@pytest.mark.parametrize("written", ["about 20,700", "20,700 FPS", "20k", "see [x](y)", "±2 %"])
def test_an_authors_text_in_a_reports_table_stays(written):
    once = into(f"{MARK}\n{MARK}\n", measured_plan({("for-loop", 8): 10, ("for-loop", 1): 6}))
    left = into(once.replace("160.00 ±0 %", written), measured_plan({("for-loop", 1): 6}))
    assert grid(left)["For-loop"][1] == written
    assert NO_RECORD not in left


def test_a_figure_without_a_record_keeps_its_other_footnotes():
    both = into(
        f"{MARK}\n{MARK}\n", measured_plan({("for-loop", 8): 10, ("for-loop", 1): 5}, repeats=2)
    )
    left = into(both, measured_plan({("for-loop", 1): 6}))
    assert grid(left)["For-loop"] == ["96.000 ±0 %", "160.00 ±0 %<sup>a,b</sup>"]
    assert "<sup>a</sup> Fewer than five" in left
    assert f"<sup>b</sup> {NO_RECORD}" in left
    assert into(left, measured_plan({("for-loop", 1): 6})) == left


def test_figures_without_records_stay_unchanged_beside_an_authors_figures():
    both = into(f"{MARK}\n{OWN}{MARK}\n", measured_plan({("for-loop", 8): 10, ("brax", 2): 3}))
    left = into(both, measured_plan({("brax", 2): 3}))
    assert grid(left)["For-loop"][:4] == grid(both)["For-loop"][:4]
    assert NO_RECORD not in left


def test_a_share_and_a_badge_disappear_with_their_figures():
    ceiling = measured_plan({("ceiling", 2): 20}, plan_id="top", cell={"kind": "ceiling"})
    both = into(
        f"{MARK}\n{MARK}\n", [*measured_plan({("for-loop", 8): 10, ("brax", 2): 3}), *ceiling]
    )
    assert grid(both)["For-loop"][-1] == "50 %"
    left = into(both, [*measured_plan({("brax", 2): 3}), *ceiling])
    assert grid(left)["For-loop"] == ["", "", "160.00 ±0 %<sup>a</sup>", ""]


def test_a_figure_without_a_record_also_has_the_footnote_of_a_later_failure():
    both = into(f"{MARK}\n{MARK}\n", measured_plan({("for-loop", 8): 10, ("for-loop", 1): 5}))
    cell = make_cell("for-loop", 8)
    failed = [make_plan([cell], plan_id="f"), make_run(cell, plan_id="f", failure=make_failure())]
    left = into(both, [*measured_plan({("for-loop", 1): 5}), *failed])
    assert grid(left)["For-loop"] == ["80.000 ±0 %", "160.00 ±0 %<sup>a,b</sup>"]
    assert "<sup>a</sup> No figure (signal): the worker died" in left
    assert f"<sup>b</sup> {NO_RECORD}" in left
    assert into(left, [*measured_plan({("for-loop", 1): 5}), *failed]) == left


def test_on_the_results_page_figures_without_records_have_a_footnote_and_an_authors_figures_stay():
    full = tables(measured_plan({("for-loop", 8): 10}))
    page = filled(f"{MARK}\n{MARK}\n", "R", full, own=True).text
    for known in (tables([]), {}):
        left = filled(page, "R", known, own=True).text
        assert grid(left)["For-loop"] == ["", "160.00 ±0 %<sup>a</sup>"]
        assert NO_RECORD in left
        assert filled(left, "R", known, own=True).text == left
        assert filled(page, "R", known).text == page  # another document may have other results
    mine = f"{MARK}\n{OWN}{MARK}\n"
    assert filled(mine, "R", {}, own=True).text == mine


def test_on_the_results_page_an_outdated_picture_disappears_and_an_authors_text_stays():
    mark = "<!-- envbench: plot atari laptop -->\n"
    page = f"{mark}\n![Atari](plots/atari-laptop.svg)\n\n{mark}"
    assert "plots/" not in filled(page, "R", {}, own=True).text
    mine = f"{mark}\nMy ![Atari](plots/atari-laptop.svg)\n\n{mark}"
    assert filled(mine, "R", {}, own=True).text == mine


def test_on_the_results_page_a_summary_without_results_is_emptied():
    mark = "<!-- envbench: overview -->\n"
    full, none = (
        block_contents(select(records), {PROFILE.name: PROFILE})
        for records in (measured_plan({("for-loop", 8): 10}), [])
    )
    page = filled(mark + mark, "R", full, own=True).text
    assert "160.00" in page
    left = filled(page, "R", none, own=True).text
    assert "160.00" not in left
    assert filled(left, "R", none, own=True).text == left


def test_a_block_without_results_is_untouched_unless_it_is_empty():
    records = measured_plan({("for-loop", 1): 1}, cell={"task": "Breakout-v5"})
    own = f"{MARK}\nmine |\n{MARK}\n"
    assert into(own, records) == own
    table = grid(into(f"{MARK}\n{MARK}\n", records))
    assert table["For-loop"] == ["", ""]


def test_a_document_keeps_its_windows_line_ends():
    done = into(f"{MARK}\r\n\r\n{MARK}\r\n", measured_plan({("for-loop", 1): 1}))
    assert done.replace("\r\n", "").count("\n") == 0


# ---------------------------------------------------------------- the results page


def test_a_missing_table_is_added_to_its_section():
    old = tables(measured_plan({("for-loop", 1): 1}, cell={"env": "mujoco", "task": "Ant-v3"}))
    page = "# R\n\n### Atari\n\nmine\n\n### Mujoco\n\nyours\n"
    assert extended(page, "R", {}) == page
    new = extended(page, "R", {**old, **tables(measured_plan({("for-loop", 1): 1}))})
    block = f"{MARK}\n{MARK}\n"
    assert new.index("mine") < new.index(block) < new.index("### Mujoco")
    assert new.endswith("yours\n\n<!-- Mujoco - Laptop -->\n<!-- Mujoco - Laptop -->\n")


def test_a_table_of_a_new_family_gets_its_own_section():
    gym = {"env": "gym", "task": "my_package:MyEnv-v0", "frame_skip": 1}
    found = tables(measured_plan({("for-loop", 1): 1}, cell=gym))
    assert extended("# R", "R", found).startswith("# R\n\n### Gym\n\n<!-- Gym my_package:MyEnv-v0")
    assert "Gym my\\_package:MyEnv-v0 - Laptop" in filled(fresh(found), "R", found).text


# ---------------------------------------------------------------- hostile text


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60), st.integers(1, 10**9))
def test_a_table_keeps_its_shape_for_any_names_and_texts(machine, task, text, numenv):
    cell = {"machine": machine, "task": task, "variant": {text: text}}
    good = measured_plan({("for-loop", numenv): 5}, cell=cell, repeats=1)
    bad = make_cell(text, numenv, **cell)
    failed = make_run(bad, plan_id="2", failure=make_failure(message=text))
    records = [*good, make_plan([bad], plan_id="2"), failed]
    found = tables(records)
    page = filled(fresh(found), "R", found).text
    about = machine_results(select(records), {PROFILE.name: PROFILE})
    measured = [each for each in about.values() if each.measured]
    assert len(measured) == 1
    assert [b.heading for b in find(page, "R")] == [each.heading for each in measured]
    assert filled(page, "R", found).text == page
    lines = [line for line in page.split("\n") if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in lines} <= {2, 3, 4}
    assert len(lines) == sum(
        2 + len(dict.fromkeys(map(markdown, each.labels))) for each in measured
    )


# ---------------------------------------------------------------- accelerators, physics, ceilings

DEVICES = Profile(
    name="laptop",
    title="Laptop",
    mujoco=Table(numenv=[1, 8], rows=["for-loop"]),
    accelerators=Table(numenv=[64, 256], rows=["brax", "isaac-gym"]),
)
ANT = {"env": "mujoco", "task": "Ant-v3", "frame_skip": 5}


def test_accelerators_and_physics_have_their_own_tables_with_costs():
    brax = measured_plan(
        {("brax", 64): 10, ("brax", 256): 20},
        plan_id="brax",
        cell={**ANT, "accelerator": True},
        run={"peak_memory_bytes": 800 * 2**20},
        alternate=False,
    )
    physics = measured_plan({("mjx", 64): 30}, plan_id="mjx", cell={**ANT, "kind": "physics"})
    plain = measured_plan({("for-loop", 8): 5}, cell=ANT)
    found = tables([*brax, *physics, *plain], DEVICES)
    assert list(found) == [
        "Mujoco - Laptop",
        "Mujoco (accelerators) - Laptop",
        "Mujoco (physics) - Laptop",
    ]
    table = grid(block_text(found["Mujoco (accelerators) - Laptop"], ""))
    assert table["Mujoco (accelerators) - Laptop"] == [
        "64", "256", "Start-up", "First step", "Host memory",
    ]  # fmt: skip
    assert table["Brax"] == [
        "200.00 ±0 %", "400.00 ±0 %", "0.00200 µs", "0.00100 µs", "800 MiB",
    ]  # fmt: skip
    assert table["Isaac Gym"][:2] == ["not run", ""]
    assert "For-loop" not in table
    assert grid(block_text(found["Mujoco - Laptop"], ""))["For-loop"] == ["", "100.00 ±0 %"]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.00041, "410 µs"), (0.009994, "9.99 ms"), (0.0994, "99.4 ms"), (0.9996, "1.00 s"),
        (81.04, "81.0 s"),
    ],
)  # fmt: skip
def test_times_have_three_digits_and_a_unit_to_suit(seconds, shown):
    costs = Costs(
        start_s=seconds, first_step_s=seconds, first_steps_s=None, memory_bytes=None,
        gpu_memory_bytes=None,
    )  # fmt: skip
    texts = cost_texts(costs)
    assert texts["Start-up"] == texts[FIRST_STEP] == shown


def test_a_row_to_be_installed_by_hand_is_marked_not_run_until_it_has_results():
    brax = measured_plan({("brax", 64): 10}, cell={**ANT, "accelerator": True})
    heading = "Mujoco (accelerators) - Laptop"
    once = rendered(brax, heading=heading, profile=DEVICES)
    assert rendered(brax, once, heading, DEVICES) == once
    isaac = measured_plan(
        {("isaac-gym", 256): 99}, plan_id="isaac", cell={**ANT, "accelerator": True}
    )
    table = grid(rendered([*brax, *isaac], once, heading, DEVICES))
    assert table["Isaac Gym"][:2] == ["", "1,980.0<sup>a</sup>"]


def test_the_note_shows_the_ceiling_and_a_column_shows_each_rows_share_of_it():
    rows = measured_plan({("for-loop", 1): 100, ("for-loop", 8): 50, ("envpool-async", 8): 150})
    ceiling = measured_plan({("ceiling", 12): 200}, plan_id="top", cell={"kind": "ceiling"})
    text = rendered([*rows, *ceiling])
    table = grid(text)
    assert table["Atari - Laptop"] == ["1", "8", "Of ceiling"]
    assert table["For-loop"][-1] == "50 %"
    assert table["EnvPool (async)"][-1] == "75 %"
    assert "Ceiling: ALE alone, on 12 cores: 3,200.0 ±0 % FPS (2025-11-20)." in text
    assert "It is of another session: shares are approximate." in text
    assert "Ceiling" not in table
    assert rendered([*rows, *ceiling], text) == text


def test_a_figure_without_a_useful_interval_is_recognised_as_a_reports_own():
    assert Existing(measured=True).from_report("1,200 (no useful interval)")
