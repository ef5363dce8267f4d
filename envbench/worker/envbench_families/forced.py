"""Mode verify: an environment of the reference that follows another backend's trace."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Tuple

# Observation, reward, did the episode end, and did only a time limit end it?
Outcome = Tuple[Any, float, bool, bool]


class Forced:
    """Starts each episode as the trace does, and gets the same actions.

    This one starts from the same seed, and then steps and resets freely. ``within``: how many
    episodes ended in the latest row before its last step. ``begun``: how the trace's episodes
    began, where that is compared; ``automatic``: which of them after the end of another.
    """

    within = 0

    def __init__(self, env: Any, seed: int) -> None:
        self.env = env
        self.seed: Any = seed
        self.begun: List[Any] = []
        self.automatic: List[bool] = []

    def begin(self, observation: Any, automatic: bool = True) -> Any:
        """Begin an episode that begins with this observation. Return the environment's own.
        ``automatic``: it follows the end of another, not a reset of all environments."""
        seed, self.seed = self.seed, None
        return self.env.reset(seed=seed)[0]

    def enter(self, observation: Any) -> Any:
        """Go on in the middle of an episode, in the state that this observation shows."""
        raise NotImplementedError

    def finish(self) -> None:
        """The trace is over."""

    def follow(
        self, before: Any, actions: List[Any], after: Any, same_step: bool, over: bool, resets: bool
    ) -> Optional[Outcome]:
        """Make the steps of one row, which the trace shows to lead from ``before`` to ``after``.

        Return the outcome of the last one. None: the state before or within the row is unknown.
        ``same_step``: environments reset in the step that ends an episode, not in the one after it.
        ``over``: by the trace, the last step ends an episode. ``resets``: an episode of some
        environment may have ended before that.
        """
        self.within, outcome = 0, None
        over = False  # from here on: does the next step only reset?
        for left, action in zip(range(len(actions) - 1, -1, -1), actions):
            if over:
                outcome, over = (self.begin(None), 0.0, False, False), False
                continue
            outcome = self.step(None, action, None, None)
            over = outcome[2] and left > 0
            self.within += over
            if over and same_step:
                self.begin(None)
                over = False
        return outcome

    def start(self) -> Any:
        """Begin an episode as when measuring. Return how it began, as in ``begun``."""
        return None

    def step(self, before: Any, action: Any, after: Any, over: Optional[bool]) -> Outcome:
        """Make one step, which the trace shows to lead from ``before`` (None: from wherever the
        environment is) to ``after`` (None: it does not show that). ``over``: by the trace, it ends
        an episode, or not (None: it does not say)."""
        observation, reward, terminated, truncated, _ = self.env.step(action)
        return (observation, float(reward), *ends(terminated, truncated))


class Restored(Forced):
    """Is put into states that the trace shows. ``lost``: it shows none, because an episode ended
    between two of its rows. The state is known again when the next episode begins."""

    lost = False
    unsure = False  # if the latest step ended an episode

    def follow(
        self, before: Any, actions: List[Any], after: Any, same_step: bool, over: bool, resets: bool
    ) -> Optional[Outcome]:
        self.within = 0
        if self.lost:
            return None
        for action in actions[:-1]:
            if self.step(before, action, None, None if resets else False)[2]:
                self.lost, self.within = True, int(not self.unsure)
                return None
            before = None
        return self.step(before, actions[-1], after, over)


class FromState(Restored):
    """Is put into the state of the trace before each step.

    ``put``: sets the state that an observation shows. Its second argument says if an episode
    begins.
    """

    def __init__(self, env: Any, seed: int, put: Callable[[Any, bool], None]) -> None:
        super().__init__(env, seed)
        self.put = put

    def begin(self, observation: Any, automatic: bool = True) -> Any:
        self.lost = False
        super().begin(observation)
        self.put(observation, True)
        self.begun.append(observation)
        self.automatic.append(automatic)
        return observation

    def enter(self, observation: Any) -> Any:
        self.lost = False
        super().begin(observation)
        self.put(observation, False)
        return observation

    def start(self) -> Any:
        return self.env.reset()[0]

    def step(self, before: Any, action: Any, after: Any, over: Optional[bool]) -> Outcome:
        if before is not None:
            self.put(before, False)
        return super().step(before, action, after, over)


def ends(terminated: Any, truncated: Any) -> Tuple[bool, bool]:
    """Did the episode end, and did only a time limit end it?"""
    return bool(terminated or truncated), bool(truncated and not terminated)
