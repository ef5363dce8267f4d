"""What every env family is to the adapters that make its environments.

A family's methods import what they need: an adapter's interpreter has its own library only. The
defaults are those of any task that Gymnasium makes by its id.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

from envbench_worker.contract import Job, UnknownTaskError


class Family:
    """One job's env family. ``entry_points``: where Gymnasium's own tasks of it are defined.

    ``agrees_throughout``: two libraries agree until an episode's end, not for some steps only.
    ``whole_step``: frames of a step that the end of an episode may cut short; 0: none does.
    """

    entry_points = ""
    agrees_throughout = False
    envpool_module = ""
    whole_step = 0.0

    def __init__(self, job: Job) -> None:
        self.job = job

    # ------------------------------------------------------------ Gymnasium

    def register(self) -> None:
        """Import what the tasks need, so that what is missing shows before anything is built."""

    def tasks(self) -> List[str]:
        """The tasks that Gymnasium can make, under this project's names."""
        import gymnasium

        every = gymnasium.registry
        return sorted(i for i in every if self.entry_points in str(every[i].entry_point))

    def probe(self) -> None:
        """Raise ``UnknownTaskError`` unless the task can be made."""
        import gymnasium

        self.register()
        if self.gym_id()[0] not in gymnasium.registry or self.job.task not in self.tasks():
            raise UnknownTaskError(self.job.task, self.tasks())

    def gym_id(self) -> Tuple[str, Dict[str, Any]]:
        """The id and keyword arguments that ``gymnasium.make`` gets."""
        return self.job.task, {}

    def make(self) -> Any:
        """One environment, as it is measured; in mode verify, as it starts for a comparison."""
        import gymnasium

        self.register()
        identifier, arguments = self.gym_id()
        if self.job.mode == "verify":
            arguments = dict(arguments, **(self.noiseless() or {}))
        return self.prepared(gymnasium.make(identifier, **arguments))

    def prepared(self, env: Any) -> Any:
        """The environment with the family's usual preprocessing."""
        return env

    def noiseless(self) -> Optional[Dict[str, Any]]:
        """Arguments with which every episode starts alike; None where there are none.

        A family whose starts cannot be set, or are taken from an observation, needs none: {}.
        """
        return {}

    def set_start(self, env: Any, observation: Any) -> None:
        """Put an environment into the state that an observation shows."""
        raise NotImplementedError

    def clock(self, env: Any) -> Optional[Callable[[], float]]:
        """The environment's own count of frames; None where it has none. Here: a time limit's."""
        if not env.has_wrapper_attr("_elapsed_steps"):
            return None
        skip = self.job.frame_skip
        return lambda: float(env.get_wrapper_attr("_elapsed_steps") or 0) * skip

    def work(self, env: Any) -> Dict[str, Any]:
        """What one step is, by the names in the family's file in ``envbench.families``."""
        return {"max_steps": env.spec.max_episode_steps}

    def described(self) -> Dict[str, Any]:
        """For the record: what is made for measuring, read off one more environment."""
        env = type(self)(self.job._replace(mode="measure")).make()
        work = self.work(env)
        env.close()
        return {"work": work}

    # ------------------------------------------------------------ EnvPool

    def envpool_arguments(self) -> Dict[str, Any]:
        """More arguments of ``envpool.make``."""
        return {}

    def envpool_noiseless(self, config: Dict[str, Any]) -> Optional[Dict[str, Any]]:
        """As ``noiseless``; ``config`` is the task's own."""
        return {}

    def envpool_work(self, config: Dict[str, Any]) -> Dict[str, Any]:
        """What one step is, by EnvPool's configuration."""
        return {"max_steps": config["max_episode_steps"]}

    def envpool_frames(self, work: Dict[str, Any]) -> Optional[float]:
        """Frames in one step, by what EnvPool says of it; None where it says nothing."""
        return float(self.job.frame_skip)

    def flat(self, observations: Any) -> Any:
        """EnvPool's batch of observations as one array of (environments, …)."""
        return observations
