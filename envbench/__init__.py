"""envbench: how fast do reinforcement-learning environments step, on this machine?

``measure`` and ``load`` are for Python programs and notebooks (``envbench.api``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envbench.api import Result, Results, load, measure
    from envbench.errors import EnvbenchError

__version__ = "0.1.0"
__all__ = ["EnvbenchError", "Result", "Results", "load", "measure"]


def __getattr__(name: str) -> Any:  # the command line does not need them
    if name not in __all__:
        raise AttributeError(f"module 'envbench' has no attribute {name!r}")
    if name == "EnvbenchError":
        from envbench.errors import EnvbenchError

        return EnvbenchError
    from envbench import api

    return getattr(api, name)
