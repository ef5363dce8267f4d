"""Results on disk: no measurement is lost, and files from elsewhere are not trusted."""

from __future__ import annotations

import errno
import fcntl
import gc
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import pytest
from helpers.record_factories import (
    add_record,
    make_block,
    make_cell,
    make_fact,
    make_plan,
    new_results_file,
)
from helpers.skip_or_fail import not_here
from hypothesis import given
from hypothesis import strategies as st

from envbench.errors import StorageError, UsageError
from envbench.model import FactsRecord
from envbench.results import store
from envbench.results.reading import MAX_FILE_BYTES, MAX_WARNINGS

REPOSITORY = Path(__file__).parents[2]
TESTS = Path(__file__).parents[1]


def line_of(**changes) -> bytes:
    """A block's line with some keys changed; a change of ... removes the key."""
    return _changed(json.loads(msgspec.json.encode(make_block())), changes)


def trial_line(**changes) -> bytes:
    """A block's line with some keys of its trial changed."""
    record = json.loads(msgspec.json.encode(make_block()))
    return _changed(record, {"trials": [record["trials"][0] | changes]})


def facts_line(**changes) -> bytes:
    """The line of an adapter's facts."""
    fact = FactsRecord(hash="0123456789ab", facts={"x": 1})
    return _changed(json.loads(msgspec.json.encode(fact)), changes)


def _changed(record: dict, changes: dict) -> bytes:
    record = {key: value for key, value in (record | changes).items() if value is not ...}
    return json.dumps(record).encode() + b"\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "plan.jsonl"


def python(code: str, *arguments: object, wrap: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """Run a real process."""
    environment = os.environ | {"PYTHONPATH": f"{REPOSITORY}{os.pathsep}{TESTS}"}
    return subprocess.Popen(
        [*wrap, sys.executable, "-c", code, *map(str, arguments)],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


# ---------------------------------------------------------------- append and read


def test_what_is_appended_is_read_back_in_order_with_its_line(file):
    records = [make_fact(), make_plan([make_cell()]), make_block(), make_block()]
    for record in records:
        add_record(file, record)
    reading = store.read(file)
    assert reading.records == list(enumerate(records, start=1))
    assert reading.warnings == []
    assert file.read_bytes().count(b"\n") == 4


def test_no_other_file_is_left_beside_the_results(tmp_path):
    path = new_results_file(tmp_path / "results", "laptop", "2025-11-20T10:00:00Z")
    add_record(path, make_block())
    assert [p.name for p in (tmp_path / "results").rglob("*") if p.is_file()] == [path.name]
    assert store.files(tmp_path / "results") == [path]


def test_two_plans_of_one_second_get_files_of_their_own(tmp_path):
    first = new_results_file(tmp_path, "laptop", "2025-11-20T10:00:00Z")
    second = new_results_file(tmp_path, "laptop", "2025-11-20T10:00:00Z")
    assert (first.name, second.name) == (
        "2025-11-20T10-00-00Z.jsonl",
        "2025-11-20T10-00-00Z-2.jsonl",
    )


def test_a_start_time_that_looks_like_a_path_makes_no_file_outside_the_folder(tmp_path):
    assert new_results_file(tmp_path, "laptop", "../../x/y").parent == tmp_path / "laptop"


# -------------------------------------------- interrupted writes, two writers, a full disk


def test_an_incomplete_last_line_is_skipped_and_the_next_append_starts_a_new_one(file):
    add_record(file, make_block("whole"))
    add_record(file, make_block("torn"))
    os.truncate(file, file.stat().st_size - 20)
    reading = store.read(file)
    assert [record.block_id for _, record in reading.records] == ["whole"]
    assert f"{file}:2: line skipped: it is incomplete" in reading.warnings[0]
    add_record(file, make_block("next"))
    assert [(n, r.block_id) for n, r in store.read(file).records] == [(1, "whole"), (3, "next")]
    assert len(store.read(file).warnings) == 1


def test_a_line_that_lacks_only_its_newline_is_whole(file):
    add_record(file, make_block("first"))
    os.truncate(file, file.stat().st_size - 1)
    add_record(file, make_block("second"))
    assert [record.block_id for _, record in store.read(file).records] == ["first", "second"]


_WRITER = """
import sys
from pathlib import Path
from helpers.record_factories import add_record, make_block, new_results_file
from envbench.results import store
for number in range(int(sys.argv[3])):
    record = make_block(f"{sys.argv[2]}-{number}", facts={"before": {"x": "y" * 9000}})
    add_record(Path(sys.argv[1]), record)
"""


def test_two_writers_lose_no_line_and_interleave_none(file):
    writers = [python(_WRITER, file, name, 60) for name in "abc"]
    for writer in writers:
        _, errors = writer.communicate(timeout=60)
        assert writer.returncode == 0, errors
    reading = store.read(file)
    assert reading.warnings == []
    ids = [record.block_id for _, record in reading.records]
    assert sorted(ids) == sorted(f"{name}-{i}" for name in "abc" for i in range(60))
    assert [i for i in ids if i.startswith("a")] == [f"a-{i}" for i in range(60)]


def test_a_writer_waits_for_the_process_that_holds_the_file(file):
    """Checking for an incomplete line and undoing a write need exclusive access."""
    add_record(file, make_block("first"))
    with file.open("rb+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        writer = python(_WRITER, file, "w", 1)
        with pytest.raises(subprocess.TimeoutExpired):
            writer.wait(timeout=3)
        assert len(store.read(file).records) == 1
        fcntl.flock(held, fcntl.LOCK_UN)
    _, errors = writer.communicate(timeout=30)
    assert writer.returncode == 0, errors
    assert len(store.read(file).records) == 2


def test_a_writer_that_is_killed_leaves_the_file_free_and_readable(file):
    writer = python(_WRITER, file, "killed", 100000)
    deadline = time.monotonic() + 30
    while not file.exists() or file.stat().st_size < 50_000:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    writer.kill()
    writer.communicate()
    add_record(file, make_block("after"))
    assert store.read(file).records[-1][1].block_id == "after"
    assert len(store.read(file).warnings) <= 1


_FILL_DISK = """
import sys
from pathlib import Path
from helpers.record_factories import add_record, make_block, new_results_file
from envbench.results import store
from envbench.errors import StorageError
path = new_results_file(Path(sys.argv[1]) / "results", "laptop", "2025")
written = 0
try:
    while True:
        before = path.read_bytes()
        add_record(path, make_block(facts={"before": {"x": "y" * 40000}}))
        written += 1
except StorageError as error:
    assert "no space" in str(error) and str(path) in str(error), error
    assert error.exit_code == 1 and "Free some space" in error.hint
assert path.read_bytes() == before
reading = store.read(path)
assert written > 1 and len(reading.records) == written and not reading.warnings
print("intact")
"""


def unshared() -> tuple[str, ...]:
    """The command that gives a process its own mount namespace here."""
    for command in (("unshare", "-m"), ("unshare", "-rm")):
        if shutil.which("unshare"):
            probe = "mount -t tmpfs -o size=64k none /mnt"
            if not subprocess.run([*command, "sh", "-c", probe], capture_output=True).returncode:
                return command
    return not_here("`unshare` with the right to mount a tmpfs")


def test_a_full_disk_keeps_the_old_data_and_says_what_to_do(tmp_path):
    mount = 'mount -t tmpfs -o size=256k none "$0" && exec "$@"'
    found = python(_FILL_DISK, tmp_path, wrap=(*unshared(), "sh", "-c", mount, str(tmp_path)))
    out, errors = found.communicate(timeout=60)
    assert (found.returncode, out) == (0, "intact\n"), errors


# ---------------------------------------------------------------- folders that cannot be written


_CHECK = """
import sys
from pathlib import Path
from envbench.results import store
from envbench.errors import StorageError
try:
    store.check_folder(Path(sys.argv[1]) / "results", "laptop")
except StorageError as error:
    print(error.exit_code, error, error.hint)
"""


def test_a_read_only_results_folder_is_refused_before_anything_is_measured(tmp_path):
    mount = (
        'mount -t tmpfs none "$0" && mkdir "$0/results" && mount -o remount,ro "$0" && exec "$@"'
    )
    found = python(_CHECK, tmp_path, wrap=(*unshared(), "sh", "-c", mount, str(tmp_path)))
    out, errors = found.communicate(timeout=60)
    assert out.startswith("1 cannot write results to "), errors
    assert "Read-only file system" in out
    assert "--results DIR" in out


@pytest.mark.usefixtures("unprivileged_user")
def test_a_folder_without_write_permission_is_refused():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o500)
        with pytest.raises(StorageError, match="cannot write results"):
            store.check_folder(Path(folder), "laptop")
        os.chmod(folder, 0o700)


@pytest.mark.parametrize("target", ["outside", "missing", "results/other", "results/laptop"])
def test_a_machines_folder_that_is_a_link_elsewhere_is_refused(tmp_path, target):
    (tmp_path / "outside").mkdir()
    results = tmp_path / "results"
    results.mkdir()
    (results / "laptop").symlink_to(tmp_path / target)  # the last one: to itself
    with pytest.raises((UsageError, StorageError), match="laptop"):
        new_results_file(results, "laptop", "2025")
    assert not any((tmp_path / "outside").iterdir())
    assert not (tmp_path / "missing").exists()


@pytest.mark.parametrize("kind", ["link", "link to itself", "file"])
def test_by_products_that_are_a_link_or_a_file_are_refused_before_anything_is_measured(
    tmp_path, kind
):
    outside, beside = tmp_path / "outside", tmp_path / "results" / "laptop" / store.BY_PRODUCTS
    outside.mkdir()
    beside.parent.mkdir(parents=True)
    beside.write_text("") if kind == "file" else beside.symlink_to(
        outside if kind == "link" else beside
    )
    with pytest.raises((UsageError, StorageError), match="by-products") as refused:
        store.check_folder(tmp_path / "results", "laptop")
    fix = "Remove the link" if kind == "link" else "Make it a folder that can be written"
    assert fix in refused.value.hint
    assert not any(outside.iterdir())


def test_a_results_file_that_is_a_link_is_not_written_through(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "x.jsonl").symlink_to(victim)
    with pytest.raises(UsageError, match=r"x\.jsonl is a link that leads to .*victim"):
        add_record(tmp_path / "x.jsonl", make_block())
    assert victim.read_text() == "mine"


def test_a_results_folder_may_itself_be_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "results").symlink_to(tmp_path / "real")
    path = new_results_file(tmp_path / "results", "laptop", "2025")
    assert (tmp_path / "real" / "laptop" / path.name).is_file()


@pytest.mark.parametrize("name", ["../../x", "a/b", "", ".", "..", "a\0b", "x" * 5000, "a\nb"])
def test_a_machine_name_that_is_a_path_is_refused(tmp_path, name):
    with pytest.raises(UsageError):
        store.check_folder(tmp_path, name)
    assert not any(tmp_path.iterdir())


def test_a_results_path_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "results").write_text("")
    with pytest.raises(StorageError, match="cannot write results"):
        store.check_folder(tmp_path / "results", "laptop")


def test_checking_a_folder_leaves_nothing_behind(tmp_path):
    folder = store.check_folder(tmp_path / "new" / "results", "laptop")
    assert not any(tmp_path.iterdir())
    folder.mkdir(parents=True)
    store.check_folder(tmp_path / "new" / "results", "laptop")
    assert not any(folder.iterdir())


def test_a_folder_whose_name_is_too_long_is_refused(tmp_path):
    with pytest.raises(StorageError, match="File name too long"):
        store.check_folder(tmp_path / ("x" * 300), "laptop")
    with pytest.raises(StorageError, match="File name too long"):
        store.check_folder(tmp_path / "missing" / ("x" * 300), "laptop")
    with pytest.raises(StorageError, match="File name too long"):
        store.files(tmp_path / ("x" * 300))


# -------------------------------------------- the file is changed while it is open


@pytest.fixture
def journal(tmp_path: Path):
    with store.Journal.create(tmp_path / "results", "laptop", "2025") as made:
        made.append(make_block("first"))
        yield made


def test_a_journal_refuses_a_file_that_was_deleted_and_makes_no_new_one(journal):
    journal.path.unlink()
    with pytest.raises(StorageError, match="was deleted while envbench was writing") as refused:
        journal.append(make_block())
    assert "run the command again" in refused.value.hint
    assert not journal.path.exists()


def test_a_journal_refuses_a_folder_that_was_deleted(journal):
    shutil.rmtree(journal.path.parent)
    with pytest.raises(StorageError, match="was deleted"):
        journal.append(make_block())


def test_a_journal_refuses_a_new_file_of_the_same_name_and_leaves_it_alone(journal):
    """The old file stays open, so the new one cannot get its inode number."""
    text = journal.path.read_bytes()
    journal.path.unlink()
    journal.path.write_bytes(text)
    with pytest.raises(StorageError, match="was replaced by another file"):
        journal.append(make_block())
    assert journal.path.read_bytes() == text


def test_a_journal_refuses_a_file_that_was_moved_and_writes_nothing_to_it(journal):
    moved = journal.path.rename(journal.path.with_suffix(".moved"))
    with pytest.raises(StorageError, match="was moved away"):
        journal.append(make_block())
    assert len(store.read(moved).records) == 1


def test_a_journal_refuses_a_link_to_its_own_file(journal):
    moved = journal.path.rename(journal.path.with_suffix(".moved"))
    journal.path.symlink_to(moved)
    with pytest.raises(StorageError, match="was replaced"):
        journal.append(make_block())


def test_a_journal_refuses_a_file_that_lost_lines(journal):
    os.truncate(journal.path, 0)
    with pytest.raises(StorageError, match="was shortened"):
        journal.append(make_block())


def test_a_second_journal_of_one_file_is_refused_while_the_first_is_open(journal, monkeypatch):
    monkeypatch.setattr(store, "LOCK_TIMEOUT_S", 0.1)
    with pytest.raises(StorageError, match="another process has been writing") as refused:
        store.Journal.open(journal.path)
    assert "wait for its end" in refused.value.hint
    journal.append(make_block("mine"))
    journal.close()
    with store.Journal.open(journal.path) as other:
        other.append(make_block("other"))


def test_opening_a_missing_file_is_refused(tmp_path):
    with pytest.raises(StorageError, match="No such file"):
        store.Journal.open(tmp_path / "x.jsonl")
    assert not (tmp_path / "x.jsonl").exists()


def test_a_closed_journal_leaves_no_open_file(tmp_path):
    gc.collect()  # files that other tests have left
    before = len(os.listdir("/dev/fd"))
    with store.Journal.create(tmp_path, "laptop", "2025") as made:
        made.append(make_block())
        made.close()
    assert len(os.listdir("/dev/fd")) == before


# ---------------------------------------------------------------- files from other people


BAD = {
    "NaN": (line_of().replace(b'"seed": 0', b'"seed": NaN'), "malformed"),
    "infinite": (facts_line().replace(b'{"x": 1}', b'{"x": 1e999}'), "out of range"),
    "endless count": (line_of().replace(b'"seed": 0', b'"seed": 1' + b"0" * 5000), ""),
    "endless fact": (
        facts_line().replace(b'{"x": 1}', b'{"x": [1' + b"0" * 400 + b"]}"),
        "beyond 64 bits",
    ),
    "bool for int": (line_of(round=True), "Expected `int`"),
    "text for int": (trial_line(seed="0"), "Expected `int`"),
    "missing key": (line_of(block_id=...), "missing required field `block_id`"),
    "extra key": (line_of(extra=1), "unknown field `extra`"),
    "unknown type": (line_of(type="walk"), "Invalid value"),
    "newer schema": (line_of(schema=3, extra=1, block_id=...), "a newer envbench wrote it"),
    "newer type": (b'{"type":"check","schema":7}\n', "a newer envbench wrote it (schema 7"),
    "older than any": (line_of(schema=0), "an envbench before 1.0 wrote it (schema 0)"),
    "deep list": (facts_line()[:-2] + b',"facts":' + b"[" * 10**6 + b"]" * 10**6 + b"}\n", ""),
    "deep object": (
        b'{"type":"facts","hash":"h","facts":' + b'{"a":' * 10**6 + b"1" + b"}" * 10**6 + b"}\n",
        "",
    ),
    **{
        f"{kind} nested {depth} deep in {place}": (
            line.replace(
                b'{"x": 1}', b'{"x": ' + opened * (depth - 1) + b"1" + closed * (depth - 1) + b"}"
            ),
            "nested too deeply",
        )
        for depth in (33, 499, 500, 999, 5000)
        for kind, opened, closed in (("list", b"[", b"]"), ("object", b'{"a":', b"}"))
        for place, line in (("facts", facts_line()), ("before", trial_line(before={"x": 1})))
    },
    "too long": (b'"' + b"x" * (store.MAX_LINE_BYTES + 5) + b'"\n', "longer than 8 MiB"),
    "not UTF-8": (b'{"type":"\xff"}\n', ""),
    "lone surrogate": (line_of(block_id="\ud800"), "malformed"),
    "not JSON": (b"hello \x1b[31mthere\n", "malformed"),
    "a list": (b"[1]\n", "Expected `object`"),
    "no environments": (
        trial_line(cell=msgspec.to_builtins(make_cell(numenv=1)) | {"numenv": 0}),
        "Expected `int` >= 1 - at `$.trials[0].cell.numenv`",
    ),
}


OLD = {
    **{
        kind: _changed({"type": kind, "schema": 1, f"{kind}_id": "2026-11-20T12-41-47Z-b41be2"}, {})
        for kind in ("run", "plan", "check", "pair", "gauge", "verification")
    },
    "machine": _changed(json.loads(msgspec.json.encode(make_fact())), {"schema": 1}),
    "facts": facts_line(schema=1),
    "block": line_of(schema=1),
    "unheard of": b'{"type":"walk","schema":1}\n',
    "without a type": b'{"schema":1}\n',
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_line_is_skipped_and_named_and_the_others_are_read(file, name):
    line, why = BAD[name]
    file.write_bytes(line_of(block_id="before") + line + line_of(block_id="after"))
    reading = store.read(file)
    assert [(n, r.block_id) for n, r in reading.records] == [(1, "before"), (3, "after")]
    assert len(reading.warnings) == 1
    assert reading.warnings[0].startswith(f"{file}:2: line skipped: ")
    assert why in reading.warnings[0]
    assert reading.warnings[0].isprintable()


@pytest.mark.parametrize("line", OLD.values(), ids=OLD)
def test_a_line_of_an_envbench_before_1_0_is_skipped_with_one_clear_warning(file, line):
    file.write_bytes(line_of(block_id="before") + line + line_of(block_id="after"))
    reading = store.read(file)
    assert [r.block_id for _, r in reading.records] == ["before", "after"]
    assert reading.warnings == [
        f"{file}:2: line skipped: an envbench before 1.0 wrote it (schema 1): it cannot be read"
    ]


def test_facts_may_be_nested_32_levels_deep(file):
    facts = b'{"x": ' + b"[" * 31 + b"]" * 31 + b"}"
    file.write_bytes(facts_line().replace(b'{"x": 1}', facts))
    assert store.read(file).warnings == []


def test_blank_lines_are_ignored(file):
    file.write_bytes(b"\n\n" + line_of() + b"  \n")
    reading = store.read(file)
    assert [number for number, _ in reading.records] == [3]
    assert reading.warnings == []


def test_thirty_megabytes_of_blank_lines_are_counted_fast(file):
    blank = b"\n" * 10**7 + b" \t\r\n" * 10**6 + b" " * 9000 + b"\n" * 10**7
    file.write_bytes(line_of(block_id="a") + blank + line_of(block_id="b") + b"\n\n  nonsense\n\n")
    start = time.process_time()
    reading = store.read(file)
    assert time.process_time() - start < 0.5
    number = 2 + 2 * 10**7 + 10**6
    assert [(n, r.block_id) for n, r in reading.records] == [(1, "a"), (number, "b")]
    assert reading.warnings[0].startswith(f"{file}:{number + 3}: line skipped: ")


@given(st.lists(st.sampled_from([b"", b" ", b" \t\r", b"{}", b" x ", b"\x0b", b" " * 9000])))
def test_line_numbers_count_blank_lines(tmp_path_factory, lines):
    file = tmp_path_factory.mktemp("lines") / "x.jsonl"
    file.write_bytes(b"\n".join(lines))
    wanted = [f"{file}:{number}:" for number, line in enumerate(lines, 1) if line.strip()]
    found = store.read(file).warnings[:MAX_WARNINGS]
    assert [warning.split(" ")[0] for warning in found] == wanted[:MAX_WARNINGS]


def test_a_file_of_bad_lines_gives_a_bounded_number_of_warnings(file):
    file.write_bytes(b"nonsense\n" * 5000)
    warnings = store.read(file).warnings
    assert len(warnings) == MAX_WARNINGS + 1
    assert warnings[-1].endswith("4980 more lines skipped")


@pytest.mark.parametrize(
    "bad",
    [
        b"x", b" {", b"[1, 2]", b"this is not JSON", b"{ nor is this", b'{"nor": "this"}',
        b'{"type":"xxxxxxxxxxxxxxxxxxxx"}', b'{"type":"block","schema":22222222}',
    ],
)  # fmt: skip
def test_three_megabytes_of_bad_lines_are_read_fast_and_counted(file, bad):
    count = 1_500_000 // (len(bad) + 1)
    bad_lines = (bad + b"\n") * count
    file.write_bytes(bad_lines + line_of(block_id="a") + b"\n" + bad_lines + line_of(block_id="b"))
    start = time.process_time()
    reading = store.read(file)
    assert time.process_time() - start < 1
    found = [(number, record.block_id) for number, record in reading.records]
    assert found == [(count + 1, "a"), (2 * count + 3, "b")]
    assert reading.warnings[-1] == f"{file}: {2 * count - MAX_WARNINGS} more lines skipped"


def test_thirty_megabytes_of_unknown_types_are_read_in_under_two_seconds(file):
    for bad in (
        b'{"type":"xxxxxxxxxxxxxxxxxxxx"}\n',
        b'{"type":"yyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"}\n',
    ):
        file.write_bytes(bad * (31_000_000 // len(bad)))
        start = time.process_time()
        reading = store.read(file)
        assert time.process_time() - start < 2
        assert reading.warnings[-1].endswith("more lines skipped")


def test_the_shortest_record_is_read_after_many_bad_lines(file):
    shortest = b'{"type":"facts","hash":"","facts":{}}\n'
    file.write_bytes(b"{}\n" * 100 + shortest * 2)
    assert [number for number, _ in store.read(file).records] == [101, 102]


def test_a_file_of_over_2_gib_is_refused_unread(file):
    with file.open("wb") as sparse:
        sparse.truncate(MAX_FILE_BYTES + 1)
    reading = store.read(file)
    assert reading.records == []
    assert "larger than 2 GiB" in reading.warnings[0]


def test_a_record_too_long_to_be_read_back_is_not_written(file):
    with pytest.raises(StorageError):
        add_record(file, make_block(facts={"before": {"x": "y" * store.MAX_LINE_BYTES}}))
    assert file.read_bytes() == b""


def test_ten_thousand_records_are_read_in_well_under_two_seconds(file):
    line = (
        msgspec.json.encode(make_block(steps=[1000] * 32, facts={"before": {"x": "y" * 1000}}))
        + b"\n"
    )
    assert len(line) > 2000
    file.write_bytes(line * 10_000)
    start = time.process_time()
    assert len(store.read(file).records) == 10_000
    assert time.process_time() - start < 2


def test_a_results_file_is_readable_by_others(file):
    old = os.umask(0o022)
    try:
        add_record(file, make_block())
    finally:
        os.umask(old)
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


# ---------------------------------------------------------------- by-products


def test_a_by_product_is_stored_once_and_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.Journal.create(tmp_path, "laptop", "2026-01-01T00-00-00Z") as journal:
        folder = tmp_path / "laptop" / store.BY_PRODUCTS

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(StorageError, match="no space to write"):
                journal.keep("abc.npz", b"trace")
        assert list(folder.iterdir()) == []
        journal.keep("abc.npz", b"trace")
        journal.keep("abc.npz", b"its name says what is in it")
        assert [path.name for path in folder.iterdir()] == ["abc.npz"]
        assert (folder / "abc.npz").read_bytes() == b"trace"
        assert store.files(tmp_path) == [journal.path]


def test_what_a_killed_writer_left_of_a_by_product_is_removed_by_the_next_one(
    tmp_path: Path,
) -> None:
    with store.Journal.create(tmp_path, "laptop", "2026-01-01T00-00-00Z") as journal:
        folder = tmp_path / "laptop" / store.BY_PRODUCTS
        died, other = (folder / f"{store.PART}{name}" for name in (journal.path.name, "o.jsonl"))
        for place in (died, other):
            place.mkdir(parents=True)
            (place / "abc.npz").write_bytes(b"tra")
        journal.keep("abc.npz", b"trace")
        assert {path.name for path in folder.iterdir()} == {"abc.npz", other.name}
        died.mkdir()
        journal.keep("abc.npz", b"trace")  # killed when only its folder was left
        assert not died.exists()


def test_a_file_in_a_folder_that_is_a_link_is_not_opened_for_writing(tmp_path: Path) -> None:
    path = new_results_file(tmp_path / "elsewhere", "laptop", "2026-01-01T00-00-00Z")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "laptop").symlink_to(path.parent)
    with pytest.raises(UsageError, match="is a link"):
        store.Journal.open(tmp_path / "results" / "laptop" / path.name)
