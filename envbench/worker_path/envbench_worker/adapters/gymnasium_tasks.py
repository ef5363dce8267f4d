"""How a task is made with Gymnasium, for the backends that vectorise Gymnasium environments.

Reference settings (docs/measurement): Pong with frame_skip 4 and max-pooling, grey 84×84 by area
resizing, a stack of 4, up to 30 no-ops, no fire at reset, no sticky actions, no episodic life, no
reward clipping, the minimal action set, at most 108,000 frames an episode. ``Ant-v3`` is no
longer in Gymnasium: ``Ant-v4`` with ``use_contact_forces=True`` stands in (the same 111
observations; it also computes the contact forces that v3 leaves at zero).
"""

from __future__ import annotations

import warnings
from functools import partial
from importlib import import_module
from typing import Any, Callable, Dict, List, Tuple

import gymnasium

from envbench_worker.contract import Job, UnknownTaskError


def probe(job: Job) -> None:
    """Raise ``UnknownTaskError`` unless Gymnasium has the task."""
    _register(job)
    identifier, _ = gym_id(job)
    if job.family == "gym":
        _probe_own(identifier)
    elif identifier not in gymnasium.registry or job.task not in known(job.family):
        raise UnknownTaskError(job.task, known(job.family))


def _probe_own(identifier: str) -> None:
    """A task of the user's own; ``module:Name-v0`` is registered when its module is imported."""
    before = set(gymnasium.registry)
    module, colon, name = identifier.rpartition(":")
    if colon:
        import_module(module)
    own = [module + colon + new for new in sorted(set(gymnasium.registry) - before)]
    try:
        gymnasium.spec(name)
    except gymnasium.error.Error as error:
        raise UnknownTaskError(identifier, own or sorted(gymnasium.registry)) from error


def known(family: str) -> List[str]:
    """The tasks of a family that Gymnasium can make, under this project's names."""
    ids = sorted(gymnasium.registry)
    if family == "atari":
        return [i.split("/", 1)[1] for i in ids if i.startswith("ALE/") and i.endswith("-v5")]
    mujoco = [i for i in ids if "envs.mujoco" in str(gymnasium.registry[i].entry_point)]
    maintained = [i for i in mujoco if i.endswith(("-v4", "-v5"))]
    stand_ins = [i[:-1] + "3" for i in maintained if i.endswith("-v4")]
    return sorted(maintained + [i for i in stand_ins if i in gymnasium.registry])


def gym_id(job: Job) -> Tuple[str, Dict[str, Any]]:
    """The id and keyword arguments that ``gymnasium.make`` gets."""
    if job.family == "atari":
        return "ALE/" + job.task, {
            "frameskip": 1,
            "repeat_action_probability": 0.0,
            "full_action_space": False,
            "max_num_frames_per_episode": 108_000,
        }
    if job.family == "mujoco" and job.task.endswith("-v3"):
        contact = job.task == "Ant-v3" and job.settings.get("contact_forces", True)
        return job.task[:-1] + "4", {"use_contact_forces": True} if contact else {}
    return job.task, {}


def maker(job: Job) -> Callable[[], Any]:
    """A function without arguments that makes one environment; it can be pickled."""
    return partial(_make, job)


def _make(job: Job) -> Any:
    _register(job)
    identifier, kwargs = gym_id(job)
    with warnings.catch_warnings():
        # "Ant-v4 is out of date": known, and said in the report.
        warnings.simplefilter("ignore", DeprecationWarning)
        env = gymnasium.make(identifier, **kwargs)
    return _preprocessed(env, job) if job.family == "atari" else env


def _preprocessed(env: Any, job: Job) -> Any:
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

    env = AtariPreprocessing(
        env,
        noop_max=30,
        frame_skip=int(job.frame_skip),
        screen_size=84,
        terminal_on_life_loss=False,
        grayscale_obs=True,
        scale_obs=False,
    )
    return FrameStackObservation(env, 4)


def _register(job: Job) -> None:
    """Import what the family's tasks need: what is missing is told before anything is built."""
    if job.family == "atari":
        import ale_py
        import cv2  # noqa: F401 - by AtariPreprocessing

        gymnasium.register_envs(ale_py)
    if job.family == "mujoco":
        import imageio  # noqa: F401 - by Gymnasium's MuJoCo rendering, which its tasks import
        import mujoco  # noqa: F401


def described(job: Job) -> Dict[str, Any]:
    """For the record: exactly what was made."""
    identifier, kwargs = gym_id(job)
    facts: Dict[str, Any] = {"library_task": identifier, "library_arguments": kwargs}
    if job.family == "atari":
        facts["preprocessing"] = "AtariPreprocessing(noop_max=30, area 84x84 grey), stack of 4"
    if job.family == "mujoco":
        facts.update(_physics(job))
    return facts


def _physics(job: Job) -> Dict[str, Any]:
    """Read off one more environment, after everything was measured."""
    env = _make(job)
    unwrapped = env.unwrapped
    option = unwrapped.model.opt
    facts = {
        "physics_timestep_s": float(option.timestep),
        "substeps": int(unwrapped.frame_skip),
        "integrator": int(option.integrator),
        "solver": int(option.solver),
        "iterations": int(option.iterations),
    }
    env.close()
    return facts
