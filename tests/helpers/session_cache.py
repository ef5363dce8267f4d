"""Results that are costly to make and that several tests ask about: made once per test session."""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from filelock import FileLock

FOLDER = "TESTS_RESULTS_FOLDER"  # in the environment: a folder of this session
Given = ParamSpec("Given")
Made = TypeVar("Made")


def once(make: Callable[Given, Made]) -> Callable[Given, Made]:
    """``functools.cache`` for the whole session: xdist may send a module's tests to two processes.

    The second process waits for the first. A call that raises is made again.
    """

    @cache
    @wraps(make)
    def found(*args: Given.args, **given: Given.kwargs) -> Made:
        call = f"{make.__module__}.{make.__qualname__} {args} {sorted(given.items())}"
        path = Path(os.environ[FOLDER]) / hashlib.sha256(call.encode()).hexdigest()
        with FileLock(f"{path}.lock"):
            if not path.exists():
                path.write_bytes(pickle.dumps(make(*args, **given)))
            return pickle.loads(path.read_bytes())  # type: ignore[no-any-return]

    return found
