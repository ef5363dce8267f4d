"""Gymnasium's Box2D tasks: LunarLander. A step is one frame.

Terrain and engine noise cannot be set from outside: whole episodes are compared as distributions.
"""

from envbench.families.family import AS_GYMNASIUM, EnvFamily, Standard

_WORK = {
    "engine": None,
    "timestep_s": 0.02,
    "max_steps": 1000,
    **AS_GYMNASIUM,
    "observation_shape": [8],
    "observation_dtype": "float32",
}
# Those whose episodes are short enough. CarRacing's have up to 1,000 images.
_TASKS = ["LunarLander-v3", "LunarLanderContinuous-v3", "BipedalWalker-v3"]
BOX2D = EnvFamily(
    name="box2d",
    title="Box2D",
    worker="envbench_families.box2d:Box2d",
    default_task="LunarLander-v3",
    frames=1,
    lock_steps=12_000,
    work={"env": _WORK},
    any_task=["engine", "autoreset", "returned_to", "observation_dtype"],
    standards={"env": Standard(episodes=300, episode_tasks=_TASKS)},
    engine="Box2D",
)
