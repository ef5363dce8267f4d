"""Mode verify, for several adapters: predict steps, collect results in any order, count again."""

from __future__ import annotations

from itertools import cycle, islice
from random import SystemRandom
from typing import TYPE_CHECKING, Any, List, Tuple

import numpy as np
from envbench_worker.contract import COUNTERS, MOST_TRACED, Adapter, Trace

if TYPE_CHECKING:  # Isaac Gym's interpreter has no Gymnasium, which families import
    from envbench_families.forced import Forced


def predict(given: Trace, bank: List[Any], environments: List[Forced]) -> Trace:
    """What each step of a trace should have given, by one environment per traced one."""
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
            own = given.actions
            action = bank[call % len(bank)][index] if own is None else own[call, index]
            found = environment.step(before, action, seen)
            if (over and given.same_step) or (found[2] and not over):
                found = (environment.begin(seen), *found[1:])
            rows.append(found)
        resets = bool(over) and not given.same_step
        before = seen
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
        self.traced = np.array(sorted(SystemRandom().sample(range(instances), numenv)))
        self.column = np.arange(instances) % adapter.job.numenv
        self.column[self.traced] = np.arange(numenv)
        self.is_traced = np.isin(np.arange(instances), self.traced)
        kept = len(range(calls)[: adapter.job.observed])
        self.trace = Trace(
            np.zeros((kept, numenv, *seen.shape), seen.dtype),
            np.zeros((calls, numenv)),
            np.zeros((calls, numenv), np.bool_),
            np.zeros((1, numenv, *seen.shape), seen.dtype),
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

    def store(self, ids: Any, observations: Any, rewards: Any, ended: Any) -> None:
        """Store one batch of results: the k-th of an environment in row k - 1."""
        begins = self.made[ids] == -1
        self.begin(ids[begins], observations[begins])
        self.made[ids[~begins]] += 1
        rows, columns = self.made[ids] - 1, self.column[ids]
        stored = self.is_traced[ids] & ~begins & (rows < self.calls)
        where = rows[stored], columns[stored]
        self.trace.rewards[where] = rewards[stored]
        self.trace.ended[where] = ended[stored]
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
