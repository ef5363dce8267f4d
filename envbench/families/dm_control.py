"""The DeepMind Control Suite: CheetahRun. A step is one frame; there is no action repeat.

The reference is dm_control itself. An observation of the cheetah is its state without the
horizontal position, which affects nothing. So the reference can be put into each state. Another
build of MuJoCo is allowed 0.001: of 668,000 steps of EnvPool's cheetah, 18 were more than 1e-7
away, and the farthest 5e-5 (results/studies/honest-verify/cheetah-steps.jsonl).
"""

from envbench.families.family import AS_GYMNASIUM, EnvFamily, Standard

_WORK = {
    "engine": None,
    "timestep_s": 0.01,
    "substeps": 1,
    "integrator": "Euler",
    "precision": "float64",
    "max_steps": 1000,
    **AS_GYMNASIUM,
    "observation_shape": [17],
    "observation_dtype": "float64",
}
DM_CONTROL = EnvFamily(
    name="dm_control",
    title="DM Control",
    worker="envbench_families.dm_control:DmControl",
    default_task="CheetahRun-v1",
    frames=1,
    follows_by="state",
    state_tasks=["CheetahRun-v1"],
    lock_steps=1_100,
    work={"env": _WORK},
    any_task=["engine", "precision", "observation_dtype", "autoreset", "returned_to"],
    standards={
        "env": Standard(
            steps=1000, tolerance=1e-3, reward_tolerance=1e-4, same_engine=1e-5, rounded=1e-3
        )
    },
    engine="mj\\_step",
)
