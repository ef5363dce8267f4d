"""The HTML report in a real browser: sort, filter, open a cell; no error, no request."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from helpers.record_factories import make_windows, measured_plan, new_results_file, write
from helpers.skip_or_fail import not_here

from envbench.cli import envbench
from envbench.model import Load, Times

pytestmark = pytest.mark.slow
TIMES = Times(import_ns=10**9, build_ns=5 * 10**8, first_step_ns=10**8, warmup_ns=1, measured_ns=1)
LOAD = Load(cpu_s=1.0, other_cpu_s=0.25)
NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        not_here("a Chromium (apt install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def page(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.chdir(tmp_path)
    path = new_results_file(Path("results"), "laptop", "2025-11-20T10:00:00Z")
    disturbed = make_windows([100, 120, 80, 100], invalid={"2": "steal"})
    records = [
        *measured_plan({("for-loop", 1): 50, ("for-loop", 8): 40, ("envpool-async", 8): 90}),
        *measured_plan(
            {("subprocess", 12): 30},
            plan_id="b",
            run={"warmup": make_windows([60]), "measured": disturbed, "times": TIMES, "load": LOAD},
        ),
    ]
    write(path, records)
    done = CliRunner().invoke(envbench, ["report", "--format", "html"])
    assert done.exit_code == 0, done.stderr
    opened = browser.new_page(viewport={"width": 1200, "height": 900})
    trouble: list[str] = []
    opened.on("console", lambda message: trouble.append(message.text))
    opened.on("pageerror", lambda error: trouble.append(str(error)))
    opened.on("request", lambda request: trouble.append(request.url))
    opened.goto(Path("results/report.html").resolve().as_uri())
    yield opened
    opened.close()
    own = Path("results/report.html").resolve().as_uri()
    assert [each for each in trouble if each != own and not each.startswith("data:")] == []


def column(page: Any, number: int) -> list[str]:
    rows = page.locator("#cells tbody tr:not([hidden])")
    return [rows.nth(i).locator("td").nth(number).inner_text() for i in range(rows.count())]


def test_a_click_on_a_heading_sorts_by_numbers_and_a_second_one_reverses(page: Any) -> None:
    fps = page.locator("#cells thead button", has_text="FPS")
    fps.click()
    assert column(page, 4) == [
        "1,706.7 ±0 %", "1,440.0 ±0 %", "800.00 ±0 %", "640.00 ±0 %",
    ]  # fmt: skip
    assert page.locator("#cells th[aria-sort='descending']").inner_text().startswith("FPS")
    fps.click()
    assert column(page, 4)[0] == "640.00 ±0 %"
    page.locator("#cells thead button", has_text="environments").click()
    assert column(page, 3) == ["12", "8", "8", "1"]
    page.locator("#cells thead button", has_text="rank").click()
    assert column(page, 5) == ["2", "1", "1", ""]  # Subprocess alternated with no other cell


def test_words_filter_the_rows(page: Any) -> None:
    page.locator("input[data-table='cells']").fill("for-loop 640")
    assert column(page, 2) == ["For-loop"]
    assert page.locator("#cells-count").inner_text() == "1 of 4"
    page.locator("input[data-table='cells']").fill("")
    assert page.locator("#cells-count").inner_text() == ""
    assert len(column(page, 2)) == 4


def summary(page: Any, heading: str) -> Any:
    head = page.locator(".head", has=page.locator("h3", has_text=heading))
    return head, page.locator(f"table#{head.locator('input').get_attribute('data-table')}")


def test_a_summary_sorts_and_filters_and_its_figures_link_to_cells(page: Any) -> None:
    head, table = summary(page, "Highest FPS - Atari")
    rows = table.locator("tbody tr:not([hidden]) th")
    table.locator("thead button", has_text="Laptop").click()
    assert rows.all_inner_texts() == ["Subprocess", "EnvPool (async)", "For-loop"]
    head.locator("input").fill("envpool")
    assert rows.all_inner_texts() == ["EnvPool (async)"]
    assert head.locator("span").inner_text() == "1 of 3"
    table.locator("a", has_text="1,440.0").click()
    cell = page.locator("td:target")
    assert cell.is_visible()
    cell.locator("button").click()
    assert "EnvPool (async), Pong-v5, 8 environments" in page.locator("dialog#cell").inner_text()


def test_a_link_shows_its_cell_even_if_a_filter_hides_it(page: Any) -> None:
    head = page.locator(".head", has=page.get_by_role("heading", name="Atari - Laptop", exact=True))
    ladder = head.locator("input")
    ladder.fill("subprocess")
    _, table = summary(page, "Highest FPS - Atari")
    table.locator("a", has_text="1,440.0").click()
    page.locator("td:target").wait_for(state="visible")
    assert ladder.input_value() == ""


def test_the_keyboard_reaches_each_point_of_a_plot_and_its_value_shows(page: Any) -> None:
    points = page.locator("svg.plot").first.locator("a")
    points.first.focus()
    value = points.nth(1).locator("text")
    assert not value.is_visible()
    page.keyboard.press("Tab")
    name = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert name == value.text_content() == "For-loop at 8: 640.00 FPS (640–640)"
    assert value.is_visible()
    page.keyboard.press("Enter")
    assert page.locator("td:target").inner_text().startswith("640.00")


def test_one_environment_is_written_in_the_singular(page: Any) -> None:
    page.locator("#cells tbody tr", has_text="800.00").locator("button").click()
    assert (
        "For-loop, Pong-v5, 1 environment\n" in page.locator("dialog#cell h2").inner_text() + "\n"
    )


def test_clicking_a_figure_shows_its_runs_windows_and_record(page: Any) -> None:
    page.locator("#cells tbody tr", has_text="Subprocess").locator("button").click()
    dialog = page.locator("dialog#cell")
    assert dialog.is_visible()
    text = dialog.inner_text()
    assert "Subprocess, Pong-v5, 12 environments" in text
    assert "2025-11-20T10-00-00Z.jsonl:" in text
    assert "FPS of its runs\n1,706.67" in text
    assert "beside the other cells" not in text
    assert dialog.locator("section.run").count() == 5
    first = dialog.locator("svg.series").first
    assert first.locator("rect.window").count() == 3
    assert first.locator("rect.invalid").count() == 1
    assert first.locator("title").all_text_contents() == [
        "0.00 s: 960 FPS (warm-up)",
        "0.25 s: 1,600 FPS (measured)",
        "0.50 s: 1,920 FPS (measured)",
        "0.75 s: 1,280 FPS (invalid: steal)",
        "1.00 s: 1,600 FPS (measured)",
    ]
    assert "start-up, first step\n1.50 s, 0.10 s" in text
    assert "CPU, others, steal\n1.00 s, 0.25 s, ?" in text
    dialog.locator("button.close").click()
    assert not dialog.is_visible()


def test_a_cell_that_alternated_shows_both_of_its_figures(page: Any) -> None:
    page.locator("#cells tbody tr", has_text="For-loop").locator("button").first.click()
    text = page.locator("dialog#cell").inner_text()
    assert "FPS of its runs\n800.00\n95 % interval\n800.00 – 800.00" in text
    assert "FPS beside the other cells\n800.00\n95 % interval to compare\n800.00 – 800.00" in text


def test_the_page_works_in_dark_mode_and_on_a_narrow_screen(page: Any) -> None:
    page.emulate_media(color_scheme="dark")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(13, 17, 23)"
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
