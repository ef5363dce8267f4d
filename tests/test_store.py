"""Results on disk: nothing measured is lost, nothing read is trusted."""

from __future__ import annotations

import fcntl
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
from interpreters import not_here
from made_records import make_cell, make_fact, make_plan, make_run

from envbench import store
from envbench.errors import StorageError, UsageError

REPOSITORY = Path(__file__).parents[1]
TESTS = Path(__file__).parent


def line_of(**changes) -> bytes:
    """A run's line with some keys changed; a change of ... removes the key."""
    record = json.loads(msgspec.json.encode(make_run()))
    record = {key: value for key, value in (record | changes).items() if value is not ...}
    return json.dumps(record).encode() + b"\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "plan.jsonl"


def python(code: str, *arguments: object, wrap: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """A real process of ours."""
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
    records = [make_fact(), make_plan([make_cell()]), make_run(), make_run()]
    for record in records:
        store.append(file, record)
    reading = store.read(file)
    assert reading.records == list(enumerate(records, start=1))
    assert reading.warnings == []
    assert file.read_bytes().count(b"\n") == 4


def test_no_other_file_is_left_beside_the_results(tmp_path):
    path = store.new_file(tmp_path / "results", "laptop", "2025-11-20T10:00:00Z")
    store.append(path, make_run())
    assert [p.name for p in (tmp_path / "results").rglob("*") if p.is_file()] == [path.name]
    assert store.files(tmp_path / "results") == [path]


def test_two_plans_of_one_second_get_files_of_their_own(tmp_path):
    first = store.new_file(tmp_path, "laptop", "2025-11-20T10:00:00Z")
    second = store.new_file(tmp_path, "laptop", "2025-11-20T10:00:00Z")
    assert (first.name, second.name) == (
        "2025-11-20T10-00-00Z.jsonl",
        "2025-11-20T10-00-00Z-2.jsonl",
    )


def test_a_start_that_is_a_path_stays_in_its_folder(tmp_path):
    assert store.new_file(tmp_path, "laptop", "../../x/y").parent == tmp_path / "laptop"


# ---------------------------------------------------------------- faults 10, 11, 14


def test_a_torn_last_line_is_skipped_with_file_and_line_and_the_next_append_goes_on(file):
    store.append(file, make_run(run_id="whole"))
    store.append(file, make_run(run_id="torn"))
    os.truncate(file, file.stat().st_size - 20)
    reading = store.read(file)
    assert [record.run_id for _, record in reading.records] == ["whole"]
    assert f"{file}:2: line skipped: it is torn" in reading.warnings[0]
    store.append(file, make_run(run_id="next"))
    assert [(n, r.run_id) for n, r in store.read(file).records] == [(1, "whole"), (3, "next")]
    assert len(store.read(file).warnings) == 1


def test_a_line_that_lacks_only_its_newline_is_whole(file):
    store.append(file, make_run(run_id="first"))
    os.truncate(file, file.stat().st_size - 1)
    store.append(file, make_run(run_id="second"))
    assert [record.run_id for _, record in store.read(file).records] == ["first", "second"]


_WRITER = """
import sys
from pathlib import Path
from made_records import make_run
from envbench import store
for number in range(int(sys.argv[3])):
    record = make_run(run_id=f"{sys.argv[2]}-{number}", facts={"x": "y" * 9000})
    store.append(Path(sys.argv[1]), record)
"""


def test_two_writers_lose_no_line_and_interleave_none(file):
    writers = [python(_WRITER, file, name, 60) for name in "abc"]
    for writer in writers:
        _, errors = writer.communicate(timeout=60)
        assert writer.returncode == 0, errors
    reading = store.read(file)
    assert reading.warnings == []
    ids = [record.run_id for _, record in reading.records]
    assert sorted(ids) == sorted(f"{name}-{i}" for name in "abc" for i in range(60))
    assert [i for i in ids if i.startswith("a")] == [f"a-{i}" for i in range(60)]


def test_a_writer_waits_for_whoever_holds_the_file(file):
    """The check for a torn line and the way back from a full disk need the file to themselves."""
    store.append(file, make_run(run_id="first"))
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
    store.append(file, make_run(run_id="after"))
    assert store.read(file).records[-1][1].run_id == "after"
    assert len(store.read(file).warnings) <= 1


_FILL_DISK = """
import sys
from pathlib import Path
from made_records import make_run
from envbench import store
from envbench.errors import StorageError
path = store.new_file(Path(sys.argv[1]) / "results", "laptop", "2025")
written = 0
try:
    while True:
        before = path.read_bytes()
        store.append(path, make_run(facts={"x": "y" * 40000}))
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
    """How to get a mount namespace of one's own here."""
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


# ---------------------------------------------------------------- fault 15: folders


_CHECK = """
import sys
from pathlib import Path
from envbench import store
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


@pytest.fixture
def nobody():
    """For root, who may write anywhere: be somebody else for a while."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    yield
    if root:
        os.seteuid(0)


def test_a_folder_without_write_permission_is_refused(nobody):
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
        store.new_file(results, "laptop", "2025")
    assert not any((tmp_path / "outside").iterdir())
    assert not (tmp_path / "missing").exists()


def test_a_results_file_that_is_a_link_is_not_written_through(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "x.jsonl").symlink_to(victim)
    with pytest.raises(StorageError):
        store.append(tmp_path / "x.jsonl", make_run())
    assert victim.read_text() == "mine"


def test_a_results_folder_that_is_a_link_itself_is_the_users_choice(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "results").symlink_to(tmp_path / "real")
    assert store.check_folder(tmp_path / "results", "laptop").is_dir()


@pytest.mark.parametrize("name", ["../../x", "a/b", "", ".", "..", "a\0b", "x" * 5000, "a\nb"])
def test_a_machine_name_that_is_a_path_is_refused(tmp_path, name):
    with pytest.raises(UsageError):
        store.check_folder(tmp_path, name)
    assert not any(tmp_path.iterdir())


def test_a_results_path_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "results").write_text("")
    with pytest.raises(StorageError, match="cannot write results"):
        store.check_folder(tmp_path / "results", "laptop")


def test_checking_a_folder_leaves_nothing_in_it(tmp_path):
    assert not any(store.check_folder(tmp_path / "new" / "results", "laptop").iterdir())


# ---------------------------------------------------------------- files from strangers


BAD = {
    "NaN": (line_of().replace(b'"seed": 0', b'"seed": NaN'), "malformed"),
    "infinite": (line_of(facts={"x": 1}).replace(b'{"x": 1}', b'{"x": 1e999}'), "out of range"),
    "endless count": (line_of().replace(b'"seed": 0', b'"seed": 1' + b"0" * 5000), ""),
    "endless fact": (
        line_of(facts={"x": [1]}).replace(b'{"x": [1]}', b'{"x": [1' + b"0" * 400 + b"]}"),
        "beyond 64 bits",
    ),
    "bool for int": (line_of(round=True), "Expected `int`"),
    "text for int": (line_of(seed="0"), "Expected `int`"),
    "missing key": (line_of(run_id=...), "missing required field `run_id`"),
    "extra key": (line_of(extra=1), "unknown field `extra`"),
    "unknown type": (line_of(type="walk"), "Invalid value"),
    "newer schema": (line_of(schema=2, extra=1, run_id=...), "a newer envbench wrote it"),
    "newer type": (b'{"type":"check","schema":7}\n', "a newer envbench wrote it (schema 7"),
    "older than any": (line_of(schema=0), "no schema 0"),
    "deep list": (line_of()[:-2] + b',"facts":' + b"[" * 10**6 + b"]" * 10**6 + b"}\n", ""),
    "deep object": (
        b'{"type":"run","facts":' + b'{"a":' * 10**6 + b"1" + b"}" * 10**6 + b"}\n",
        "",
    ),
    "too long": (b'"' + b"x" * (store.MAX_LINE_BYTES + 5) + b'"\n', "longer than 8 MiB"),
    "not UTF-8": (b'{"type":"\xff"}\n', ""),
    "lone surrogate": (line_of(run_id="\ud800"), "malformed"),
    "not JSON": (b"hello \x1b[31mthere\n", "malformed"),
    "a list": (b"[1]\n", "Expected `object`"),
    "no environments": (
        line_of(cell=msgspec.to_builtins(make_cell(numenv=1)) | {"numenv": 0}),
        "at least 1",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_line_is_skipped_and_named_and_the_others_are_read(file, name):
    line, why = BAD[name]
    file.write_bytes(line_of(run_id="before") + line + line_of(run_id="after"))
    reading = store.read(file)
    assert [(n, r.run_id) for n, r in reading.records] == [(1, "before"), (3, "after")]
    assert len(reading.warnings) == 1
    assert reading.warnings[0].startswith(f"{file}:2: line skipped: ")
    assert why in reading.warnings[0]
    assert reading.warnings[0].isprintable()


def test_blank_lines_are_nothing(file):
    file.write_bytes(b"\n\n" + line_of() + b"  \n")
    reading = store.read(file)
    assert [number for number, _ in reading.records] == [3]
    assert reading.warnings == []


def test_a_file_of_bad_lines_gives_a_bounded_number_of_warnings(file):
    file.write_bytes(b"nonsense\n" * 5000)
    warnings = store.read(file).warnings
    assert len(warnings) == store.MAX_WARNINGS + 1
    assert warnings[-1].endswith("4980 more lines skipped")


def test_a_file_of_over_2_gib_is_refused_unread(file):
    with file.open("wb") as sparse:
        sparse.truncate(store.MAX_FILE_BYTES + 1)
    reading = store.read(file)
    assert reading.records == []
    assert "larger than 2 GiB" in reading.warnings[0]


def test_a_record_too_long_to_be_read_back_is_not_written(file):
    with pytest.raises(StorageError):
        store.append(file, make_run(facts={"x": "y" * store.MAX_LINE_BYTES}))
    assert not file.exists()


def test_ten_thousand_records_are_read_in_well_under_two_seconds(file):
    line = msgspec.json.encode(make_run(steps=[1000] * 32, facts={"x": "y" * 1000})) + b"\n"
    assert len(line) > 2000
    file.write_bytes(line * 10_000)
    start = time.perf_counter()
    assert len(store.read(file).records) == 10_000
    assert time.perf_counter() - start < 2


def test_a_results_file_is_readable_by_others(file):
    old = os.umask(0o022)
    try:
        store.append(file, make_run())
    finally:
        os.umask(old)
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
