"""How a test skips where the machine lacks what it needs."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def not_here(what: str) -> NoReturn:
    """Skip the test, with the reason; in CI (``ENVBENCH_CI=1``) let it fail."""
    if os.environ.get("ENVBENCH_CI") == "1":
        pytest.fail(f"CI needs {what}")
    pytest.skip(f"needs {what}")
