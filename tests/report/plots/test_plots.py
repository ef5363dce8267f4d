"""Plots: what they show, reproducible files, and harmless names."""

from __future__ import annotations

import io
import re
import struct
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from helpers.record_factories import OTHER, measured_plan, new_results_file, varied_plan, write

from envbench.cli import envbench
from envbench.machine import Match, Profile, Table
from envbench.model import Published, digest
from envbench.report.contents import block_contents
from envbench.report.markdown.document import filled, fresh
from envbench.report.output_files import shows, stamped
from envbench.report.plots import draw as plots
from envbench.report.plots.draw import Kind, draw
from envbench.report.plots.picture import Chart, Curve, Picture, Point
from envbench.results.selection import select

LAPTOP = Profile(
    name="laptop",
    title="Laptop",
    match=Match(),
    atari=Table(numenv=[1, 8], rows=["for-loop", "envpool-async"]),
)
HERE = measured_plan({("for-loop", 1): 50, ("for-loop", 8): 40, ("envpool-async", 8): 90})
CEILING = measured_plan({("ceiling", 12): 200}, plan_id="top", cell={"kind": "ceiling"})
THERE = measured_plan(
    {("envpool-sync", 64): 3000},
    plan_id="there",
    cell={"machine": "server"},
    fingerprint=digest(OTHER),
)
THEIRS = Published(
    machine="laptop", env="atari", task="Pong-v5", backend="envpool-sync", numenv=4,
    fps=500.0, frame_skip=4, source="them",
)  # fmt: skip


def picture(records: list[Any], marker: str) -> Picture:
    found = block_contents(select(records), {"laptop": LAPTOP})[f"envbench: plot {marker}"].picture
    assert found is not None
    return found


def test_a_curve_is_a_row_with_its_intervals_and_the_ceiling_a_line() -> None:
    (chart,) = picture([*HERE, *CEILING], "atari laptop").charts
    assert [curve.label for curve in chart.curves] == ["For-loop", "EnvPool (async)"]
    first, second = chart.curves[0].points
    assert (first.numenv, second.numenv) == (1, 8)
    assert [first.fps, first.low, first.high] == pytest.approx([800.0] * 3)
    assert [second.fps, second.low, second.high] == pytest.approx([640.0] * 3)
    assert chart.ceiling == 3200.0


def test_a_curve_has_the_figures_of_the_tables() -> None:
    """Those as if all cells had been measured at the same time, with the interval to compare."""
    records = varied_plan({("for-loop", 1): (50, 70, 60), ("envpool-async", 1): (91, 128, 109)})
    (chart,) = picture(records, "atari laptop").charts
    for curve, found in zip(chart.curves, select(records).measured[::-1], strict=True):
        assert curve.label == found.label
        assert found.adjusted is not None
        (point,) = curve.points
        assert (point.fps, (point.low, point.high)) == (
            found.adjusted.rate, found.adjusted.interval,
        )  # fmt: skip


def test_published_figures_are_separate_dashed_curves() -> None:
    (chart,) = picture([*HERE, THEIRS], "atari laptop").charts
    assert [(c.label, c.published) for c in chart.curves] == [
        ("For-loop", False),
        ("EnvPool (async)", False),
        ("EnvPool (sync), published", True),
    ]


def test_a_quick_figure_has_a_hollow_marker_that_the_legend_explains() -> None:
    quick = measured_plan({("for-loop", 4): 45}, plan_id="quick", quick=True, repeats=1)
    drawn = picture([*HERE, *quick], "atari laptop")
    with plots.as_figure(drawn) as figure:
        (legend,) = figure.legends
        names = [text.get_text() for text in legend.get_texts()]
        assert names == ["For-loop", "EnvPool (async)", "not ranked: quick"]
        (hollow,) = [line for line in figure.axes[0].lines if line.get_markerfacecolor() == "white"]
        assert hollow.get_xydata().tolist() == [[4, 720]]


def test_a_figure_of_another_session_has_a_hollow_marker_and_no_interval() -> None:
    other = measured_plan({("for-loop", 4): 45}, plan_id="other")
    (curve, _) = picture([*HERE, *other], "atari laptop").charts[0].curves
    assert curve.points[1] == Point(4, 720.0, apart="another session")


def test_the_digest_of_a_picture_without_quick_figures_stays_as_it_was() -> None:
    point = msgspec.to_builtins(Point(1, 2.0))
    assert point == {"numenv": 1, "fps": 2.0, "low": None, "high": None}


def test_a_backend_has_its_colour_on_every_machine() -> None:
    drawn = picture([*HERE, *THERE, THEIRS], "atari")
    assert [chart.title for chart in drawn.charts] == ["Atari - Laptop", "Atari - server"]
    places = {c.label: c.place for c in picture([*HERE, THEIRS], "atari laptop").charts[0].curves}
    assert drawn.charts[1].curves[0].place == places["EnvPool (sync), published"]


def test_rows_of_one_backend_differ_by_more_than_colour() -> None:
    variants = [
        measured_plan(
            {("envpool-async", 1): 50, ("envpool-async", 8): 60 + k}, plan_id=f"v{k}",
            cell={"variant": {"threads": k}} if k else {},
        )
        for k in range(3)
    ]  # fmt: skip
    drawn = picture([record for plan in variants for record in plan], "atari laptop")
    assert len({curve.place for curve in drawn.charts[0].curves}) == 1
    with plots.as_figure(drawn) as figure:
        assert len({line.get_marker() for line in figure.axes[0].lines}) == 3
        assert len({line.get_color() for line in figure.axes[0].lines}) == 1
    looks = plots.styles(drawn).values()
    assert len({str(look["linestyle"]) for look in looks}) == 3


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_the_same_picture_is_the_same_file_with_a_stamp(kind: Any) -> None:
    drawn = picture([*HERE, *CEILING, THEIRS], "atari laptop")
    data = stamped(draw(drawn, kind), drawn.digest)
    assert data == stamped(draw(drawn, kind), drawn.digest)
    assert shows(data, drawn.digest)
    assert not shows(data, picture(HERE, "atari laptop").digest)


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_a_changed_byte_anywhere_makes_a_picture_stale(kind: Any) -> None:
    drawn = picture(HERE, "atari laptop")
    data = stamped(draw(drawn, kind), drawn.digest)
    middle = len(data) // 2
    for at in (9, middle, len(data) - 40, len(data) - 2):
        other = bytes([data[at] ^ 1])
        assert not shows(data[:at] + other + data[at + 1 :], drawn.digest), at
    for torn in (b"", data[:3], data[:middle], data[:-1], data[middle:], data + b"\n"):
        assert not shows(torn, drawn.digest)


def test_a_stamped_png_is_valid() -> None:
    from PIL import Image

    drawn = picture(HERE, "atari laptop")
    data = stamped(draw(drawn, "png"), drawn.digest)
    Image.open(io.BytesIO(data)).load()
    assert f"envbench picture {drawn.digest}" in data.decode("ascii", "ignore")


def test_an_svg_is_well_formed_and_fetches_and_runs_nothing() -> None:
    hostile = "<script>alert(1)</script> $\\frac{1}{0}$ ]]> \u202e \x1b[31m 名"
    records = measured_plan({("for-loop", 1): 5}, cell={"machine": hostile})
    (name,) = [
        name for name in block_contents(select(records), {}) if name.startswith("envbench: plot")
    ][1:]
    drawn = block_contents(select(records), {})[name].picture
    assert drawn is not None
    text = stamped(draw(drawn, "svg"), drawn.digest).decode()
    root = ElementTree.fromstring(text)
    names = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert not names & {"script", "image", "foreignObject", "a"}
    assert "url(http" not in text


def test_a_page_links_to_its_plots_which_are_drawn_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = new_results_file(Path("results"), "laptop", "2025-11-20T10:00:00Z")
    write(path, [*HERE, *CEILING])
    first = CliRunner().invoke(envbench, ["report"])
    assert first.exit_code == 0, first.stderr
    plot = Path("results/plots/atari-laptop.svg")
    assert f"wrote {plot}" in first.stderr
    page = Path("results/README.md").read_text()
    assert "](plots/atari-laptop.svg)" in page
    assert "wrote" not in CliRunner().invoke(envbench, ["report"]).stderr
    assert CliRunner().invoke(envbench, ["report", "--check"]).exit_code == 0
    assert CliRunner().invoke(envbench, ["report", "--png"]).exit_code == 0
    assert Path("results/plots/atari-laptop.png").is_file()
    plot.write_text("<svg/>")
    checked = CliRunner().invoke(envbench, ["report", "--check"])
    assert (checked.exit_code, str(plot) in checked.stderr) == (1, True)
    assert f"wrote {plot}" in CliRunner().invoke(envbench, ["report"]).stderr


def test_a_new_page_has_plots_of_measured_results_only() -> None:
    found = block_contents(select([*HERE, THEIRS]), {"laptop": LAPTOP})
    page = fresh(found)
    assert "envbench: plot atari laptop" in page
    assert "envbench: plot atari -->" not in page  # there is only one machine
    only = block_contents(select([THEIRS]), {"laptop": LAPTOP})
    assert "envbench: plot" not in fresh(only)
    marker = "<!-- envbench: plot atari laptop -->"
    outcome = filled(f"{marker}\n{marker}\n", "D", only)
    assert [drawn.name for drawn in outcome.pictures] == ["atari-laptop"]


def test_no_picture_loses_its_legend_however_long_its_names() -> None:
    records = [
        record
        for k in range(9)
        for record in measured_plan(
            {("envpool-async", 1): 50, ("envpool-async", 8): 60 + k}, plan_id=f"v{k}",
            cell={"variant": {"actions": "constant", "resize": "bilinear", "threads": k}},
        )
    ]  # fmt: skip
    drawn = picture(records, "atari laptop")
    with plots.as_figure(drawn) as figure:
        figure.canvas.draw()
        (axes,) = figure.axes
        (legend,) = figure.legends
        assert len(legend.get_texts()) == 10  # nine rows, and "not ranked: another session"
        whole, inside = figure.bbox, legend.get_window_extent()
        assert whole.x0 <= inside.x0 < inside.x1 <= whole.x1
        assert whole.y0 <= inside.y0 < inside.y1 <= whole.y1
        assert axes.bbox.height > 0.4 * plots.HEIGHT * figure.dpi
        label = axes.yaxis.label.get_window_extent()
        assert whole.y0 <= label.y0 < label.y1 <= whole.y1


def test_numbers_on_the_axis_do_not_overlap() -> None:
    ladder = [1, 2, 4, 8, 16, 32, 64, 96, 128, 160, 192, 224, 256]  # DGX-A100's
    assert plots.apart(ladder)[-3:] == [96, 160, 256]
    assert plots.apart([1, 2, 3, 4, 6, 8, 10, 12])[0] == 1
    assert plots.apart([8]) == [8]
    assert plots.apart([]) == []


def test_two_sources_are_two_curves() -> None:
    others = [msgspec.structs.replace(THEIRS, source="Other", numenv=n) for n in (1, 8)]
    drawn = picture([*HERE, THEIRS, *others], "atari laptop")
    labels = [curve.label for curve in drawn.charts[0].curves if curve.published]
    assert sorted(labels) == ["EnvPool (sync), Other", "EnvPool (sync), them"]


def test_charts_share_one_legend_and_a_row_looks_the_same_in_each() -> None:
    drawn = picture([*HERE, *THERE, *CEILING], "atari")
    with plots.as_figure(drawn) as figure:
        (legend,) = figure.legends
        names = [text.get_text() for text in legend.get_texts()]
        assert names == [
            "For-loop", "EnvPool (async)", "EnvPool (sync)", "ceiling (engine alone)"
        ]  # fmt: skip
        assert all(axes.get_legend() is None for axes in figure.axes)
    looks = plots.styles(drawn)
    assert len({look["marker"] for look in looks.values()}) == len(looks) == 3


def test_no_two_backends_share_colour_and_marker() -> None:
    curves = [Curve(label=str(k), place=k, points=[Point(1, 1.0)]) for k in range(56)]
    drawn = Picture(name="p", title="P", charts=[Chart(title="P", curves=curves)])
    looks = plots.styles(drawn).values()
    assert len({(look["color"], look["marker"]) for look in looks}) == 56


@pytest.mark.parametrize(
    "points",
    [
        [Point(1, 1.0, 1e-300, float("inf")), Point(2, 2.0, 1.0, 3.0)],
        [Point(1, 1e-3), Point(1024, 1e12)],
        [Point(7, 0.25, 0.2, 0.3)],
        [Point(1, 1e300)],
    ],
)
def test_any_figures_can_be_drawn_with_their_points_inside_the_picture(points: list[Point]) -> None:
    curve = Curve(label="x", place=0, points=points)
    drawn = draw(Picture(name="p", title="P", charts=[Chart(title="P", curves=[curve])]), "svg")
    root = ElementTree.fromstring(drawn.decode())
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    lines = [each for each in root.iter() if (each.get("clip-path") or "").startswith("url")]
    assert lines
    uses = [each for each in root.iter() if each.tag.endswith("}use") and "y" in each.attrib]
    places = [(float(each.attrib["x"]), float(each.attrib["y"])) for each in uses]
    assert sum(0 < x < width and 0 < y < height for x, y in places) >= len(points)


def test_an_svg_has_a_dark_form() -> None:
    text = draw(picture(HERE, "atari laptop"), "svg").decode()
    assert text.count("@media (prefers-color-scheme: dark)") == 1
    root = ElementTree.fromstring(text)
    dark = next(each.text for each in root.iter() if each.tag.endswith("}style")) or ""
    used = set(re.findall(r"(?:fill|stroke): #[0-9a-f]{6}", text.replace(dark, "")))
    for colour in ("#000000", "#ffffff", "#555555", "#dddddd"):
        for each in (name for name in used if name.endswith(colour)):
            assert f'[style*="{each}"]' in dark


@pytest.mark.parametrize(("charts", "limited"), [(2, False), (10, True)])
def test_the_png_of_many_charts_has_fewer_pixels_per_inch(
    monkeypatch: pytest.MonkeyPatch, charts: int, limited: bool
) -> None:
    """An image has at most 65,535 pixels on each side."""
    monkeypatch.setattr(plots, "LARGEST", 2000)
    chart = Chart(title="P", curves=[Curve(label="x", place=0, points=[Point(1, 1.0)])])
    wanted = Picture(name="p", title="P", charts=[chart] * charts)
    size = struct.unpack(">2I", draw(wanted, "png")[16:24])  # of the header chunk
    with plots.as_figure(wanted) as figure:
        inches = figure.get_size_inches()
    dpi = int(2000 / max(inches)) if limited else plots.DPI
    assert (dpi < plots.DPI) == limited
    assert size == pytest.approx([each * dpi for each in inches], abs=1)
    assert max(size) <= 2000


def test_several_processes_draw_the_same_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [
        record
        for k in range(12)
        for record in measured_plan(
            {("for-loop", 1): 50 + k}, plan_id=f"p{k}", cell={"machine": f"m{k:02}"}
        )
    ]
    found = block_contents(select(records), {}).values()
    wanted: list[tuple[Picture, Kind]] = [(each.picture, "svg") for each in found if each.picture]
    monkeypatch.setattr(plots, "usable_cpus", lambda: 1)
    alone = list(plots.drawn(wanted))
    monkeypatch.setattr(plots, "usable_cpus", lambda: 2)
    assert list(plots.drawn(wanted)) == alone


def test_published_figures_of_a_machine_without_a_profile_have_a_plot() -> None:
    other = msgspec.structs.replace(THEIRS, machine="mainframe")
    found = block_contents(select([*HERE, other]), {"laptop": LAPTOP})
    drawn = found["envbench: plot atari mainframe"].picture
    assert drawn is not None
    assert drawn.title == "Atari - mainframe"
    assert [(c.label, c.published) for c in drawn.charts[0].curves] == [
        ("EnvPool (sync), published", True)
    ]
    assert "envbench: plot atari mainframe" not in fresh(found)
    assert "<!-- Atari (published) - mainframe -->" in fresh(found)
    assert "<!-- Atari - mainframe -->" not in fresh(found)  # nothing was measured there


def test_a_new_page_has_plots_of_at_most_twelve_machines() -> None:
    records = [
        record
        for k in range(13)
        for record in measured_plan(
            {("for-loop", 1): 50}, plan_id=f"p{k}", cell={"machine": f"m{k:02}"}
        )
    ]
    few, many = (
        block_contents(select(records[: len(records) * 12 // 13]), {}),
        block_contents(select(records), {}),
    )
    assert "envbench: plot atari -->" in fresh(few)
    assert "envbench: plot atari" in fresh(few)
    assert "envbench: plot" not in fresh(many)
    assert len(picture(records, "atari").charts) == 13


def test_an_existing_png_is_kept_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = new_results_file(Path("results"), "laptop", "2025-11-20T10:00:00Z")
    write(path, HERE)
    run = CliRunner().invoke
    assert run(envbench, ["report"]).exit_code == 0
    assert run(envbench, ["report", "--check", "--png"]).exit_code == 1  # there is no PNG yet
    assert run(envbench, ["report", "--png"]).exit_code == 0
    plot = Path("results/plots/atari-laptop.png")
    plot.write_bytes(plot.read_bytes()[:-100])
    checked = run(envbench, ["report", "--check"])
    assert (checked.exit_code, str(plot) in checked.stderr) == (1, True)
    assert run(envbench, ["report"]).exit_code == 0
    assert run(envbench, ["report", "--check"]).exit_code == 0
