"""Are the backends doing the same work? One verifying worker a backend, against the reference.

Each backend's environments start from the same fixed state, are led by the same actions, and then
have their steps counted twice (``envbench_worker.witness``). What comes back is compared with the
reference's by ``envbench.equivalence`` and with the reference's settings by ``envbench.ledger``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from envbench import equivalence, runtimes
from envbench.backends import get
from envbench.campaign import new_id, worker_hash
from envbench.equivalence import STANDARDS, Trace
from envbench.model import Agreement, Cell, Failure, RuntimeFact, Verification, Verify
from envbench.plan import order
from envbench.preflight import Ready, runtime_fact
from envbench.process import execute as runner


class Verifier:
    """Verifies cells one after another; keeps the traces of what others are compared with."""

    def __init__(
        self, ready: Mapping[tuple[str, str], Ready], fingerprint: str, seed: int, calls: int
    ) -> None:
        self.ready = ready
        self.fingerprint = fingerprint
        self.seed = seed
        self.verify = Verify(audit_calls=calls)
        self._traces: dict[tuple[str, str], Trace] = {}

    def check(self, cell: Cell) -> tuple[Verification, RuntimeFact | None]:
        """What was found out about one cell's work; a failure of its worker is a finding too."""
        now = datetime.now(UTC)
        together = equivalence.together(self.verify.lock_steps, cell)
        reply = runner.execute(
            order(
                cell,
                mode="verify",
                run_id="verify",
                seed=self.seed,
                verify=self.verify,
                together=together,
            ),
            python=self.ready[cell.env, cell.backend].python,
            environment={**os.environ, **runtimes.environment(get(cell.backend), cell.settings)},
        )
        runtime = runtime_fact(reply) if reply.python else None
        trace, trouble = self._trace(cell, reply)
        agreement, trouble = self._agreement(cell, trace, trouble)
        found = Verification(
            verification_id=new_id(now),
            cell=cell,
            started_utc=now.isoformat(timespec="milliseconds"),
            fingerprint=self.fingerprint,
            runtime=runtime.hash if runtime else "",
            worker=worker_hash(),
            seed=self.seed,
            audit=reply.audit,
            agreement=agreement,
            # A task of one's own may rightly stand still.
            responds=None
            if trace is None or cell.env == "gym"
            else equivalence.responds(trace, together),
            work=reply.facts.get("work", {}),
            failure=trouble,
        )
        return found, runtime

    def _trace(self, cell: Cell, reply: runner.Reply) -> tuple[Trace | None, Failure | None]:
        if reply.failure is not None or reply.trace is None:
            return None, reply.failure
        try:
            trace = equivalence.read_trace(reply.trace)
        except ValueError as error:
            return None, Failure(reason="invalid-figure", phase="measure", message=str(error))
        if not cell.variant:
            self._traces[_group(cell), cell.backend] = trace
        return trace, None

    def _agreement(
        self, cell: Cell, trace: Trace | None, trouble: Failure | None
    ) -> tuple[Agreement | None, Failure | None]:
        standard = STANDARDS.get((cell.env, cell.kind))
        if trace is None or standard is None or get(cell.backend).own_engine:
            return None, trouble
        led = self._traces.get((_group(cell), standard.reference))
        if led is None or (cell.backend == standard.reference and not cell.variant):
            return None, trouble
        try:
            found = equivalence.compare(cell.env, cell.kind, standard.reference, led, trace)
        except ValueError as error:
            return None, Failure(reason="invalid-figure", phase="measure", message=str(error))
        return found, trouble


def _group(cell: Cell) -> str:
    return f"{cell.env}/{cell.task}/{cell.kind}"


def in_order(cells: Sequence[Cell]) -> list[Cell]:
    """The references first, each with its default settings, for the others are compared to them."""
    references = {(*key, standard.reference) for key, standard in STANDARDS.items()}
    return sorted(
        cells,
        key=lambda cell: (
            (cell.env, cell.kind, cell.backend) not in references,
            bool(cell.variant),
        ),
    )
