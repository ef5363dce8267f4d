"""Mode verify, for several adapters: drive or predict environments, count their steps again."""

from __future__ import annotations

from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, Callable, List, Tuple

import numpy as np
from envbench_worker.contract import Adapter, Trace

if TYPE_CHECKING:  # Isaac Gym's interpreter has no Gymnasium, which families import
    from envbench_families.forced import Forced


def follow(
    adapter: Adapter, step: Callable[[Any], Any], calls: int, first: Any, flat: Callable[[Any], Any]
) -> Trace:
    """Step a vector of environments through the bank, from their ``first`` observations. ``flat``
    makes an array of observations."""
    kept, start = range(calls)[: adapter.job.observed], np.array(first)[None]
    observations, outcomes, held, reused = [], [], np.asarray(first), False
    before = start[0]
    for call, batch in enumerate(islice(cycle(adapter.bank), calls)):
        seen, *outcome = step(batch)[:4]
        outcomes.append([np.array(each) for each in outcome])
        reused = reused or held.tobytes() != before.tobytes()
        held = flat(seen)
        before = np.array(held)
        if call in kept:
            observations.append(before)
    rewards, terminated, truncated = (np.stack(each) for each in zip(*outcomes))
    return Trace(np.stack(observations), rewards, terminated | truncated, start, reused=reused)


def predict(given: Trace, bank: List[Any], environments: List[Forced]) -> Trace:
    """What each step of a trace should have given, by one environment per column."""
    columns = [_column(given, bank, index, each) for index, each in enumerate(environments)]
    start, observations, rewards, ended = (np.stack(each, axis=1) for each in zip(*columns))
    return Trace(observations, rewards, ended, start, given.same_step)


def _column(given: Trace, bank: List[Any], index: int, environment: Forced) -> Tuple[Any, ...]:
    """The start, observations, rewards and ends of one environment, as arrays."""
    before = given.start[0, index]
    start, rows = environment.begin(before), []
    resets = False  # does the next step only reset?
    for call, (seen, over) in enumerate(zip(given.observations[:, index], given.ended[:, index])):
        if resets:
            rows.append((environment.begin(seen), 0.0, False))
        else:
            found = environment.step(before, bank[call % len(bank)][index], seen)
            if (over and given.same_step) or (found[2] and not over):
                found = (environment.begin(seen), *found[1:])
            rows.append(found)
        resets = bool(over) and not given.same_step
        before = seen
    return (np.stack([start]), *(np.stack(each) for each in zip(*rows)))


class AnyOrder:
    """A trace of environments 0 to numenv - 1, whose results arrive in any order.

    Further environments in flight repeat the actions of these. ``made`` counts the results of each
    environment's actions, and is -1 before its reset. ``seen`` is an observation or its space.
    """

    def __init__(self, adapter: Adapter, calls: int, seen: Any, made: Any) -> None:
        self.bank, self.calls, self.numenv = adapter.bank, calls, adapter.job.numenv
        self.made = made
        kept = len(range(calls)[: adapter.job.observed])
        self.trace = Trace(
            np.zeros((kept, self.numenv, *seen.shape), seen.dtype),
            np.zeros((calls, self.numenv)),
            np.zeros((calls, self.numenv), np.bool_),
            np.zeros((1, self.numenv, *seen.shape), seen.dtype),
        )

    def complete(self) -> bool:
        return self.calls == 0 or bool(self.made[: self.numenv].min() >= self.calls)

    def store(self, ids: Any, observations: Any, rewards: Any, ended: Any) -> None:
        """Store one batch of results: the k-th of an environment in row k - 1."""
        self.made[ids] += 1
        rows, traced = self.made[ids] - 1, ids < self.numenv
        first = traced & (rows == -1)
        self.trace.start[0, ids[first]] = observations[first]
        traced &= (rows >= 0) & (rows < self.calls)
        where = rows[traced], ids[traced]
        self.trace.rewards[where] = rewards[traced]
        self.trace.ended[where] = ended[traced]
        traced &= rows < len(self.trace.observations)
        self.trace.observations[rows[traced], ids[traced]] = observations[traced]

    def next_actions(self, ids: Any) -> Any:
        bank = self.bank
        return np.stack([bank[self.made[i] % len(bank)][i % self.numenv] for i in ids])


class Watched:
    """Environments whose own counters are noted after each result.

    ``name``: the counter's key in a result's info. ``counters``: of all environments at the start.
    """

    def __init__(self, envs: Any, name: str, counters: Any) -> None:
        self._envs, self._name, self._counters = envs, name, counters
        self._noted: List[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._envs, name)

    def step(self, *arguments: Any) -> Any:
        return self._note(self._envs.step(*arguments))

    def recv(self) -> Any:
        return self._note(self._envs.recv())

    def _note(self, result: Any) -> Any:
        ids, now = self.read(result)
        self._noted.append(int(self.made(self._counters[ids], now, result).sum()))
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
        return sum(self._noted[-calls:])
