"""Env families for the adapters: one file per family, imported by the name in the job."""

from __future__ import annotations

from envbench_worker.contract import Job, named

from envbench_families.base import Family


def of(job: Job) -> Family:
    """Make the job's family from the class that the job names, or else the one with its name."""
    own = "{}.{}:{}".format(__name__, job.family, job.family.title().replace("_", ""))
    made = named(job.family_code or own)(job)
    if not isinstance(made, Family):
        raise TypeError("{} is not a subclass of Family".format(job.family_code or own))
    return made
