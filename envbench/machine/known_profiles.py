"""The known profiles: in ``./machines``, shipped with envbench, and this machine's own.

A file in ``./machines`` hides a shipped one of the same name, even where it is broken. A broken
file is a warning in a listing, and an error only for a person who names it. Where no file fits this
machine, a profile is made from its fingerprint. Where results of another host have the fitting
profile's name, a copy of another name is made: results of two hosts are never mixed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
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
# Those that ship with envbench for any computer of their hardware.
SHIPPED = {"as4124", "dgx-a100", "epyc-vm", "h100", "laptop", "tpu-vm", "xeon-vm"}
ACCELERATOR_ROWS = ["brax", "isaac-gym"]
PHYSICS_ROWS = ["mujoco-rollout", "mjx", "mujoco-warp", "genesis"]
_NOISE = re.compile(r"\((?:R|TM|C)\)|@.*$|\b(?:CPU|Processor|\d+-Core)\b|[<>|]", re.IGNORECASE)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """Holds a profile, the path of its file, and when the file was written (any unit)."""

    profile: Profile
    path: Path
    written: int = 0

    @property
    def source(self) -> Literal["local", "shipped"]:
        """``local``: a user's. In a checkout of envbench, ``./machines`` also has shipped ones."""
        if self.path.parent != LOCAL:
            return "shipped"
        ships = self.profile.name in SHIPPED and checkout(Path("envbench").absolute())
        return "shipped" if ships else "local"


class Catalogue(msgspec.Struct, frozen=True, kw_only=True):
    """Every readable profile by name, and what is wrong with the others."""

    entries: dict[str, Entry]
    warnings: list[str] = []

    @property
    def profiles(self) -> dict[str, Profile]:
        return {name: entry.profile for name, entry in self.entries.items()}

    def matching(self, found: Fingerprint) -> Profile | None:
        """Find the profile that fits by its ``[match]``: a local one before a shipped one, the
        newest for this host alone before others, and of several the most specific."""

        def rank(entry: Entry) -> tuple[bool, int, int, bool, str]:
            match = entry.profile.match
            given = sum(value is not None for value in msgspec.structs.astuple(match))
            newest = 1 if match.host is None else -entry.written
            other_cpu = match.cpu != found.cpu
            return entry.source != "local", newest, -given, other_cpu, entry.profile.name

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
            found = read_profile(path)
            entries[name] = Entry(profile=found, path=path, written=path.stat().st_mtime_ns)
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


def choose(
    name: str | None, found: Fingerprint, taken: Callable[[str], bool] = lambda _: False
) -> Profile:
    """Return the named profile; without a name the one that fits, else the host's own.

    ``taken`` says whether results of another host have a name. It is then a ``UsageError`` to name
    that profile. Without a name, it is copied for this host. Profiles made for this host need no
    file to be named: results are stored under their names.
    """
    files, host = _files(), profile_for_host(found)
    fitting = catalogue().matching(found)
    copy = for_this_host(fitting or host, found)
    made = {each.name: each for each in (host, for_this_host(host, found), copy)}
    if name is None:
        usual = (fitting or host).name
        is_free = (fitting or usual not in files) and not taken(usual)
        name = usual if is_free else copy.name
    if taken(name):
        raise UsageError(
            f"the results of {name!r} are of another computer, or of an unknown one: results of "
            "two computers are never mixed.",
            hint="Leave out --machine, or make a profile of another name for this computer: "
            f"`envbench machines init NAME --like {name}`.",
        )
    return made[name] if name in made and name not in files else profile(name)


def for_this_host(profile: Profile, found: Fingerprint) -> Profile:
    """Copy a profile for one host alone: ``epyc-vm-1a2b``."""
    mark = found.host[:4] or "unknown"
    return msgspec.structs.replace(
        profile,
        name=f"{profile.name[:59]}-{mark}",
        title=f"{profile.title[:60].strip()}, host {mark}",
        match=msgspec.structs.replace(profile.match, host=found.host or None),
    )


def profile_for_host(found: Fingerprint) -> Profile:
    """Make a profile for this host, named after the hardware (``amd-epyc-2-core``)."""
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
            host=found.host or None,
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
