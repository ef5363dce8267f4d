"""How a task is made with Gymnasium, for the backends that vectorise Gymnasium environments.

Reference settings (docs/measurement): Pong with frame_skip 4 and max-pooling, grey 84×84 by area
resizing, a stack of 4, up to 30 no-ops, no fire at reset, no sticky actions, no episodic life, no
reward clipping, the minimal action set, at most 108,000 frames an episode. ``Ant-v3`` is no
longer in Gymnasium: ``Ant-v4`` with ``use_contact_forces=True`` stands in (the same 111
observations; it also computes the contact forces that v3 leaves at zero).

Where backends are compared (mode verify) an episode starts without noise: a game after exactly
one no-op (AtariPreprocessing draws from 1 to ``noop_max``), a robot in its model's initial state.
"""

from __future__ import annotations

import inspect
import warnings
from functools import partial
from importlib import import_module
from multiprocessing import parent_process
from typing import Any, Callable, Dict, List, Tuple

import gymnasium
from gymnasium.envs.registration import load_env_creator

from envbench_worker import lifetime
from envbench_worker.adapters import gymnasium_audit
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
    if job.family == "mujoco":
        contact = job.task == "Ant-v3" and job.settings.get("contact_forces", True)
        identifier = job.task[:-1] + "4" if job.task.endswith("-v3") else job.task
        return identifier, {"use_contact_forces": True} if contact else {}
    return job.task, {}


def has_fixed_start(job: Job) -> bool:
    """Can every episode start alike? A task of the user's own has its seeds for that."""
    return job.family != "mujoco" or _takes_noise(gym_id(job)[0])


def _takes_noise(identifier: str) -> bool:
    creator = load_env_creator(gymnasium.spec(identifier).entry_point)
    return "reset_noise_scale" in inspect.signature(creator).parameters


def _without_noise(job: Job) -> Dict[str, Any]:
    """More arguments, where episodes are to start alike."""
    if job.mode == "verify" and job.family == "mujoco" and _takes_noise(gym_id(job)[0]):
        return {"reset_noise_scale": 0.0}
    return {}


def maker(job: Job) -> Callable[[], Any]:
    """A function without arguments that makes one environment; it can be pickled."""
    return partial(_make, job)


def _make(job: Job) -> Any:
    if parent_process() is not None:  # a process of a vectoriser, which may have been spawned
        lifetime.end_with_parent()
    _register(job)
    identifier, kwargs = gym_id(job)
    kwargs.update(_without_noise(job))
    with warnings.catch_warnings():
        # "Ant-v4 is out of date": known, and said in the report.
        warnings.simplefilter("ignore", DeprecationWarning)
        env = gymnasium.make(identifier, **kwargs)
    if job.family == "atari":
        env = _preprocessed(env, job)
    return gymnasium_audit.Counted(env, job) if job.mode == "verify" else env


def preprocessing(job: Job) -> Dict[str, Any]:
    """The arguments of AtariPreprocessing, the same in every release of Gymnasium."""
    return {
        "noop_max": 1 if job.mode == "verify" else 30,
        "frame_skip": int(job.frame_skip),
        "screen_size": 84,
        "terminal_on_life_loss": False,
        "grayscale_obs": True,
        "scale_obs": False,
    }


def _preprocessed(env: Any, job: Job) -> Any:
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

    return FrameStackObservation(AtariPreprocessing(env, **preprocessing(job)), 4)


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
    """For the record: what is made for measuring, read off one more environment afterwards."""
    identifier, kwargs = gym_id(job)
    facts: Dict[str, Any] = {"library_task": identifier, "library_arguments": kwargs}
    if job.family == "gym":  # making a stranger's environment once more may cost or do anything
        return dict(facts, work={})
    env = _make(job._replace(mode="measure"))
    facts["work"] = work = gymnasium_audit.work(env, job.family)
    if job.family == "atari":
        facts["preprocessing"] = "AtariPreprocessing(noop_max=30, area 84x84 grey), stack of 4"
    if job.family == "mujoco":
        facts.update(physics_timestep_s=work["timestep_s"], substeps=work["substeps"])
    env.close()
    return facts
