"""Gymnasium's MuJoCo tasks: Ant. A frame is 0.01 s of simulated time, on every engine.

Names of ``work``: ``engine``, ``timestep_s`` and ``substeps`` (their product is the control step),
``integrator`` (RK4, Euler, implicitfast …), ``solver`` (Newton, CG …), ``iterations`` (a maximum),
``precision`` (float64, float32), ``contact_forces`` computed for the observation, ``terminates``
when unhealthy, ``max_steps`` per episode. Physics alone has the first seven.

Positions and velocities are compared: the first 27 numbers of Ant's observation. Contact forces
come after them. They may be zero if the backend says that it does not compute them.
``docs/verify.md`` explains the tolerances. Engines in single precision stay within 1e-5 until the
first contact. There they build the friction pyramid along other axes and diverge.
"""

from envbench.families.atari import ATARI
from envbench.families.family import AS_GYMNASIUM, REPORTED, EnvFamily, Standard

_PHYSICS = {
    "engine": None,
    "timestep_s": 0.01,
    "substeps": 5,
    "integrator": "RK4",
    "solver": "Newton",
    "iterations": 100,
    "precision": "float64",
}
_WORK = {
    **_PHYSICS,
    "contact_forces": False,
    "terminates": True,
    "max_steps": 1000,
    **AS_GYMNASIUM,
    "observation_shape": [111],
    "observation_dtype": "float64",
}
ANT_STATE = 27
# Their observations begin with the state, without the place of the robot.
_STATE_TASKS = [
    f"{name}-v{version}"
    for name in ("Ant", "HalfCheetah", "Humanoid", "InvertedPendulum", "Swimmer")
    for version in (3, 4, 5)
]
MUJOCO = EnvFamily(
    name="mujoco",
    title="Mujoco",
    worker="envbench_families.mujoco:Mujoco",
    packages=["mujoco", "imageio"],
    default_task="Ant-v3",
    frames_of={  # time step x substeps / 0.01 s, the same from v2 to v5
        "Ant": 5,
        "HalfCheetah": 5,
        "Hopper": 0.8,
        "Humanoid": 1.5,
        "HumanoidStandup": 1.5,
        "InvertedDoublePendulum": 5,
        "InvertedPendulum": 4,
        "Pusher": 5,
        "Reacher": 2,
        "Swimmer": 4,
        "Walker2d": 0.8,
    },
    frames_rule="its control step / 0.01 s",
    work={"env": _WORK, "physics": _PHYSICS},
    reported=(*REPORTED, "contact_forces"),
    any_task=["engine", "precision", "observation_dtype", "autoreset", "returned_to"],
    follows_by="state",
    state_tasks=_STATE_TASKS,
    lock_steps=1_000,
    lasting="envbench_families.mujoco:gently",
    state_of={"Humanoid": 45, "InvertedPendulum": 4, "HalfCheetah": 17, "Swimmer": 8},
    standards={
        "env": Standard(
            steps=700,
            tolerance=0.02,
            reward_tolerance=0.02,
            agreeing=0.97,
            same_engine=1e-5,
            rounded=0.02,
            first=ANT_STATE,
            beside=1e-3,
            promised_by="contact_forces",
        ),
        "physics": Standard(
            reference="mujoco-rollout",
            steps=900,
            tolerance=0.02,
            agreeing=0.9,
            no_resets=True,
        ),
    },
    rows=(*ATARI.rows, "envpool-numa"),
    usual=True,
    engine="mj\\_step",
)
