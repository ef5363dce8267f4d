"""The fingerprint of this machine, read from real files and real processes."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbench.errors import UsageError
from envbench.machine import fingerprint, host
from envbench.machine.host import (
    _lines,
    clean_name,
    cpuinfo_name,
    gpus,
    nominal_gib,
    quota_cpus,
)

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's own files")
posix = pytest.mark.skipif(os.name != "posix", reason="runs a shell script")


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def tool(folder: Path, script: str) -> None:
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_two_looks_at_this_machine_give_the_same_fingerprint() -> None:
    found = fingerprint()
    assert fingerprint() == found
    assert found.cpu
    assert found.cpu.isprintable()
    assert 1 <= found.usable_cpus <= found.logical_cpus
    assert found.memory_gib >= 1
    assert found.system
    assert found.architecture


@linux
def test_an_affinity_mask_reduces_the_usable_cpus() -> None:
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert fingerprint().usable_cpus == 1
    finally:
        os.sched_setaffinity(0, before)


@linux
def test_a_measurement_is_kept_to_the_named_cores_and_the_mask_restored() -> None:
    before = os.sched_getaffinity(0)
    with host.kept_to([min(before)]):
        assert host.usable_cores() == [min(before)]
        assert subprocess.check_output(["nproc"]).strip() == b"1"
    assert os.sched_getaffinity(0) == before
    with host.kept_to([]):
        assert os.sched_getaffinity(0) == before


def test_only_nodes_with_a_usable_core_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "usable_cores", lambda: [0, 1, 8])
    for number, cores in enumerate(["0-1,8-9", "2-3,10", "", "4-8"]):  # the third has memory only
        put(tmp_path / f"node{number}" / "cpulist", cores + "\n")
    assert host.numa_nodes(tmp_path) == 2
    assert host.numa_nodes(tmp_path / "none") == 1


@linux
def test_a_core_that_cannot_be_used_is_refused() -> None:
    with pytest.raises(UsageError, match="core 9999 cannot be used here"), host.kept_to([0, 9999]):
        pass


def test_a_busy_core_is_noticed() -> None:
    spin = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        os.sched_setaffinity(spin.pid, {0})
        time.sleep(0.2)
        assert 0 in host.busy_cores([0])
    finally:
        spin.kill()
        spin.wait()


# ---------------------------------------------------------------- the host

MACHINE_ID = "0123456789abcdef" * 2


@pytest.fixture
def no_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A computer with ``MACHINE_ID`` and an empty state folder, which is returned."""
    put(tmp_path / "machine-id", MACHINE_ID + "\n")
    put(tmp_path / "mounts", "/dev/sda1 / ext4 rw 0 0\noverlay /var/lib/docker/x overlay rw 0 0\n")
    monkeypatch.setattr(host, "MACHINE_ID", tmp_path / "machine-id")
    monkeypatch.setattr(host, "MOUNTS", tmp_path / "mounts")
    monkeypatch.setattr(host, "CONTAINERS", (str(tmp_path / "dockerenv"),))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_the_host_is_a_hash_of_the_machine_id_that_does_not_show_it(no_container: Path) -> None:
    found = host.host_id()
    assert re.fullmatch("[0-9a-f]{12}", found)
    assert host.host_id() == found
    assert found not in MACHINE_ID
    assert found != hashlib.sha256(MACHINE_ID.encode()).hexdigest()[:12]
    put(host.MACHINE_ID, MACHINE_ID[::-1])
    assert host.host_id() != found
    assert not no_container.exists()


@linux
@pytest.mark.parametrize("sign", ["a file", "its root", "no machine-id", "a new system"])
def test_a_container_and_a_system_without_a_machine_id_keep_a_random_number(
    no_container: Path, monkeypatch: pytest.MonkeyPatch, sign: str
) -> None:
    by_machine = host.host_id()
    if sign == "a file":
        put(Path(host.CONTAINERS[0]), "")
    elif sign == "its root":
        put(host.MOUNTS, "overlay / overlay rw,relatime 0 0\n")
    else:
        put(host.MACHINE_ID, "" if sign == "no machine-id" else "uninitialized\n")
    with ThreadPoolExecutor(8) as threads:  # each may be the first
        (found,) = set(threads.map(lambda _: host.host_id(), range(8)))
    assert found != by_machine
    assert [path.name for path in (no_container / "envbench").iterdir()] == ["host"]
    monkeypatch.setenv("XDG_STATE_HOME", str(no_container / "other"))
    assert host.host_id() not in (found, by_machine)


@linux
def test_a_container_whose_state_cannot_be_kept_has_a_host_until_it_boots(
    no_container: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(host.MACHINE_ID, "")
    put(no_container, "a file in the way")
    boot = no_container.with_name("boot_id")
    monkeypatch.setattr(host, "BOOT_ID", boot)
    put(boot, "one")
    found = host.host_id()
    assert host.host_id() == found
    put(boot, "two")
    assert host.host_id() != found


def test_two_computers_of_one_model_have_equal_hardware() -> None:
    found = fingerprint()
    twin = msgspec.structs.replace(found, host="another")
    assert (found != twin, found.hardware == twin.hardware) == (True, True)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC: 7642\n", "AMD EPYC: 7642"),
        ("CPU implementer : 0x41\nCPU part : 0xd0c\n", "ARM 0x41 0xd0c"),
        ("", ""),
        ("no colon\n:\n", ""),
    ],
)
def test_the_name_of_the_cpu_is_read_from_cpuinfo(text: str, name: str) -> None:
    assert cpuinfo_name(text) == name


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control groups of this process are read from ``self`` and ``cg``."""
    monkeypatch.setattr(host, "MEMBERSHIP", tmp_path / "self")
    monkeypatch.setattr(host, "MOUNT", tmp_path / "cg")


@pytest.mark.usefixtures("groups")
def test_a_v2_quota_of_a_parent_group_limits_its_children(tmp_path: Path) -> None:
    put(tmp_path / "self", "0::/a/b\n")
    put(tmp_path / "cg/a/cpu.max", "150000 100000\n")
    put(tmp_path / "cg/a/b/cpu.max", "max 100000\n")
    assert quota_cpus() == 1.5


@pytest.mark.usefixtures("groups")
@pytest.mark.parametrize("quotas", [(200, 150, 400), (400, 200, 150), (150, 400, 200)])
def test_the_lowest_quota_of_a_group_and_its_parents_counts(
    tmp_path: Path, quotas: tuple[int, int, int]
) -> None:
    put(tmp_path / "self", "0::/a/b\n")
    for folder, per_cent in zip(("cg", "cg/a", "cg/a/b"), quotas, strict=True):
        put(tmp_path / folder / "cpu.max", f"{per_cent}000 100000\n")
    assert quota_cpus() == 1.5


@pytest.mark.usefixtures("groups")
def test_a_v2_container_sees_its_quota_at_the_root(tmp_path: Path) -> None:
    put(tmp_path / "self", "0::/../../other\n")
    put(tmp_path / "cg/cpu.max", "200000 100000\n")
    assert quota_cpus() == 2.0


@pytest.mark.usefixtures("groups")
def test_a_v1_quota_is_found_under_either_mount_name(tmp_path: Path) -> None:
    put(tmp_path / "self", "5:memory:/x\n4:cpu,cpuacct:/docker/1\n1:name=systemd:/\n")
    put(tmp_path / "cg/cpu,cpuacct/cpu.cfs_quota_us", "50000\n")
    put(tmp_path / "cg/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
    assert quota_cpus() == 0.5


@pytest.mark.usefixtures("groups")
@pytest.mark.parametrize("quota", ["max 100000", "-1 100000", "0 0", "x", ""])
def test_no_quota_is_none(tmp_path: Path, quota: str) -> None:
    put(tmp_path / "self", "0::/\ngarbage\n")
    put(tmp_path / "cg/cpu.max", quota)
    assert quota_cpus() is None
    (tmp_path / "self").unlink()
    assert quota_cpus() is None


@pytest.mark.parametrize(
    ("gib", "nominal"),
    [(0.4, 1), (3.7, 4), (7.7, 8), (15.6, 16), (31.2, 32), (62.7, 64), (125.6, 128),
     (251.5, 256), (503.4, 512), (755.0, 768), (1007.0, 1024)],
)  # fmt: skip
def test_memory_is_rounded_to_the_installed_size(gib: float, nominal: int) -> None:
    assert nominal_gib(int(gib * 2**30)) == nominal
    assert nominal_gib(int(gib * 2**30) - 20 * 2**20) == nominal


@posix
def test_the_gpus_are_those_that_nvidia_smi_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool(tmp_path, "printf 'NVIDIA H200\\n\\n\\033[31mNVIDIA  A100\\n'")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert gpus() == ["NVIDIA H200", "\ufffd[31mNVIDIA A100"]


@posix
def test_an_nvidia_smi_that_fails_means_no_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool(tmp_path, "echo 'NVIDIA-SMI has failed'; exit 9")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpus() == []


def test_a_probe_that_hangs_is_stopped() -> None:
    started = time.monotonic()
    hang = [sys.executable, "-c", "import time; time.sleep(60)"]
    assert _lines(hang, timeout_s=0.3) == []
    assert time.monotonic() - started < 10


@given(st.text(max_size=300))
def test_a_name_from_firmware_becomes_one_short_printable_line(text: str) -> None:
    clean = clean_name(text)
    assert clean
    assert clean.isprintable()
    assert clean == clean.strip()
    assert len(clean) <= 120
