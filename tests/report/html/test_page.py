"""The HTML report: one file, safe for any names, with figures traced to records."""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from helpers.record_factories import (
    make_agreement,
    make_cell,
    make_fact,
    make_failure,
    make_plan,
    make_refusal,
    make_run,
    make_windows,
    measured_plan,
    new_results_file,
    varied_plan,
    write,
)

from envbench.cli import envbench
from envbench.model import Cell, Published, Run, RuntimeFact
from envbench.report.html.cells import _slices, code_of
from envbench.report.html.page import number
from envbench.results.selection import select

CEILING = measured_plan({("ceiling", 12): 200}, plan_id="top", cell={"kind": "ceiling"})
HERE = measured_plan({("for-loop", 1): 50, ("for-loop", 8): 40, ("envpool-async", 8): 90})


class Page(HTMLParser):
    """The elements of a page with their attributes, and the texts of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: dict[str, str] = {}
        self.blocks: list[tuple[str, str]] = []  # each script and style with its text
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.elements.append((tag, dict(attrs)))
        kind = dict(attrs).get("type", "")
        self._inside = tag + kind if tag in ("script", "style") else ""
        if self._inside:
            self.blocks.append((tag, ""))

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.texts[self._inside] = self.texts.get(self._inside, "") + data
            tag, text = self.blocks[-1]
            self.blocks[-1] = tag, text + data

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    @property
    def cells(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.texts["scriptapplication/json"])["cells"]
        return found

    @property
    def charts(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.texts["scriptapplication/json"])["charts"]
        return found

    @property
    def links(self) -> list[str]:
        """The addresses of cells that figures link to."""
        every = [a["href"] for a in self.all("a") if a.get("class", "").endswith("figure")]
        return [each.removeprefix("#") for each in every]

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put(records: list[Any], machine: str = "laptop") -> Path:
    path = new_results_file(Path("results"), machine, "2025-11-20T10:00:00Z")
    write(path, records)
    return path


def made(*words: str) -> tuple[Result, Page]:
    done = CliRunner().invoke(envbench, ["report", "--format", "html", *words])
    assert done.exit_code == 0, done.stderr
    return done, Page(Path("results/report.html").read_text())


def test_a_cell_has_its_runs_with_their_file_and_line(place: Path) -> None:
    path = put([*HERE, *CEILING])
    done, page = made()
    assert "wrote results/report.html" in done.stderr
    (cell,) = [c for c in page.cells if (c["label"], c["numenv"]) == ("For-loop", 1)]
    assert (cell["fps"], cell["low"], cell["high"]) == (800.0, 800.0, 800.0)
    assert cell["adjusted"] == pytest.approx(800.0)
    assert cell["adjusted_low"] == pytest.approx(800.0) == cell["adjusted_high"]
    (top,) = [c for c in page.cells if c["label"] == "Ceiling"]
    assert (top["fps"], top["adjusted"], top["adjusted_low"]) == (3200.0, None, None)
    assert len(cell["runs"]) == 5
    lines = path.read_text().splitlines()
    for run in cell["runs"]:
        name, _, line = run["where"].rpartition(":")
        assert Path("results") / name == path
        trials = json.loads(lines[int(line) - 1])["trials"]
        assert run["id"] in [trial["trial_id"] for trial in trials]
    slices = [each for each in cell["runs"][0]["slices"] if each[3] == 1]
    assert [each[1:3] for each in slices] == [[0.25, 800.0]] * 4
    assert {c["label"] for c in page.cells} == {"For-loop", "EnvPool (async)", "Ceiling"}
    assert set(page.links) == {cell["address"] for cell in page.cells}
    assert "cell/laptop/atari/Pong-v5/for-loop/1" in page.links


def test_a_cell_shows_its_python_and_packages(place: Path) -> None:
    fact = RuntimeFact(
        hash="runtime", python="3.11.9", implementation="CPython", packages={"ale-py": "0.12.1"}
    )
    put([fact, *HERE])
    _, page = made()
    assert {c["runtime"] for c in page.cells} == {"runtime"}
    runtimes = json.loads(page.texts["scriptapplication/json"])["runtimes"]
    assert runtimes["runtime"] == {"python": "CPython 3.11.9", "packages": "ale-py 0.12.1"}


def test_published_figures_have_their_own_tables(place: Path) -> None:
    figure = Published(
        machine="laptop", env="atari", task="Pong-v5", backend="for-loop", numenv=8,
        fps=4893, frame_skip=4, source="A. N. Author, 2022",
    )  # fmt: skip
    put([*HERE, figure])
    _, page = made()
    text = Path("results/report.html").read_text()
    start = text.index(">Published by others</h3>")
    assert "Published, not measured by envbench: A. N. Author, 2022." in text[start:]
    assert '<td data-value="4893.0" class="best">4893.00</td>' in text[start:]
    assert "4893" not in text[:start]
    # If its machine was measured, the published curve is among that machine's curves.
    (chart,) = page.charts
    (curve,) = [each for each in chart["curves"] if each["published"]]
    assert curve["label"] == "For-loop, published"
    assert curve["points"] == [[8, 4893.0, None, None, None, ""]]


def test_the_page_has_only_the_shown_plan_of_a_cell(place: Path) -> None:
    """The newer session measured as many cells, so all figures of the table are its."""
    newer = {"plan_id": "newer", "started_utc": "2026-01-01T00:00:00Z"}
    put([*HERE, *measured_plan({("for-loop", 1): 70, ("for-loop", 8): 60}, **newer)])
    _, page = made()
    plans = {(c["label"], c["numenv"]): (c["plan"], len(c["runs"])) for c in page.cells}
    assert plans == {
        ("For-loop", 1): ("newer", 5),
        ("For-loop", 8): ("newer", 5),
        ("EnvPool (async)", 8): ("plan", 5),
    }


def test_the_page_needs_no_network_and_runs_only_its_own_script(place: Path) -> None:
    put(HERE)
    _, page = made()
    policy = next(a["content"] for a in page.all("meta") if "http-equiv" in a)
    assert "default-src 'none'" in policy
    own = [(tag, text) for tag, text in page.blocks if not text.startswith("{")]
    assert [tag for tag, _ in own] == ["style"] * 2 + ["script"] * 5
    for tag, text in own:
        hashed = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        directive = next(each for each in policy.split("; ") if each.startswith(f"{tag}-src"))
        assert f"'sha256-{hashed}'" in directive
    for tag, attributes in page.elements:
        assert tag not in ("link", "iframe", "object", "embed", "base", "form")
        assert not any(name.startswith("on") or name == "style" for name in attributes)
        for name in ("src", "href"):
            assert attributes.get(name, "data:").startswith(("data:", "#"))


HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u2028&amp;{{7*7}}"


def test_hostile_names_stay_text(place: Path) -> None:
    cell = {"task": HOSTILE, "variant": {HOSTILE: HOSTILE}, "settings": {HOSTILE: HOSTILE}}
    bad = make_cell("subprocess", 8, **cell)
    failed = make_run(bad, plan_id="2", failure=make_failure(message=HOSTILE))
    put([*measured_plan({("for-loop", 1): 5}, cell=cell, command=[HOSTILE]),
         make_plan([bad], plan_id="2"), failed])  # fmt: skip
    _, page = made()
    assert len(page.all("script")) == 6
    assert not [a for a in page.all("img") if a.get("src") == "x"]
    assert {c["task"] for c in page.cells} == {HOSTILE.replace("\u2028", " ")}
    text = Path("results/report.html").read_text()
    for table in re.findall(r"<table.*?</table>", text, re.DOTALL):
        assert len({len(re.findall("<t[hd][ >]", row)) for row in table.split("<tr>")[1:]}) == 1
    assert {c["settings"][HOSTILE.replace("\u2028", " ")] for c in page.cells} == {
        HOSTILE.replace("\u2028", " ")
    }


def test_a_failed_cell_shows_the_reason_and_a_second_report_changes_nothing(place: Path) -> None:
    cell = make_cell("subprocess", 8)
    put(
        [*HERE, make_plan([cell], plan_id="2"), make_run(cell, plan_id="2", failure=make_failure())]
    )
    _, page = made()
    (failed,) = [c for c in page.cells if c["label"] == "Subprocess"]
    assert failed["fps"] is None
    assert "No figure (signal): the worker died" in failed["flags"]
    done, _ = made()
    assert "unchanged: results/report.html" in done.stderr


def test_a_card_says_what_is_fastest_and_by_how_much(place: Path) -> None:
    records = varied_plan({
        ("for-loop", 8): (99, 101, 100, 98, 102), ("envpool-async", 8): (200, 204, 198, 202, 199),
        ("envpool-sync", 4): (201, 197, 203, 199, 202),
    })  # fmt: skip
    facts = {"code": "import envpool"}  # of a row that ties
    records = [
        msgspec.structs.replace(each, facts={**each.facts, **facts})
        if isinstance(each, Run) and each.cell.backend == "envpool-sync" else each
        for each in records
    ]  # fmt: skip
    put([*records, *CEILING])
    made()
    text = re.sub(r"<[^>]+>", "", Path("results/report.html").read_text().split("<section")[0])
    card = " ".join(text[text.index("Skip to the results") :].split())
    assert "Pong-v5 on Laptop 3,210 FPS ±2 % EnvPool (async), 8 environments, 24 in flight" in card
    assert "2.0 × a Python loop (2.0 to 2.1) · " in card
    assert "of the hardware limit ties: EnvPool (sync) at 4" in card
    assert "EnvPool (sync) at 4, which ties: Python" in card
    assert "import envpool obs, info = envs.reset() while training:" in card


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ({2: 100, 4: 150, 8: 200}, "more than 8 were not measured"),
        ({2: 100, 4: 200, 8: 201}, "no gain beyond noise above 4 environments"),
        ({2: 100, 4: 200, 8: 150}, ""),
        ({8: 200}, ""),
    ],
)
def test_a_card_says_whether_fewer_environments_would_do_or_more_could_be_faster(
    place: Path, steps: dict[int, int], says: str
) -> None:
    made_of = {("for-loop", number): (99, 101, 100, 98, 102) for number in steps}
    noise = (-1, 1, 0, -2, 2)
    made_of |= {
        ("envpool-sync", number): tuple(value + each for each in noise)
        for number, value in steps.items()
    }
    put(varied_plan(made_of))
    made()
    text = Path("results/report.html").read_text().split("<section")[0]
    assert [each in text for each in ("not measured", "no gain")] == [
        "not measured" in says, "no gain" in says,
    ]  # fmt: skip
    assert says in text


def test_code_is_shown_in_lines_that_fit_a_card_and_stays_the_same_code() -> None:
    call = "envpool.make_gymnasium('Pong-v5', num_envs=12, x=[1, 2], y='a b')"
    code = f"import envpool\n\nenvs = {call}"
    cell = make_cell("envpool-async", 4)
    found = select([make_fact(), make_plan([cell]), *runs_of(cell, {"code": code})]).measured[0]
    shown = code_of(found)
    made, _, loop = shown.partition("\n\nenvs.async_reset()")
    assert "envs.recv()" in loop
    assert ast.dump(ast.parse(made)) == ast.dump(ast.parse(code))
    assert max(map(len, made.splitlines())) <= 44
    (odd,) = select(
        [make_fact(), make_plan([cell]), *runs_of(cell, {"code": "x = (((" * 20})]
    ).measured
    assert code_of(odd).startswith("x = (((")


def runs_of(cell: Cell, facts: dict[str, Any]) -> list[Run]:
    return [make_run(cell, round=number, facts=facts) for number in range(5)]


def test_a_bar_per_row_has_its_ratio_to_the_python_loop(place: Path) -> None:
    records = varied_plan({
        ("for-loop", 8): (99, 101, 100, 98, 102), ("envpool-async", 8): (200, 204, 198, 202, 199),
    })  # fmt: skip
    put(records)
    _, page = made()
    assert [a["width"] for a in page.all("rect")] == ["100.0", "49.8"]
    text = Path("results/report.html").read_text()
    bars = re.findall(r"<div>([^<]*)<span class=\"soft\">([^<]*)</span></div></div>", text)
    assert [" ".join(each).split() for each in bars] == [
        ["2.0", "×", "2.0–2.1"], ["1", "×", "1,600", "±2", "%"],
    ]  # fmt: skip


def test_a_row_in_doubt_has_the_last_bar_with_the_reason(place: Path) -> None:
    hidden = make_agreement(steps=0, observations=[], rewards=[])
    cells = [make_cell(name, 8) for name in ("for-loop", "subprocess", "envpool-sync")]
    runs = [
        make_run(
            cell,
            [speed + round % 3] * 4,
            round=round,
            block=f"b{round}",
            agreement=hidden if round == 1 and speed == 600 else None,
        )
        for round in range(5)
        for cell, speed in zip(cells, (50, 100, 600), strict=True)
    ]
    put([make_plan(cells), *runs])
    _, page = made()
    assert [a["width"] for a in page.all("rect")] == ["100.0", "50.4", "100.0"]
    text = Path("results/report.html").read_text()
    bars = re.findall(
        r"#cell[^>]*>([^<]*)</a>.*<span class=\"soft\">([^<]*)</span></div></div>", text
    )
    assert [label for label, _ in bars] == ["Subprocess", "For-loop", "EnvPool (sync)"]
    assert "not ranked: it could not be checked while it was measured" in bars[-1][1]


def test_a_quick_look_is_provisional(place: Path) -> None:
    quick = measured_plan(
        {("for-loop", 1): 50, ("envpool-sync", 1): 90}, repeats=1, quick=True, run={"quick": True}
    )
    put(quick)
    made()
    text = Path("results/report.html").read_text()
    assert (
        "Provisional: quick figures are never ranked. Measure for longer, without --quick" in text
    )


def test_a_task_of_which_no_row_is_ranked_has_a_card_that_says_why(place: Path) -> None:
    brax = {"env": "mujoco", "task": "Ant-v3", "frame_skip": 5}
    put(measured_plan({("brax", 64): 50}, cell=brax))
    made()
    text = Path("results/report.html").read_text()
    card = text[text.index('<article class="card"') : text.index("</article>")]
    assert ">Brax</a>, 64 environments" in card
    assert "not ranked: different work" in card


def test_curves_have_the_figures_intervals_and_addresses_of_their_cells(place: Path) -> None:
    put([*HERE, *CEILING])
    _, page = made()
    (chart,) = page.charts
    assert (chart["title"], chart["ceiling"]) == ("Atari - Laptop", 3200.0)
    points = {curve["label"]: curve["points"] for curve in chart["curves"]}
    assert [point[0] for point in points["For-loop"]] == [1, 8]
    assert [point[1] for point in points["For-loop"]] == pytest.approx([800.0, 640.0])
    (point,) = points["EnvPool (async)"]
    assert point[2:4] == pytest.approx([1440.0, 1440.0])
    assert point[4] == "cell/laptop/atari/Pong-v5/envpool-async/8"


def test_machines_of_one_task_have_the_same_axes_and_can_be_selected(place: Path) -> None:
    put(HERE)
    there = measured_plan({("for-loop", 1): 700}, plan_id="there", cell={"machine": "server"})
    put(there, "server")
    _, page = made()
    assert {(round(each["bottom"]), round(each["top"])) for each in page.charts} == {(640, 11200)}
    (selector,) = page.all("select")
    assert selector["data-selects"] == "machine"
    sections = [a["data-machine"] for a in page.all("section")]
    assert len(sections) == len(set(sections)) == 2


@pytest.mark.parametrize("newest", ["here", "laptop"])
def test_the_machine_that_was_measured_last_comes_first(place: Path, newest: str) -> None:
    for name in ("here", "laptop"):
        when = f"2025-11-2{1 if name == newest else 0}T10:00:00Z"
        cells = {("for-loop", 1): 50, ("envpool-async", 8): 90}
        put(measured_plan(cells, plan_id=name, cell={"machine": name}, started_utc=when), name)
    _, page = made()
    first = page.all("section")[0]["data-machine"]
    assert first.lower() == newest


@pytest.mark.parametrize(
    ("text", "value"),
    [("95 ms", 0.095), ("600 µs", 0.0006), ("6.2 s to 70.3 s", 6.2), ("none", None),
     ("12.5 KiB", 12800.0), ("1,024 MiB", 2.0**30), ("**20740.64** at 10", 20740.64),
     ("≠ 3", 3.0), ("not run", None),
     ("20,700 ±2 %", 20700.0), ("≈ 20,700 ±2 %", 20700.0), ("**20,700 ±2 %** at 6", 20700.0),
     ("≠ ≈ 0.0123 ±5 % at 6", 0.0123), ("2=", 2.0), ("12", 12.0), ("1.5x", None),
     ("8,045 frames of 4 environments, counted again by the library, which", None)],
)  # fmt: skip
def test_a_column_sorts_by_the_values_of_its_texts(text: str, value: float | None) -> None:
    assert number(text) == (None if value is None else pytest.approx(value))


def test_rounded_figures_and_ties_sort_by_their_exact_values(place: Path) -> None:
    records = varied_plan({
        ("for-loop", 8): (900, 920, 910, 890, 930), ("envpool-async", 8): (916, 905, 925, 895, 919),
        ("subprocess", 8): (401, 403, 399, 398, 404),
    })  # fmt: skip
    put(records)
    made()
    text = Path("results/report.html").read_text()
    table = text[text.index("<h4>Atari - Laptop</h4>") :].split("</table>")[0]
    cells = re.findall(r'data-value="([\d.]+)"[^>]*><a[^>]*>([^<]*)</a>', table)
    values, texts = zip(*cells, strict=True)
    assert texts == ("≈ 14,600 ±1 %", "6,420 ±1 %", "≈ 14,600 ±1 %")
    adjusted = {each.label: each.adjusted for each in select(records).measured}
    assert [float(value) for value in values] == [
        found.rate
        for label in ("For-loop", "Subprocess", "EnvPool (async)")
        if (found := adjusted[label])
    ]


def test_a_cell_without_others_beside_it_has_no_rank(place: Path) -> None:
    put([*measured_plan({("for-loop", 1): 50, ("envpool-sync", 1): 90}), *CEILING])
    made()
    text = Path("results/report.html").read_text()
    rows = text[text.index('<table id="cells"') :].split("<tr ")[1:]
    ranks = {re.findall(r"<t[hd][^>]*>([^<]*)", row)[3]: row for row in rows}
    assert '<td data-value="2.0">2</td>' in ranks["For-loop"]
    assert '<td data-value="1.0">1</td>' in ranks["EnvPool (sync)"]
    assert "<td></td>" in ranks["Ceiling"]


def test_a_quick_cell_has_no_rank(place: Path) -> None:
    put(measured_plan({("for-loop", 1): 50, ("envpool-sync", 1): 90}, windows=1))
    made()
    text = Path("results/report.html").read_text()
    rows = text[text.index('<table id="cells"') :].split("<tr ")[1:]
    assert len(rows) == 2
    assert all(">quick<" in row for row in rows)
    assert [row.count("<td></td>") for row in rows] == [2, 2]  # rank and equal work


def test_every_table_sorts_and_a_long_one_filters(place: Path) -> None:
    many = measured_plan({("for-loop", n): 50 for n in range(1, 11)})
    put([*many, *CEILING, make_refusal(make_cell("subprocess", 8))])
    _, page = made()
    tables = [a["id"] for a in page.all("table")]
    assert len(tables) == len(set(tables)) > 6
    assert [a["data-table"] for a in page.all("input")] == ["cells"]
    heads = page.all("th")
    assert sum(a.get("class") == "sort" for a in page.all("button")) == sum(
        a["scope"] == "col" for a in heads
    )


def test_a_table_has_its_badges_shares_and_notes(place: Path) -> None:
    few = measured_plan({("subprocess", 8): 30}, plan_id="few", repeats=2)
    put([*HERE, *CEILING, *few, make_refusal(make_cell("envpool-async", 8))])
    made()
    text = Path("results/report.html").read_text()
    table = text[text.index("<h4>Atari - Laptop</h4>") :].split("</table>")[0]
    assert ">Of ceiling</button>" in table
    assert '<td data-value="25.0">25 %</td>' in table
    reason = "Refused: claims 400 frames, its environments made 4; not compared"
    assert re.search(rf'<button type="button" class="figure" data-notes="{reason}[^"]*">✗', table)
    assert 'title="Fewer than five processes' in table


def test_a_refused_row_has_no_figure_anywhere(place: Path) -> None:
    put([*HERE, *CEILING, make_refusal(make_cell("envpool-async", 8))])
    _, page = made()
    (cell,) = [c for c in page.cells if c["label"] == "EnvPool (async)"]
    assert (cell["fps"], cell["low"], cell["steps_per_second"]) == (None, None, None)
    assert len(cell["runs"]) == 5
    assert {run["fps"] for run in cell["runs"]} == {None}
    assert not any(run["slices"] for run in cell["runs"])
    text = Path("results/report.html").read_text()
    assert "1440" not in text
    assert "1,440" not in text
    assert text.count(">refused</a>") == 2


def test_check_says_whether_the_page_is_up_to_date_and_writes_nothing(place: Path) -> None:
    path = put(HERE)
    words = ["report", "--format", "html", "--check"]
    missing = CliRunner().invoke(envbench, words)
    assert (missing.exit_code, Path("results/report.html").exists()) == (1, False)
    made()
    assert CliRunner().invoke(envbench, words).exit_code == 0
    write(path, measured_plan({("subprocess", 8): 30}, plan_id="more"))
    stale = CliRunner().invoke(envbench, words)
    assert stale.exit_code == 1
    assert "To update, run this without --check" in stale.stderr
    assert "out of date: results/report.html" in stale.stderr


@pytest.mark.parametrize("words", [["--into", "x.md"], ["--json"]])
def test_html_cannot_be_combined_with_a_document_or_json(place: Path, words: list[str]) -> None:
    put(HERE)
    Path("x.md").write_text("")
    done = CliRunner().invoke(envbench, ["report", "--format", "html", *words])
    assert done.exit_code == 2


def test_lead_ins_are_not_shown_as_warm_up() -> None:
    second = 10**9
    warmup = make_windows([1] * 5, ns=[second] * 3 + [10**7] * 2)
    starts = [0, second, 2 * second, 7 * second, 9 * second]  # two lead-ins, while it was measured
    run = make_run(
        make_cell("for-loop", 1),
        [100] * 2,
        warmup=msgspec.structs.replace(warmup, start_ns=starts),
    )
    found = _slices(run, 80)
    assert [each[:2] for each in found if each[3] == 0] == [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]
    assert [each[0] for each in found if each[3] == 1] == [3.0, 3.25]


def test_a_task_of_which_every_cell_failed_has_a_page(place: Path) -> None:
    cell = make_cell("for-loop", 2)
    put(
        [
            make_fact(),
            make_plan([cell]),
            make_run(cell, failure=make_failure(message="no such level")),
        ]
    )
    made()
    assert "No cell has a figure." in Path("results/report.html").read_text()
