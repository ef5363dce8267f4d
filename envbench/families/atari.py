"""Atari games: Pong with the usual preprocessing. A step is four frames of the emulator.

Names of ``work``: ``engine``, ``frame_skip`` emulator frames per step, ``max_pool`` how many of the
last are pooled, ``resize`` (area, bilinear), ``grayscale``, ``screen`` [height, width], ``stack``
frames per observation, at most ``noop_max`` no-ops at a reset, ``fire_reset``, ``sticky``
probability, ``episodic_life``, ``reward_clip``, ``action_set`` (minimal, full), ``max_frames`` per
episode.

A resized pixel may differ by one or two grey levels. A ball in another place changes it by tens.
The screen of a step that ends a game is not compared: if the game ends within the step, libraries
pool other frames.
"""

from envbench.families.family import AS_GYMNASIUM, EnvFamily, Standard

_WORK = {
    "engine": None,
    "frame_skip": 4,
    "max_pool": 2,
    "resize": "area",
    "grayscale": True,
    "screen": [84, 84],
    "stack": 4,
    "noop_max": 30,
    "fire_reset": False,
    "sticky": 0.0,
    "episodic_life": False,
    "reward_clip": False,
    "action_set": "minimal",
    "max_frames": 108_000,
    **AS_GYMNASIUM,
    "observation_shape": [4, 84, 84],
    "observation_dtype": "uint8",
}
ATARI = EnvFamily(
    name="atari",
    title="Atari",
    worker="envbench_families.atari:Atari",
    packages=["ale-py", "opencv-python-headless"],
    default_task="Pong-v5",
    frames=4,
    work={"env": _WORK},
    any_task=[*_WORK],
    follows_by="state",
    # Their memory depends on the game before, or does not decide what follows (docs/studies.md).
    unfollowed=[
        f"{name}-v5"
        for name in (
            "Crossbow",
            "ElevatorAction",
            "Hangman",
            "HauntedHouse",
            "IceHockey",
            "SirLancelot",
            "SpaceWar",
            "Surround",
            "TimePilot",
            "YarsRevenge",
        )
    ],
    lock_steps=1_200,  # with random actions a game of Pong lasts about 900
    standards={
        "env": Standard(steps=1_000, tolerance=2.0, unit="grey levels", stack=4, last=False)
    },
    rows=("for-loop", "subprocess", "sample-factory", "envpool-sync", "envpool-async"),
    usual=True,
    engine="ALE",
)
