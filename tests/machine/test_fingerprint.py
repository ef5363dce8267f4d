"""The fingerprint of this machine, read from real files and real processes."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
