"""Gymnasium's classic control tasks: CartPole, so cheap that it shows the vectoriser's own cost.

A step is one frame. An observation of CartPole is its whole state, in single precision, so the
reference can be put into each state.
"""

from envbench.families.family import AS_GYMNASIUM, EnvFamily, Standard

_WORK = {
    "engine": None,
    "timestep_s": 0.02,
    "integrator": "Euler",
    "max_steps": 500,
    **AS_GYMNASIUM,
    "observation_shape": [4],
    "observation_dtype": "float32",
}
CLASSIC_CONTROL = EnvFamily(
    name="classic_control",
    title="Classic control",
    worker="envbench_families.classic_control:ClassicControl",
    default_task="CartPole-v1",
    frames=1,
    follows_by="state",
    state_tasks=["CartPole-v0", "CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0"],
    lock_steps=500,
    lasting="envbench_families.classic_control:balance",
    work={"env": _WORK},
    any_task=["engine", "autoreset", "returned_to", "observation_dtype"],
    standards={"env": Standard(steps=400, tolerance=1e-5, reward_tolerance=1e-6)},
    ceiling_states=1024,
    engine="NumPy (the equations of motion of thousands of states at once)",
)
