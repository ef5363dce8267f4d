"""The facts that adapters report in the same way: what ran, and what a learner received."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence

from envbench_worker import actions
from envbench_worker.contract import Adapter


def of(
    adapter: Adapter,
    shape: Optional[Sequence[int]],
    dtype: Any,
    autoreset: str,
    work: Dict[str, Any],
    returned_to: str,
    **more: Any,
) -> Dict[str, Any]:
    """``Adapter.facts`` of an adapter whose batches of actions are in ``bank``.

    ``shape`` and ``dtype`` are those of one environment's observation. ``returned_to`` is host or
    device. ``more`` are facts of this backend alone.
    """
    received = {
        "observation_shape": None if shape is None else list(shape),
        "observation_dtype": str(dtype),
        "autoreset": autoreset,
    }
    return {
        **received,
        "action_source": actions.described(adapter.bank, adapter.job.seed),
        "env_instances": adapter.job.env_instances,
        **more,
        "work": {**work, **received, "returned_to": returned_to},
    }
