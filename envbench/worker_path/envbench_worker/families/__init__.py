"""What an env family is to the adapters: one file per family, imported by the name in the job."""

from __future__ import annotations

from importlib import import_module

from envbench_worker.contract import Job
from envbench_worker.families.base import Family


def of(job: Job) -> Family:
    """The job's family; one without a file of its own is like any Gymnasium task."""
    if not job.family_code:
        return Family(job)
    module, _, attribute = job.family_code.partition(":")
    made = getattr(import_module(module), attribute)(job)
    if not isinstance(made, Family):
        raise TypeError("{} is no subclass of Family".format(job.family_code))
    return made
