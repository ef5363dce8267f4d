"""Isaac Gym's adapter in a real Python 3.8, with stand-ins for what no registry has.

``fixtures/isaac_stand_in`` honours the documented interface; it simulates nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar, Literal

import pytest
from helpers.command_line import Place
from helpers.virtual_environments import install, make_interpreter, python_3_8

from envbench import backends, testing
from envbench.decisions import equal_work
from envbench.engine.target import target_of
from envbench.model import Trial, Verify
from envbench.process.one_job import execute
from envbench.process.reply import Reply
from envbench.testing import BackendContract

pytestmark = pytest.mark.slow
STAND_IN = Path(__file__).parents[2] / "fixtures" / "isaac_stand_in"
BACKEND = backends.get("isaac-gym")
RUN = ("run", "--env", "mujoco", "--backend", "isaac-gym", "--numenv", 16)
BRIEFLY = ("--total-step", 200, "--repeats", 1)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python 3.8 with numpy and stand-ins for isaacgym, isaacgymenvs, hydra and torch."""
    folder = tmp_path_factory.mktemp("isaac")
    found = make_interpreter(folder / "venv", python_3_8(), [STAND_IN / "gym", STAND_IN / "envs"])
    install(found, "numpy")
    return found


class TestIsaacGym(BackendContract):
    backend = BACKEND
    family = "mujoco"
    task = "Ant-v3"
    numenv = 16
    sees_resets = True
    interpreters: ClassVar[dict[str, str]] = {}
    overrides = interpreters

    @pytest.fixture(autouse=True)
    def in_python_3_8(self, python: Path) -> None:
        self.interpreters["isaac-gym"] = str(python)

    def test_runs_on_the_device_in_its_own_python(self) -> None:
        reply = self.measured()
        assert reply.python.startswith("3.8.")
        assert reply.facts["device"] == "cuda:0"
        assert reply.peak_gpu_memory_bytes == 123456789


def ran(python: Path, mode: Literal["measure", "verify"], **stand_in: str) -> Reply:
    """The reply of a worker that the test starts itself, for checks that the contract does not
    have."""
    amount = Verify(audit_calls=300)
    trial = Trial(cell=TestIsaacGym().cell, mode=mode, protocol=testing.SHORT, verify=amount)
    job = testing.make_job(trial, target_of(trial.cell), "isaac")
    return execute(job, python=str(python), environment={**os.environ, **stand_in})


def test_a_step_is_the_control_step_of_the_family_and_resets_are_not_steps(python: Path) -> None:
    reply = ran(python, "verify")
    assert reply.ok, reply.failure
    audit = reply.audit
    assert audit is not None
    assert audit.frames == 5 * audit.steps
    assert audit.steps + audit.resets == 16 * audit.calls
    # The first call resets all; then an ant of the stand-in falls after fifty steps or so.
    assert audit.resets > 16 + 16 * audit.calls / 100
    assert reply.trace is None  # another engine, and random starts


def test_what_a_step_does_is_read_off_the_simulation(python: Path) -> None:
    facts = ran(python, "verify").facts
    work = facts["work"]
    assert work["timestep_s"] * work["substeps"] == pytest.approx(0.05)
    assert (work["substeps"], work["returned_to"], work["max_steps"]) == (6, "device", 39)
    assert facts["library_arguments"]["task.env.controlFrequencyInv"] == 3
    assert facts["observation_shape"] == [60]
    differences = equal_work.differences("mujoco", "env", work)
    unknown = [name for name, (_, found) in differences.items() if found == "unknown"]
    assert unknown == ["integrator"]


def test_it_runs_on_a_cpu_where_torch_sees_no_gpu(python: Path) -> None:
    reply = ran(python, "verify", STAND_IN_GPU="0")
    assert reply.ok, reply.failure
    assert (reply.facts["device"], reply.facts["work"]["returned_to"]) == ("cpu", "host")
    assert reply.audit is not None
    assert reply.audit.frames == 5 * reply.audit.steps


def test_a_version_with_another_step_length_is_refused(python: Path) -> None:
    reply = ran(python, "measure", STAND_IN_DEAF="1")
    assert reply.failure is not None
    assert reply.failure.phase == "build"
    assert "lasts 0.0166 s" in reply.failure.message


def test_the_run_command_measures_it(place: Place, python: Path) -> None:
    done = place.run(*RUN, *BRIEFLY, "--python", f"isaac-gym={python}", "--json")
    assert done.code == 0, done.err
    (cell,) = done.document["cells"]
    assert cell["fps"] == pytest.approx(5 * cell["steps_per_second"])
    (run,) = place.runs()
    assert sum(run.measured.steps) + sum(run.measured.resets) == 16 * 200


def test_the_error_for_another_task_names_the_only_known_task(place: Place, python: Path) -> None:
    done = place.run(*RUN, *BRIEFLY, "--task", "Humanoid-v3", "--python", f"isaac-gym={python}")
    assert done.code == 2
    assert "Ant-v3" in done.err


# ---------------------------------------------------------------- what is missing


@pytest.fixture(scope="module")
def without_environments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python 3.8 that has Isaac Gym, and not IsaacGymEnvs."""
    folder = tmp_path_factory.mktemp("half")
    found = make_interpreter(folder / "venv", python_3_8(), [STAND_IN / "gym"])
    install(found, "numpy")
    return found


def shown(text: str) -> str:
    """The text with each line break as a space."""
    return " ".join(text.split())


def test_the_error_for_missing_isaacgymenvs_says_where_to_get_it(
    place: Place, without_environments: Path
) -> None:
    done = place.run(*RUN, *BRIEFLY, "--python", f"isaac-gym={without_environments}")
    assert done.code == 3
    assert "No module named 'isaacgymenvs'" in done.err
    assert BACKEND.by_hand in shown(done.err)
    assert "Traceback" not in done.err


def test_the_list_of_backends_says_what_is_missing_and_where_to_get_it(
    place: Place, bare_python: Path
) -> None:
    for options in ([], ["--python", f"isaac-gym={bare_python}"]):
        done = place.run("backends", "isaac-gym", "--json", *options)
        (row,) = done.document["backends"]
        assert row["status"] == "unavailable"
        assert row["reason"] == "isaacgym is not installed"
        assert row["fix"] == BACKEND.by_hand
    for place_to_get in ("developer.nvidia.com/isaac-gym", "IsaacGymEnvs", "--python isaac-gym="):
        assert place_to_get in BACKEND.by_hand


def test_a_named_backend_without_its_library_is_an_error_with_the_reason(
    place: Place,
) -> None:
    done = place.run(*RUN, *BRIEFLY)
    assert done.code == 3
    assert BACKEND.by_hand in shown(done.err)
