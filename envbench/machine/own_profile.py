"""A profile for this machine, made from its fingerprint where no file has one."""

from __future__ import annotations

import re

from msgspec.structs import replace

from envbench.errors import UnknownName
from envbench.machine.known_profiles import catalogue, profile
from envbench.machine.profile_file import CPU_SIZES, GPU_SIZES, Match, Profile, Table
from envbench.model import Fingerprint
from envbench.text import one_line

ATARI_ROWS = ("for-loop", "subprocess", "sample-factory", "envpool-sync", "envpool-async")
MUJOCO_ROWS = (*ATARI_ROWS, "envpool-numa")
ACCELERATOR_ROWS = ("brax", "isaac-gym")
PHYSICS_ROWS = ("mujoco-rollout", "mjx", "mujoco-warp", "genesis")
_SMALLEST_TOP = 12
_NOISE = re.compile(r"\((?:R|TM|C)\)|@.*$|\b(?:CPU|Processor|\d+-Core)\b", re.IGNORECASE)


def choose(name: str | None, found: Fingerprint) -> Profile:
    """The profile to measure under: the one named, else the one that fits, else the host's.

    The host's own can be named too, though no file has it: results bear that name.
    """
    host = profile_for_host(found)
    fitting = catalogue().matching(found) if name is None else None
    if fitting:
        return fitting
    try:
        return profile(host.name if name is None else name)
    except UnknownName:
        if name in (None, host.name):
            return host
        raise


def profile_for_host(found: Fingerprint) -> Profile:
    """A profile named after the hardware (``amd-epyc-2-core``), the same for equal hardware."""
    found = _clean(found)
    cpu, share = _model(found), _share(found)
    ladder = default_ladder(found.usable_cpus)
    cards = "".join(f", {found.gpus.count(gpu)} x {gpu}" for gpu in dict.fromkeys(found.gpus))
    sizes = GPU_SIZES if found.gpus else CPU_SIZES
    plural = "" if share == "1" else "s"
    return Profile(
        name=_slug(cpu, share),
        title=f"{cpu}, {share} core{plural}",
        hardware=f"{share} core {found.cpu}{cards}"[:300].strip(),
        match=host_matches(found),
        atari=Table(numenv=ladder, rows=list(ATARI_ROWS)),
        mujoco=Table(numenv=ladder, rows=list(MUJOCO_ROWS)),
        accelerators=Table(numenv=sizes, rows=list(ACCELERATOR_ROWS)),
        physics=Table(numenv=sizes, rows=list(PHYSICS_ROWS)),
    )


def host_matches(found: Fingerprint) -> Match:
    """A match for this hardware and no other."""
    whole = found.usable_cpus == found.logical_cpus
    return Match(
        cpu=found.cpu,
        cores=found.logical_cpus,
        usable=None if whole else found.usable_cpus,
        gpu=found.gpus[0] if found.gpus else None,
    )


def _clean(found: Fingerprint) -> Fingerprint:
    """A fingerprint may come from a stranger's results, or from odd firmware."""
    return replace(
        found,
        cpu=one_line(found.cpu, 300) or "unknown",
        gpus=[one_line(gpu, 300) or "unknown" for gpu in found.gpus],
    )


def default_ladder(cores: int) -> list[int]:
    """The numenv ladder that suits a number of logical CPUs, at least 12 of them.

    Powers of two, then equal steps (a sixth to a twelfth of the CPUs), up to all of them; under 128
    also one and a half steps. A smaller machine gets the ladder of 12, for a batch larger than
    the cores is how small machines are used. This rule gives the original document's ladders
    for its machines of 12, 96, 192 and 256.
    """
    top = min(max(cores, _SMALLEST_TOP), 1_000_000)
    step = 1 << ((top // 6).bit_length() - 1)
    powers = {1 << n for n in range(step.bit_length() + 1)}
    between = {step * 3 // 2} if top < 128 else set()
    return sorted(powers | between | set(range(2 * step, top, step)) | {top})


def _model(found: Fingerprint) -> str:
    """The CPU's name without its maker's ornaments, fit for a title."""
    bare = _NOISE.sub(" ", found.cpu)
    for mark in ("<", ">", "|"):
        bare = bare.replace(mark, " ")
    bare = " ".join(re.sub(r"-{2,}", "-", bare).split())[:50].strip(" -,")
    return bare or "Machine"


def _share(found: Fingerprint) -> str:
    whole = found.usable_cpus == found.logical_cpus
    return str(found.logical_cpus) if whole else f"{found.usable_cpus} of {found.logical_cpus}"


def _slug(cpu: str, share: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", cpu.lower()).strip("-")[:40].strip("-") or "machine"
    return f"{words}-{share.replace(' ', '-')}-core"
