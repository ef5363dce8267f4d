"""When a vector environment resets an environment whose episode has ended.

Since Gymnasium 1.1 vector environments state it in ``metadata["autoreset_mode"]``; those of ale-py
and EnvPool do so too. How results are counted depends on it:

``next-step``: the step after an end only resets. Its result is not a transition.
``same-step``: the step that ends an episode also resets. Every result is a transition.
``disabled``: nothing resets, so the next step would happen in an episode that is over.

Source: ``gymnasium/vector/vector_env.py`` of Gymnasium 1.1 (``AutoresetMode``).
"""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

NEXT_STEP, SAME_STEP = "next-step", "same-step"
_MODES = {"nextstep": NEXT_STEP, "samestep": SAME_STEP, "disabled": "disabled"}


class UnsupportedAutoreset(Exception):
    """The adapter cannot count the steps of this autoreset mode."""


class Autoreset(NamedTuple):
    """A mode and its source: ``metadata``, or ``version`` where the library states nothing."""

    mode: str
    source: str


def of(envs: Any, counted: Sequence[str]) -> Autoreset:
    """Return a vector environment's mode; ``UnsupportedAutoreset`` unless it is in ``counted``.

    The default is next-step: Gymnasium 1.0, and EnvPool with an older Gymnasium, have no other.
    """
    stated = (getattr(envs, "metadata", None) or {}).get("autoreset_mode")
    if stated is None:
        return Autoreset(NEXT_STEP, "version")
    name = str(getattr(stated, "name", stated))
    mode = _MODES.get(name.replace("_", "").replace("-", "").lower(), name)
    if mode not in counted:
        raise UnsupportedAutoreset(
            "{} states the autoreset mode {}, but this backend's steps are counted for {} only; "
            "their number would be wrong".format(type(envs).__name__, mode, " and ".join(counted))
        )
    return Autoreset(mode, "metadata")
