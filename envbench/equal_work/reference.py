"""PURE: what one step is, by family: the reference, and how a backend's work differs from it.

An adapter's ``facts()["work"]`` says what it does by these names; what it leaves out is unknown
and told as such. Values are plain JSON. ``None`` in a reference: any value will do, but it is
shown (an engine's name, say).

atari: ``frame_skip`` emulator frames a step, ``max_pool`` how many of the last are pooled,
``resize`` (area, bilinear), ``grayscale``, ``screen`` [height, width], ``stack`` frames an
observation, ``noop_max`` no-ops at a reset at most, ``fire_reset``, ``sticky`` probability,
``episodic_life``, ``reward_clip``, ``action_set`` (minimal, full), ``max_frames`` an episode.

mujoco: ``engine``, ``timestep_s`` and ``substeps`` (their product is the control step),
``integrator`` (RK4, Euler, implicitfast …), ``solver`` (Newton, CG …), ``iterations`` at most,
``precision`` (float64, float32), ``contact_forces`` computed for the observation,
``terminates`` when unhealthy, ``max_steps`` an episode; for physics alone only the first six.

both: ``autoreset`` (next-step, same-step, none), ``observation_shape``, ``observation_dtype``,
``returned_to`` (host, device).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envbench.model import DEFAULT_TASK, Family, Kind

_ATARI = {
    "frame_skip": 4,
    "max_pool": 2,
    "resize": "area",
    "grayscale": True,
    "screen": [84, 84],
    "stack": 4,
    "noop_max": 30,
    "fire_reset": False,
    "sticky": 0.0,
    "episodic_life": False,
    "reward_clip": False,
    "action_set": "minimal",
    "max_frames": 108_000,
}
_PHYSICS = {
    "engine": None,
    "timestep_s": 0.01,
    "substeps": 5,
    "integrator": "RK4",
    "solver": "Newton",
    "iterations": 100,
    "precision": "float64",
}
_ANT = {**_PHYSICS, "contact_forces": False, "terminates": True, "max_steps": 1000}
_RETURNS = {"autoreset": "next-step", "returned_to": "host"}
REFERENCE: dict[tuple[Family, Kind], dict[str, Any]] = {
    ("atari", "env"): {
        **_ATARI,
        **_RETURNS,
        "observation_shape": [4, 84, 84],
        "observation_dtype": "uint8",
    },
    ("mujoco", "env"): {
        **_ANT,
        **_RETURNS,
        "observation_shape": [111],
        "observation_dtype": "float64",
    },
    ("mujoco", "physics"): dict(_PHYSICS),
}


# What a step computes all the same: it is told, and does not make it other work.
TOLD = {"engine", "contact_forces", "precision", "observation_dtype", *_RETURNS}

# Of another task than the family's default, what its reference has whatever the task.
ANY_TASK = {
    "atari": {*_ATARI, *_RETURNS, "observation_shape", "observation_dtype"},
    "mujoco": {"engine", "precision", "observation_dtype", *_RETURNS},
}


def differences(
    family: Family, kind: Kind, work: Mapping[str, Any], *, task: str = ""
) -> dict[str, tuple[Any, Any]]:
    """What differs from the family's reference: name -> (the reference's, the backend's).

    A name that the backend does not tell is listed with ``"unknown"``. ``task`` empty: the
    family's default.
    """
    reference = REFERENCE.get((family, kind), {})
    if task and task != DEFAULT_TASK.get(family):
        kept = ANY_TASK.get(family, set())
        reference = {name: wanted for name, wanted in reference.items() if name in kept}
    found = {name: (wanted, work.get(name, "unknown")) for name, wanted in reference.items()}
    return {
        name: pair
        for name, pair in found.items()
        if (pair[0] is None and pair[1] == "unknown") or (pair[0] is not None and not _same(*pair))
    }


def other_work(family: Family, kind: Kind, work: Mapping[str, Any], *, task: str = "") -> set[str]:
    """The names in which a backend says that its step computes something else."""
    apart = differences(family, kind, work, task=task)
    return {name for name, (_, own) in apart.items() if own != "unknown"} - TOLD


def _same(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, float) and isinstance(found, int | float):
        return abs(wanted - found) < 1e-9
    return bool(wanted == found) and isinstance(wanted, bool) == isinstance(found, bool)
