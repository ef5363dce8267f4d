"""One machine profile: its values, and the TOML file that holds them.

    title = "Laptop"                     # the heading of its tables
    hardware = "12 core Intel(R) …"      # shown to people
    check = ["atari/envpool-sync/4"]     # what `envbench check` compares: at most 12 cells
    [match]                              # the hardware that the profile is for
    cpu = "*i7-8750H*"                   # the CPU's name; * stands for any text
    cores = 12                           # logical CPUs
    host = "1a2b3c4d5e6f"                # only this computer (`envbench machines detect`)
    [atari]                              # a table of the report: its columns and its rows
    numenv = [1, 2, 3, 4]
    rows = ["for-loop", "envpool-async"]

A profile may come from an untrusted source. It is only data, parsed strictly and within limits. An
error names the file and the key. All text must be printable, so that it cannot control a terminal
or break a table. The profile's name is the name of its file, without ``.toml``.

``profile_toml`` adds the comments that tomli-w cannot write, and puts each list of a table on one
line.
"""

from __future__ import annotations

import os
import re
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from envbench import families
from envbench.errors import StorageError, UsageError
from envbench.model import Family, Fingerprint, Section
from envbench.text import spelt_out

MAX_BYTES = 64 * 1024
MAX_LINE_BYTES = 8 * 1024  # tomllib's time grows with the square of a dotted key's length
# The numenv ladders of backends that step all environments in one program.
GPU_SIZES = [256, 1024, 4096, 16384]
CPU_SIZES = [64, 256, 1024]
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}(?<!\.)")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)")
_BACKEND = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"

_Pattern = Annotated[str, Meta(min_length=1, max_length=200)]  # of a CPU or GPU
_Count = Annotated[int, Meta(ge=1, le=1_000_000)]
_Name = Annotated[str, Meta(pattern=f"^{_BACKEND}$")]
_CheckedCell = Annotated[str, Meta(pattern=rf"^[a-z][a-z0-9_]*/{_BACKEND}/[1-9][0-9]{{0,5}}$")]


def _check_text(key: str, text: str) -> None:
    if not text.isprintable() or text != text.strip():
        raise ValueError(f"`{key}` must be one printable line, without space at its ends")


class Match(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The hardware that a profile is for, and perhaps the host. A key that is left out fits any.

    ``cpu`` and ``gpu`` are whole names, in which ``*`` stands for any text (``*EPYC 7*``).
    ``cores`` are logical CPUs. All of them must be usable, unless ``usable`` says how many
    (a container's share): a machine limited to two CPUs is not the machine of the profile.
    ``host`` is that of a fingerprint: the profile then fits only this computer.
    """

    cpu: _Pattern | None = None
    cores: _Count | None = None
    usable: _Count | None = None
    gpu: _Pattern | None = None
    host: _Pattern | None = None

    def __post_init__(self) -> None:
        for key in ("cpu", "gpu", "host"):
            _check_text(key, getattr(self, key) or "")

    @property
    def empty(self) -> bool:
        return self == Match()

    def fits(self, found: Fingerprint) -> bool:
        return self.host in (None, found.host) and self.fits_hardware(found)

    def fits_hardware(self, found: Fingerprint) -> bool:
        """Whether it is this hardware, on any host."""
        usable = self.usable or self.cores
        return (
            (self.cpu is None or _is_like(self.cpu, found.cpu))
            and (self.cores is None or self.cores == found.logical_cpus)
            and (usable is None or usable == found.usable_cpus)
            and (self.gpu is None or any(_is_like(self.gpu, gpu) for gpu in found.gpus))
        )


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the report: its columns (the numenv ladder) and its rows (backend names)."""

    numenv: Annotated[list[_Count], Meta(min_length=1, max_length=64)]
    rows: Annotated[list[_Name], Meta(min_length=1, max_length=64)]

    def __post_init__(self) -> None:
        if self.numenv != sorted(set(self.numenv)):
            raise ValueError("`numenv` must be strictly increasing")
        if len(set(self.rows)) != len(self.rows):
            raise ValueError("`rows` names a backend twice")


# Every table that a profile may have: one per env family, and two for devices and raw physics.
TABLES = (*families.names(), "accelerators", "physics")
_Tables: Any = msgspec.defstruct(
    "_Tables",
    [(heading, Table | None, None) for heading in TABLES],
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
)
_HEADINGS = ", ".join(f"[{heading}]" for heading in TABLES)


class Profile(_Tables, frozen=True, kw_only=True, forbid_unknown_fields=True):  # type: ignore[call-arg,misc]
    """What to measure on a machine, and the heading of its tables."""

    name: str
    title: Annotated[str, Meta(min_length=1, max_length=80)]
    hardware: Annotated[str, Meta(max_length=300)] = ""
    check: Annotated[list[_CheckedCell], Meta(max_length=12)] = []
    match: Match = Match()

    def __post_init__(self) -> None:
        if problem := families.title_trouble(self.title):
            raise ValueError(problem)
        _check_text("hardware", self.hardware)
        if len(set(self.check)) < len(self.check):
            raise ValueError("`check` names a cell twice")
        if not self.tables:
            raise ValueError(f"a profile needs a table: one of {_HEADINGS}")

    def fits(self, found: Fingerprint) -> bool:
        """Whether the profile is for this machine. A profile without ``[match]`` fits none."""
        return not self.match.empty and self.match.fits(found)

    @property
    def tables(self) -> dict[str, Table]:
        """The tables that the file has, by heading."""
        found = {heading: getattr(self, heading) for heading in TABLES}
        return {heading: table for heading, table in found.items() if table is not None}

    def table(self, family: Family, section: Section = "") -> Table | None:
        """Return the table of a family, or of its accelerators or physics.

        Where the file lacks one, a family has the ladder of the first table. Accelerators and
        physics of a family with a table have ladders of their own.
        """
        given = self.tables.get(section or family)
        if given is not None:
            return given
        if section:
            sizes = CPU_SIZES if self.match.gpu is None else GPU_SIZES
            return Table(numenv=sizes, rows=[]) if family in self.tables else None
        first = next((self.tables[name] for name in families.names() if name in self.tables), None)
        return first and Table(numenv=first.numenv, rows=families.of_record(family).table_rows)


Profiles = Mapping[str, Profile]  # by name


def _is_like(pattern: str, name: str) -> bool:
    """Does the name fit the pattern, in which * is any text? In linear time, whatever it is."""
    name = name.casefold()
    first, *rest = pattern.casefold().split("*")
    if not rest:
        return name == first
    *middle, last = rest
    place = len(first) if name.startswith(first) else -1
    for part in middle:
        if place < 0:
            return False
        found = name.find(part, place)
        place = found + len(part) if found >= 0 else -1
    return 0 <= place <= len(name) - len(last) and name.endswith(last)


def is_valid_name(name: str) -> bool:
    return bool(_NAME.fullmatch(name)) and not _RESERVED.match(name)


def valid_name(name: str) -> str:
    """Return a name that can name a profile's file on every system; else raise ``UsageError``."""
    if is_valid_name(name):
        return name
    shown = repr(name) if len(name) <= 60 else f"{name[:40]!r}… ({len(name)} characters)"
    lower = name.lower().replace(" ", "-")
    suggestion = f"Did you mean {lower!r}? " if is_valid_name(lower) else ""
    raise UsageError(
        f"{shown} cannot name a machine profile.",
        hint=f"{suggestion}A name is 1 to 64 of a-z 0-9 . _ -, begins with a letter or digit, "
        "does not end with a dot, and is not a name that Windows reserves (con, nul, com1, …).",
    )


def read_profile(path: Path) -> Profile:
    """Read the profile in a file. ``UsageError`` names the file and the key that is wrong."""
    name = valid_name(path.stem)
    try:
        if not path.is_file():  # reading a pipe or a device could block
            raise UsageError(f"{path}: not a regular file")
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    return parse_profile(name, raw, str(path))


def parse_profile(name: str, raw: bytes, source: str) -> Profile:
    """Parse the profile in a TOML document; errors begin with ``source``."""
    if len(raw) > MAX_BYTES:
        raise UsageError(f"{source}: larger than a profile may be ({MAX_BYTES} bytes)")
    if any(len(line) > MAX_LINE_BYTES for line in raw.split(b"\n")):
        raise UsageError(f"{source}: a line longer than {MAX_LINE_BYTES} bytes")
    try:
        data = tomllib.loads(raw.decode("utf-8"))
    except RecursionError:
        raise UsageError(f"{source}: nested too deeply") from None
    except ValueError as error:  # TOML, UTF-8, or an integer of thousands of digits
        raise UsageError(f"{source}: not valid TOML: {spelt_out(str(error))}") from None
    if "name" in data:
        what = f"unknown key: a profile's name is that of its file. {_known('')}"
        raise _refused(source, "name", what)
    try:
        return msgspec.convert({"name": name, **data}, Profile, strict=True)
    except msgspec.ValidationError as error:
        raise _located(source, str(error)) from None


def _located(source: str, message: str) -> UsageError:
    """msgspec's message, with the key (``atari.numenv[2]``) moved to the front."""
    what, _, where = message.partition(" - at `$")
    key = where.rstrip("`").lstrip(".")
    field = re.search(r"(unknown|missing required) field `(.*)`", what, re.DOTALL)
    if field:
        table, key = key, f"{key}.{field[2]}".lstrip(".")
        what = "is missing"
        if field[1] == "unknown":
            plugin = ", or the table of an env family whose plugin is not installed"
            what = f"unknown key{'' if table else plugin}. {_known(table)}"
    return _refused(source, key, what)


def _known(table: str) -> str:
    """``Known: numenv, rows``: the keys of a table of the profile, or of the whole profile ("")."""
    kind = {"": Profile, "match": Match}.get(table, Table)
    names = [each for each in kind.__struct_fields__ if each != "name"]
    return f"Known: {', '.join(sorted(names, key=TABLES.__contains__))}"  # tables last


def _refused(source: str, key: str, what: str) -> UsageError:
    shown = f" `{spelt_out(key)[:100]}`:" if key else ""
    return UsageError(
        f"{source}:{shown} {spelt_out(what)}",
        hint="A profile has title, hardware, check (cells such as atari/for-loop/4), [match] "
        f"(cpu, cores, usable, gpu, host), and tables with numenv and rows: {_HEADINGS}.",
    )


_HEADER = """\
# What envbench measures on this machine, and the heading of its tables. To choose the cells that
# `envbench check` compares, remove the # of the next line, and list up to 12 cells.
# check = ["atari/envpool-sync/4"]
"""
_ABOUT_MATCH = """
# The machine that this profile is for: `envbench run` picks the profile that fits. In a name, *
# stands for any text. A key that is left out fits any machine. `host` is this computer alone.
"""
_ABOUT_TABLES = """
# Each section below is a table of the report. Its columns, numenv, are numbers of environments; its
# rows are backends (`envbench backends` lists them).
"""


def profile_toml(profile: Profile) -> str:
    """Return the profile as a commented TOML document, which parses to the same profile."""
    from tomli_w import dumps

    top: dict[str, object] = {"title": profile.title, "hardware": profile.hardware}
    if profile.check:
        top["check"] = profile.check
    given = msgspec.structs.asdict(profile.match).items()
    match = {key: value for key, value in given if value is not None}
    tables = dumps(msgspec.to_builtins(profile.tables))
    # No text holds a newline, so these can only be the lists.
    tables = tables.replace("[\n    ", "[").replace(",\n    ", ", ").replace(",\n]", "]")
    about_match = _ABOUT_MATCH + dumps({"match": match}) if match else ""
    return _HEADER + dumps(top) + about_match + _ABOUT_TABLES + tables


def write_profile(profile: Profile, folder: Path, *, force: bool = False) -> Path:
    """Write ``folder/NAME.toml`` whole or not at all; over an existing file only if ``force``."""
    path = folder / f"{valid_name(profile.name)}.toml"
    text = profile_toml(profile).encode("utf-8")
    parse_profile(profile.name, text, str(path))  # what cannot be read is not written
    if not force and os.path.lexists(path):
        raise UsageError(f"{path} exists already.", hint="Add --force to replace it.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as near:
            whole = Path(near, path.name)
            whole.write_bytes(text)
            whole.replace(path)  # replaces a link, and does not write through it
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror}") from error
    return path
