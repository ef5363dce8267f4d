"""One machine profile: its values, and the TOML file that holds them.

    title = "Laptop"                     # the table's heading
    hardware = "12 core Intel(R) …"      # text for people
    check = ["atari/envpool-sync/4"]     # what `envbench check` compares: at most 12 cells
    [match]                              # the hardware that the profile is for
    cpu = "i7-8750H"                     # the CPU's name, or a part of it
    cores = 12                           # logical CPUs
    [atari]                              # a table of the report: its columns and its rows
    numenv = [1, 2, 3, 4]
    rows = ["for-loop", "envpool-async"]

A profile may come from a stranger. It is data only: it is parsed strictly within bounds, an
unknown key or a wrong type is refused by file and key, and every text is printable, so that
nothing in it can reach a terminal, a table or a marker as anything but text.
The profile's name is its file's stem.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import tomllib
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from envbench.errors import StorageError, UsageError
from envbench.model import Family, Fingerprint, Section
from envbench.text import spelt_out

MAX_BYTES = 64 * 1024
MAX_LINE_BYTES = 8 * 1024  # tomllib's time grows with the square of a dotted key's length
TABLES = ("atari", "mujoco", "gym", "accelerators", "physics")
# How many environments backends that step them all in one program are measured with.
GPU_SIZES = [256, 1024, 4096, 16384]
CPU_SIZES = [64, 256, 1024]
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)")
_BACKEND = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

_Title = Annotated[str, Meta(min_length=1, max_length=80)]
_Hardware = Annotated[str, Meta(max_length=300)]
_Part = Annotated[str, Meta(min_length=1, max_length=200)]
_Count = Annotated[int, Meta(ge=1, le=1_000_000)]
_Ladder = Annotated[list[_Count], Meta(min_length=1, max_length=64)]
_Rows = Annotated[list[str], Meta(min_length=1, max_length=64)]
_CheckedCell = Annotated[
    str, Meta(pattern=r"^(atari|mujoco)/[A-Za-z0-9][A-Za-z0-9._-]{0,63}/[1-9][0-9]{0,5}$")
]
_Checked = Annotated[list[_CheckedCell], Meta(max_length=12)]


# ---------------------------------------------------------------- text


def _like(pattern: str, name: str) -> bool:
    parts = [re.escape(part) for part in pattern.casefold().split("*")]
    return re.fullmatch(".*".join(parts), name.casefold()) is not None


def _check_text(key: str, text: str) -> None:
    if not text.isprintable() or text != text.strip():
        raise ValueError(f"`{key}` must be printable text on one line, no space at its ends")


def _brief(text: str) -> str:
    return repr(text) if len(text) <= 60 else f"{text[:40]!r}… ({len(text)} characters)"


# ---------------------------------------------------------------- values


class Match(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The hardware a profile is for; what is left out may be anything.

    ``cpu`` and ``gpu`` are whole names, in which ``*`` stands for anything (``*EPYC 7*``).
    ``cores`` are logical CPUs. All of them must be usable, unless ``usable`` says how many
    (a container's share): a machine held to two CPUs is not the machine of the profile.
    """

    cpu: _Part | None = None
    cores: _Count | None = None
    usable: _Count | None = None
    gpu: _Part | None = None

    def __post_init__(self) -> None:
        for key in ("cpu", "gpu"):
            _check_text(key, getattr(self, key) or "-")

    @property
    def empty(self) -> bool:
        return self == Match()

    def fits(self, found: Fingerprint) -> bool:
        usable = self.usable or self.cores
        return (
            (self.cpu is None or _like(self.cpu, found.cpu))
            and (self.cores is None or self.cores == found.logical_cpus)
            and (usable is None or usable == found.usable_cpus)
            and (self.gpu is None or any(_like(self.gpu, gpu) for gpu in found.gpus))
        )


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A family's table: its columns (the numenv ladder) and its rows (backend names)."""

    numenv: _Ladder
    rows: _Rows

    def __post_init__(self) -> None:
        if any(b <= a for a, b in zip(self.numenv, self.numenv[1:], strict=False)):
            raise ValueError("`numenv` must be strictly increasing")
        if len(set(self.rows)) != len(self.rows):
            raise ValueError("`rows` names a backend twice")
        for row in self.rows:
            if not _BACKEND.fullmatch(row):
                raise ValueError(f"`rows` takes names of backends, not {_brief(row)}")


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to measure on a machine, and how its tables are headed."""

    name: str
    title: _Title
    hardware: _Hardware = ""
    check: _Checked = []
    match: Match = Match()
    atari: Table | None = None
    mujoco: Table | None = None
    gym: Table | None = None
    accelerators: Table | None = None
    physics: Table | None = None

    def __post_init__(self) -> None:
        _check_text("title", self.title)
        if any(mark in self.title for mark in ("<", ">", "|", "--")):
            raise ValueError("`title` heads a marked table: it cannot hold < > | or --")
        _check_text("hardware", self.hardware or "-")
        if len(set(self.check)) < len(self.check):
            raise ValueError("`check` names a cell twice")
        if not self.tables:
            raise ValueError("a profile needs a table: [atari], [mujoco] or [gym]")

    def fits(self, found: Fingerprint) -> bool:
        """Is this the hardware of the profile? One that names no hardware fits none."""
        return not self.match.empty and self.match.fits(found)

    @property
    def tables(self) -> dict[str, Table]:
        """The tables that the file has, by heading."""
        found = {heading: getattr(self, heading) for heading in TABLES}
        return {heading: table for heading, table in found.items() if table is not None}

    def table(self, family: Family, section: Section = "") -> Table | None:
        """The table of a family, or of its accelerators or its physics.

        ``gym`` has one always, for a user's own task runs anywhere; and so have accelerators and
        physics where there is MuJoCo: an accelerator is a matter of what is installed.
        """
        given = self.tables.get(section or family)
        if given is None and section and self.mujoco and family == "mujoco":
            return Table(numenv=CPU_SIZES if self.match.gpu is None else GPU_SIZES, rows=[])
        if given is None and family == "gym":
            other = self.atari or self.mujoco
            return other and Table(numenv=other.numenv, rows=["for-loop", "subprocess"])
        return given


# ---------------------------------------------------------------- names


def is_valid_name(name: str) -> bool:
    fits = _NAME.fullmatch(name) and not name.endswith(".")
    return bool(fits) and not _RESERVED.match(name)


def valid_name(name: str) -> str:
    """The name, if it can name a profile's file on every system; else a ``UsageError``."""
    if is_valid_name(name):
        return name
    lower = name.lower().replace(" ", "-")
    meant = f"Did you mean {lower!r}? " if is_valid_name(lower) else ""
    raise UsageError(
        f"{_brief(name)} cannot name a machine profile.",
        hint=f"{meant}A name is 1 to 64 of a-z 0-9 . _ -, begins with a letter or digit, does not "
        "end with a dot, and is not a name that Windows reserves (con, nul, com1, …).",
    )


# ---------------------------------------------------------------- reading


def read_profile(path: Path) -> Profile:
    """The profile in a file; ``UsageError`` names the file and the key of any trouble."""
    name = valid_name(path.stem)
    try:
        if not path.is_file():  # a pipe or a device would be waited for
            raise UsageError(f"{path}: not a regular file")
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    return parse_profile(name, raw, str(path))


def parse_profile(name: str, raw: bytes, source: str) -> Profile:
    """The profile in a TOML document within the bounds; ``source`` is named in errors."""
    if len(raw) > MAX_BYTES:
        raise UsageError(f"{source}: larger than a profile may be ({MAX_BYTES} bytes)")
    if any(len(line) > MAX_LINE_BYTES for line in raw.split(b"\n")):
        raise UsageError(f"{source}: a line longer than {MAX_LINE_BYTES} bytes")
    try:
        data: dict[str, Any] = tomllib.loads(raw.decode("utf-8"))
    except RecursionError:
        raise UsageError(f"{source}: nested too deeply") from None
    except ValueError as error:  # TOML, UTF-8, or an integer of thousands of digits
        raise UsageError(f"{source}: not valid TOML: {spelt_out(str(error))}") from None
    if "name" in data:
        raise _refused(source, "name", "unknown key: the name is the file's own")
    try:
        return msgspec.convert({"name": name, **data}, Profile, strict=True)
    except msgspec.ValidationError as error:
        raise _located(source, str(error)) from None


def _located(source: str, message: str) -> UsageError:
    """msgspec's message, with the key (``atari.numenv[2]``) brought to the front."""
    what, _, where = message.partition(" - at `$")
    key = where.rstrip("`").lstrip(".")
    field = re.search(r"(unknown|missing required) field `(.*)`", what, re.DOTALL)
    if field:
        key = f"{key}.{field[2]}".lstrip(".")
        what = "unknown key" if field[1] == "unknown" else "is missing"
    return _refused(source, key, what)


def _refused(source: str, key: str, what: str) -> UsageError:
    shown = f" `{spelt_out(key)[:100]}`:" if key else ""
    return UsageError(
        f"{source}:{shown} {spelt_out(what)}",
        hint="A profile has title, hardware, check (cells such as atari/for-loop/4), "
        "[match] (cpu, cores, usable, gpu), and tables "
        "[atari], [mujoco], [gym], [accelerators], [physics] with numenv and rows.",
    )


# ---------------------------------------------------------------- writing


def profile_toml(profile: Profile) -> str:
    """The profile as a TOML document that reads back as the same profile."""
    lines = [f"title = {_toml(profile.title)}", f"hardware = {_toml(profile.hardware)}"]
    if profile.check:
        lines.append(f"check = {_toml(profile.check)}")
    for heading in ("match", *TABLES):
        section = getattr(profile, heading)
        given = {} if section is None else msgspec.structs.asdict(section)
        pairs = [f"{key} = {_toml(value)}" for key, value in given.items() if value is not None]
        if pairs:
            lines += ["", f"[{heading}]", *pairs]
    return "\n".join(lines) + "\n"


def write_profile(profile: Profile, folder: Path, *, force: bool = False) -> Path:
    """Write ``folder/NAME.toml`` whole or not at all; another's file only if ``force``."""
    path = folder / f"{valid_name(profile.name)}.toml"
    text = profile_toml(profile).encode("utf-8")
    parse_profile(profile.name, text, str(path))  # what cannot be read is not written
    if not force and os.path.lexists(path):
        raise UsageError(f"{path} exists already.", hint="--force writes over it.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _replace(path, text)
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror}") from error
    return path


def _replace(path: Path, text: bytes) -> None:
    # Renaming replaces a link itself, so nothing is written through one to elsewhere.
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
        try:
            file.write(text)
            file.flush()
            Path(file.name).chmod(0o644)
            os.replace(file.name, path)
        except OSError:
            Path(file.name).unlink(missing_ok=True)
            raise


def _toml(value: object) -> str:
    # JSON's strings, integers and flat lists are TOML's too, as long as astral characters
    # stay as they are (TOML has no surrogate pairs) and nothing is unprintable (checked).
    return json.dumps(value, ensure_ascii=False)
