"""Which interpreter a worker runs in: found, made or refused, and never incomplete."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import venv
from pathlib import Path

import msgspec
import psutil
import pytest
from click.testing import CliRunner

from envbench import backends, runtimes
from envbench.backends import Backend, Needs, get
from envbench.cli.backends import backends as backends_command
from envbench.cli.backends import setup as setup_command
from envbench.errors import Unavailable, UnknownName, UsageError
from envbench.model import Family
from envbench.runtimes import installer
from envbench.runtimes.installer import LOG
from envbench.runtimes.interpreters import environment, find, make, parse_overrides, status

PLAIN = Backend(name="plain", label="Plain", families=["gym"], adapter="a:B", library="gymnasium")
ABSENT = msgspec.structs.replace(PLAIN, library="no_such_library")


def isolated(*requirements: str) -> Backend:
    return msgspec.structs.replace(PLAIN, name="isolated", requirements=list(requirements))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ENVBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "runtimes"


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A folder with the one wheel of a package that is on no index."""
    import zipfile

    folder = tmp_path / "wheels"
    folder.mkdir()
    info = "envbench_only_here-1.0.dist-info"
    with zipfile.ZipFile(folder / "envbench_only_here-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("envbench_only_here.py", "")
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: envbench-only-here\nVersion: 1.0\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return folder


# ---------------------------------------------------------------- finding


def test_a_backend_without_requirements_runs_in_the_current_interpreter() -> None:
    runtime = find(get("for-loop"), {})
    assert (runtime.python, runtime.ready) == (sys.executable, True)


def test_a_named_virtual_environment_is_not_resolved_to_its_base(tmp_path: Path) -> None:
    venv.create(tmp_path / "own", symlinks=True, with_pip=False)
    link = tmp_path / "own" / "bin" / "python"
    assert link.is_symlink()
    runtime = find(PLAIN, {"plain": str(link)})
    assert runtime.python == str(link)
    code = "import sys; print(sys.prefix)"
    answer = subprocess.run([runtime.python, "-I", "-c", code], capture_output=True, text=True)
    assert answer.stdout.strip() == str(tmp_path / "own")


def test_a_relative_interpreter_is_made_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "python").symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    assert parse_overrides(["for-loop=./python"]) == {"for-loop": str(tmp_path / "python")}


def test_a_path_that_is_not_an_interpreter_is_wrong_usage(tmp_path: Path) -> None:
    for text in ["for-loop", "for-loop=", "for-loop=/no/such/python", f"for-loop={__file__}"]:
        with pytest.raises(UsageError, match="--python"):
            parse_overrides([text])
    for text in ["for-loop=", "for-loop= "]:
        with pytest.raises(UsageError) as empty:
            parse_overrides([text])
        assert "path is empty" in empty.value.hint
        assert "variable is not set" in empty.value.hint
    with pytest.raises(UnknownName, match="Did you mean 'for-loop'"):
        parse_overrides([f"forloop={sys.executable}"])
    with pytest.raises(UnknownName, match="no-backend"):
        parse_overrides(["no-backend=/no/such/python"])
    with pytest.raises(UsageError, match=r"is not a Python 3\.8 or newer"):
        parse_overrides(["for-loop=true"])
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    with pytest.raises(UsageError) as caught:
        parse_overrides([f"for-loop={tmp_path}"])
    assert f"{tmp_path}/bin/python" in caught.value.hint


def test_a_runtime_is_found_by_its_requirements_and_python(cache: Path) -> None:
    one = find(isolated("a", "b"), {}).python
    assert Path(one).is_relative_to(cache)
    assert find(isolated("b", "a"), {}).python == one
    assert find(isolated("a", "b>=2"), {}).python != one
    other = msgspec.structs.replace(isolated("a", "b"), python="3.8")
    assert find(other, {}).python != one


# ---------------------------------------------------------------- requirements


@pytest.mark.parametrize(
    ("requirement", "name"),
    [
        ("ale_py>=0.11", "ale-py"),
        ("torch[x]==2.4; python_version > '3'", "torch"),
        ("/wheels/sample_factory-3.0-py3-none-any.whl", "sample-factory"),
        ("torchvision", "torchvision"),
        ("two words", ""),
        ("mine.whl", ""),
    ],
)
def test_a_requirement_or_wheel_has_a_normalised_name(requirement: str, name: str) -> None:
    assert installer.name_of(requirement) == name


def test_without_a_gpu_the_newest_local_cpu_wheel_of_torch_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installer, "has_gpu", lambda: False)
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path))
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    backend = isolated("torch", "torchvision")
    online = installer.packages_for(backend, "3.11")
    assert online.options == ["--torch-backend", "cpu"]
    for name in (
        "torch-2.9.1+cpu-cp311-cp311-linux_x86_64.whl",
        "torch-2.10.0+cpu-cp311-cp311-linux_x86_64.whl",
        "torch-2.11.0+cpu-cp312-cp312-linux_x86_64.whl",
        "torch-2.12.0-cp311-cp311-linux_x86_64.whl",
        "torch-broken.whl",
    ):
        (tmp_path / name).write_bytes(b"")
    local = installer.packages_for(backend, "3.11")
    assert (local.requirements, local.options) == (["torch==2.10.0+cpu", "torchvision"], [])


@pytest.mark.parametrize("versions", [("2.9.1", "2.10.0"), ("2.10.0", "2.9.1")])
def test_the_newest_wheel_of_torch_is_chosen_whatever_the_order_of_its_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, versions: tuple[str, str]
) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder, version in zip(folders, versions, strict=True):
        folder.mkdir()
        (folder / f"torch-{version}+cpu-cp311-cp311-linux_x86_64.whl").write_bytes(b"")
    monkeypatch.setattr(installer, "has_gpu", lambda: False)
    monkeypatch.setenv("UV_FIND_LINKS", ",".join(map(str, folders)))
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    assert installer.packages_for(isolated("torch"), "3.11").requirements == ["torch==2.10.0+cpu"]


# ---------------------------------------------------------------- status


def test_a_missing_library_is_reported_with_the_command_that_installs_it() -> None:
    found = status(ABSENT, {})
    assert found.state == "needs-setup"
    assert (found.reason, found.fix) == (
        "no_such_library is not installed",
        f"{sys.executable} -m pip install no_such_library",
    )


def test_an_empty_folder_with_the_name_of_the_library_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "no_such_library").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert status(ABSENT, {}).state == "needs-setup"


def test_a_library_that_no_installer_has_is_reported_with_its_source() -> None:
    found = status(get("isaac-gym"), {})
    assert (found.state, found.reason) == ("unavailable", "isaacgym is not installed")
    assert "https://developer.nvidia.com/isaac-gym" in found.fix
    assert "--python isaac-gym=PATH" in found.fix


def test_a_backend_for_another_system_is_unavailable_here() -> None:
    found = status(msgspec.structs.replace(PLAIN, systems=["plan9"]), {})
    assert (found.state, found.reason) == ("unavailable", "gymnasium runs on plan9 only")


def test_a_named_interpreter_is_asked_whether_it_has_the_library(tmp_path: Path) -> None:
    assert status(PLAIN, {"plain": sys.executable}).state == "ready"
    venv.create(tmp_path / "bare", symlinks=True, with_pip=False)
    bare = str(tmp_path / "bare" / "bin" / "python")
    found = status(PLAIN, {"plain": bare})
    assert (found.state, found.fix) == ("needs-setup", f"{bare} -m pip install gymnasium")
    vision = msgspec.structs.replace(PLAIN, library="cv2.dnn")
    assert status(vision, {"plain": bare}).fix == f"{bare} -m pip install opencv-python-headless"


# ---------------------------------------------------------------- making


def test_a_runtime_is_made_from_a_users_folder_of_wheels(
    cache: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(wheels.parent)
    monkeypatch.setenv("PIP_FIND_LINKS", "wheels")
    monkeypatch.setenv("UV_OFFLINE", "1")
    backend = isolated("envbench-only-here==1.0")
    before = status(backend, {})
    assert (before.state, before.fix) == ("needs-setup", "envbench setup isolated")
    lines: list[str] = []
    runtime = make(backend, lines.append)
    assert "envbench-only-here==1.0" in lines[0]
    assert runtime.ready
    assert status(backend, {}).state == "ready"
    subprocess.run([runtime.python, "-I", "-c", "import envbench_only_here"], check=True)
    assert make(backend, lines.append) == runtime


def test_two_processes_can_make_a_runtime_at_once(
    cache: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_FIND_LINKS", str(wheels))
    monkeypatch.setenv("UV_OFFLINE", "1")
    code = (
        "from envbench.backends import Backend; from envbench.runtimes.interpreters import make\n"
        "b = Backend(name='isolated', label='I', families=['gym'], adapter='a:B',"
        " library='x', requirements=['envbench-only-here'])\n"
        "lines = []; print(make(b, lines.append).ready, bool(lines))"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = sorted(process.communicate()[0].split()[0] for process in both)
    assert said == ["True", "True"]
    assert [process.returncode for process in both] == [0, 0]


@pytest.mark.parametrize(
    ("requirement", "surroundings", "says"),
    [
        ("envbench-only-here==9", {"UV_OFFLINE": "1"}, "no version of envbench-only-here"),
        ("envbench-nowhere", {"UV_OFFLINE": "1"}, "network"),
        (
            "envbench-nowhere",
            {"UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple", "UV_HTTP_RETRIES": "0"},
            "http://127.0.0.1:9/simple/envbench-nowhere",
        ),
        ("not a requirement", {}, "not a requirement"),
    ],
)
def test_a_failed_installation_is_reported_and_leaves_no_folder(
    cache: Path,
    wheels: Path,
    monkeypatch: pytest.MonkeyPatch,
    requirement: str,
    surroundings: dict[str, str],
    says: str,
) -> None:
    for name, value in {"UV_FIND_LINKS": str(wheels), **surroundings}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Unavailable) as caught:
        make(isolated(requirement), lambda line: None)
    assert requirement in str(caught.value)
    assert says in " ".join(str(caught.value).split())
    assert "--python isolated=PATH" in caught.value.hint
    assert caught.value.exit_code == 3
    assert [path.name for path in cache.iterdir() if path.is_dir()] == []
    assert status(isolated(requirement), {}).state == "needs-setup"


def test_the_folder_of_a_killed_setup_is_not_ready_and_is_made_again(
    cache: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_FIND_LINKS", str(wheels))
    monkeypatch.setenv("UV_OFFLINE", "1")
    backend = isolated("envbench-only-here")
    python = Path(find(backend, {}).python)
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)  # as uv leaves it before it installs anything
    (python.parent.parent / "pyvenv.cfg").write_text("")
    assert status(backend, {}).state == "needs-setup"
    assert make(backend, lambda line: None).ready


def test_an_interrupted_setup_ends_the_installer_and_leaves_no_folder(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    silent = socket.create_server(("127.0.0.1", 0))  # an index that never answers
    address = f"http://127.0.0.1:{silent.getsockname()[1]}/simple"
    monkeypatch.setenv("UV_DEFAULT_INDEX", address)
    main = threading.main_thread().ident
    assert main is not None

    before = psutil.Process().children()  # of other tests: multiprocessing's tracker stays

    class Interrupt(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage().startswith("Using Python"):  # the installation has begun
                threading.Timer(0.3, lambda: os.kill(os.getpid(), 2)).start()

    LOG.setLevel(logging.INFO)
    LOG.addHandler(seen := Interrupt())
    with silent, pytest.raises(KeyboardInterrupt):
        make(isolated("envbench-nowhere"), lambda step: None)
    LOG.removeHandler(seen)
    assert [path.name for path in cache.iterdir() if path.is_dir()] == []
    assert set(psutil.Process().children()) <= set(before)


def test_a_cache_that_cannot_be_written_is_an_error_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ENVBENCH_CACHE", str(tmp_path / "file"))
    with pytest.raises(Unavailable, match="cannot be written") as caught:
        make(isolated("anything"), lambda line: None)
    assert "ENVBENCH_CACHE" in caught.value.hint


# ---------------------------------------------------------------- the worker's environment


def test_thread_pools_are_pinned_unless_the_backend_says_otherwise() -> None:
    pinned = environment(get("subprocess"))
    assert pinned["OMP_NUM_THREADS"] == pinned["OPENBLAS_NUM_THREADS"] == "1"
    assert "XLA_FLAGS" not in pinned
    assert environment(msgspec.structs.replace(PLAIN, pin_threads=False)) == {}


def test_a_worker_gets_the_variables_that_its_backend_lists() -> None:
    own = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    jax = msgspec.structs.replace(PLAIN, environment=own)
    assert environment(jax) == {**environment(PLAIN), **own}
    more = msgspec.structs.replace(PLAIN, environment={"OMP_NUM_THREADS": "2"})
    assert environment(more)["OMP_NUM_THREADS"] == "2"  # the backend's own value wins
    bare = msgspec.structs.replace(jax, pin_threads=False)
    assert environment(bare) == own


# ---------------------------------------------------------------- needs of a family or workload

BOTH: list[Family] = ["atari", "mujoco"]
PHYSICS = Needs(add=["envbench-only-here==1.0"], families=["mujoco"])
TORCH = Needs(add=["torch"], workloads=["policy"])


def test_a_need_applies_to_its_families_and_workloads_only() -> None:
    backend = msgspec.structs.replace(isolated("base"), needs=[PHYSICS, TORCH])
    assert backend.requirements_of("atari") == ["base"]
    assert backend.requirements_of("mujoco") == ["base", "envbench-only-here==1.0"]
    assert backend.requirements_of("atari", "policy") == ["base", "torch"]
    assert backend.requirements_of("mujoco", "policy") == [
        "base", "envbench-only-here==1.0", "torch",
    ]  # fmt: skip


def test_only_a_family_that_needs_more_gets_an_isolated_runtime(
    cache: Path,
) -> None:
    backend = msgspec.structs.replace(PLAIN, families=BOTH, needs=[PHYSICS])
    assert find(backend, {}, "atari") == find(PLAIN, {})
    assert status(backend, {}, "atari").state == "ready"
    own = find(backend, {}, "mujoco")
    assert not own.ready
    assert Path(own.python).is_relative_to(cache)
    found = status(backend, {}, "mujoco")
    assert (found.state, found.fix) == ("needs-setup", "envbench setup plain")
    assert "envbench-only-here==1.0" in found.reason


def test_families_and_workloads_that_need_the_same_share_a_runtime(cache: Path) -> None:
    plain = isolated("base")
    backend = msgspec.structs.replace(plain, families=[*BOTH, "gym"], needs=[PHYSICS, TORCH])
    folders = {
        (family, workload): find(backend, {}, family, workload).python
        for family in (*BOTH, "gym")
        for workload in ("step", "policy")
    }
    assert folders["atari", "step"] == folders["gym", "step"] == find(plain, {}).python
    assert folders["atari", "policy"] == folders["gym", "policy"]
    assert len(set(folders.values())) == 4


def test_a_named_interpreter_serves_every_family(cache: Path) -> None:
    backend = msgspec.structs.replace(PLAIN, families=BOTH, needs=[PHYSICS])
    runtime = find(backend, {"plain": sys.executable}, "mujoco")
    assert runtime.python == sys.executable


def test_setup_makes_the_runtime_of_each_family_that_needs_one(
    cache: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_FIND_LINKS", str(wheels))
    monkeypatch.setenv("UV_OFFLINE", "1")
    backend = msgspec.structs.replace(PLAIN, families=BOTH, needs=[PHYSICS])
    monkeypatch.setattr(backends.BACKENDS, "loaded", ({"plain": backend}, []))
    done = CliRunner().invoke(setup_command, ["plain", "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    (row,) = json.loads(done.stdout)["backends"]
    assert (row["status"], row["python"]) == ("ready", sys.executable)  # of its first family
    assert find(backend, {}, "mujoco").ready
    assert make(backend, lambda line: None, "mujoco") == find(backend, {}, "mujoco")


# ---------------------------------------------------------------- the two commands


def test_backends_json_is_one_document_with_the_documented_keys() -> None:
    done = CliRunner().invoke(backends_command, ["--json"], catch_exceptions=False)
    document = json.loads(done.stdout)
    assert list(document) == ["schema", "backends"]
    for row in document["backends"]:
        assert list(row) == ["name", "families", "status", "reason", "fix"]
        assert row["status"] in ("ready", "needs-setup", "unavailable")
        assert row["status"] == "ready" or (row["reason"] and row["fix"])


def test_backends_lists_the_settings_of_a_backend() -> None:
    done = CliRunner().invoke(backends_command, ["envpool-async"], catch_exceptions=False)
    assert "overcommit" in done.stdout
    assert "a number of at least 1" in done.stdout
    assert "for-loop" not in done.stdout


def test_setup_continues_after_a_backend_that_it_cannot_set_up_and_exits_3() -> None:
    done = CliRunner().invoke(setup_command, ["isaac-gym", "for-loop", "--json"])
    assert done.exit_code == 3
    rows = json.loads(done.stdout)["backends"]
    assert [(row["name"], row["status"]) for row in rows] == [
        ("isaac-gym", "unavailable"),
        ("for-loop", "ready"),
    ]
    assert rows[1]["python"] == sys.executable


@pytest.mark.slow
def test_setup_of_all_skips_backends_that_cannot_run_here() -> None:
    done = CliRunner().invoke(setup_command, ["--all", "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)["backends"]}
    assert list(rows) == list(backends.registry())
    for name, row in rows.items():
        assert row["status"] == runtimes.status(backends.get(name), {}).state
        assert Path(row["python"]).is_file() == (row["status"] == "ready")
        assert f"{name}: {row['status']}" in done.stderr


def test_setup_of_nothing_is_wrong_usage() -> None:
    for arguments in [[], ["--all", "for-loop"]]:
        with pytest.raises(UsageError, match="setup takes one or more backends, or --all"):
            CliRunner().invoke(setup_command, arguments, catch_exceptions=False)


def test_an_interpreter_that_is_killed_gets_another_try(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(
        f"#!/bin/sh\nif [ ! -e {tmp_path}/asked ]; then touch {tmp_path}/asked; kill -9 $$; fi\n"
        f'exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    assert runtimes.interpreter(str(python), "--python") == str(python)
    assert (tmp_path / "asked").exists()
