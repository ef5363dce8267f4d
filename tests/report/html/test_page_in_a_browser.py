"""The HTML report in a real browser: tables, curves, cells; no error and no request."""

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
ROOT = Path(__file__).parents[3]
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


def unfold(page: Any, title: str) -> None:
    page.locator("details.chapter > summary", has_text=title).click()


def dialog_of(page: Any) -> Any:
    """The dialog of a cell. It opens when the address has changed, a moment after a click."""
    dialog = page.locator("dialog#cell")
    dialog.wait_for(state="visible")
    return dialog


def column(page: Any, number: int) -> list[str]:
    rows = page.locator("#cells tbody tr:not([hidden])")
    return [rows.nth(i).locator("td").nth(number).inner_text() for i in range(rows.count())]


def test_a_click_on_a_heading_sorts_by_numbers_and_a_second_one_reverses(page: Any) -> None:
    unfold(page, "All measured cells")
    fps = page.locator("#cells thead button", has_text="FPS")
    fps.click()
    assert [each.rstrip("*") for each in column(page, 4)] == [
        "1,706.7", "1,440.0 ±0 %", "800.00 ±0 %", "640.00 ±0 %",
    ]  # fmt: skip
    assert page.locator("#cells th[aria-sort='descending']").inner_text().startswith("FPS")
    fps.click()
    assert column(page, 4)[0] == "640.00 ±0 %"
    page.locator("#cells thead button", has_text="environments").click()
    assert column(page, 3) == ["12", "8", "8", "1"]
    page.locator("#cells thead button", has_text="rank").click()
    assert column(page, 5) == ["2", "1", "1", ""]  # Subprocess alternated with no other cell


def test_a_figure_opens_its_cell_which_the_address_names(page: Any) -> None:
    page.locator("section a.figure", has_text="1,440.0").first.click()
    dialog = dialog_of(page)
    assert "EnvPool (async), Pong-v5, 8 environments" in dialog.inner_text()
    own = "#cell/laptop/atari/Pong-v5/envpool-async/8"
    assert page.url.endswith(own)
    page.keyboard.press("Escape")
    page.wait_for_function("location.hash === ''")
    assert not dialog.is_visible()
    page.evaluate(f"location.hash = {own!r}")
    dialog.wait_for(state="visible")


def test_a_page_opened_at_an_address_shows_that_cell(page: Any) -> None:
    page.goto(f"{page.url}#cell/laptop/atari/Pong-v5/for-loop/1")
    page.reload()
    assert "For-loop, Pong-v5, 1 environment\n" in dialog_of(page).inner_text()


def test_a_table_is_one_stop_of_the_tab_key_and_arrows_move_in_it(page: Any) -> None:
    table = page.locator("section table").first
    assert table.locator("[tabindex='0']").count() == 1
    table.locator("[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.innerText") == "1"
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.innerText") == "800.00 ±0 %"
    page.keyboard.press("Enter")
    dialog_of(page)
    stops = page.evaluate(
        "[...document.querySelectorAll('a, button, input, select, summary')].filter("
        "e => e.tabIndex >= 0 && e.checkVisibility() && !e.closest('dialog')).length"
    )
    assert stops < 30


def test_curves_can_be_read_and_switched_off(page: Any) -> None:
    chart = page.locator(".chart").first
    canvas = chart.locator("canvas")
    label = chart.locator(".plot").get_attribute("aria-label")
    assert "Highest: For-loop at 1 environment: 800 FPS ±0 %" in label
    chart.locator(".u-over").hover(position={"x": 60, "y": 60})
    chart.locator(".reading", has_text="FPS ±0 %").wait_for()
    before = canvas.screenshot()
    chart.locator("label", has_text="Subprocess").locator("input").uncheck()
    assert canvas.screenshot() != before
    assert "Subprocess" not in chart.locator(".plot").get_attribute("aria-label")
    chart.locator("button", has_text="Logarithmic").click()
    assert chart.locator("canvas").count() == 1


def test_curves_can_be_read_with_the_arrow_keys(page: Any) -> None:
    chart = page.locator(".chart").first
    chart.locator(".plot").focus()
    page.keyboard.press("ArrowRight")
    reading = chart.locator(".reading")
    assert "For-loop at 1 environment: 800 FPS" in reading.inner_text()
    page.keyboard.press("ArrowRight")
    assert "For-loop at 8 environments: 640 FPS" in reading.inner_text()
    page.keyboard.press("ArrowDown")  # to another curve, at the nearest number of environments
    assert "Subprocess at 12 environments: 1,707 FPS" in reading.inner_text()
    page.keyboard.press("ArrowDown")
    assert "EnvPool (async) at 8 environments: 1,440 FPS" in reading.inner_text()


def test_bars_and_the_choices_of_a_chart_are_one_stop_each(page: Any) -> None:
    for box, stops in ((".bars", "a.figure"), (".choices", "input, button")):
        first = page.locator(box).first
        assert first.locator(stops).count() > 1
        assert first.locator("[tabindex='0']").count() == 1
    page.locator(".choices").first.locator("input").first.focus()
    page.keyboard.press("ArrowRight")
    index = "[...document.querySelectorAll('.choices input')].indexOf(document.activeElement)"
    assert page.evaluate(index) == 1


def test_a_filtered_table_still_has_its_stop(page: Any) -> None:
    unfold(page, "All measured cells")
    table = page.locator("#cells")
    page.evaluate("document.querySelector('#cells tbody tr:last-child a.figure').focus()")
    page.evaluate("filter(document.getElementById('cells'))")
    assert table.locator("[tabindex='0']").count() == 1


def test_an_address_of_no_cell_says_so(page: Any) -> None:
    page.evaluate("location.hash = '#cell/laptop/atari/Pong-v5/brax/8'")
    page.locator("#missing").wait_for(state="visible")
    page.evaluate("location.hash = ''")
    page.locator("#missing").wait_for(state="hidden")


def test_printing_unfolds_everything_in_light_colours_and_then_folds_it_again(page: Any) -> None:
    page.emulate_media(color_scheme="dark")
    folded = page.locator("details:not([open])").count()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    ink = "getComputedStyle(document.documentElement).getPropertyValue('--ground').trim()"
    assert page.evaluate(ink) == "#fff"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details:not([open])").count() == folded > 0
    assert page.evaluate(ink) == "#0d1117"


def test_a_click_copies_the_command(page: Any) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("section a.figure", has_text="1,440.0").first.click()
    page.locator("dialog button.copy").first.click()
    page.locator("dialog button.copy", has_text="Copied").wait_for()


def test_clicking_a_figure_shows_its_runs_windows_and_record(page: Any) -> None:
    unfold(page, "All measured cells")
    page.locator("#cells tbody tr", has_text="Subprocess").locator("a.figure").click()
    dialog = dialog_of(page)
    text = dialog.inner_text()
    assert "Subprocess, Pong-v5, 12 environments" in text
    assert "2025-11-20T10-00-00Z.jsonl:" in text
    assert "FPS\n1,707 (" in text
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
    unfold(page, "All measured cells")
    page.locator("#cells tbody tr", has_text="For-loop").locator("a.figure").first.click()
    text = dialog_of(page).inner_text()
    assert "FPS of its runs alone\n800 (95 % interval 800 to 800)" in text
    assert "FPS, compared with the other cells\n800 (95 % interval 800 to 800)" in text


def test_the_page_works_in_dark_mode_and_on_a_narrow_screen(page: Any) -> None:
    page.emulate_media(color_scheme="dark")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(13, 17, 23)"
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_fault_in_the_page_or_in_a_cell(browser: Any, page: Any, scheme: str) -> None:
    """The rules of axe-core, with all details unfolded. It needs a page without our policy."""
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(bypass_csp=True, color_scheme=scheme)
    tested = context.new_page()
    tested.goto(page.url)
    tested.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    tested.wait_for_timeout(300)
    found = [Axe().run(tested)]
    tested.locator("section a.figure").first.click()
    found.append(Axe().run(tested))
    context.close()
    assert [each.response["violations"] for each in found] == [[], []]
    assert len(found[0].response["passes"]) > 20


@pytest.mark.parametrize("width", [1400, 390])
def test_axe_finds_no_fault_in_the_committed_results(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    monkeypatch.chdir(ROOT)
    path = tmp_path / "page.html"
    done = CliRunner().invoke(envbench, ["report", "--format", "html", "--output", str(path)])
    assert done.exit_code == 0, done.stderr
    context = browser.new_context(bypass_csp=True, viewport={"width": width, "height": 900})
    opened = context.new_page()
    opened.goto(path.as_uri())
    found = Axe().run(opened).response["violations"]
    context.close()
    assert found == []


def test_of_many_tasks_the_first_two_are_unfolded_and_a_card_or_a_menu_unfolds_another(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    path = tmp_path / "page.html"
    done = CliRunner().invoke(envbench, ["report", "--format", "html", "--output", str(path)])
    assert done.exit_code == 0, done.stderr
    assert path.stat().st_size < 1.5e6
    opened = browser.new_page(viewport={"width": 1200, "height": 900})
    opened.goto(path.as_uri())
    sections = opened.locator("section > details.whole")
    assert sections.count() > 3
    assert opened.locator("section > details.whole[open]").count() == 2
    last = opened.locator(".card h2 a").last
    last.click()
    opened.wait_for_function("document.querySelectorAll('.whole[open]').length === 3")
    assert opened.locator(last.get_attribute("href")).get_attribute("open") is not None
    opened.locator("#select-task").select_option("CartPole-v1")
    shown = opened.locator("section:not([hidden]) > details.whole")
    assert [shown.count(), shown.first.get_attribute("open")] == [1, ""]
    opened.close()
