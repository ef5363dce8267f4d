"""The known profiles: in ``./machines``, shipped with envbench, and this machine's own.

A file in ``./machines`` hides a shipped one of the same name, even where it is broken. A broken
file is a warning in a listing, and an error only for a person who names it. Where no file fits this
machine, a profile is made from its fingerprint.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import msgspec

from envbench import families
from envbench.errors import UnknownName, UsageError
from envbench.machine.host import clean_name
from envbench.machine.profile_file import (
    CPU_SIZES,
    GPU_SIZES,
    Match,
    Profile,
    Table,
    is_valid_name,
    read_profile,
    valid_name,
)
from envbench.model import Fingerprint
from envbench.text import spelt_out

PACKAGE = Path(__file__).parents[1]
LOCAL = Path("machines")
ACCELERATOR_ROWS = ["brax", "isaac-gym"]
PHYSICS_ROWS = ["mujoco-rollout", "mjx", "mujoco-warp", "genesis"]
_NOISE = re.compile(r"\((?:R|TM|C)\)|@.*$|\b(?:CPU|Processor|\d+-Core)\b|[<>|]", re.IGNORECASE)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """Holds a profile and the path of its file."""

    profile: Profile
    path: Path

    @property
    def source(self) -> Literal["local", "shipped"]:
        return "local" if self.path.parent == LOCAL else "shipped"


class Catalogue(msgspec.Struct, frozen=True, kw_only=True):
    """Every readable profile by name, and what is wrong with the others."""

    entries: dict[str, Entry]
    warnings: list[str] = []

    @property
    def profiles(self) -> dict[str, Profile]:
        return {name: entry.profile for name, entry in self.entries.items()}

    def matching(self, found: Fingerprint) -> Profile | None:
        """Find the profile that fits by its ``[match]``: the most specific, then a local one."""

        def rank(entry: Entry) -> tuple[int, bool, bool, str]:
            match = entry.profile.match
            given = sum(value is not None for value in msgspec.structs.astuple(match))
            return -given, match.cpu != found.cpu, entry.source != "local", entry.profile.name

        fitting = [entry for entry in self.entries.values() if entry.profile.fits(found)]
        return min(fitting, key=rank).profile if fitting else None

    def with_title(self, title: str, *, besides: str) -> Profile | None:
        """Another profile with this title. Both would have the same table markers."""
        others = (p for p in self.profiles.values() if p.name != besides)
        return next((p for p in others if p.title == title), None)


def catalogue() -> Catalogue:
    """Read every profile there is."""
    entries: dict[str, Entry] = {}
    warnings: list[str] = []
    for name, path in sorted(_files().items()):
        try:
            entries[name] = Entry(profile=read_profile(path), path=path)
        except UsageError as error:
            text = str(error)
            warnings.append(spelt_out(text if text.startswith(str(path)) else f"{path}: {text}"))
    return Catalogue(entries=entries, warnings=warnings + _doubled_titles(entries))


def profile(name: str) -> Profile:
    """Return the profile of this name; ``UsageError`` if its file is broken or there is none."""
    files = _files()
    if valid_name(name) not in files:
        raise UnknownName("machine", name, sorted(filter(is_valid_name, files)))
    return read_profile(files[name])


def _files() -> dict[str, Path]:
    """The file of each name. A local one hides a shipped one."""
    shipped = PACKAGE if (PACKAGE / "machines").is_dir() else checkout(PACKAGE.resolve())
    folders = [*([shipped / "machines"] if shipped else []), LOCAL]
    return {path.stem: path for folder in folders for path in folder.glob("*.toml")}


def checkout(package: Path) -> Path | None:
    """Return the checkout that holds the package, or None where the package was installed."""
    project = package.parent / "pyproject.toml"
    own = project.is_file() and b'name = "envbench"' in project.read_bytes()
    return project.parent if own else None


def _doubled_titles(entries: dict[str, Entry]) -> list[str]:
    first: dict[str, Path] = {}
    return [
        f"{entry.path}: `title`: {earlier} has the title {entry.profile.title!r} too"
        for entry in entries.values()
        if (earlier := first.setdefault(entry.profile.title, entry.path)) != entry.path
    ]


# ---------------------------------------------------------------- this machine's own


def choose(name: str | None, found: Fingerprint) -> Profile:
    """Return the named profile; without a name the one that fits, else the host's own.

    The host's own profile can be named too, although it has no file: results are stored under
    its name.
    """
    if name is None and (fitting := catalogue().matching(found)):
        return fitting
    host = profile_for_host(found)
    wanted = host.name if name is None else name
    if wanted == host.name and wanted not in _files():
        return host
    return profile(wanted)


def profile_for_host(found: Fingerprint) -> Profile:
    """Make a profile named after the hardware (``amd-epyc-2-core``), the same for equal
    hardware."""
    whole = found.usable_cpus == found.logical_cpus
    share = f"{found.logical_cpus}" if whole else f"{found.usable_cpus} of {found.logical_cpus}"
    name, gpus = clean_name(found.cpu), [clean_name(gpu) for gpu in found.gpus]
    # Without trademarks and the clock rate, fit for a title.
    bare = re.sub(r"-{2,}", "-", _NOISE.sub(" ", name)).split()
    cpu = " ".join(bare)[:50].strip(" -,") or "Machine"
    ladder = default_ladder(found.usable_cpus)
    cards = "".join(f", {gpus.count(gpu)} x {gpu}" for gpu in dict.fromkeys(gpus))
    usual = [each for each in families.registry().values() if each.usual]
    sizes = GPU_SIZES if gpus else CPU_SIZES
    slug = re.sub(r"[^a-z0-9]+", "-", cpu.lower()).strip("-")[:40].strip("-") or "machine"
    return Profile(
        name=f"{slug}-{share.replace(' ', '-')}-core",
        title=f"{cpu}, {share} core{'' if share == '1' else 's'}",
        hardware=f"{share} core {name}{cards}"[:300].strip(),
        match=Match(
            cpu=name,
            cores=found.logical_cpus,
            usable=None if whole else found.usable_cpus,
            gpu=gpus[0] if gpus else None,
        ),
        **{each.name: Table(numenv=ladder, rows=each.table_rows) for each in usual},
        accelerators=Table(numenv=sizes, rows=ACCELERATOR_ROWS),
        physics=Table(numenv=sizes, rows=PHYSICS_ROWS),
    )


def default_ladder(cores: int) -> list[int]:
    """Choose the numenv ladder for a number of logical CPUs.

    Powers of two, then equal steps (a sixth to a twelfth of the CPUs) up to all CPUs; below 128
    CPUs also the value of one and a half steps. Under 12 CPUs the ladder is that of 12, because
    small machines are used with more environments than they have cores. For 12, 96, 192 and 256
    CPUs it gives the ladders of the tables that envbench first reproduced.
    """
    top = min(max(cores, 12), 1_000_000)
    step = 1 << ((top // 6).bit_length() - 1)
    powers = {1 << n for n in range(step.bit_length() + 1)}
    between = {step * 3 // 2} if top < 128 else set()
    return sorted(powers | between | set(range(2 * step, top, step)) | {top})
