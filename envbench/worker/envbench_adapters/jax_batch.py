"""The shared base of brax and mjx: a batch on a JAX device, stepped by one program.

``mode`` scan: one call makes many steps on the device, with actions from a bank on the device. One
program makes a variable number of chunks of ``CHUNK`` steps, another makes the remaining steps,
because XLA compiles a single loop of any length to slower code (see
``tests/benchmarks/loop_cost_jax.py``).
``mode`` step: one call is one step, and its actions come from the host. In both modes Python waits
for the device once, at the end of ``run``.

A scan donates its state and tally, as Brax's own training does: the program may overwrite them, so
only the returned state is valid afterwards. A call of mode step donates nothing, because a learner
still uses the observations in that state. On a CPU donation made no difference, within 2 %
(``tests/benchmarks/donation_jax.py``).

Programs are compiled ahead of time and refuse arguments of other shapes, so they are never
recompiled. ``facts`` reports how many programs XLA compiled, by its own events. A learner does not
need the program for the remaining steps, so ``prepare`` compiles it.

Each step adds a part of every result to a tally. So nothing is optimised away, and a state that is
not finite shows at the end.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from functools import partial
from itertools import cycle, islice
from typing import Any, Dict, List, Optional, Tuple

import jax
import numpy as np
from envbench_worker import actions
from envbench_worker.contract import Adapter

COMPILED = "/jax/core/compile/backend_compile_duration"
CHUNK = 8  # steps of a loop of fixed length


class JaxBatch(Adapter):
    """A backend whose environments are one pytree, stepped by a pure function.

    ``build`` has to call ``draw``. ``nothing`` is the tally before the first step.
    """

    donated: Tuple[int, ...] = (0, 1)  # arguments of a scan: state and tally
    nothing: Any

    @abstractmethod
    def initial(self) -> Any:
        """Return the initial state of the environments, on the device."""

    @abstractmethod
    def step(self, state: Any, batch: Any) -> Any:
        """Traced: the state after one action per environment."""

    @abstractmethod
    def tallied(self, tally: Any, state: Any) -> Any:
        """Traced: the tally with the results of a step added."""

    def draw(self, space: Any) -> None:
        """Draw the actions, for an environment with this action space."""
        job = self.job
        self.bank = actions.of_job(space, job)
        self.scan = job.settings["mode"] == "scan"
        self.first_calls = CHUNK if self.scan else 1
        self.single_steps = "" if self.scan else "calls"
        self.on_device = jax.device_put(np.stack(self.bank)) if self.scan else None
        self.batches = cycle(self.bank)
        self.at = 0
        self.programs: Dict[int, Any] = {}  # by steps per chunk, the longest first
        self.compile_s: Dict[str, float] = {}
        self.compiled: List[float] = []
        jax.block_until_ready(self.on_device)

    def _heard(self, event: str, seconds: float, **_: Any) -> None:
        if event == COMPILED:
            self.compiled.append(seconds)

    def compile(self) -> None:
        self.state = jax.block_until_ready(self.initial())
        jax.monitoring.register_event_duration_secs_listener(self._heard)
        self._compile(self.first_calls)

    def prepare(self) -> None:
        if self.scan:
            self._compile(1)

    def _compile(self, length: int) -> None:
        start = time.perf_counter()
        self.programs[length] = self.program(length)
        self.compile_s[str(length)] = time.perf_counter() - start

    def advance(self, calls: int) -> Any:
        """Make ``calls`` steps of every environment; return their tally, on the host."""
        tally = self._scanned(calls) if self.scan else self._stepped(calls)
        jax.block_until_ready((self.state, tally))
        return jax.device_get(tally)

    def _scanned(self, calls: int) -> Any:
        state, tally, at = self.state, self.nothing, self.at
        self.at = (at + calls) % len(self.bank)
        for length, program in self.programs.items():
            chunks, calls = divmod(calls, length)
            if chunks:
                where = np.int32(at % len(self.bank))
                state, tally = program(state, tally, self.on_device, where, np.int32(chunks))
                at += chunks * length
        self.state = state
        return tally

    def _stepped(self, calls: int) -> Any:
        program, state, tally = self.programs[1], self.state, self.nothing
        for batch in islice(self.batches, calls):
            state, tally = program(state, tally, batch)
        self.state = state
        return tally

    def program(self, length: int) -> Any:
        nothing, zero = self.nothing, np.int32(0)
        if not self.scan:
            return jax.jit(self._once).lower(self.state, nothing, self.bank[0]).compile()
        loop = jax.jit(partial(self._loop, length), donate_argnums=self.donated)
        return loop.lower(self.state, nothing, self.on_device, zero, zero).compile()

    def _once(self, state: Any, tally: Any, batch: Any) -> Any:
        state = self.step(state, batch)
        return state, self.tallied(tally, state)

    def _loop(self, length: int, state: Any, tally: Any, bank: Any, at: Any, chunks: Any) -> Any:
        def one(call: Any, carry: Any) -> Any:
            state, tally = carry
            return self._once(state, tally, bank[call % len(bank)])

        def chunk(index: Any, carry: Any) -> Any:
            first = at + index * length
            return jax.lax.fori_loop(0, length, lambda i, each: one(first + i, each), carry)

        return jax.lax.fori_loop(0, chunks, chunk, (state, tally))

    def described(
        self, seen: Any, autoreset: str, work: Dict[str, Any], **more: Any
    ) -> Dict[str, Any]:
        """``common_facts`` with what every JAX program reports."""
        device = jax.devices()[0]
        return self.common_facts(
            seen,
            autoreset,
            work,
            "device",
            actions_are="on the device" if self.scan else "on the host, uploaded each step",
            mode=self.job.settings["mode"],
            platform=device.platform,
            device=device.device_kind,
            devices="1 of {}".format(len(jax.devices())),
            threads="XLA's choice, as many as cores",
            jax=jax.__version__,
            matmul_precision=str(jax.config.jax_default_matmul_precision),
            compile_cache=bool(jax.config.jax_compilation_cache_dir),
            compile_s=self.compile_s,
            programs_compiled=len(self.compiled),
            **more,
        )

    def gpu_memory(self) -> Optional[int]:
        device = jax.devices()[0]
        if device.platform != "gpu":
            return None
        peak = (device.memory_stats() or {}).get("peak_bytes_in_use")
        return None if peak is None else int(peak)
