"""The built-in backends, as data, in the order of a table's rows.

A new backend is an entry here and a file in ``envbench/worker/envbench_adapters``. ``disk_mb`` is
the size of a runtime that was built on 2026-11-23 (Linux x86-64, Python 3.11, no GPU).
"""

from __future__ import annotations

from functools import partial

from envbench.backends.specification import (
    ACTIONS,
    CORES,
    GYMNASIUM_LOOP,
    Backend,
    Needs,
    Setting,
)
from envbench.model import Behaviour

MOST_CPUS = 4096  # with more threads a library crashes without a message

_CONTACT_FORCES = Setting(
    name="contact_forces",
    default=True,
    families=["mujoco"],
    tasks=["Ant-v3"],
    changes_work=True,
    help="compute contact forces and observe them (111 observations, as Ant-v3 had)",
)
_SHARED_MEMORY = Setting(
    name="shared_memory",
    default=True,
    help="observations come back through shared memory rather than a pipe",
)
_CONTEXT = Setting(
    name="context",
    default="",
    choices=["", "fork", "spawn", "forkserver"],
    help="how processes are started; empty: Python's default",
)


def _threads(whose: str) -> Setting:
    return Setting(
        name="threads",
        default=0,
        minimum=0,
        maximum=MOST_CPUS,
        help=f"threads that step; 0: {whose}",
    )


_overcommit = partial(
    Setting,
    name="overcommit",
    minimum=1.0,
    role="in-flight",
    help="env instances kept in flight for each environment received per vector step",
)
_AFFINITY = Setting(
    name="affinity",
    default=-1,
    minimum=-1,
    maximum=MOST_CPUS,
    help="first core that threads are bound to (thread_affinity_offset); -1: not bound",
)
_FIRE_RESET = Setting(
    name="fire_reset",
    default=False,
    changes_work=True,
    families=["atari"],
    help="press fire at a reset, which is EnvPool's own default",
)
_RESIZE = Setting(
    name="resize",
    default="area",
    choices=["area", "bilinear"],
    changes_work=True,
    families=["atari"],
    help="how a frame is shrunk to 84x84; area is the reference",
)
_ENVPOOL = [
    ACTIONS,
    _threads("EnvPool's choice: one per core, but not more than environments in the batch"),
    _AFFINITY,
    _RESIZE,
    _FIRE_RESET,
]
# EnvPool's own procedure (its benchmark/test_envpool.py): one constant batch of actions,
# use_inter_area_resize=False, threads bound from core 0, and the library's use_fire_reset.
_PUBLISHED = {"actions": "constant", "resize": "bilinear", "fire_reset": "true", "affinity": "0"}
PRESETS = {"envpool-published": _PUBLISHED}
_NODES = Setting(
    name="nodes",
    default="",
    pattern=f"{CORES}(/{CORES})*",
    example="0-3/4-7",
    role="nodes",
    help="cores of each node, such as 0-3/4-7; empty: the NUMA nodes that the system has",
)
_MODE = Setting(
    name="mode",
    default="scan",
    choices=["scan", "step"],
    help="scan: many steps per call, in a loop on the device; step: one call per step from Python",
)
_PIPELINE = Setting(
    name="pipeline",
    default="generalized",
    choices=["generalized", "spring", "positional", "mjx"],
    changes_work=True,
    help="Brax's physics pipeline",
)
_HORIZON = Setting(
    name="horizon",
    default=1,
    minimum=1,
    maximum=1000,
    help="control steps per rollout call: 1 for learning, more for planning",
)
_SPLIT = Setting(
    name="envs_per_worker",
    default=1,
    minimum=1,
    divides="numenv",
    help="environments stepped by each worker process; numenv is workers x these",
)
_DOUBLE_BUFFER = Setting(
    name="worker_splits",
    default=1,
    choices=[1, 2],
    divides="envs_per_worker",
    help="2: one half of a worker's environments steps while the other waits for its actions",
)

_ONE_THREAD = Behaviour(steps_in="one-thread")
_PROCESSES_IN_BATCHES = Behaviour(steps_in="processes", large_batches=True)
_ADAPTERS = "envbench_adapters."
_UNIX = ["linux", "darwin"]
_VECTORISED = ["atari", "mujoco", "dm_control", "classic_control", "box2d"]
_NEEDS = [  # for families that a Python library steps
    Needs(
        add=["dm-control==1.0.50", "mujoco==3.17.*", "gymnasium"],
        families=["dm_control"],
        disk_mb=410,
    ),
    Needs(add=["gymnasium[box2d]"], families=["box2d"], disk_mb=110),
]

_ASYNC_POOL = """\
envs.async_reset()
while training:
    result = envs.recv()
    obs, rewards, *ended, info = result
    terminated, truncated = ended
    envs.send(policy(obs), info["env_id"])
"""
_gymnasium = partial(
    Backend,
    families=[*_VECTORISED, "gym"],
    needs=_NEEDS,
    library="gymnasium",
    stepping=GYMNASIUM_LOOP,
)
_envpool = partial(Backend, families=_VECTORISED, library="envpool", systems=_UNIX)
_on_device = partial(  # all environments in one program, on a GPU if there is one
    Backend,
    families=["mujoco"],
    accelerator=True,
    behaviour=Behaviour(steps_in="device", large_batches=True),
    pin_threads=False,
    repeats=3,
)

BUILT_IN = [
    _gymnasium(
        name="for-loop",
        label="For-loop",
        adapter=_ADAPTERS + "gymnasium.for_loop:ForLoop",
        behaviour=_ONE_THREAD,
        settings=[ACTIONS, _CONTACT_FORCES],
    ),
    _gymnasium(
        name="subprocess",
        label="Subprocess",
        adapter=_ADAPTERS + "gymnasium.subprocess_vector:Subprocess",
        behaviour=Behaviour(steps_in="processes"),
        settings=[ACTIONS, _CONTACT_FORCES, _SHARED_MEMORY, _CONTEXT],
    ),
    Backend(
        name="sample-factory",
        label="Sample-Factory",
        families=["atari", "mujoco"],
        adapter=_ADAPTERS + "sample_factory.sampler:SampleFactory",
        library="sample_factory",
        behaviour=_PROCESSES_IN_BATCHES,
        python="3.11",
        requirements=[
            "sample-factory==2.1.1",
            "torch",
            "numpy<2",
            "gymnasium[atari]<1",
            "ale-py==0.8.1",
            "mujoco==4.0.*",  # with 2.3.3, which it asks for, the ant moves differently
            "opencv-python-headless<4.12",
            "imageio",
        ],
        disk_mb=1350,
        finish=[["{bin}/ale-import-roms", "{roms}"]],
        systems=_UNIX,
        repeats=3,  # starting a process takes seconds of CPU
        settings=[_CONTACT_FORCES, _SPLIT, _DOUBLE_BUFFER],
    ),
    _envpool(
        name="envpool-sync",
        label="EnvPool (sync)",
        adapter=_ADAPTERS + "envpool.sync:EnvPoolSync",
        settings=_ENVPOOL,
        stepping=GYMNASIUM_LOOP,
    ),
    _envpool(
        name="envpool-async",
        label="EnvPool (async)",
        adapter=_ADAPTERS + "envpool.asynchronous:EnvPoolAsync",
        settings=[*_ENVPOOL, _overcommit(default=3.0)],
        stepping=_ASYNC_POOL,
    ),
    _envpool(
        name="envpool-numa",
        label="EnvPool (numa+async)",
        adapter=_ADAPTERS + "envpool.numa:EnvPoolNuma",
        stepping=_ASYNC_POOL,
        behaviour=_PROCESSES_IN_BATCHES,
        systems=["linux"],
        settings=[
            ACTIONS,
            _threads("one per core of each node, but not more than its environments"),
            _RESIZE,
            _FIRE_RESET,
            _overcommit(default=3.0),
            _NODES,
        ],
    ),
    Backend(
        name="ale-vector",
        label="ALE (vector)",
        families=["atari"],
        adapter=_ADAPTERS + "ale_vector:AleVector",
        library="ale_py",
        stepping=GYMNASIUM_LOOP,
        settings=[
            ACTIONS,
            _threads("ALE's choice: one per core, but not more than environments"),
            _AFFINITY,
            _FIRE_RESET,
            _overcommit(default=1.0),
        ],
    ),
    _on_device(
        name="brax",
        label="Brax",
        adapter=_ADAPTERS + "brax_env:Brax",
        library="brax",
        own_engine=True,
        difference="a reset repeats the first state of its environment",
        requirements=["brax==0.14.*", "jax==0.10.*"],
        disk_mb=800,
        gpu_requirements=["jax[cuda12]"],
        settings=[_PIPELINE, _MODE],
    ),
    _on_device(
        name="isaac-gym",
        label="Isaac Gym",
        adapter=_ADAPTERS + "isaac_gym:IsaacGym",
        library="isaacgym",
        own_engine=True,
        systems=["linux"],
        by_hand="On a machine with an NVIDIA GPU, install Isaac Gym Preview 4 from "
        "https://developer.nvidia.com/isaac-gym and https://github.com/isaac-sim/IsaacGymEnvs into "
        "a Python 3.8 of your own (`pip install -e isaacgym/python -e IsaacGymEnvs`), then "
        "--python isaac-gym=PATH",
    ),
    Backend(
        name="mujoco-rollout",
        label="MuJoCo (rollout)",
        families=["mujoco"],
        kind="physics",
        adapter=_ADAPTERS + "mujoco.rollout:MujocoRollout",
        library="mujoco",
        behaviour=Behaviour(steps_in="pool", large_batches=True),
        settings=[_threads("one per core, but not more than environments"), _HORIZON],
    ),
    _on_device(
        name="mjx",
        label="MJX",
        adapter=_ADAPTERS + "mujoco.mjx:Mjx",
        library="mujoco.mjx",
        kind="physics",
        requirements=["mujoco-mjx==3.17.*", "jax==0.10.*", "gymnasium"],
        disk_mb=660,
        gpu_requirements=["jax[cuda12]"],
        settings=[_MODE],
    ),
    _on_device(
        name="mujoco-warp",
        label="MuJoCo Warp",
        adapter=_ADAPTERS + "mujoco.warp:MujocoWarp",
        library="mujoco_warp",
        kind="physics",
        requirements=["mujoco-warp==4.0.*", "gymnasium"],
        disk_mb=540,
    ),
    _on_device(
        name="genesis",
        label="Genesis",
        adapter=_ADAPTERS + "genesis_scene:Genesis",
        library="genesis",
        kind="physics",
        own_engine=True,
        requirements=["genesis-world==1.4.*", "torch", "gymnasium"],
        disk_mb=3750,
        python="3.11",
        repeats=2,
        settings=[_threads("Genesis's choice, which is one on a CPU")],
    ),
    _gymnasium(
        name="ceiling",
        label="Ceiling",
        behaviour=_PROCESSES_IN_BATCHES,
        one_per_core=True,
        families=_VECTORISED,
        kind="ceiling",
        adapter=_ADAPTERS + "ceiling.ceiling:Ceiling",
    ),
]

# The reference kernels: fixed pieces of work that do not depend on any library's version. They are
# measured beside other cells, and are not rows of a table.
_kernel = partial(Backend, families=["gym"], library="numpy")
KERNEL = _kernel(
    name="reference-kernel",
    label="Reference kernel",
    adapter=_ADAPTERS + "reference:Reference",
    behaviour=_ONE_THREAD,
)
POOLED_KERNEL = _kernel(
    name="pooled-kernel",
    label="Pooled kernel",
    adapter=_ADAPTERS + "reference:PooledReference",
    behaviour=Behaviour(steps_in="pool"),
)
# By ``Behaviour.steps_in``: the kernel that uses a machine like such a backend.
KERNELS = {
    "one-thread": KERNEL,
    "pool": POOLED_KERNEL,
    "processes": POOLED_KERNEL,
    "device": POOLED_KERNEL,
}
