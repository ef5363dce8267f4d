"""Mode verify, for several adapters: predict steps, collect results in any order, count again."""

from __future__ import annotations

from itertools import cycle, islice
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Any, List, Tuple

import numpy as np
from envbench_worker.contract import COUNTERS, LIBRARY, MOST_TRACED, Adapter, Trace

if TYPE_CHECKING:  # Isaac Gym's interpreter has no Gymnasium, which families import
    from envbench_families.forced import Forced


def predict(given: Trace, bank: List[Any], environments: List[Forced]) -> Trace:
    """What each step of a trace should have given, by one environment per traced one."""
    columns = [_column(given, bank, index, each) for index, each in enumerate(environments)]
    start, observations, rewards, *ends = (np.stack(each, axis=1) for each in zip(*columns))
    ended, truncated, within, lost = ends
    return Trace(
        observations,
        rewards,
        ended,
        start,
        given.same_step,
        truncated=truncated,
        resets=within.sum(axis=1),
        lost=lost,
    )


def _column(given: Trace, bank: List[Any], index: int, environment: Forced) -> Tuple[Any, ...]:
    """The start of one environment, then of each row its observation, its reward, if the episode
    ends, if only a time limit ends it, how many ended within the row, and if it was not followed;
    as arrays.

    A row may be several steps. If an episode ends before the last of them, the start of the next
    one was not seen. Then a reference that needs it returns the trace's own row, which agrees with
    itself. Of an episode that the trace enters in its middle, an observation does not show all: not
    how old it is, so its time limit is that of the trace; nor the bodies' positions in the last
    stage of the integrator, from which Ant's reward starts, so its first reward is the trace's.
    """
    before, rows, made = given.start[0, index], [], 0

    def kept(observation: Any) -> Any:
        """A copy, because the environment may change the array. A longer or shorter observation
        than the reference's may show the same state: then both are cut to the same length."""
        array = np.array(observation)
        return array[:width] if array.ndim == 1 else array

    width = min([len(before), *environment.env.observation_space.shape]) if before.ndim == 1 else 0
    own, count = given.actions, len(given.observations)
    last_steps = range(count) if given.at is None else given.at
    restarted, entered = given.restarted, given.entered
    # Does the trace enter the episode in its middle, and is the next step the first one after that?
    midway = enters = given.over is not None and not given.over[index]
    # Does the next step only reset?
    resets = given.over is not None and not midway and not given.same_step
    start = environment.begin(before, False) if given.over is None else environment.enter(before)
    start = kept(start)
    for row, last in enumerate(last_steps[:count]):
        seen, over = given.observations[row, index], bool(given.ended[row, index])
        if entered is not None and entered[row]:
            rows.append((kept(environment.enter(seen)), 0.0, over, False, 0, False))
            midway = enters = not over
        elif resets or (restarted is not None and restarted[row]):
            automatic = restarted is None or not restarted[row]
            begun = kept(environment.begin(seen, automatic))
            rows.append((begun, 0.0, False, False, 0, False))
            midway = False
        else:
            actions = [
                bank[call % len(bank)][index] if own is None else own[call, index]
                for call in range(made, last + 1)
            ]
            resets = given.resets is None or bool(given.resets[row])
            found = environment.follow(before, actions, seen, given.same_step, over, resets)
            lost = found is None
            if found is None:
                cut = given.truncated is not None and bool(given.truncated[row, index])
                found = (seen, float(given.rewards[row, index]), over, cut)
            if midway and over and not found[2] and given.truncated[row, index]:
                found = (*found[:2], True, True)
            if enters:
                found = (found[0], float(given.rewards[row, index]), *found[2:])
            if (over and given.same_step) or (found[2] and not over):
                found = (environment.begin(seen), *found[1:])
            midway, enters = midway and not over, False
            rows.append((kept(found[0]), *found[1:], environment.within, lost))
        resets = over and not given.same_step
        before, made = seen, last + 1
    environment.finish()
    return (np.stack([start]), *(np.stack(each) for each in zip(*rows)))


class AnyOrder:
    """A trace of environments whose results arrive in any order.

    It has as many as a batch (at most ``MOST_TRACED``), drawn at random from all in flight. Each
    gets the actions of one column; the others repeat them. ``made`` counts the results of each
    environment's actions, and is -1 before its reset. ``seen`` is an observation or its space.
    """

    def __init__(self, adapter: Adapter, calls: int, seen: Any) -> None:
        instances, numenv = adapter.job.env_instances, min(adapter.job.numenv, MOST_TRACED)
        self.bank, self.calls = adapter.bank, calls
        self.made = np.full(instances, -1)
        # Where episodes are compared, the first steps are repeated by the same environments.
        repeats = adapter.job.observed is not None
        draw = Random(adapter.job.seed) if repeats else SystemRandom()
        self.traced = np.array(sorted(draw.sample(range(instances), numenv)))
        self.column = np.arange(instances) % adapter.job.numenv
        self.column[self.traced] = np.arange(numenv)
        self.is_traced = np.isin(np.arange(instances), self.traced)
        kept = len(range(calls)[: adapter.job.observed])
        self.trace = Trace(
            np.zeros((kept, numenv, *seen.shape), seen.dtype),
            np.zeros((calls, numenv)),
            np.zeros((calls, numenv), np.bool_),
            np.zeros((1, numenv, *seen.shape), seen.dtype),
            truncated=np.zeros((calls, numenv), np.bool_),
            columns=self.traced,
            actions=np.array([each[:numenv] for each in islice(cycle(self.bank), calls)]),
        )

    def complete(self) -> bool:
        return self.calls == 0 or bool(self.made[self.traced].min() >= self.calls)

    def begin(self, ids: Any, observations: Any) -> None:
        """Store the observations of resets."""
        traced = self.is_traced[ids]
        self.made[ids] = 0
        self.trace.start[0, self.column[ids[traced]]] = observations[traced]

    def store(
        self, ids: Any, observations: Any, rewards: Any, terminated: Any, truncated: Any
    ) -> None:
        """Store one batch of results: the k-th of an environment in row k - 1."""
        begins = self.made[ids] == -1
        self.begin(ids[begins], observations[begins])
        self.made[ids[~begins]] += 1
        rows, columns = self.made[ids] - 1, self.column[ids]
        stored = self.is_traced[ids] & ~begins & (rows < self.calls)
        where = rows[stored], columns[stored]
        self.trace.rewards[where] = rewards[stored]
        self.trace.ended[where] = (terminated | truncated)[stored]
        self.trace.truncated[where] = (truncated & ~terminated)[stored]
        stored &= rows < len(self.trace.observations)
        self.trace.observations[rows[stored], columns[stored]] = observations[stored]

    def next_actions(self, ids: Any) -> Any:
        bank = self.bank
        return np.stack([bank[self.made[i] % len(bank)][self.column[i]] for i in ids])


class Watched:
    """Environments whose own counters are noted after each result.

    ``name``: the counter's key in a result's info. ``counters``: of all environments at the start.
    ``frames``: how many one of its counts is; ``seen_frames`` is the sum over all results.
    """

    counted_by = LIBRARY

    def __init__(self, envs: Any, name: str, counters: Any, frames: float = 1.0) -> None:
        self._envs, self._name, self._counters, self._frames = envs, name, counters, frames
        self._noted: List[int] = []
        self.seen_frames = 0.0
        COUNTERS.append(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._envs, name)

    def step(self, *arguments: Any) -> Any:
        return self._note(self._envs.step(*arguments))

    def recv(self) -> Any:
        return self._note(self._envs.recv())

    def _note(self, result: Any) -> Any:
        ids, now = self.read(result)
        self._noted.append(int(self.made(self._counters[ids], now, result).sum()))
        self.seen_frames += self._frames * self._noted[-1]
        self._counters[ids] = now
        return result

    def read(self, result: Any) -> Any:
        """Return the indices and the counters of the environments of a result."""
        return result[4]["env_id"], result[4][self._name]

    def made(self, before: Any, now: Any, result: Any) -> Any:
        """Steps of each environment, by counters that restart with an episode."""
        return np.where(now < before, now, now - before)

    def made_in(self, calls: int) -> int:
        """Return the sum over the latest ``calls`` results."""
        return sum(self._noted[len(self._noted) - calls :])
