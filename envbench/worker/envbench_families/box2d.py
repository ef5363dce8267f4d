"""Gymnasium's Box2D tasks, in Gymnasium and in EnvPool."""

from __future__ import annotations

from typing import Any, Dict

from envbench_families.base import Family


class Box2d(Family):
    entry_points = "envs.box2d"
    envpool_module = "envpool.box2d"

    def register(self) -> None:
        import Box2D  # noqa: F401 - Gymnasium's tasks need it

    def work(self, env: Any) -> Dict[str, Any]:
        found = {"engine": engine(), "timestep_s": 1.0 / env.metadata["render_fps"]}
        return {**super().work(env), **found}

    def envpool_work(self, config: Dict[str, Any]) -> Dict[str, Any]:
        return {**super().envpool_work(config), "engine": "Box2D, EnvPool's own build"}


def engine() -> str:
    """Name the version of Box2D that Gymnasium's tasks use."""
    import Box2D

    return "Box2D " + str(Box2D.__version__)
