"""Plots: what is drawn, that the same picture is the same file, and that names stay names."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from made_records import OTHER, measured_plan

from envbench import store
from envbench.cli import envbench
from envbench.machine import Match, Profile, Table
from envbench.model import Published, digest
from envbench.report import plots
from envbench.report.curves import Picture
from envbench.report.document import filled, fresh
from envbench.report.pieces import pieces
from envbench.report.plots import digest_in, draw
from envbench.report.selection import select

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
    (found,) = pieces(select(records), {"laptop": LAPTOP})[f"envbench: plot {marker}"].pictures
    return found


def test_a_curve_is_a_row_with_its_intervals_and_the_ceiling_a_line() -> None:
    (panel,) = picture([*HERE, *CEILING], "atari laptop").panels
    assert [curve.label for curve in panel.curves] == ["For-loop", "EnvPool (async)"]
    assert [(p.numenv, p.fps, p.low) for p in panel.curves[0].points] == [
        (1, 800.0, 800.0),
        (8, 640.0, 640.0),
    ]
    assert panel.ceiling == 3200.0


def test_published_figures_are_curves_of_their_own_and_marked() -> None:
    (panel,) = picture([*HERE, THEIRS], "atari laptop").panels
    assert [(c.label, c.published) for c in panel.curves] == [
        ("For-loop", False),
        ("EnvPool (async)", False),
        ("EnvPool (sync), published", True),
    ]


def test_a_backend_has_its_colour_on_every_machine() -> None:
    drawn = picture([*HERE, *THERE, THEIRS], "atari")
    assert [panel.title for panel in drawn.panels] == ["Atari - Laptop", "Atari - server"]
    places = {c.label: c.place for c in picture([*HERE, THEIRS], "atari laptop").panels[0].curves}
    assert drawn.panels[1].curves[0].place == places["EnvPool (sync), published"]


def test_rows_of_one_backend_are_told_apart_by_more_than_colour() -> None:
    variants = [
        measured_plan(
            {("envpool-async", 1): 50, ("envpool-async", 8): 60 + k}, plan_id=f"v{k}",
            cell={"variant": {"threads": k}} if k else {},
        )
        for k in range(3)
    ]  # fmt: skip
    drawn = picture([record for plan in variants for record in plan], "atari laptop")
    assert len({curve.place for curve in drawn.panels[0].curves}) == 1
    with plots._figure(drawn) as figure:
        assert len({line.get_marker() for line in figure.axes[0].lines}) == 3
        assert len({line.get_color() for line in figure.axes[0].lines}) == 1


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_the_same_picture_is_the_same_file_and_tells_which_it_is(kind: Any) -> None:
    drawn = picture([*HERE, *CEILING, THEIRS], "atari laptop")
    data = draw(drawn, kind)
    assert data == draw(drawn, kind)
    assert digest_in(data) == drawn.digest
    assert digest_in(data) != picture(HERE, "atari laptop").digest


def test_an_svg_is_well_formed_and_fetches_and_runs_nothing() -> None:
    hostile = "<script>alert(1)</script> $\\frac{1}{0}$ ]]> \u202e \x1b[31m 名"
    records = measured_plan({("for-loop", 1): 5}, cell={"machine": hostile})
    (name,) = [name for name in pieces(select(records), {}) if name.startswith("envbench: plot")][
        1:
    ]
    (drawn,) = pieces(select(records), {})[name].pictures
    text = draw(drawn, "svg").decode()
    root = ElementTree.fromstring(text)
    names = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert not names & {"script", "image", "foreignObject", "a"}
    assert "url(http" not in text


def test_a_page_links_to_its_plots_which_are_drawn_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = store.new_file(Path("results"), "laptop", "2025-11-20T10:00:00Z")
    for record in [*HERE, *CEILING]:
        store.append(path, record)
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


def test_only_what_was_measured_is_drawn_on_a_new_page() -> None:
    found = pieces(select([*HERE, THEIRS]), {"laptop": LAPTOP})
    page = fresh(found)
    assert "envbench: plot atari laptop" in page
    assert "envbench: plot atari -->" not in page  # one machine is no gallery
    only = pieces(select([THEIRS]), {"laptop": LAPTOP})
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
    with plots._figure(drawn) as figure:
        figure.canvas.draw()
        (axes,) = figure.axes
        legend = axes.get_legend()
        assert legend is not None
        assert len(legend.get_texts()) == 9
        whole, inside = figure.bbox, legend.get_window_extent()
        assert whole.x0 <= inside.x0 < inside.x1 <= whole.x1
        assert whole.y0 <= inside.y0 < inside.y1 <= whole.y1
        assert axes.bbox.height > 0.4 * plots.HEIGHT * figure.dpi
        label = axes.yaxis.label.get_window_extent()
        assert whole.y0 <= label.y0 < label.y1 <= whole.y1


def test_numbers_under_the_axis_do_not_run_into_each_other() -> None:
    ladder = [1, 2, 4, 8, 16, 32, 64, 96, 128, 160, 192, 224, 256]  # DGX-A100's
    assert plots._apart(ladder)[-3:] == [96, 160, 256]
    assert plots._apart([1, 2, 3, 4, 6, 8, 10, 12])[0] == 1
    assert plots._apart([8]) == [8]
    assert plots._apart([]) == []


def test_two_sources_are_two_curves() -> None:
    others = [msgspec.structs.replace(THEIRS, source="Other", numenv=n) for n in (1, 8)]
    drawn = picture([*HERE, THEIRS, *others], "atari laptop")
    labels = [curve.label for curve in drawn.panels[0].curves if curve.published]
    assert sorted(labels) == ["EnvPool (sync), Other", "EnvPool (sync), them"]
