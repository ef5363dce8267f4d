"""``envbench report`` as a user runs it: real files, real processes, documents to the byte."""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from helpers.record_factories import (
    OTHER,
    as_stored,
    make_cell,
    make_fact,
    make_failure,
    make_plan,
    make_refusal,
    make_run,
    make_verification,
    make_windows,
    measured_plan,
    new_results_file,
    write,
)

from envbench.machine.profile_file import read_profile
from envbench.model import digest
from envbench.report.contents import block_contents
from envbench.report.markdown.blocks import find
from envbench.report.markdown.document import filled, fresh, is_plain
from envbench.results import store
from envbench.results.folder import load_folder

REPOSITORY = Path(__file__).parents[2]
GOLDEN = Path(__file__).parents[1] / "golden"
SEED = GOLDEN / "benchmark_seed.md"
MARK = "<!-- Atari - Laptop -->"


def envbench(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "envbench", *arguments],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def put(folder: Path, records, machine: str = "laptop") -> None:
    path = new_results_file(folder / "results", machine, "2025-11-20T10:00:00Z")
    write(path, records)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with results of a laptop: two families, a quick measurement and a failure."""
    speeds = {("for-loop", 1): 300, ("for-loop", 8): 310, ("envpool-async", 8): 2000}
    put(tmp_path, measured_plan({**speeds, ("subprocess", 5): 500}))
    ant = {"env": "mujoco", "task": "Ant-v3", "frame_skip": 5}
    put(tmp_path, measured_plan({("envpool-sync", 4): 123}, plan_id="ant", cell=ant))
    quick = {"quick": True, "repeats": 1, "fingerprint": digest(OTHER)}
    put(tmp_path, measured_plan({("for-loop", 2): 77}, plan_id="quick", **quick))
    broken = make_cell("envpool-sync", 8)
    failure = make_failure(signal="SIGSEGV", phase="measure", message="the worker died")
    plan = make_plan([broken], plan_id="broken")
    put(tmp_path, [plan, make_run(broken, plan_id="broken", failure=failure)])
    return tmp_path


def of_others(folder: Path) -> None:
    """Add results of a family that the laptop's profile has no table for."""
    pole = {"env": "classic_control", "task": "CartPole-v1", "frame_skip": 1}
    speeds = {("for-loop", 1): 300, ("for-loop", 2): 310}
    started = {"started_utc": "2025-11-20T11:00:00Z"}
    path = new_results_file(folder / "results", "laptop", "2025-11-20T11:00:00Z")
    write(path, measured_plan(speeds, plan_id="pole", cell=pole, **started))


def outside_blocks(text: str) -> list[str]:
    """The lines outside of all blocks. A block is the text between two equal markers."""
    kept, opened = [], ""
    for line in text.split("\n"):
        marker = line if line.startswith("<!-- ") else ""
        if not opened or marker == opened:
            kept.append(line)
        opened = "" if marker == opened else opened or marker
    return kept


def blocks_of(text: str) -> dict[str, str]:
    return {block.heading: text[block.start : block.end] for block in find(text, "page")}


def golden(name: str, text: str) -> None:
    """Compare to the byte; ENVBENCH_GOLDEN=write writes it anew, for a person to look at."""
    path = GOLDEN / name
    if os.environ.get("ENVBENCH_GOLDEN") == "write":
        path.write_bytes(text.encode())
    assert text.encode() == path.read_bytes()


# ---------------------------------------------------------------- documents


def test_the_results_page_has_the_original_documents_tables_to_the_byte(folder):
    # The four original profiles only: others come and go in machines/.
    names = ("laptop", "tpu-vm", "as4124", "dgx-a100")
    shelf = {name: read_profile(REPOSITORY / "machines" / f"{name}.toml") for name in names}
    found = block_contents(load_folder(folder / "results", list).selection, shelf)
    golden("results_page.md", filled(fresh(found), "README.md", found).text)


def test_the_results_page_is_not_written_again_if_nothing_changed(folder):
    found = envbench("report", cwd=folder)
    assert (found.returncode, found.stdout) == (0, ""), found.stderr
    lines = found.stderr.splitlines()  # pictures first: a page never links to what is not there
    assert lines[-1] == "wrote results/README.md (7 figures)"
    assert all(line.startswith("wrote results/plots/") for line in lines[:-1])
    page = folder / "results" / "README.md"
    expected = blocks_of((GOLDEN / "results_page.md").read_text())
    written = blocks_of(page.read_text())
    assert {name: written[name] for name in expected} == expected
    before = page.stat()
    again = envbench("report", cwd=folder)
    assert "unchanged: results/README.md (7 figures)" in again.stderr
    assert page.stat().st_mtime_ns == before.st_mtime_ns
    assert envbench("report", "--check", cwd=folder).returncode == 0


def test_filling_a_document_changes_only_its_tables(folder):
    document = folder / "BENCHMARK.md"
    document.write_bytes(SEED.read_bytes())
    document.chmod(0o640)
    found = envbench("report", "--into", "BENCHMARK.md", cwd=folder)
    assert (found.returncode, found.stderr) == (0, "wrote BENCHMARK.md (7 figures)\n")
    text = document.read_text()
    golden("benchmark_filled.md", text)
    assert outside_blocks(text) == outside_blocks(SEED.read_text())
    # The document's own figures without a measurement stay as written and are not bold.
    for figure in ("4694.94", "4776.76", "4811.98", "4006.04", "10028.28", "15863.42"):
        assert f"| {figure} " in text
    assert "| 4800.00 " in text  # the document's own style: two decimals
    assert "±" not in text
    # Blocks of machines without results keep every byte.
    empty = SEED.read_text().index("<!-- Atari - TPU-VM -->"), SEED.read_text().index("### Mujoco")
    assert SEED.read_text()[slice(*empty)] in text
    assert document.stat().st_mode & 0o777 == 0o640
    assert not (folder / "results" / "README.md").exists()
    assert "unchanged" in envbench("report", "--into", "BENCHMARK.md", cwd=folder).stderr


def test_several_documents_are_all_filled_or_none(folder):
    (folder / "good.md").write_text(f"{MARK}\n{MARK}\n")
    (folder / "bad.md").write_text(f"x\n{MARK}\n")
    found = envbench("report", "--into", "good.md", "--into", "bad.md", cwd=folder)
    assert found.returncode == 2
    assert "bad.md:2: the marker <!-- Atari - Laptop --> has no partner" in found.stderr
    assert (folder / "good.md").read_text() == f"{MARK}\n{MARK}\n"
    assert (folder / "bad.md").read_text() == f"x\n{MARK}\n"


@pytest.mark.parametrize("text", [f"{MARK}\n{MARK}\n{MARK}\n", "no marker\n", ""])
def test_a_document_with_missing_or_doubled_markers_is_untouched(folder, text):
    (folder / "x.md").write_text(text)
    found = envbench("report", "--into", "x.md", cwd=folder)
    assert found.returncode == 2
    assert "x.md" in found.stderr
    assert (folder / "x.md").read_text() == text


def test_a_misspelt_marker_is_reported_with_the_right_one(folder):
    (folder / "x.md").write_text("<!-- atari -  laptop -->\n")
    found = envbench("report", "--into", "x.md", cwd=folder)
    assert found.returncode == 2
    assert f"x.md:1: the comment 'atari - laptop' is not a marker; write {MARK}" in (found.stderr)
    wrong = "<!-- Atari - Laptpo -->\n"
    (folder / "x.md").write_text(f"{MARK}\n{MARK}\n{wrong}{wrong}")
    found = envbench("report", "--into", "x.md", cwd=folder)
    assert found.returncode == 0
    assert (
        "x.md:3: there is no machine or task for 'Atari - Laptpo'; did you mean 'Atari - Laptop'?"
        in (found.stderr)
    )


@pytest.mark.parametrize("extra", [[], ["--check"]])
def test_a_misspelt_summary_is_an_error_with_the_line_and_the_right_one(folder, extra):
    wrong = "<!-- envbench: overveiw -->"
    text = f"{MARK}\n{MARK}\n\n{wrong}\n{wrong}\n"
    (folder / "x.md").write_text(text)
    found = envbench("report", "--into", "x.md", *extra, cwd=folder)
    assert found.returncode == 2
    assert (
        "x.md:4: the marker 'envbench: overveiw' is unknown; "
        "did you mean 'envbench: overview'? The file was not touched." in found.stderr
    )
    assert (folder / "x.md").read_text() == text


def test_a_plot_without_measurements_is_allowed_but_an_unknown_family_is_not(folder):
    for marker, code in (("plot atari Breakout-v5 moon", 0), ("plot atri laptop", 2)):
        (folder / "x.md").write_text(f"{MARK}\n{MARK}\n" + f"<!-- envbench: {marker} -->\n" * 2)
        assert envbench("report", "--into", "x.md", cwd=folder).returncode == code, marker


@pytest.mark.parametrize("wrong", ["<!-- atari - laptop -->", "<!-- Atari - Laptpo -->"])
def test_check_fails_on_a_misspelt_marker(folder, wrong):
    (folder / "x.md").write_text(f"{MARK}\n{MARK}\n{wrong}\n{wrong}\n")
    assert envbench("report", "--into", "x.md", cwd=folder).returncode == 0
    found = envbench("report", "--into", "x.md", "--check", cwd=folder)
    assert found.returncode == 1
    assert "x.md:" in found.stderr
    assert " misspelt marker" in found.stderr
    assert ": the warnings above name the lines" in found.stderr


def test_windows_line_ends_odd_bytes_and_a_missing_final_newline_stay(folder):
    head, tail = b"\xff\xfe title\r\n\x0c\r\n", b"the end\xe9"
    marks = f"{MARK}\r\n{MARK}\r\n".encode()
    (folder / "x.md").write_bytes(head + marks + tail)
    assert envbench("report", "--into", "x.md", cwd=folder).returncode == 0
    data = (folder / "x.md").read_bytes()
    assert data.startswith(head + f"{MARK}\r\n\r\n| Atari".encode())
    assert data.endswith(f"{MARK}\r\n".encode() + tail)
    assert data.count(b"\n") == data.count(b"\r\n")


def test_a_link_to_a_document_stays_a_link(folder):
    (folder / "docs").mkdir()
    (folder / "docs" / "real.md").write_text(f"{MARK}\n{MARK}\n")
    (folder / "x.md").symlink_to("docs/real.md")
    assert envbench("report", "--into", "x.md", cwd=folder).returncode == 0
    assert (folder / "x.md").is_symlink()
    assert "For-loop" in (folder / "docs" / "real.md").read_text()


def test_a_document_that_is_not_there_is_wrong_usage(folder):
    found = envbench("report", "--into", "nowhere.md", cwd=folder)
    assert (found.returncode, "nowhere.md is not a file" in found.stderr) == (2, True)


def test_output_names_another_page(folder):
    (folder / "docs").mkdir()
    assert envbench("report", "--output", "docs/page.md", cwd=folder).returncode == 0
    page = (folder / "docs" / "page.md").read_text()
    assert not (folder / "results" / "README.md").exists()
    assert envbench("report", "--output", "-", cwd=folder).stdout == page
    assert envbench("report", cwd=folder).returncode == 0
    assert (folder / "results" / "README.md").read_text() == page


def test_missing_tables_are_added_to_an_edited_page(folder):
    page = folder / "results" / "README.md"
    page.write_text(f"# Mine\n\n### Atari\n\nmy words\n\n{MARK}\n{MARK}\n\n### Else\n\nmore\n")
    assert envbench("report", cwd=folder).returncode == 0
    text = page.read_text()
    assert text.startswith("# Mine\n\n### Atari\n\nmy words\n")
    assert "\n### Else\n\nmore\n\n### Mujoco\n\n<!-- Mujoco - Laptop -->\n" in text
    assert "TPU-VM" not in text


# ---------------------------------------------------------------- no results, bad results


def test_without_results_the_error_names_the_command_that_makes_some(tmp_path):
    found = envbench("report", cwd=tmp_path)
    assert found.returncode == 2
    assert "the folder results has no results" in found.stderr
    assert "envbench run --env atari --backend envpool-async --numenv 8" in found.stderr
    assert not (tmp_path / "results").exists()


def test_report_says_when_all_results_are_unfinished(tmp_path):
    put(tmp_path, measured_plan({("for-loop", 1): 1})[:-1])
    found = envbench("report", cwd=tmp_path)
    assert found.returncode == 2
    assert "no finished measurement" in found.stderr
    assert "The same `envbench run` command finishes them" in found.stderr


def test_report_says_what_to_measure_where_there_are_only_verifications(tmp_path):
    put(tmp_path, [make_verification(make_cell("subprocess", 4))])
    found = envbench("report", cwd=tmp_path)
    assert found.returncode == 2
    assert "no figures beside which to show them" in found.stderr
    assert "envbench run --env atari --backend subprocess --numenv 1,4" in found.stderr


def test_a_bad_line_is_a_warning_that_names_it_and_the_report_is_made(folder):
    (path,) = [p for p in store.files(folder / "results") if p.stem.endswith("00Z")]
    with path.open("ab") as file:
        file.write(b'{"type":"run","schema":99}\n{"torn')
    found = envbench("report", cwd=folder)
    assert found.returncode == 0
    lines = len(path.read_bytes().split(b"\n"))
    name = path.relative_to(folder)
    assert f"Warning: {name}:{lines - 1}: line skipped: a newer envbench" in found.stderr
    assert f"Warning: {name}:{lines}: line skipped: it is incomplete" in found.stderr


def test_records_of_a_family_are_reported_without_its_plugin(folder):
    put(folder, measured_plan({("for-loop", 2): 99}, plan_id="own", cell={"env": "revfam"}))
    found = envbench("report", cwd=folder)
    assert (found.returncode, found.stdout) == (0, ""), found.stderr
    assert "not a marker" not in found.stderr
    page = (folder / "results" / "README.md").read_text()
    table = page.split("<!-- revfam Pong-v5 - Laptop -->")
    assert len(table) == 3
    assert "| For-loop" in table[1]
    assert "unchanged: results/README.md" in envbench("report", cwd=folder).stderr


# ---------------------------------------------------------------- check and json


def test_check_writes_nothing_and_fails_where_a_file_is_out_of_date(folder):
    found = envbench("report", "--check", cwd=folder)
    assert found.returncode == 1
    assert "out of date: results/README.md" in found.stderr
    assert "To update, run this without --check" in found.stderr
    assert not (folder / "results" / "README.md").exists()


def test_json_is_one_document_of_cells_and_writes_no_file(folder):
    found = envbench("report", "--json", cwd=folder)
    document = json.loads(found.stdout)
    assert (found.returncode, found.stderr, document["schema"]) == (0, "", 1)
    assert len(document["cells"]) == 7
    keys = "machine env task backend numenv env_instances settings fps steps_per_second frame_skip "
    keys += "key adjusted_fps adjusted_interval rank ties doubt interval runs flags failure "
    keys += "records costs equal_work spot_check"
    assert all(set(cell) == {*keys.split(), "session"} for cell in document["cells"])
    (cell,) = [cell for cell in document["cells"] if cell["env"] == "mujoco"]
    assert (cell["fps"], cell["steps_per_second"]) == (2460.0, 492.0)
    assert cell["interval"] == [2460.0, 2460.0]
    assert (cell["rank"], cell["ties"], cell["adjusted_fps"]) == (1, [], None)  # it is alone
    (failed,) = [cell for cell in document["cells"] if cell["failure"]]
    assert (failed["rank"], failed["ties"], failed["adjusted_fps"]) == (None, [], None)
    assert [each["run"] for each in cell["records"]] == cell["runs"]
    for each in cell["records"]:
        line = (folder / "results" / each["file"]).read_text().splitlines()[each["line"] - 1]
        assert each["run"] in [trial["trial_id"] for trial in json.loads(line)["trials"]]
    assert not (folder / "results" / "README.md").exists()


def test_json_has_the_place_of_each_cell_and_the_ratio_of_each_pair_of_a_session(folder):
    document = json.loads(envbench("report", "--json", cwd=folder).stdout)
    cells = {(cell["session"], cell["key"]): cell for cell in document["cells"]}
    name = "atari/Pong-v5/{}/{}".format
    loops, pool = [name("for-loop", 1), name("for-loop", 8)], name("envpool-async", 8)
    ranks = {key: (cell["rank"], cell["ties"]) for (_, key), cell in cells.items()}
    assert ranks == {
        loops[0]: (1, []), loops[1]: (2, []), pool: (1, []), name("subprocess", 5): (1, []),
        name("for-loop", 2): (1, []), name("envpool-sync", 8): (None, []),
        "mujoco/Ant-v3/envpool-sync/4": (1, []),
    }  # fmt: skip
    own = [cell for cell in cells.values() if cell["session"] == "plan"]
    assert [cell["adjusted_fps"] for cell in own] == pytest.approx([cell["fps"] for cell in own])
    for cell in own:
        low, high = cell["adjusted_interval"]
        assert low < cell["adjusted_fps"] < high
    pairs = [(each["session"], each["cell"], each["to"]) for each in document["ratios"]]
    assert {each[0] for each in pairs} == {"plan"}  # the others have a single cell with a figure
    assert len({frozenset(each[1:]) for each in pairs}) == len(pairs) == 4 * 3 / 2
    for each in document["ratios"]:
        assert set(each) == {"session", "cell", "to", "ratio", "interval"}
        first, second = (cells["plan", each[side]] for side in ("cell", "to"))
        assert each["ratio"] == pytest.approx(first["fps"] / second["fps"])
        assert each["interval"][0] < each["ratio"] < each["interval"][1]


def test_json_of_cells_that_tie_names_them_and_of_one_block_has_no_intervals(tmp_path):
    equal = {("for-loop", 1): 100, ("subprocess", 1): 100, ("envpool-sync", 1): 300}
    put(tmp_path, measured_plan(equal))
    breakout = {"task": "Breakout-v5"}
    put(tmp_path, measured_plan(equal, plan_id="quick", repeats=1, quick=True, cell=breakout))
    document = json.loads(envbench("report", "--json", cwd=tmp_path).stdout)
    ties = {cell["key"]: (cell["rank"], sorted(cell["ties"])) for cell in document["cells"]}
    a, b, c = (f"atari/Pong-v5/{name}/1" for name in ("for-loop", "subprocess", "envpool-sync"))
    assert {key: place for key, place in ties.items() if "Pong" in key} == {
        a: (2, [b]), b: (2, [a]), c: (1, []),
    }  # fmt: skip
    quick = {key.split("/")[2]: place for key, place in ties.items() if "Breakout" in key}
    assert {rank for rank, _ in quick.values()} == {1}
    assert {len(others) for _, others in quick.values()} == {2}
    for each in document["ratios"]:
        assert (each["interval"] is None) == (each["session"] == "quick")
    for cell in document["cells"]:
        assert (cell["adjusted_interval"] is None) == (cell["session"] == "quick")
        assert cell["adjusted_fps"] == pytest.approx(cell["fps"])


def test_json_gives_a_refused_cell_no_rank_and_no_ratio(tmp_path):
    speeds = {("for-loop", 1): 100, ("subprocess", 1): 300, ("envpool-sync", 1): 200}
    put(tmp_path, [*measured_plan(speeds), make_refusal(make_cell("subprocess", 1))])
    document = json.loads(envbench("report", "--json", cwd=tmp_path).stdout)
    cells = {cell["backend"]: cell for cell in document["cells"]}
    refused = cells["subprocess"]
    assert (refused["fps"], refused["adjusted_fps"], refused["adjusted_interval"]) == (None,) * 3
    assert (refused["rank"], refused["ties"]) == (None, [])
    assert (cells["envpool-sync"]["rank"], cells["for-loop"]["rank"]) == (1, 2)
    assert [cell["ties"] for cell in cells.values()] == [[], [], []]
    (ratio,) = document["ratios"]
    assert {ratio["cell"], ratio["to"]} == {
        cells[name]["key"] for name in ("envpool-sync", "for-loop")
    }


# ---------------------------------------------------------------- the style of figures


PLAIN, ROUNDED = "| 4800.00 ", "| 4,800.0 ±0 % "


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("", ROUNDED),
        ("| Atari - Laptop | 1 |\n|---|---|\n| For-loop | |\n", ROUNDED),
        ("| Atari - Laptop | 1 |\n|---|---|\n| For-loop | 4694.94 |\n", PLAIN),
        ("| Atari - Laptop | 1 |\n|---|---|\n| For-loop | **4694.94**<sup>a</sup> |\n", PLAIN),
        ("| Atari - Laptop | 1 |\n|---|---|\n| For-loop | 4,690 ±2 % |\n", ROUNDED),
        (
            "| Atari - Laptop | 1 | 2 |\n|---|---|---|\n| For-loop | ≈ 4,690 ±2 % | 4.57 |\n",
            ROUNDED,
        ),
    ],
)
def test_a_document_keeps_the_style_of_its_figures(folder, table, expected):
    path = folder / "x.md"
    path.write_text(f"{MARK}\n\n{table}\n{MARK}\n")
    for _ in range(2):  # the second time it has the report's own figures
        assert envbench("report", "--into", "x.md", cwd=folder).returncode == 0
        text = path.read_text()
        assert expected in text
        assert ("±" in text.replace("±2 %", "")) == (expected == ROUNDED)
    assert envbench("report", "--into", "x.md", "--check", cwd=folder).returncode == 0


def test_figures_below_ten_without_an_interval_do_not_change_the_style(tmp_path):
    slow = {"quick": True, "repeats": 1, "cell": {"frame_skip": 1}}
    put(tmp_path, measured_plan({("for-loop", 1): 2}, **slow))
    path = tmp_path / "x.md"
    path.write_text(f"{MARK}\n{MARK}\n")
    assert envbench("report", "--into", "x.md", cwd=tmp_path).returncode == 0
    assert "| 8.00<sup>a</sup>" in path.read_text()
    put(tmp_path, measured_plan({("for-loop", 8): 300}, plan_id="b"))
    assert envbench("report", "--into", "x.md", cwd=tmp_path).returncode == 0
    assert ROUNDED in path.read_text()


@pytest.mark.parametrize("figure", ["≈ 21.25", "≠ 21.25", "**21.25**", "21.25 at 8"])
def test_plain_figures_are_known_also_if_they_tie_or_have_a_number(figure):
    head, mark = "| A | 1 |\n|---|---|\n| For-loop", "<!-- Atari - Laptop -->\n"
    assert is_plain(f"{mark}{head} | {figure} |\n{mark}")
    assert is_plain(f"{mark}{head} | {figure} |\n{mark}\nOther: 3 ±2 %\n\n| x | 3 ±2 % |\n")
    assert not is_plain(f"{mark}{head} | {figure} | 1,200 ±2 % |\n{mark}")
    assert not is_plain(f"{head} | {figure} |\n")  # a person's own table


@pytest.mark.parametrize("heading", ["Atari (published) - Laptop", "envbench: costs"])
def test_tables_that_always_have_two_decimals_say_nothing_about_a_documents_style(
    heading: str,
) -> None:
    table = "| A | 1 |\n|---|---|\n| For-loop | 4893.00 |\n"
    assert not is_plain(f"<!-- {heading} -->\n\n{table}\n<!-- {heading} -->\n")


def test_the_style_of_figures_can_be_chosen_and_then_stays(folder):
    path = folder / "x.md"
    path.write_text(f"{MARK}\n{MARK}\n")
    for words, expected in (
        ("--figures plain", PLAIN), ("", PLAIN), ("--figures rounded", ROUNDED), ("", ROUNDED),
    ):  # fmt: skip
        assert envbench("report", "--into", "x.md", *words.split(), cwd=folder).returncode == 0
        assert expected in path.read_text()


def test_each_document_keeps_its_own_style(folder):
    (folder / "old.md").write_text(f"{MARK}\n| A | 1 |\n|---|---|\n| For-loop | 21.25 |\n{MARK}\n")
    (folder / "new.md").write_text(f"{MARK}\n{MARK}\n")
    assert envbench("report", "--into", "old.md", "--into", "new.md", cwd=folder).returncode == 0
    assert PLAIN in (folder / "old.md").read_text()
    assert ROUNDED in (folder / "new.md").read_text()


def test_a_results_page_and_a_new_page_can_have_plain_figures(folder):
    assert envbench("report", "--figures", "plain", cwd=folder).returncode == 0
    page = (folder / "results" / "README.md").read_text()
    assert PLAIN in page
    assert ROUNDED not in page
    done = envbench("report", "--output", "-", "--figures", "plain", cwd=folder)
    assert done.stdout == page
    assert ROUNDED in envbench("report", "--output", "-", cwd=folder).stdout


def test_the_html_page_has_no_other_style(folder):
    done = envbench("report", "--format", "html", "--figures", "plain", cwd=folder)
    assert done.returncode == 2
    assert "--format html can be combined only with" in done.stderr


def test_a_closed_stdout_gives_no_traceback(folder):
    put(folder, measured_plan({("for-loop", n): 9 for n in range(1, 200)}, plan_id="many"))
    command = f'"{sys.executable}" -m envbench report --json | head -c 1'
    found = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
    )
    assert (found.stdout, found.stderr) == ("{", "")


# ---------------------------------------------------------------- speed


def test_ten_thousand_records_are_reported_within_three_seconds(tmp_path, monkeypatch):
    """The cells of each session alternated in random blocks of eight."""
    chance = random.Random(1)
    cells = [make_cell(name, n) for name in ("for-loop", "subprocess") for n in range(1, 101)]
    windows = make_windows([1000] * 32)
    facts = {"packages": "x" * 500}
    for number in range(10):
        plan_id = f"plan{number}"
        runs = [
            make_run(
                c, plan_id=plan_id, round=i, warmup=windows, facts=facts,
                measured=make_windows([chance.randrange(950, 1050)] * 32),
                block=f"{plan_id}-{i}-{place // 8}",
            )
            for i in range(5)
            for place, c in enumerate(random.Random(i).sample(cells, len(cells)))
        ]  # fmt: skip
        records = [make_fact(), make_plan(cells, plan_id=plan_id), *runs]
        path = new_results_file(tmp_path / "results", "laptop", str(number))
        lines = (msgspec.json.encode(each) + b"\n" for each in as_stored(records))
        path.write_bytes(b"".join(lines))
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")  # its other threads wait actively
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)  # Python compiles it once
    used = []
    for said in ("wrote", *["unchanged:"] * 5):  # a busy machine slows some of them
        before = _children_cpu_s()  # excludes most of what other programs do
        found = envbench("report", cwd=tmp_path)
        assert found.returncode == 0
        assert f"{said} results/README.md (200 figures)\n" in found.stderr
        used.append(_children_cpu_s() - before)
        if len(used) > 1 and min(used) < 3:
            break
    assert min(used) < 3


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_plots_and_markers_of_results_that_are_gone_are_no_error(folder: Path) -> None:
    of_others(folder)
    assert envbench("report", cwd=folder).returncode == 0
    plot = folder / "results/plots/classic_control-laptop.svg"
    assert plot.is_file()
    own = folder / "results/plots/my-own.svg"
    own.write_text("<svg/>")
    (folder / "results/laptop/2025-11-20T11-00-00Z.jsonl").unlink()
    checked = envbench("report", "--check", cwd=folder)
    assert (checked.returncode, "classic_control-laptop.svg" in checked.stderr) == (1, True)
    done = envbench("report", cwd=folder)
    assert f"removed {plot.relative_to(folder)}: no results for it" in done.stderr
    assert not plot.exists()
    assert own.is_file()
    checked = envbench("report", "--check", cwd=folder)
    assert (checked.returncode, checked.stderr.count("misspelt")) == (0, 0), checked.stderr


def test_the_old_plots_of_a_linked_page_are_removed_beside_the_page_itself(folder: Path) -> None:
    (folder / "docs").mkdir()
    (folder / "results/README.md").symlink_to("../docs/page.md")
    of_others(folder)
    assert envbench("report", cwd=folder).returncode == 0
    plot = folder / "docs/plots/classic_control-laptop.svg"
    assert plot.is_file()
    (folder / "results/laptop/2025-11-20T11-00-00Z.jsonl").unlink()
    checked = envbench("report", "--check", cwd=folder)
    assert (checked.returncode, plot.name in checked.stderr) == (1, True)
    assert envbench("report", cwd=folder).returncode == 0
    assert not plot.exists()


def test_a_folder_a_broken_link_and_a_pipe_with_a_results_files_name_are_ignored(
    folder: Path,
) -> None:
    laptop = folder / "results/laptop"
    (laptop / "folder.jsonl").mkdir()
    (laptop / "link.jsonl").symlink_to("nowhere")
    os.mkfifo(laptop / "pipe.jsonl")
    assert envbench("report", "--json", cwd=folder).returncode == 0
    file = str(next(each for each in laptop.glob("*.jsonl") if each.is_file()).relative_to(folder))
    (folder / "copy.jsonl").write_bytes((folder / file).read_bytes())
    assert envbench("compare", file, "copy.jsonl", cwd=folder).returncode == 0
    named = envbench("compare", "results/laptop/pipe.jsonl", file, cwd=folder)
    assert named.returncode == 2


def test_check_with_json_still_looks_at_the_results_page(folder):
    found = envbench("report", "--check", "--json", cwd=folder)
    assert found.returncode == 1
    assert "out of date: results/README.md" in found.stderr
    assert envbench("report", "--check", "--output", "-", cwd=folder).returncode == 2


def test_a_footnote_of_a_lost_record_does_not_grow_with_each_report(folder):
    page = folder / "results" / "README.md"
    for number in range(7):  # rows with a note of their own each
        started = f"2025-11-{10 + number}T10:00:00Z"
        path = new_results_file(folder / "results", "laptop", started)
        write(path, measured_plan({("sample-factory", number + 1): 9}, plan_id=f"p{number}",
                                  started_utc=started))  # fmt: skip
    assert envbench("report", cwd=folder).returncode == 0
    next(iter(sorted((folder / "results" / "laptop").glob("*.jsonl")))).unlink()
    assert envbench("report", cwd=folder).returncode == 0
    once = page.read_text()
    assert envbench("report", cwd=folder).returncode == 0
    assert page.read_text() == once
    assert "One of these: One of these" not in once
