"""Mode verify: an environment of the reference that follows another backend's trace."""

from __future__ import annotations

from typing import Any, Callable, List, Tuple

# Observation, reward, did the episode end, and did only a time limit end it?
Outcome = Tuple[Any, float, bool, bool]


class Forced:
    """Starts each episode as the trace does, and gets the same actions.

    This one starts from the same seed, and then steps freely. ``lost``: it does not know the state
    of the trace's environment; one that can set states knows it when the next episode begins.
    """

    lost = False

    def __init__(self, env: Any, seed: int) -> None:
        self.env = env
        self.seed: Any = seed
        self.begun: List[Any] = []  # how the trace's episodes began, where that is compared

    def begin(self, observation: Any) -> Any:
        """Begin an episode that begins with this observation. Return the environment's own."""
        seed, self.seed = self.seed, None
        return observation if self.lost else self.env.reset(seed=seed)[0]

    def finish(self) -> None:
        """The trace is over."""

    def lose(self) -> None:
        """The trace does not show the state: an episode ended between two of its rows."""
        self.lost = True

    def start(self) -> Any:
        """Begin an episode as when measuring. Return how it began, as in ``begun``."""
        return None

    def step(self, before: Any, action: Any, after: Any) -> Outcome:
        """Make one step, which the trace shows to lead from ``before`` (None: from wherever the
        environment is) to ``after`` (None: it does not show that)."""
        observation, reward, terminated, truncated, _ = self.env.step(action)
        return (observation, float(reward), *ends(terminated, truncated))


class FromState(Forced):
    """Is put into the state of the trace before each step.

    ``put``: sets the state that an observation shows. Its second argument says if an episode
    begins.
    """

    def __init__(self, env: Any, seed: int, put: Callable[[Any, bool], None]) -> None:
        super().__init__(env, seed)
        self.put = put

    def begin(self, observation: Any) -> Any:
        self.lost = False
        super().begin(observation)
        self.put(observation, True)
        self.begun.append(observation)
        return observation

    def start(self) -> Any:
        return self.env.reset()[0]

    def step(self, before: Any, action: Any, after: Any) -> Outcome:
        if before is not None:
            self.put(before, False)
        return super().step(before, action, after)


def ends(terminated: Any, truncated: Any) -> Tuple[bool, bool]:
    """Did the episode end, and did only a time limit end it?"""
    return bool(terminated or truncated), bool(truncated and not terminated)
