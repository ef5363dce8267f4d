"""``envbench import``: published figures become records and tables; a file is imported whole or not
at all."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from helpers.record_factories import measured_plan

from envbench.cli import envbench
from envbench.errors import UsageError
from envbench.model import Published
from envbench.report.markdown.table_text import split_row
from envbench.report.tables.table import bare
from envbench.results import store
from envbench.results.published_csv import COLUMNS, parse
from envbench.results.selection import select

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "results" / "published" / "envpool.jsonl"
HEAD = ",".join(COLUMNS)
ROW = "laptop,atari,Pong-v5,for-loop,1,4745.54,4,EnvPool's README"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*words: str) -> Result:
    return CliRunner().invoke(envbench, list(words))


def table(page: str, heading: str) -> dict[str, list[str]]:
    block = page.split(f"<!-- {heading} -->")[1]
    rows = [split_row(line) for line in block.splitlines() if line.startswith("|")]
    return {row[0]: row[1:] for row in [rows[0], *rows[2:]]}


def test_importing_a_file_twice_changes_nothing(place: Path) -> None:
    Path("theirs.csv").write_text(f"{HEAD}\n{ROW}\n")
    assert "1 figure" in call("import", "theirs.csv").stderr
    (path,) = store.files(Path("results"))
    ((_, record),) = store.read(path).records
    assert record == Published(
        machine="laptop",
        env="atari",
        task="Pong-v5",
        backend="for-loop",
        numenv=1,
        fps=4745.54,
        frame_skip=4,
        source="EnvPool's README",
    )
    assert "unchanged" in call("import", "theirs.csv").stderr
    Path("theirs.csv").write_text(f"{HEAD}\n{ROW.replace('4745.54', '9')}\n")
    assert "wrote" in call("import", "theirs.csv").stderr
    ((_, record),) = store.read(path).records
    assert isinstance(record, Published)
    assert record.fps == 9


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", ":1", "columns of the header are missing"),
        (HEAD, "", "has a header but no figures"),
        (HEAD.replace("fps", "speed"), ":1", "missing, unknown or repeated: 'fps', 'speed'"),
        (f"{HEAD},fps", ":1", "are missing, unknown or repeated: 'fps'"),
        (f"{HEAD}\n{ROW},more", ":2", "the line has more or fewer values"),
        (f"{HEAD}\n{ROW}\n{ROW}", ":3", "duplicates line 2"),
        (f"{HEAD}\n{ROW.replace('laptop', '../x')}", ":2", "not a machine's name"),
        (f"{HEAD}\n{ROW.replace('atari', 'atary')}", ":2", "Did you mean 'atari'"),
        (f"{HEAD}\n{ROW.replace('for-loop', 'for-lop')}", ":2", "Did you mean 'for-loop'"),
        (f"{HEAD}\n{ROW.replace('for-loop', 'brax')}", ":2", "'brax' cannot run atari"),
        (f"{HEAD}\n{ROW.replace(',1,', ',0,')}", ":2", "numenv must be a positive whole number"),
        (f"{HEAD}\n{ROW.replace(',1,', ',1.5,')}", ":2", "numenv must be a positive whole number"),
        (f"{HEAD}\n{ROW.replace('4745.54', 'nan')}", ":2", "fps must be a positive number"),
        (f"{HEAD}\n{ROW.replace('4745.54', '-1')}", ":2", "fps must be a positive number"),
        (f"{HEAD}\n{ROW.replace('4745.54', '1e9')}", ":2", "fps must be a positive number"),
        (f"{HEAD}\n{ROW.replace(',4,', ',0,')}", ":2", "frame_skip must be a positive number"),
        (f"{HEAD}\n{ROW.replace('Pong-v5', '')}", ":2", "task must be one line of text"),
        (f"{HEAD}\n{ROW}\x1b[2J", ":2", "source must be one line of text"),
        (f'{HEAD}\n"{ROW}', ":2", "not valid CSV"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_imported(
    place: Path, text: str, line: str, says: str
) -> None:
    Path("theirs.csv").write_text(text)
    done = call("import", "theirs.csv")
    assert done.exit_code == 2
    assert f"theirs.csv{line}" in done.stderr
    assert says in done.stderr
    assert not Path("results").exists()


def test_a_spreadsheets_csv_is_read_with_its_byte_order_mark_and_any_column_order() -> None:
    columns = list(reversed(COLUMNS))
    values = dict(zip(COLUMNS, ROW.split(","), strict=True))
    text = f"\ufeff{','.join(columns)}\r\n{','.join(values[name] for name in columns)}\r\n\r\n"
    (figure,) = parse(text, "theirs.csv")
    assert figure.fps == 4745.54
    with pytest.raises(UsageError, match=r"x\.csv:1"):
        parse("a,b\n1,2\n", "x.csv")


def test_the_published_tables_come_out_number_for_number(place: Path) -> None:
    """EnvPool's tables from its figures alone, each machine's columns from the data."""
    published = Path("results/published")
    published.mkdir(parents=True)
    (published / "envpool.jsonl").write_bytes(PUBLISHED.read_bytes())
    assert call("report").exit_code == 0
    page = Path("results/README.md").read_text()
    figures = [record for _, record in store.read(PUBLISHED).records]
    shown = 0
    for env, title in (("atari", "Atari"), ("mujoco", "Mujoco")):
        for machine, name in (("laptop", "Laptop"), ("tpu-vm", "TPU-VM"), ("dgx-a100", "DGX-A100")):
            heading = f"{title} (published) - {name}"
            found = table(page, heading)
            columns = found.pop(heading)
            for figure in figures:
                assert isinstance(figure, Published)
                if (figure.machine, figure.env) == (machine, env):
                    label = {"for-loop": "For-loop", "subprocess": "Subprocess",
                             "sample-factory": "Sample-Factory", "envpool-sync": "EnvPool (sync)",
                             "envpool-async": "EnvPool (async)",
                             "envpool-numa": "EnvPool (numa+async)"}[figure.backend]  # fmt: skip
                    entry = found[label][columns.index(str(figure.numenv))]
                    assert bare(entry) == f"{figure.fps:.2f}"
                    shown += 1
    assert shown == len(figures) == 360
    assert "Published, not measured by envbench: EnvPool benchmark README" in page
    assert call("report", "--check").exit_code == 0


def test_the_figures_of_the_original_document_are_among_them() -> None:
    seed = (ROOT / "tests" / "golden" / "benchmark_seed.md").read_text()
    rows = {row[0]: row[1:] for row in map(split_row, re.findall(r"^\|.*", seed, re.M)[:4])}
    figures = {
        (each.backend, each.numenv): each.fps
        for _, each in store.read(PUBLISHED).records
        if isinstance(each, Published) and (each.machine, each.env) == ("laptop", "atari")
    }
    columns = [int(name) for name in rows["Atari - Laptop"]]
    written = [
        (backend, numenv, float(text))
        for backend, label in (("for-loop", "For-loop"), ("subprocess", "Subprocess"))
        for numenv, text in zip(columns, rows[label], strict=True)
        if text
    ]
    assert len(written) == 13
    assert all(figures[backend, numenv] == fps for backend, numenv, fps in written)


def test_measured_and_published_figures_never_share_a_table() -> None:
    theirs = Published(
        machine="laptop", env="atari", task="Pong-v5", backend="envpool-async", numenv=8,
        fps=1e9, frame_skip=4, source="them",
    )  # fmt: skip
    found = select([*measured_plan({("for-loop", 8): 77}), theirs])
    assert [each.summary.cell.backend for each in found.measured] == ["for-loop"]
    assert found.published == [theirs]


def test_each_source_has_rows_of_its_own(place: Path) -> None:
    other = ROW.replace("EnvPool's README", "Another paper | 2").replace("4745.54", "5")
    Path("theirs.csv").write_text(f"{HEAD}\n{ROW}\n{other}\n")
    call("import", "theirs.csv")
    assert call("report").exit_code == 0
    found = table(Path("results/README.md").read_text(), "Atari (published) - Laptop")
    assert found["For-loop, EnvPool's README"] == ["**4745.54**"]
    assert found["For-loop, Another paper &#124; 2"] == ["5.00"]


def test_a_figure_has_the_values_of_its_line(place: Path) -> None:
    Path("theirs.csv").write_text(f"{HEAD}\n{ROW}\n")
    (figure,) = parse(Path("theirs.csv").read_text(), "theirs.csv")
    (row,) = csv.DictReader(Path("theirs.csv").read_text().splitlines())
    assert {name: str(getattr(figure, name)) for name in COLUMNS} == row


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (
            ROW.replace("4745.54", "1000000000001"),
            "fps must be a positive number, at most 1,000,000,000,000, not '1000000000001'",
        ),
        (
            ROW.replace("4745.54", "1e300"),
            "at most 1,000,000,000,000, not '1e300'",
        ),
        (ROW.replace("4745.54", "9" * 400), "fps must be a positive number"),
        (ROW.replace(",4,", ",1001,"), "at most 1,000, not '1001'"),
    ],
)
def test_an_absurd_figure_is_refused_with_its_line(place: Path, row: str, says: str) -> None:
    Path("theirs.csv").write_text(f"{HEAD}\n{ROW}\n{row}\n")
    done = call("import", "theirs.csv")
    assert done.exit_code == 2
    assert "theirs.csv:3: " in done.stderr
    assert says in done.stderr
    assert "Nothing was imported." in done.stderr
    assert not Path("results").exists() or not store.files(Path("results"))


def test_an_absurd_figure_in_the_results_is_skipped_with_its_line(place: Path) -> None:
    Path("theirs.csv").write_text(f"{HEAD}\n{ROW}\n")
    call("import", "theirs.csv")
    (path,) = store.files(Path("results"))
    path.write_text(path.read_text() + path.read_text().replace("4745.54", "1e300"))
    reading = store.read(path)
    assert len(reading.records) == 1
    assert "Expected `float` <= 1000000000000.0 - at `$.fps`" in reading.warnings[0]
