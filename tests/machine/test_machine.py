"""Profiles: names, files, ladders, where they come from, and which one fits a machine."""

from __future__ import annotations

import os
import re
import time
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from helpers.command_line import ROOT
from hypothesis import assume, given
from hypothesis import strategies as st

from envbench.errors import StorageError, UnknownName, UsageError
from envbench.families import title_trouble
from envbench.machine import (
    Match,
    Profile,
    Table,
    catalogue,
    choose,
    for_this_host,
    is_valid_name,
    known_profiles,
    profile,
    profile_for_host,
    valid_name,
    write_profile,
)
from envbench.machine.known_profiles import SHIPPED, checkout, default_ladder
from envbench.machine.profile_file import _is_like, parse_profile, profile_toml, read_profile
from envbench.model import Fingerprint

ORIGINAL = ROOT / "tests" / "data" / "original_tables.md"
LABELS = {
    "for-loop": "For-loop",
    "subprocess": "Subprocess",
    "sample-factory": "Sample-Factory",
    "envpool-sync": "EnvPool (sync)",
    "envpool-async": "EnvPool (async)",
    "envpool-numa": "EnvPool (numa+async)",
}
HARDWARE = {
    "laptop": "12 core Intel(R) Core(TM) i7-8750H CPU @ 2.20GHz",
    "tpu-vm": "96 core Intel(R) Xeon(R) CPU @ 2.00GHz",
    "as4124": "192 core AMD EPYC 7642 48-Core Processor",
    "dgx-a100": "256 core AMD EPYC 7742 64-Core Processor",
}
GOOD = 'title = "T"\n[atari]\nnumenv = [1, 2]\nrows = ["for-loop"]\n'


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def machine(
    cpu: str = "AMD EPYC",
    logical: int = 2,
    usable: int | None = None,
    gpus: tuple[str, ...] = (),
    host: str = "",
) -> Fingerprint:
    return Fingerprint(
        cpu=cpu,
        logical_cpus=logical,
        physical_cores=None,
        usable_cpus=usable or logical,
        memory_gib=8,
        gpus=list(gpus),
        host=host,
    )


def local(name: str, text: str | bytes = GOOD) -> Path:
    Path("machines").mkdir(exist_ok=True)
    path = Path("machines") / f"{name}.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# ---------------------------------------------------------------- the shipped profiles


def test_the_four_profiles_give_the_tables_of_the_original_document() -> None:
    lines = []
    for family in ("atari", "mujoco"):
        for name in ("laptop", "tpu-vm", "as4124", "dgx-a100"):
            found = profile(name)
            table = found.atari if family == "atari" else found.mujoco
            assert table is not None
            heading = f"{family.capitalize()} - {found.title}"
            columns = " | ".join(map(str, table.numenv))
            rows = [f"| {LABELS[row]} |" for row in table.rows]
            marker = f"<!-- {heading} -->"
            lines += [marker, f"| {heading} | {columns} |", *rows, marker]
    assert ORIGINAL.read_text("utf-8").splitlines()[2:] == lines


@pytest.mark.parametrize("name", HARDWARE)
def test_a_shipped_profile_fits_the_machine_in_its_hardware_text(name: str) -> None:
    found = profile(name)
    assert found.hardware == HARDWARE[name]
    cores, _, cpu = found.hardware.partition(" core ")
    here = machine(cpu, int(cores))
    assert catalogue().matching(here) == found
    assert catalogue().matching(machine(cpu, 3)) is None
    assert found.atari is not None
    assert default_ladder(int(cores)) == found.atari.numenv


def test_a_package_inside_another_project_is_no_checkout(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "a-learner"\n')
    assert checkout(tmp_path / "envbench") is None
    assert checkout(ROOT / "envbench") == ROOT


def test_the_profiles_that_ship_for_any_host_are_known_by_name() -> None:
    found = {path.stem: read_profile(path) for path in (ROOT / "machines").glob("*.toml")}
    assert {name for name, each in found.items() if each.match.host is None} == SHIPPED


def test_the_shipped_folder_holds_no_broken_file() -> None:
    assert set(catalogue().profiles) >= set(HARDWARE)
    assert catalogue().warnings == []


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    "name",
    ["", "../../x", "a/b", "a\\b", "/etc/passwd", "a\0", "CON", "con", "nul.x", "com1", "Lpt9",
     "x" * 65, "x" * 5000, "a.", ".a", "-a", "Laptop", "a b", "a\n", "é", "\x1b[31m", "\udcff"],
)  # fmt: skip
def test_a_dangerous_name_is_refused_with_the_rule_for_names(name: str) -> None:
    for look_up in (valid_name, profile):
        with pytest.raises(UsageError) as caught:
            look_up(name)
        message = f"{caught.value} {caught.value.hint}"
        assert "a-z 0-9 . _ -" in message
        assert message.isprintable()
        assert len(message) < 400


@given(st.text(max_size=70) | st.from_regex(r"[a-zA-Z0-9._/-]{1,70}", fullmatch=True))
def test_a_valid_name_is_one_plain_file_name_and_any_other_is_refused(name: str) -> None:
    try:
        valid_name(name)
    except UsageError:
        return
    assert re.fullmatch(r"[a-z0-9._-]{1,64}", name)
    assert Path(name).name == name
    assert name.split(".")[0] not in {"con", "nul", "aux", "prn", "com1", "lpt1"}


def test_an_unknown_machine_is_an_error_with_the_known_names_and_the_nearest() -> None:
    local("\x1b[31mevil")
    with pytest.raises(UnknownName) as caught:
        profile("labtop")
    assert "'laptop'" in str(caught.value)
    shipped = sorted(path.stem for path in (ROOT / "machines").glob("*.toml"))
    assert caught.value.hint == f"Known: {', '.join(shipped)}"
    assert caught.value.hint.isprintable()


# ---------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('colour = "red"\n' + GOOD, "`colour`: unknown key"),
        ('name = "x"\n' + GOOD, "`name`: unknown key: a profile's name is that of its file. "
         "Known: title, hardware, check, match, atari, "),
        (GOOD + "shell = 1\n", "`atari.shell`: unknown key. Known: numenv, rows"),
        (GOOD + '[match]\ncpus = "x"\n',
         "`match.cpus`: unknown key. Known: cpu, cores, usable, gpu, host"),
        (GOOD + "[match]\ncores = true\n", "`match.cores`: Expected `int"),
        (GOOD + '[match]\ncores = "12"\n', "`match.cores`: Expected `int"),
        (GOOD + '[match]\ncpu = ""\n', "`match.cpu`"),
        ("title = 3\n" + GOOD.partition("\n")[2], "`title`: Expected `str`"),
        (GOOD.partition("\n")[2], "`title`: is missing"),
        ('title = "T"\n', "a profile needs a table"),
        ('title = "T"\natari = [1]\n', "`atari`: Expected `object"),
        (GOOD.replace("[1, 2]", "[1, 2.5]"), "`atari.numenv[1]`"),
        (GOOD.replace("[1, 2]", "[true]"), "`atari.numenv[0]`"),
        (GOOD.replace("[1, 2]", "[0]"), "`atari.numenv[0]`"),
        (GOOD.replace("[1, 2]", "[1000001]"), "`atari.numenv[0]`"),
        (GOOD.replace("[1, 2]", "[]"), "`atari.numenv`"),
        (GOOD.replace("[1, 2]", str(list(range(1, 66)))), "`atari.numenv`"),
        (GOOD.replace("[1, 2]", "[2, 2]"), "strictly increasing"),
        (GOOD.replace('"for-loop"', '"x; rm -rf ~"'), "`atari.rows[0]`: Expected `str` matching"),
        (GOOD.replace('"for-loop"', '"a", "a"'), "twice"),
        (GOOD.replace('"T"', '"<b>"'), "`title`"),
        (GOOD.replace('"T"', '"a -- b"'), "`title`"),
        (GOOD.replace('"T"', '"a | b"'), "`title`"),
        (GOOD.replace('"T"', r'"a\nb"'), "`title`"),
        (GOOD.replace('"T"', r'"\u001b[31m"'), "`title`"),
        (GOOD.replace('"T"', f'"{"x" * 81}"'), "`title`"),
        (GOOD.replace('"T"', '""'), "`title`"),
        ('hardware = "\\u202e"\n' + GOOD, "`hardware`"),
        ('"\\u001b[31m" = 1\n' + GOOD, "`\\x1b[31m`: unknown key"),
        ("title = ", "not valid TOML"),
        ("a = " + "[" * 5_000, "nested too deeply"),
        ("a = " + "9" * 5_000, "not valid TOML"),
        (b"title = '\xff'", "not valid TOML"),
        (b"\0", "not valid TOML"),
        ("#" * (64 * 1024 + 1), "larger than"),
        ("#" * (8 * 1024 + 1), "a line longer than"),
    ],
)  # fmt: skip
def test_a_bad_profile_is_refused_by_file_and_key(text: str | bytes, message: str) -> None:
    path = local("bad", text)
    with pytest.raises(UsageError) as caught:
        profile("bad")
    assert str(caught.value).startswith(f"{path}:")
    assert message in str(caught.value)
    assert str(caught.value).isprintable()


def test_the_error_for_a_table_of_an_unknown_family_says_that_a_plugin_may_be_missing() -> None:
    local("bad", GOOD.replace("[atari]", "[revfam]"))
    said = r"`revfam`: unknown key.* plugin is not installed\. Known: title, "
    with pytest.raises(UsageError, match=said):
        profile("bad")
    local("bad", GOOD.replace("numenv", "numenvs"))
    with pytest.raises(UsageError, match=r"`atari.numenvs`: unknown key. Known: numenv, rows$"):
        profile("bad")


def test_shell_text_in_a_title_is_only_text() -> None:
    local("odd", GOOD.replace('"T"', '"$(touch owned) `touch owned`; @team"'))
    assert profile("odd").title == "$(touch owned) `touch owned`; @team"
    assert not Path("owned").exists()


@pytest.mark.parametrize(
    "text",
    [
        ".".join(["a"] * 32_000) + " = 1\n",
        "".join(".".join([key] + ["a"] * 4_000) + " = 1\n" for key in "bcdefgh"),
        "".join("[" + ".".join([key] + ["a"] * 2_000) + "]\n" for key in "bcdefghijklmno"),
    ],
)
def test_a_profile_with_pathological_keys_is_refused_quickly(text: str) -> None:
    path = local("deep", text)
    started = time.monotonic()
    with pytest.raises(UsageError):
        read_profile(path)
    assert time.monotonic() - started < 10


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_a_profile_that_is_a_pipe_is_refused_without_waiting() -> None:
    Path("machines").mkdir()
    os.mkfifo("machines/pipe.toml")
    with pytest.raises(UsageError, match="not a regular file"):
        profile("pipe")


@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode("utf-8")))
def test_any_bytes_are_a_profile_or_a_usage_error(raw: bytes) -> None:
    try:
        parse_profile("x", raw, "x.toml")
    except UsageError as error:
        message = str(error)
    else:
        return
    assert message.isprintable()


def test_a_broken_file_is_a_warning_in_a_listing_and_hides_the_shipped_one() -> None:
    local("laptop", "title = 1\n")
    local("mine")
    local("Bad Name\x1b[31m")
    known = catalogue()
    assert "mine" in known.entries
    assert "laptop" not in known.entries
    assert len(known.warnings) == 2
    assert any("laptop.toml: `title`" in warning for warning in known.warnings)
    assert all(warning.isprintable() for warning in known.warnings)


def test_two_profiles_with_one_title_are_a_warning() -> None:
    local("mine", GOOD.replace('"T"', '"Laptop"'))
    (warning,) = catalogue().warnings
    assert "has the title 'Laptop' too" in warning


def test_a_profile_is_not_compared_with_its_own_title() -> None:
    local("mine")
    assert catalogue().with_title("T", besides="mine") is None
    assert catalogue().with_title("T", besides="new") == profile("mine")
    assert catalogue().with_title("No such title", besides="new") is None
    local("twin")
    assert catalogue().with_title("T", besides="mine") == profile("twin")


def test_a_local_profile_hides_a_shipped_one_of_the_same_name() -> None:
    local("laptop", GOOD)
    assert profile("laptop").title == "T"
    assert catalogue().entries["laptop"].source == "local"
    assert catalogue().entries["tpu-vm"].source == "shipped"


# ---------------------------------------------------------------- which one fits


def test_a_profile_that_names_no_hardware_fits_no_machine() -> None:
    local("mine", GOOD)
    here = machine("A CPU of no profile")
    assert not profile("mine").fits(here)
    assert catalogue().matching(here) is None


@pytest.mark.parametrize(
    ("match", "fits"),
    [
        (Match(cpu="AMD EPYC"), True),
        (Match(cpu="*epyc*"), True),
        (Match(cpu="Xeon"), False),
        (Match(cores=4), True),
        (Match(cores=4, usable=2), False),
        (Match(gpu="*h200"), True),
        (Match(gpu="A100"), False),
        (Match(cpu="*EPYC*", cores=4, gpu="*H200*"), True),
    ],
)
def test_every_key_of_a_match_must_fit(match: Match, fits: bool) -> None:
    assert match.fits(machine("AMD EPYC", 4, gpus=("NVIDIA H200",))) is fits


def test_a_machine_limited_to_some_of_its_cpus_does_not_fit_the_profile() -> None:
    held = machine(logical=12, usable=2)
    assert not Match(cores=12).fits(held)
    assert Match(cores=12, usable=2).fits(held)


def test_of_several_fitting_profiles_the_most_specific_is_chosen() -> None:
    local("a-loose", GOOD + '[match]\ncpu = "AMD*"\n')
    local("b-close", GOOD.replace('"T"', '"B"') + '[match]\ncpu = "AMD*"\ncores = 2\n')
    local("c-exact", GOOD.replace('"T"', '"C"') + '[match]\ncpu = "AMD EPYC"\ncores = 2\n')
    found = catalogue().matching(machine())
    assert found is not None
    assert found.name == "c-exact"


def test_a_profile_of_the_user_is_preferred_to_a_shipped_one() -> None:
    here = machine(HARDWARE["laptop"][8:], 12)
    assert choose(None, here).name == "laptop"
    local("mine", GOOD + "[match]\ncores = 12\n")
    assert choose(None, here).name == "mine"


def test_in_a_clone_a_profile_of_the_user_is_preferred_to_the_shipped_ones_beside_it() -> None:
    local("epyc-vm", (ROOT / "machines/epyc-vm.toml").read_bytes())
    local("mine", GOOD + "[match]\ncores = 2\n")
    assert choose(None, machine()).name == "epyc-vm"  # both are of the user: it has more keys
    Path("pyproject.toml").write_text('[project]\nname = "envbench"\n')
    assert choose(None, machine()).name == "mine"
    entries = catalogue().entries
    assert (entries["mine"].source, entries["epyc-vm"].source) == ("local", "shipped")


def test_a_profile_of_the_user_is_preferred_to_a_shipped_one_of_this_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "package"
    (package / "machines").mkdir(parents=True)
    monkeypatch.setattr(known_profiles, "PACKAGE", package)
    host = '[match]\nhost = "1a2b3c4d5e6f"\n'
    (package / "machines/shipped.toml").write_text(GOOD + host)
    here = machine(host="1a2b3c4d5e6f")
    assert choose(None, here).name == "shipped"
    local("mine", GOOD.replace('"T"', '"B"') + '[match]\ncpu = "AMD EPYC"\n')
    os.utime("machines/mine.toml", (1, 1))
    assert choose(None, here).name == "mine"


def test_a_profile_with_a_host_fits_only_that_computer_and_is_its_default() -> None:
    here, twin = machine(host="1a2b3c4d5e6f"), machine(host="ffffffffffff")
    local("a-model", GOOD + '[match]\ncpu = "AMD EPYC"\ncores = 2\n')
    local("b-host", GOOD.replace('"T"', '"B"') + '[match]\nhost = "1a2b3c4d5e6f"\n')
    assert choose(None, here).name == "b-host"
    assert choose(None, twin).name == "a-model"
    local("a-host", GOOD.replace('"T"', '"A"') + '[match]\nhost = "1a2b3c4d5e6f"\n')
    for written, name in enumerate(("b-host", "a-host", "b-host")):
        os.utime(Path("machines", f"{name}.toml"), (4e9 + written, 4e9 + written))
        assert choose(None, here).name == name


def test_hardware_is_compared_on_any_host() -> None:
    match = Match(cpu="AMD EPYC", host="1a2b3c4d5e6f")
    assert not match.fits(machine(host="ffffffffffff"))
    assert not match.fits(machine())  # an old record
    assert match.fits_hardware(machine())
    assert not match.fits_hardware(machine("Xeon"))


def test_where_the_results_are_of_another_host_the_profile_is_copied_for_this_one() -> None:
    local("mine", GOOD + '[match]\ncpu = "AMD EPYC"\n')
    here = machine(host="1a2b3c4d5e6f")
    made = choose(None, here, {"mine"}.__contains__)
    assert (made.name, made.title) == ("mine-1a2b", "T, host 1a2b")
    assert made.match == Match(cpu="AMD EPYC", host="1a2b3c4d5e6f")
    assert made.tables == profile("mine").tables
    assert choose("mine-1a2b", here) == made  # it needs no file
    write_profile(made, Path("machines"))
    assert choose(None, here, {"mine"}.__contains__) == made
    assert choose(None, machine(host="ffffffffffff"), {"mine"}.__contains__).name == "mine-ffff"


def test_a_profile_made_for_a_twin_is_not_used_here() -> None:
    here, twin = machine("Xeon 1", host="1a2b3c4d5e6f"), machine("Xeon 1", host="ffffffffffff")
    write_profile(choose(None, twin), Path("machines"))
    assert choose(None, twin).name == "xeon-1-2-core"
    assert choose(None, here).name == "xeon-1-2-core-1a2b"


def test_a_named_profile_with_results_of_another_host_is_refused_with_the_fix() -> None:
    with pytest.raises(UsageError, match="'laptop' are of another computer") as caught:
        choose("laptop", machine(), {"laptop"}.__contains__)
    assert "envbench machines init NAME --like laptop" in caught.value.hint


def test_without_a_name_the_fitting_profile_is_chosen_or_else_the_hosts_own() -> None:
    here = machine(logical=5)
    host = profile_for_host(here)
    assert choose(None, here) == host
    assert choose(host.name, here) == host
    assert choose("laptop", here).title == "Laptop"
    with pytest.raises(UnknownName):
        choose("amd-epyc-3-core", here)
    write_profile(msgspec.structs.replace(host, name="mine"), Path("machines"))
    assert choose(None, here).name == "mine"


def test_a_broken_file_with_the_hosts_name_is_an_error_when_it_is_named() -> None:
    local("amd-epyc-2-core", "title = 1\n")
    with pytest.raises(UsageError, match="`title`"):
        choose("amd-epyc-2-core", machine())


# ---------------------------------------------------------------- made for this machine


@pytest.mark.parametrize(
    ("found", "name", "title"),
    [
        (machine(), "amd-epyc-2-core", "AMD EPYC, 2 cores"),
        (machine("AMD EPYC 7642 48-Core Processor", 192), "amd-epyc-7642-192-core",
         "AMD EPYC 7642, 192 cores"),
        (machine(HARDWARE["laptop"][8:], 12), "intel-core-i7-8750h-12-core",
         "Intel Core i7-8750H, 12 cores"),
        (machine("Apple M1", 8, usable=3), "apple-m1-3-of-8-core", "Apple M1, 3 of 8 cores"),
        (machine("?", 1), "machine-1-core", "?, 1 core"),
    ],
)  # fmt: skip
def test_the_hosts_profile_is_named_after_its_hardware(
    found: Fingerprint, name: str, title: str
) -> None:
    made = profile_for_host(found)
    assert (made.name, made.title) == (name, title)
    assert made.fits(found)


@given(cpu=st.text(max_size=400), gpus=st.lists(st.text(max_size=400), max_size=3))
def test_any_text_in_a_strangers_fingerprint_gives_a_valid_profile(
    cpu: str, gpus: list[str]
) -> None:
    here = machine(cpu, 2, 2, tuple(gpus), "1a2b3c4d5e6f")
    for made in (profile_for_host(here), for_this_host(profile_for_host(here), here)):
        assert parse_profile(valid_name(made.name), profile_toml(made).encode(), "x") == made


@given(name=st.from_regex(r"[a-z0-9][a-z0-9._-]{0,62}[a-z0-9]", fullmatch=True),
       title=st.text("ab -,.", min_size=1, max_size=80))  # fmt: skip
def test_the_copy_of_any_profile_for_one_host_is_a_valid_profile(name: str, title: str) -> None:
    assume(is_valid_name(name) and not title_trouble(title))
    made = Profile(name=name, title=title, gym=Table(numenv=[1], rows=["for-loop"]))
    copy = for_this_host(made, machine(host="1a2b3c4d5e6f"))
    assert parse_profile(valid_name(copy.name), profile_toml(copy).encode(), "x") == copy


printable = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=120)


@given(
    cpu=printable.map(lambda text: " ".join(text.split()) or "unknown"),
    logical=st.integers(1, 5000),
    share=st.floats(0.01, 1),
    gpus=st.lists(st.sampled_from(["NVIDIA H200", 'A "100"', "\\"]), max_size=8),
)
def test_any_hosts_profile_reads_back_as_itself_and_fits_the_host(
    cpu: str, logical: int, share: float, gpus: list[str]
) -> None:
    usable = max(1, int(logical * share))
    found = machine(cpu.strip() or "unknown", logical, usable, tuple(gpus))
    made = profile_for_host(found)
    assert parse_profile(valid_name(made.name), profile_toml(made).encode(), "x") == made
    assert made.fits(found)


@given(st.integers(-5, 10_000_000))
def test_a_ladder_starts_at_one_rises_and_ends_at_all_cores(cores: int) -> None:
    ladder = default_ladder(cores)
    assert ladder[0] == 1
    assert ladder[-1] == min(max(cores, 12), 1_000_000)
    assert all(a < b for a, b in pairwise(ladder))
    assert len(ladder) <= 40
    Table(numenv=ladder, rows=["for-loop"])


def test_small_machines_get_the_laptops_ladder() -> None:
    assert default_ladder(2) == [1, 2, 3, 4, 6, 8, 10, 12]


titles = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="<>|-"),
                 min_size=1, max_size=80)  # fmt: skip


@given(titles, st.lists(st.integers(1, 10**6), min_size=1, max_size=64, unique=True).map(sorted))
def test_a_written_profile_reads_back_as_itself_for_any_title(
    title: str, ladder: list[int]
) -> None:
    made = Profile(name="x", title=title, gym=Table(numenv=ladder, rows=["for-loop"]))
    assert parse_profile("x", profile_toml(made).encode(), "x") == made


def test_a_written_profile_explains_itself_and_keeps_each_list_on_one_line() -> None:
    lines = profile_toml(profile_for_host(machine())).splitlines()
    assert "numenv = [1, 2, 3, 4, 6, 8, 10, 12]" in lines
    assert 'rows = ["brax", "isaac-gym"]' in lines
    for heading in ("[match]", "[atari]"):
        assert lines[lines.index(heading) - 1].startswith("# ")


def test_a_profile_is_not_overwritten_unless_forced() -> None:
    made = profile_for_host(machine())
    path = write_profile(made, Path("machines"))
    changed = msgspec.structs.replace(made, title="Other")
    with pytest.raises(UsageError, match="exists already"):
        write_profile(changed, Path("machines"))
    assert read_profile(path) == made
    write_profile(changed, Path("machines"), force=True)
    assert read_profile(path) == changed
    assert [found.name for found in Path("machines").iterdir()] == [path.name]


def test_a_link_in_the_folder_is_not_written_through() -> None:
    Path("machines").mkdir()
    Path("precious").write_text("kept")
    made = profile_for_host(machine())
    link = Path("machines") / f"{made.name}.toml"
    link.symlink_to(Path("precious").resolve())
    with pytest.raises(UsageError, match="exists already"):
        write_profile(made, Path("machines"))
    write_profile(made, Path("machines"), force=True)
    assert Path("precious").read_text() == "kept"
    assert read_profile(link) == made


def test_a_folder_that_cannot_be_written_is_a_storage_error() -> None:
    Path("machines").write_text("a file in the way")
    with pytest.raises(StorageError, match="cannot be written"):
        write_profile(profile_for_host(machine()), Path("machines"))


def test_the_gym_family_has_a_table_on_every_profile() -> None:
    table = profile("laptop").table("gym")
    assert table is not None
    assert table.rows == ["for-loop", "subprocess"]
    assert profile("laptop").table("atari") == profile("laptop").atari


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("AMD*", "AMD EPYC 7B13", True), ("AMD*", "An AMD", False), ("*EPYC*", "AMD EPYC", True),
        ("a*b*c", "a-b-b-c", True), ("a*b*c", "a-c-b", False), ("ab*ba", "aba", False),
        ("amd", "AMD", True), ("*" * 99 + "x", "y" * 120, False),
        ("*a" * 90 + "x", "a" * 120, False),
    ],
)  # fmt: skip
def test_a_pattern_of_a_profile_is_compared_in_linear_time(
    pattern: str, name: str, fits: bool
) -> None:
    assert _is_like(pattern, name) is fits
