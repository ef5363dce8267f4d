"""envpool-numa: nodes found and made by hand, processes bound to them, one window counted right."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from helpers.following import followed
from helpers.session_cache import once
from helpers.skip_or_fail import not_here

from envbench import backends, families
from envbench.decisions.agreement import compared
from envbench.engine.target import make_cell, target_of
from envbench.engine.worker_job import make_job
from envbench.errors import UsageError
from envbench.model import Family, Job, Trial, Verify
from envbench.process.code_hash import WORKER_PATH
from envbench.process.one_job import execute
from envbench.process.reply import Reply
from envbench.testing import BackendContract

CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
TWO_NODES = "/".join(str(core) for core in CORES[:2])


@pytest.fixture(scope="module", autouse=True)
def two_cores() -> None:
    if len(CORES) < 2:
        not_here("two cores, for two nodes made by hand")


def job(name: str, family: Family, mode: Any = "measure", numenv: int = 4, **given: str) -> Job:
    backend = backends.get(name)
    cell = make_cell("test", family, families.default_task(family), backend, numenv, given)
    amount = Verify(lock_steps=30, audit_calls=400)
    trial = Trial(cell=cell, mode=mode, seed=3, verify=amount)
    return make_job(trial, target_of(cell), f"test-{uuid.uuid4().hex[:8]}")


@pytest.mark.parametrize("nodes", ["0-", "0//1", "zero", "0-3;4-7", "/", "0-3/"])
def test_nodes_that_are_not_lists_of_cores_are_refused_before_anything_runs(nodes: str) -> None:
    with pytest.raises(UsageError, match="takes text such as 0-3/4-7"):
        backends.resolve_settings(backends.get("envpool-numa"), "atari", {"nodes": nodes})


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes adapters in this process, as the worker does, and closes them."""
    monkeypatch.syspath_prepend(WORKER_PATH)
    contract = import_module("envbench_worker.contract")
    adapters = []

    def make(asked: Job) -> Any:
        module, _, attribute = asked.adapter.partition(":")
        seen = contract.Job(**{name: getattr(asked, name) for name in contract.Job._fields})
        adapters.append(getattr(import_module(module), attribute)(seen))
        return adapters[-1]

    yield make
    for adapter in adapters:
        if adapter.processes:
            adapter.close()
    for name in [name for name in sys.modules if name.startswith("envbench_")]:
        del sys.modules[name]


# ---------------------------------------------------------------- nodes


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(WORKER_PATH)
    found = import_module("envbench_adapters.free_running.numa_nodes")
    monkeypatch.setattr(found, "usable_cores", lambda: [0, 1, 2, 3, 8])
    return found


def test_the_systems_nodes_have_only_cores_that_may_be_used(nodes: Any, tmp_path: Path) -> None:
    for number, cores in enumerate(["0-1,8-9", "2-3,10", "", "4-7"]):
        (tmp_path / f"node{number}").mkdir()
        (tmp_path / f"node{number}" / "cpulist").write_text(cores + "\n")
    (tmp_path / "possible").write_text("0-3\n")
    assert nodes.of_system(tmp_path) == [([0, 1, 8], 0), ([2, 3], 1)]


def test_a_system_without_numa_information_has_one_node(nodes: Any, tmp_path: Path) -> None:
    assert nodes.of_system(tmp_path / "none") == [([0, 1, 2, 3, 8], None)]


def test_nodes_defined_by_hand_have_no_bound_memory(nodes: Any) -> None:
    assert nodes.chosen("0-1,8/2-3") == [([0, 1, 8], None), ([2, 3], None)]
    assert nodes.shown([0, 1, 2, 8]) == "0-2,8"


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ("0-1/9", "may not use core 9"),
        ("0-1/1-2", "one node only"),
        ("0-1/", "every node needs a core"),
        ("3-2/0", "every node needs a core"),
        ("0-1;2", "not a list of cores"),
        ("0-123456", "not a list of cores"),
    ],
)
def test_a_wrong_list_of_nodes_is_refused(nodes: Any, text: str, trouble: str) -> None:
    with pytest.raises(ValueError, match=trouble):
        nodes.chosen(text)


# ---------------------------------------------------------------- shares


def test_environments_are_split_as_evenly_as_possible(made: Any) -> None:
    shares = made(job("envpool-numa", "mujoco", numenv=5, nodes=TWO_NODES)).shares()
    assert [(share.numenv, share.env_instances) for _, share in shares] == [(3, 9), (2, 6)]


def test_environments_in_flight_are_split_in_proportion_to_the_batch(made: Any) -> None:
    three = job("envpool-numa", "mujoco", numenv=3, nodes=TWO_NODES, overcommit="1.5")
    shares = made(three).shares()
    assert three.env_instances == 4
    assert [(share.numenv, share.env_instances) for _, share in shares] == [(2, 2), (1, 2)]


def test_fewer_environments_than_nodes_are_refused(made: Any) -> None:
    with pytest.raises(ValueError, match="1 environments on 2 nodes: each node needs one"):
        made(job("envpool-numa", "mujoco", numenv=1, nodes=TWO_NODES)).build()


# ---------------------------------------------------------------- processes


@pytest.mark.slow
def test_each_process_and_its_threads_keep_to_their_nodes_cores_and_exit_by_themselves(
    made: Any,
) -> None:
    adapter = made(job("envpool-numa", "mujoco", nodes=TWO_NODES))
    adapter.build()
    adapter.run(10)
    for process, core in zip(adapter.processes, CORES, strict=False):
        for thread in Path(f"/proc/{process.child.pid}/task").iterdir():
            allowed = (thread / "status").read_text().split("Cpus_allowed_list:")[1].split()[0]
            assert allowed == str(core)
    adapter.close()
    assert [process.child.exitcode for process in adapter.processes] == [0, 0]


@pytest.mark.slow
def test_a_real_nodes_memory_is_bound_or_the_refusal_is_reported(made: Any) -> None:
    adapter = made(job("envpool-numa", "mujoco"))
    adapter.build()
    adapter.run(10)
    for process in adapter.facts()["processes"]:
        assert process["memory"].startswith(("bound to node ", "refused: ", "not bound"))
        if process["memory"].startswith("bound"):
            number = process["memory"].rsplit(" ", 1)[1]
            maps = Path(f"/proc/{adapter.processes[0].child.pid}/numa_maps")
            assert not maps.exists() or f"bind:{number}" in maps.read_text()


@pytest.mark.slow
def test_the_run_ends_with_the_signal_of_a_killed_process(made: Any) -> None:
    adapter = made(job("envpool-numa", "mujoco", nodes=TWO_NODES))
    adapter.build()
    adapter.run(10)
    adapter.processes[1].child.kill()
    adapter.processes[1].child.join()
    time.sleep(0.2)  # the other runs on, and so could fill the window alone
    for _ in range(2):
        with pytest.raises(Exception, match=f"cores {CORES[1]} ended of signal 9"):
            adapter.run(10)
    assert adapter.dead_child() == -signal.SIGKILL


def test_a_process_that_cannot_start_is_reported_with_its_own_error(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = made(job("envpool-numa", "mujoco", nodes=TWO_NODES))
    monkeypatch.setattr(adapter, "member", "json:NoSuchMember")
    with pytest.raises(Exception, match=r"AttributeError: .*NoSuchMember"):
        adapter.build()
    assert all(process.child.exitcode is not None for process in adapter.processes)
    assert adapter.dead_child() is None  # the adapter itself ended the others


FALLS = """
from envbench_adapters.free_running.processes import Member
from envbench_worker.contract import Counts

class Falls(Member):
    made = 0
    def build(self): pass
    def facts(self): return {}
    def run(self, calls):
        self.made += calls
        if self.made > 1000:
            raise ValueError("the robot fell off the edge")
        return Counts(calls * self.job.numenv, 0)
"""


def test_an_exception_in_a_process_ends_the_run_with_its_message(
    made: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "falls.py").write_text(FALLS)
    adapter = made(job("envpool-numa", "mujoco", nodes=TWO_NODES))
    window = import_module("envbench_adapters.free_running.processes")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(adapter, "member", "falls:Falls")
    adapter.build()
    with pytest.raises(window.ProcessDied, match="ValueError: the robot fell off") as raised:
        adapter.run(10_000)
    assert 'raise ValueError("the robot' in str(raised.value.__cause__)
    assert adapter.dead_child() is None  # its words say more than an exit code


ORPHANS = """
import json, os, sys
sys.path.insert(0, {path!r})
from envbench_adapters.ceiling.ceiling import Ceiling
from envbench_worker.contract import Job
adapter = Ceiling(Job("measure", "mujoco", "Ant-v3", 2, 2, 5, {{}}, 0))
adapter.build()
adapter.run(10)
print(json.dumps([process.child.pid for process in adapter.processes]), flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
def test_processes_die_with_the_worker() -> None:
    script = ORPHANS.format(path=str(WORKER_PATH))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    pids = [int(word) for word in done.stdout.strip("[]\n").split(",")]
    assert len(pids) == 2
    until = time.monotonic() + 10
    while any(_lives(pid) for pid in pids):
        assert time.monotonic() < until
        time.sleep(0.02)


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


# ---------------------------------------------------------------- counting


@pytest.mark.slow
def test_windows_lie_back_to_back_and_lose_nothing(made: Any) -> None:
    adapter = made(job("envpool-numa", "mujoco", nodes=TWO_NODES))
    adapter.build()
    windows = []
    for calls in (1, 1, 2, 7, 40, 1, 40):
        windows.append((calls, adapter.run(calls)))
        time.sleep(0.01)  # their results of this time belong to the next window
    assert all(counts.steps + counts.resets == calls * 4 for calls, counts in windows)
    assert all(min(counts) >= 0 for _, counts in windows)
    assert windows[0][1].resets == 4  # what was reset at the start comes back first
    credited = sum(counts.steps + counts.resets for _, counts in windows)
    assert adapter.table["received"].sum() >= credited == adapter.credited


@pytest.mark.slow
@pytest.mark.parametrize("family", ["atari", "mujoco"])
def test_frames_counted_by_the_environments_agree(family: Family) -> None:
    audit = verified("envpool-numa", family, nodes=TWO_NODES).audit
    assert audit is not None
    assert audit.steps + audit.resets == audit.calls * 4
    assert audit.frames == audit.steps * families.get(family).frames_per_step(
        families.default_task(family)
    )
    assert audit.resets > 0 or family == "atari"  # games are longer


@pytest.mark.slow
def test_the_environments_of_each_node_get_their_own_actions() -> None:
    found = followed("mujoco", "envpool-numa", numenv=4, nodes=TWO_NODES)
    assert len(found.observations) == 4
    found = msgspec.structs.replace(found, hollow=False)  # it says that it has no contact forces
    assert compared(families.get("mujoco").standards["env"], found)[0] is True


@once
def verified(name: str, family: Family, **given: str) -> Reply:
    reply = execute(job(name, family, "verify", **given), python=sys.executable, environment={})
    assert reply.ok, reply.failure
    return reply


@pytest.mark.slow
class TestEnvPoolNumaAtari(BackendContract):
    backend = backends.get("envpool-numa")
    family = "atari"
    task = "Pong-v5"
    settings = {"nodes": TWO_NODES}


@pytest.mark.slow
class TestEnvPoolNumaMujoco(BackendContract):
    backend = backends.get("envpool-numa")
    family = "mujoco"
    task = "Ant-v3"
    numenv = 3
    settings = {"nodes": TWO_NODES}
    sees_resets = True
