"""Any Gymnasium task of the user's own packages. ``--frame-skip`` says what a step is."""

from envbench.families.family import EnvFamily, Standard

GYM = EnvFamily(
    name="gym",
    title="Gym",
    worker="envbench_families.gym:Gym",
    any_frames=True,
    own_tasks=True,
    rows=("for-loop", "subprocess"),
    follows_by="seed",
    lock_steps=400,  # twice the required ones: a step that only resets is not compared
    standards={"env": Standard(steps=200, tolerance=1e-9, reward_tolerance=1e-9)},
)
