"""The known profiles: those in ``./machines`` and those that ship with envbench.

A file in ``./machines`` hides a shipped one of the same name, even where it is broken. A broken
file is a warning in a listing, and an error only for a person who names it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from envbench.errors import UnknownName, UsageError
from envbench.machine.profile_file import Profile, is_valid_name, read_profile, valid_name
from envbench.model import Fingerprint
from envbench.text import spelt_out

LOCAL = Path("machines")
Source = Literal["local", "shipped"]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A profile and its file."""

    profile: Profile
    path: Path
    source: Source


class Catalogue(msgspec.Struct, frozen=True, kw_only=True):
    """Every readable profile by name, and what is wrong with the others."""

    entries: dict[str, Entry]
    warnings: list[str] = []

    @property
    def profiles(self) -> dict[str, Profile]:
        return {name: entry.profile for name, entry in self.entries.items()}

    def matching(self, found: Fingerprint) -> Profile | None:
        """The profile whose ``[match]`` fits. Of several: the most specific, then a local one."""

        def rank(entry: Entry) -> tuple[int, bool, bool, str]:
            match = entry.profile.match
            given = sum(value is not None for value in msgspec.structs.astuple(match))
            return -given, match.cpu != found.cpu, entry.source != "local", entry.profile.name

        fitting = [entry for entry in self.entries.values() if entry.profile.fits(found)]
        return min(fitting, key=rank).profile if fitting else None

    def with_title(self, title: str, *, besides: str) -> Profile | None:
        """Another profile with this title, so that both would have the same table markers."""
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
    return Catalogue(entries=entries, warnings=warnings + _doubled_titles(entries))


def profiles() -> dict[str, Profile]:
    """Every readable profile by name."""
    return catalogue().profiles


def matching(found: Fingerprint) -> Profile | None:
    """The profile that fits this machine, if one does."""
    return catalogue().matching(found)


def profile(name: str) -> Profile:
    """The profile of this name; ``UsageError`` if its file is broken or there is none."""
    files = _files()
    if valid_name(name) not in files:
        raise UnknownName("machine", name, sorted(filter(is_valid_name, files)))
    return read_profile(files[name][0])


def _files() -> dict[str, tuple[Path, Source]]:
    """The file of each name. A local one hides a shipped one."""
    folders: dict[Source, Path | None] = {"local": LOCAL, "shipped": _shipped()}
    files: dict[str, tuple[Path, Source]] = {}
    for source, folder in folders.items():
        for path in folder.glob("*.toml") if folder else ():
            files.setdefault(path.stem, (path, source))
    return files


def _shipped() -> Path | None:
    package = Path(__file__).resolve().parents[1]
    if (package / "machines").is_dir():  # in a wheel
        return package / "machines"
    checkout = package.parent
    return checkout / "machines" if (checkout / "pyproject.toml").is_file() else None


def _doubled_titles(entries: dict[str, Entry]) -> list[str]:
    first: dict[str, Path] = {}
    return [
        f"{entry.path}: `title`: {earlier} has the title {entry.profile.title!r} too"
        for entry in entries.values()
        if (earlier := first.setdefault(entry.profile.title, entry.path)) != entry.path
    ]
