"""How options become cells, and how a trial becomes a job."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from envbench import backends, families
from envbench.backends import Backend, Setting
from envbench.engine.availability import Arm
from envbench.engine.experiment import seed_of_round
from envbench.engine.request import CellRequest, choose
from envbench.engine.target import make_cell, target_of
from envbench.engine.worker_job import launch, make_job
from envbench.errors import UnknownName, UsageError
from envbench.machine import Profile, Table
from envbench.machine.profile_file import read_profile
from envbench.model import Cell, Protocol, Trial, Verify

SHIPPED = sorted((Path(__file__).parents[2] / "machines").glob("*.toml"))
LADDER = Table(numenv=[1, 2, 8], rows=["for-loop"])
PROFILE = Profile(name="here", title="Here", hardware="two cores", atari=LADDER, mujoco=LADDER)
ATARI = [
    "for-loop", "subprocess", "sample-factory", "envpool-sync", "envpool-async", "envpool-numa",
]  # fmt: skip
ACCELERATORS = ["brax", "isaac-gym"]
PHYSICS = ["mujoco-rollout", "mjx", "mujoco-warp", "genesis"]
SIZES = (64, 256, 1024)


def cells(request: CellRequest, profile: Profile, cpus: int = 1) -> list[Cell]:
    return [target.cell for target in choose(request, profile, cpus).targets]


def named(**asked: Any) -> list[tuple[str, str, int]]:
    return [(cell.env, cell.backend, cell.numenv) for cell in cells(CellRequest(**asked), PROFILE)]


def test_the_default_is_every_row_of_the_profile_at_its_numbers_of_environments() -> None:
    assert named() == [(env, "for-loop", n) for env in ("atari", "mujoco") for n in (1, 2, 8)]
    physics = Table(numenv=[64], rows=["mjx"])
    found = cells(CellRequest(family="mujoco"), replace(PROFILE, physics=physics))
    assert [(each.backend, each.numenv) for each in found] == [
        *(("for-loop", n) for n in (1, 2, 8)),
        ("mjx", 64),
    ]


def test_a_family_that_the_profile_does_not_list_has_every_backend() -> None:
    assert {backend for _, backend, _ in named(family="box2d")} == {
        each for each in ATARI if each != "sample-factory"
    }


def test_the_backends_of_the_laptop_are_those_of_the_original_document() -> None:
    (laptop,) = (read_profile(path) for path in SHIPPED if path.stem == "laptop")
    assert len(cells(CellRequest(), laptop)) == 88


def test_all_backends_are_every_one_that_runs_a_family_of_the_profile() -> None:
    assert named(backends=["all"]) == [
        *(("atari", name, n) for name in [*ATARI, "ale-vector"] for n in (1, 2, 8)),
        *(("mujoco", name, n) for name in ATARI for n in (1, 2, 8)),
        *(("mujoco", name, n) for name in [*ACCELERATORS, *PHYSICS] for n in SIZES),
    ]


def test_a_cell_has_the_profiles_name_and_the_familys_default_task() -> None:
    first, *_, last = cells(CellRequest(), PROFILE)
    assert (first.machine, first.task, last.task) == ("here", "Pong-v5", "Ant-v3")


def test_cells_keep_the_order_of_the_options() -> None:
    asked = {"family": "atari", "backends": ["envpool-async", "for-loop"], "numenv": [8, 1]}
    assert named(**asked) == [
        ("atari", "envpool-async", 8),
        ("atari", "envpool-async", 1),
        ("atari", "for-loop", 8),
        ("atari", "for-loop", 1),
    ]


def test_accelerators_and_physics_use_their_own_ladders_of_the_profile() -> None:
    sizes = Table(numenv=[256, 4096], rows=["brax"])
    profile = Profile(name="h", title="H", mujoco=LADDER, accelerators=sizes, physics=LADDER)
    found = cells(CellRequest(family="mujoco", backends=["for-loop", "brax", "mjx"]), profile)
    assert [(cell.backend, cell.numenv, cell.section) for cell in found] == [
        *(("for-loop", n, "") for n in (1, 2, 8)),
        *(("brax", n, "accelerators") for n in (256, 4096)),
        *(("mjx", n, "physics") for n in (1, 2, 8)),
    ]


def test_the_ceiling_is_measured_only_on_request_with_one_environment_per_core() -> None:
    assert "ceiling" not in {name for _, name, _ in named()}
    found = cells(CellRequest(family="mujoco", backends=["ceiling"]), PROFILE, cpus=6)
    assert [(cell.numenv, cell.env_instances, cell.section) for cell in found] == [
        (6, 6, "ceiling")
    ]
    asked = CellRequest(family="atari", backends=["all", "ceiling"], numenv=[4])
    numenv = {cell.backend: cell.numenv for cell in cells(asked, PROFILE, cpus=6)}
    assert (numenv["ceiling"], numenv["for-loop"]) == (6, 4)
    with pytest.raises(UsageError, match="ceiling takes no --numenv"):
        named(family="atari", backends=["ceiling"], numenv=[4])


def test_a_cell_with_fewer_environments_than_nodes_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    nodes = {"family": "atari", "settings": {"nodes": "0/1/2"}}
    assert named(**nodes, backends=["envpool-numa"]) == [("atari", "envpool-numa", 8)]
    with pytest.raises(UsageError, match="envpool-numa has 3 nodes here"):
        named(**nodes, backends=["envpool-numa"], numenv=[1, 2])


@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        ("0/7", "core 7 cannot be used"),
        ("0-1/1", "core 1 is named twice"),
        ("1-0", "'1-0' is not a list of cores"),
        ("0-99999999999", "the setting 'nodes' takes"),  # no list of so many cores is made
    ],
)
def test_nodes_with_unusable_cores_are_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, nodes: str, says: str
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    with pytest.raises(UsageError, match=says):
        named(family="atari", backends=["envpool-numa"], numenv=[4], settings={"nodes": nodes})


@pytest.mark.parametrize(
    ("numenv", "settings", "says"),
    [
        (4, {"envs_per_worker": "3"}, r"numenv \(4\) has to be a multiple of envs_per_worker"),
        (4, {"worker_splits": "2"}, r"envs_per_worker \(1\) has to be a multiple of worker_splits"),
    ],
)
def test_environments_that_do_not_divide_evenly_are_refused_before_anything_runs(
    numenv: int, settings: dict[str, str], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        named(family="atari", backends=["sample-factory"], numenv=[numenv], settings=settings)


def test_a_note_lists_the_backends_that_do_not_have_a_setting() -> None:
    asked = CellRequest(
        family="atari", backends=["for-loop", "envpool-sync"], numenv=[2],
        settings={"resize": "bilinear"},
    )  # fmt: skip
    assert choose(asked, PROFILE).notes == [
        "Note: these have no setting resize and are measured without it: for-loop."
    ]


def test_without_a_family_a_backend_runs_in_each_family_that_it_supports() -> None:
    assert named(backends=["brax", "for-loop"], numenv=[1]) == [
        ("atari", "for-loop", 1),
        ("mujoco", "brax", 1),
        ("mujoco", "for-loop", 1),
    ]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"family": "atari", "backends": ["brax"]}, "it runs mujoco"),
        ({"family": "atari", "backends": ["for-loop", "brax"]}, "it runs mujoco"),
        ({"family": "gym"}, "needs --task"),
        ({"family": "gym", "task": ":"}, "--task ':' is not a task"),
        ({"family": "gym", "task": ":MyEnv-v0"}, "not a task such as my_package:MyEnv-v0"),
        (
            {"task": "Pong-v4"},
            "env family of the task 'Pong-v4' is not known. Did you mean 'Pong-v5'",
        ),
        ({"family": "atri"}, "'atari'"),
        ({"family": "atari", "backends": ["all", "forloop"]}, "'for-loop'"),
        ({"family": "atari", "preset": "published"}, "unknown preset"),
        ({"settings": {"overcomit": "2"}, "backends": ["all"]}, "'overcommit'"),
        ({"settings": {"overcommit": "2"}, "backends": ["for-loop", "subprocess"]}, "overcommit"),
        ({"family": "atari", "settings": {"contact_forces": "0"}}, "unknown setting"),
        ({"family": "atari", "backends": ["for-loop"], "settings": {"threads": "1"}}, "threads"),
        ({"family": "atari", "backends": ["envpool-async"], "in_flight": ""}, "at least 1"),
    ],
)
def test_an_impossible_request_is_a_usage_error_with_the_reason(
    asked: dict[str, Any], says: str
) -> None:
    with pytest.raises(UsageError) as caught:
        named(**asked)
    assert says in str(caught.value)


def test_without_a_named_family_those_with_a_table_are_measured() -> None:
    only = Profile(name="here", title="Here", hardware="", atari=LADDER)
    every = cells(CellRequest(backends=["for-loop"]), only)
    assert {each.env for each in every} == {"atari"}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_profile_lists_cells_to_run_and_to_verify(path: Path) -> None:
    profile = read_profile(path)
    headings = {"accelerators", "physics"} & profile.tables.keys() or {""}
    for ladder in (None, [2]):  # as `run` and as `verify` request them
        found = cells(CellRequest(ladder=ladder), profile)
        assert headings <= {each.section for each in found}
        assert {each.env for each in found} >= profile.tables.keys() & set(families.names())


def test_a_profile_of_accelerators_and_physics_lists_the_families_of_their_rows() -> None:
    sizes = {"numenv": [256, 1024]}
    profile = Profile(
        name="gpu", title="GPU",
        accelerators=Table(rows=["brax"], **sizes), physics=Table(rows=["not-here"], **sizes),
    )  # fmt: skip
    for family, backends_named, names in (
        (None, None, ["brax"]),
        ("mujoco", None, ["brax"]),
        (None, ["all"], [*ACCELERATORS, *PHYSICS]),
        ("mujoco", ["all"], [*ACCELERATORS, *PHYSICS]),
    ):
        found = cells(CellRequest(family=family, backends=backends_named), profile)
        every = [("mujoco", name, n) for name in names for n in (256, 1024)]
        assert [(each.env, each.backend, each.numenv) for each in found] == every
    asked = CellRequest(backends=["all"], numenv=[4])
    assert {each.backend for each in cells(asked, profile)} == {*ACCELERATORS, *PHYSICS}
    with pytest.raises(UsageError, match="the profile 'gpu' has no table for box2d") as caught:
        cells(CellRequest(family="box2d"), profile)
    assert "--numenv" in caught.value.hint
    assert cells(CellRequest(family="box2d", numenv=[4]), profile)


def test_the_ladder_of_a_family_is_not_used_for_one_that_only_accelerators_list() -> None:
    sizes = Table(numenv=[256], rows=["brax"])
    profile = Profile(name="h", title="H", atari=LADDER, accelerators=sizes)
    found = cells(CellRequest(backends=["all"]), profile)
    assert {each.backend for each in found if each.env == "mujoco"} == set(ACCELERATORS)


def test_a_profile_whose_rows_are_unknown_here_has_a_message_of_its_own() -> None:
    lost = Profile(name="lost", title="Lost", physics=Table(numenv=[1], rows=["not-here"]))
    with pytest.raises(UsageError, match="no table for any env family that is known") as caught:
        cells(CellRequest(), lost)
    assert "--env and --numenv" in caught.value.hint


@pytest.mark.parametrize("family", ["mujoco", "classic_control", "dm_control", "box2d"])
def test_a_named_family_without_a_table_gets_the_ladder_of_the_first_table(family: str) -> None:
    only = Profile(name="here", title="Here", hardware="", atari=LADDER)
    found = cells(CellRequest(family=family, backends=["for-loop"]), only)
    assert [each.numenv for each in found] == LADDER.numenv


def test_a_users_own_task_gets_the_profiles_ladder_and_the_backends_that_can_run_it() -> None:
    assert named(family="gym", task="mine:My-v0") == [
        ("gym", name, n) for name in ("for-loop", "subprocess") for n in (1, 2, 8)
    ]


# ---------------------------------------------------------------- settings


def test_a_setting_applies_to_every_chosen_backend_that_has_it() -> None:
    both = {"overcommit": "2", "actions": "constant"}
    asked = CellRequest(family="atari", backends=["all"], numenv=[2], settings=both)
    found = {cell.backend: cell.variant for cell in cells(asked, PROFILE)}
    assert found["for-loop"] == {"actions": "constant"}
    assert found["envpool-async"] == {"actions": "constant", "overcommit": 2.0}


def test_a_setting_of_one_family_applies_only_to_that_family() -> None:
    asked = CellRequest(backends=["for-loop"], numenv=[1], settings={"contact_forces": "no"})
    atari, mujoco = cells(asked, PROFILE)
    assert atari.variant == {}
    assert mujoco.variant == {"contact_forces": False}


def test_a_setting_overrides_the_preset() -> None:
    given = {"family": "atari", "backends": ["all"], "numenv": [1], "preset": "envpool-published"}
    asked = CellRequest(**given)
    found = {cell.backend: cell.variant for cell in cells(asked, PROFILE)}
    assert found["for-loop"] == {"actions": "constant"}
    assert found["envpool-sync"]["resize"] == "bilinear"
    area = {"resize": "area"}
    own = CellRequest(**given, settings=area)
    assert {
        cell.variant.get("resize") for cell in cells(own, PROFILE) if "envpool" in cell.backend
    } == {None}


@given(
    family=st.sampled_from([None, "atari", "mujoco"]),
    names=st.lists(st.sampled_from(ATARI), min_size=1, unique=True) | st.just(["all"]),
    numenv=st.lists(st.integers(1, 10_000), min_size=1, max_size=6, unique=True) | st.none(),
)
def test_every_requested_combination_is_one_cell(
    family: str | None, names: list[str], numenv: list[int] | None
) -> None:
    found = cells(CellRequest(family=family, backends=names, numenv=numenv), PROFILE)
    assert len({cell.key for cell in found}) == len(found)
    families = [family] if family else ["atari", "mujoco"]
    per_family = {
        "atari": len([*ATARI, "ale-vector"] if names == ["all"] else names),
        "mujoco": len([*ATARI, *ACCELERATORS, *PHYSICS] if names == ["all"] else names),
    }
    rungs = len(numenv or LADDER.numenv)
    assert len(found) == sum(per_family[each] * rungs for each in families)
    for cell in found:
        threefold = cell.backend in ("envpool-async", "envpool-numa")
        assert cell.env_instances == cell.numenv * (3 if threefold else 1)


@pytest.mark.parametrize("typed", ["envpool-synk", "ENVPOOL-SYNC", "EnvPool-Synk"])
def test_the_error_for_an_unknown_backend_names_the_nearest(typed: str) -> None:
    with pytest.raises(UnknownName, match="Did you mean 'envpool-sync'"):
        named(family="atari", backends=[typed])


# ---------------------------------------------------------------- settings by their role


def own(name: str, *settings: Setting) -> Backend:
    return Backend(
        name=name,
        label=name,
        families=["atari"],
        adapter="a:B",
        library="b",
        settings=list(settings),
    )


IN_FLIGHT = Setting(
    name="surplus", type="float", default=2.0, minimum=1.0, maximum=64.0, role="in-flight"
)
NODES = Setting(name="sockets", type="str", default="", role="nodes")


@pytest.fixture
def plugin(register: Callable[[dict[str, Backend]], None]) -> str:
    """A backend with other names for the settings of ``--overcommit`` and ``--numa-node``."""
    register({**backends.registry(), "surplus-pool": own("surplus-pool", IN_FLIGHT, NODES)})
    return "surplus-pool"


def test_overcommit_sets_the_setting_with_that_role_whatever_its_name(plugin: str) -> None:
    request = CellRequest(
        family="atari", backends=[plugin, "envpool-async", "for-loop"], numenv=[2], in_flight="1.5"
    )
    found = choose(request, PROFILE)
    own, pool, loop = (target.cell for target in found.targets)
    assert (own.settings["surplus"], own.env_instances) == (1.5, 3)
    assert (pool.settings["overcommit"], pool.env_instances) == (1.5, 3)
    assert (loop.variant, loop.env_instances) == ({}, 2)
    assert found.notes == [
        "Note: these do not take --overcommit and are measured without it: for-loop."
    ]


def test_nodes_set_the_setting_with_that_role_and_limit_the_cells(
    plugin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    request = CellRequest(family="atari", backends=[plugin], numenv=[1, 2], nodes="0/1")
    found = choose(request, PROFILE)
    assert [target.cell.numenv for target in found.targets] == [2]
    assert found.targets[0].cell.settings["sockets"] == "0/1"
    assert found.notes == [f"{plugin} has 2 nodes here: numenv 1 is left out."]


def test_a_setting_given_both_by_role_and_by_name_is_refused() -> None:
    for backends_named in (["envpool-async"], ["envpool-async", "for-loop"], ["all"]):
        with pytest.raises(UsageError, match="by --set and by --overcommit"):
            named(
                family="atari", backends=backends_named, numenv=[2],
                in_flight="2", settings={"overcommit": "3"},
            )  # fmt: skip
    with pytest.raises(UsageError, match="by --set and by --numa-node"):
        named(
            family="atari", backends=["envpool-numa"], numenv=[2],
            nodes="0", settings={"nodes": "0"},
        )  # fmt: skip


@pytest.mark.parametrize("backends_named", [["for-loop"], ["for-loop", "subprocess"]])
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"in_flight": "2"}, "--overcommit applies to envpool-async, envpool-numa and ale-vector"),
        ({"nodes": "0"}, "--numa-node applies to envpool-numa only"),
    ],
    ids=["--overcommit", "--numa-node"],
)
def test_an_option_that_no_chosen_backend_has_is_refused(
    backends_named: list[str], given: dict[str, str], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        named(family="atari", backends=backends_named, numenv=[2], **given)


# ---------------------------------------------------------------- cells, jobs and seeds


def cell(backend: str = "for-loop", numenv: int = 2, **given: str) -> Cell:
    return make_cell("laptop", "atari", "Pong-v5", backends.get(backend), numenv, given)


def test_a_target_contains_its_backend_and_its_family() -> None:
    request = CellRequest(family="atari", backends=["for-loop", "envpool-sync"], numenv=[1])
    for target in choose(request, PROFILE).targets:
        assert target.backend is backends.get(target.cell.backend)
        assert target.family is families.get("atari")
        assert target.cell.workload == "step"


def test_a_family_is_looked_up_at_most_once_per_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []
    get, names = families.get, families.of_record
    monkeypatch.setattr(families, "get", lambda name: looked_up.append(name) or get(name))
    monkeypatch.setattr(families, "of_record", lambda name: looked_up.append(name) or names(name))
    made = choose(CellRequest(backends=["ceiling"]), PROFILE, 2).targets
    assert [each.cell.env for each in made] == ["atari", "mujoco"]
    assert len(looked_up) <= len(made)


def test_a_job_has_the_values_of_its_trial() -> None:
    wanted = cell("envpool-async", 8, overcommit="2.5")
    protocol = Protocol(measured_s=3.0, calls=7)
    trial = Trial(cell=wanted, seed=5, protocol=protocol, cpus=[1])
    target = target_of(wanted)
    job = make_job(trial, target, "run-1")
    assert (job.run_id, job.mode, job.adapter) == ("run-1", "measure", target.backend.adapter)
    assert (job.family, job.task) == ("atari", "Pong-v5")
    assert (job.numenv, job.env_instances, job.frame_skip, job.seed) == (8, 20, 4, 5)
    assert (job.settings, job.protocol, job.cpus) == (wanted.settings, protocol, [1])
    assert job.settings["overcommit"] == 2.5
    assert job.together == 0


def test_only_a_verifying_job_gives_all_environments_the_same_actions() -> None:
    amount = Verify(lock_steps=10, audit_calls=20, together=5)
    verifying = make_job(Trial(cell=cell(), mode="verify", verify=amount), target_of(cell()), "r")
    assert (verifying.verify, verifying.together) == (amount, 5)
    assert make_job(Trial(cell=cell(), verify=amount), target_of(cell()), "r").together == 0


@pytest.mark.parametrize(("family", "kept"), [("atari", None), ("box2d", 200)])
def test_a_job_keeps_all_observations_unless_episodes_are_compared(
    family: str, kept: int | None
) -> None:
    task = families.default_task(family)
    wanted = make_cell("laptop", family, task, backends.get("for-loop"), 2, {})
    assert make_job(Trial(cell=wanted, mode="verify"), target_of(wanted), "r").observed == kept


def test_a_cells_key_shows_only_settings_that_differ_from_the_default() -> None:
    assert cell("envpool-async", 8).key == "atari/Pong-v5/envpool-async/8"
    varied = cell("envpool-async", 8, overcommit="2", threads="0")
    assert varied.key == "atari/Pong-v5/envpool-async/8,overcommit=2.0"


def test_cells_that_differ_only_in_their_workload_have_different_keys() -> None:
    training: Any = "training"
    for step in (cell("envpool-async", 8), cell("envpool-async", 8, overcommit="2")):
        assert replace(step, workload=training).key == f"{step.key}@training"


def test_a_users_own_task_has_the_given_frames_per_step() -> None:
    loop = backends.get("for-loop")
    own = make_cell("laptop", "gym", "mine:My-v0", loop, 1, {}, 2.0)
    assert (own.frame_skip, type(own.frame_skip)) == (2, int)
    assert make_cell("laptop", "gym", "mine:My-v0", loop, 1, {}).frame_skip == 1
    assert make_cell("laptop", "mujoco", "Ant-v3", loop, 1, {}).frame_skip == 5


@given(
    a=st.tuples(st.integers(0, 2_147_482), st.integers(0, 999)),
    b=st.tuples(st.integers(0, 2_147_482), st.integers(0, 999)),
)
def test_different_seeds_or_rounds_never_have_the_same_round_seed(
    a: tuple[int, int], b: tuple[int, int]
) -> None:
    assert (seed_of_round(*a) == seed_of_round(*b)) == (a == b)
    assert 0 <= seed_of_round(*a) < 2**31  # libraries store a seed in 31 bits


def kept_by(mode: Literal["measure", "verify"], python: Path) -> str | None:
    target = target_of(make_cell("here", "mujoco", "Ant-v3", backends.get("mjx"), 4, {}))
    arm = Arm(target=target, python=str(python))
    started = launch(Trial(cell=target.cell, mode=mode, verify=Verify()), arm)
    return started.environment.get("JAX_COMPILATION_CACHE_DIR")


def test_verify_keeps_compiled_programs_in_the_runtime_and_run_compiles_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setenv("ENVBENCH_CACHE", str(tmp_path))
    runtime = tmp_path / "runtimes" / "mjx-1"
    kept = kept_by("verify", runtime / "bin" / "python")
    assert kept is not None
    assert Path(kept).parent == runtime / "compiled"
    assert kept_by("measure", runtime / "bin" / "python") is None
    assert kept_by("verify", tmp_path / "own" / "bin" / "python") is None
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "mine")
    assert kept_by("verify", runtime / "bin" / "python") == "mine"
