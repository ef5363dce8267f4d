"""Where profiles come from: ``./machines`` first, then those that ship with envbench.

A file in ``./machines`` hides a shipped one of the same name. A broken file is a warning in a
listing, and an error only when it is asked for by name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from envbench.errors import UnknownName, UsageError
from envbench.machine.profile_file import (
    Profile,
    is_valid_name,
    read_profile,
    valid_name,
)
from envbench.model import Fingerprint
from envbench.text import spelt_out

LOCAL = Path("machines")
Source = Literal["local", "shipped"]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A profile and the file it stands in."""

    profile: Profile
    path: Path
    source: Source


class Catalogue(msgspec.Struct, frozen=True, kw_only=True):
    """Every profile that can be read, by name, and what is wrong with the others."""

    entries: dict[str, Entry]
    warnings: list[str] = []

    @property
    def profiles(self) -> dict[str, Profile]:
        return {name: entry.profile for name, entry in self.entries.items()}

    def matching(self, found: Fingerprint) -> Profile | None:
        """The profile whose ``[match]`` fits; of several, the one that says most, then local."""
        fitting = [entry for entry in self.entries.values() if entry.profile.fits(found)]
        fitting.sort(key=lambda entry: (*_closeness(entry, found), entry.profile.name))
        return fitting[0].profile if fitting else None

    def with_title(self, title: str, *, besides: str) -> Profile | None:
        """Another profile of this title: the two would share their tables' markers."""
        others = (p for p in self.profiles.values() if p.name != besides)
        return next((p for p in others if p.title == title), None)


def catalogue() -> Catalogue:
    """Read every profile there is."""
    entries: dict[str, Entry] = {}
    warnings: list[str] = []
    for name, (path, source) in sorted(_files().items()):
        try:
            entries[name] = Entry(profile=read_profile(path), path=path, source=source)
        except UsageError as error:
            text = str(error)
            warnings.append(spelt_out(text if text.startswith(str(path)) else f"{path}: {text}"))
    return Catalogue(entries=entries, warnings=warnings + _doubled(entries))


def profiles() -> dict[str, Profile]:
    """Every readable profile by name (``catalogue()`` has the warnings too)."""
    return catalogue().profiles


def profile(name: str) -> Profile:
    """The profile of this name; ``UsageError`` if its file is broken or there is none."""
    files = _files()
    if valid_name(name) not in files:
        raise UnknownName("machine", name, sorted(filter(is_valid_name, files)))
    return read_profile(files[name][0])


def matching(found: Fingerprint) -> Profile | None:
    """The profile that fits this machine, if one does."""
    return catalogue().matching(found)


def _files() -> dict[str, tuple[Path, Source]]:
    """Name -> file; an earlier folder hides a later one, even with a broken file."""
    folders: list[tuple[Path, Source]] = [(LOCAL, "local")]
    shipped = _shipped()
    if shipped is not None:
        folders.append((shipped, "shipped"))
    files: dict[str, tuple[Path, Source]] = {}
    for folder, source in folders:
        for path in folder.glob("*.toml"):
            files.setdefault(path.stem, (path, source))
    return files


def _shipped() -> Path | None:
    package = Path(__file__).resolve().parents[1]
    if (package / "machines").is_dir():  # in a wheel
        return package / "machines"
    checkout = package.parent
    return checkout / "machines" if (checkout / "pyproject.toml").is_file() else None


def _closeness(entry: Entry, found: Fingerprint) -> tuple[int, bool, bool]:
    match = entry.profile.match
    given = sum(value is not None for value in msgspec.structs.astuple(match))
    return -given, match.cpu != found.cpu, entry.source != "local"


def _doubled(entries: dict[str, Entry]) -> list[str]:
    first: dict[str, Path] = {}
    return [
        f"{entry.path}: `title`: {entry.profile.title!r} is also that of {earlier}"
        for entry in entries.values()
        if (earlier := first.setdefault(entry.profile.title, entry.path)) != entry.path
    ]
