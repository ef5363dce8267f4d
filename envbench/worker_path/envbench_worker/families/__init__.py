"""Env families for the adapters: one file per family, imported by the name in the job."""

from __future__ import annotations

from importlib import import_module

from envbench_worker.contract import Job
from envbench_worker.families.base import Family


def of(job: Job) -> Family:
    """The job's family: the class that the job names, or the built-in one of the family's name."""
    name = "".join(word.capitalize() for word in job.family.split("_"))
    own = "{}.{}:{}".format(__name__, job.family, name)
    module, _, attribute = (job.family_code or own).partition(":")
    made = getattr(import_module(module), attribute)(job)
    if not isinstance(made, Family):
        raise TypeError("{} is not a subclass of Family".format(job.family_code or own))
    return made
