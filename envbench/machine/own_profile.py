"""A profile for this machine, made from its fingerprint where no file fits."""

from __future__ import annotations

import re

from msgspec.structs import replace

from envbench.errors import UnknownName
from envbench.machine.known_profiles import catalogue, profile
from envbench.machine.profile_file import CPU_SIZES, GPU_SIZES, LONGEST_NAME, Match, Profile, Table
from envbench.model import Fingerprint
from envbench.text import one_line

ATARI_ROWS = ["for-loop", "subprocess", "sample-factory", "envpool-sync", "envpool-async"]
MUJOCO_ROWS = [*ATARI_ROWS, "envpool-numa"]
ACCELERATOR_ROWS = ["brax", "isaac-gym"]
PHYSICS_ROWS = ["mujoco-rollout", "mjx", "mujoco-warp", "genesis"]
_SMALLEST_TOP = 12
_NOISE = re.compile(r"\((?:R|TM|C)\)|@.*$|\b(?:CPU|Processor|\d+-Core)\b|[<>|]", re.IGNORECASE)


def choose(name: str | None, found: Fingerprint) -> Profile:
    """The named profile; without a name the one that fits, else the host's own.

    The host's own profile can be named too, although it has no file: results are stored under
    its name.
    """
    if name is None and (fitting := catalogue().matching(found)):
        return fitting
    host = profile_for_host(found)
    wanted = host.name if name is None else name
    try:
        return profile(wanted)
    except UnknownName:
        if wanted == host.name:
            return host
        raise


def profile_for_host(found: Fingerprint) -> Profile:
    """A profile named after the hardware (``amd-epyc-2-core``), the same for equal hardware."""
    found = _clean(found)
    whole = found.usable_cpus == found.logical_cpus
    share = f"{found.logical_cpus}" if whole else f"{found.usable_cpus} of {found.logical_cpus}"
    cpu = _model(found.cpu)
    ladder = default_ladder(found.usable_cpus)
    cards = "".join(f", {found.gpus.count(gpu)} x {gpu}" for gpu in dict.fromkeys(found.gpus))
    sizes = GPU_SIZES if found.gpus else CPU_SIZES
    slug = re.sub(r"[^a-z0-9]+", "-", cpu.lower()).strip("-")[:40].strip("-") or "machine"
    return Profile(
        name=f"{slug}-{share.replace(' ', '-')}-core",
        title=f"{cpu}, {share} core{'' if share == '1' else 's'}",
        hardware=f"{share} core {found.cpu}{cards}"[:300].strip(),
        match=Match(
            cpu=found.cpu,
            cores=found.logical_cpus,
            usable=None if whole else found.usable_cpus,
            gpu=found.gpus[0] if found.gpus else None,
        ),
        atari=Table(numenv=ladder, rows=ATARI_ROWS),
        mujoco=Table(numenv=ladder, rows=MUJOCO_ROWS),
        accelerators=Table(numenv=sizes, rows=ACCELERATOR_ROWS),
        physics=Table(numenv=sizes, rows=PHYSICS_ROWS),
    )


def default_ladder(cores: int) -> list[int]:
    """The numenv ladder for a number of logical CPUs.

    Powers of two, then equal steps (a sixth to a twelfth of the CPUs) up to all CPUs; below 128
    CPUs also one and a half steps. Under 12 CPUs the ladder is that of 12, because small
    machines are used with batches larger than their cores. For 12, 96, 192 and 256 CPUs it gives
    the ladders of the tables that envbench first reproduced.
    """
    top = min(max(cores, _SMALLEST_TOP), 1_000_000)
    step = 1 << ((top // 6).bit_length() - 1)
    powers = {1 << n for n in range(step.bit_length() + 1)}
    between = {step * 3 // 2} if top < 128 else set()
    return sorted(powers | between | set(range(2 * step, top, step)) | {top})


def _clean(found: Fingerprint) -> Fingerprint:
    """A fingerprint may come from a stranger's results, or from odd firmware."""
    gpus = [one_line(gpu, LONGEST_NAME) or "unknown" for gpu in found.gpus]
    return replace(found, cpu=one_line(found.cpu, LONGEST_NAME) or "unknown", gpus=gpus)


def _model(cpu: str) -> str:
    """The CPU's name without trademarks and clock rate, fit for a title."""
    bare = re.sub(r"-{2,}", "-", _NOISE.sub(" ", cpu))
    return " ".join(bare.split())[:50].strip(" -,") or "Machine"
