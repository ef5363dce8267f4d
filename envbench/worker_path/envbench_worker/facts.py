"""The facts that adapters report in the same way: what ran, and what a learner received."""

from __future__ import annotations

from typing import Any, Dict

from envbench_worker import actions
from envbench_worker.contract import Adapter


def of(
    adapter: Adapter, seen: Any, autoreset: str, work: Dict[str, Any], returned_to: str, **more: Any
) -> Dict[str, Any]:
    """``Adapter.facts`` of an adapter whose batches of actions are in ``bank``.

    ``seen`` is one environment's observation, or their space. ``returned_to`` is host or device.
    ``more`` are facts of this backend alone.
    """
    received = {
        "observation_shape": None if seen.shape is None else list(seen.shape),
        "observation_dtype": str(seen.dtype),
        "autoreset": autoreset,
    }
    return {
        **received,
        "action_source": actions.described(adapter.bank, adapter.job.seed),
        "env_instances": adapter.job.env_instances,
        **more,
        "work": {**work, **received, "returned_to": returned_to},
    }
