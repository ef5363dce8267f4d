"""Verify backends that do equal work, again and again: is one of them ever accused?

    python tests/studies/honest_verify.py                    # 20 runs of each family; resumes
    python tests/studies/honest_verify.py --at-most 1 --only classic_control
    python tests/studies/honest_verify.py --only mujoco --backend mjx,mujoco-warp

Each run is ``envbench verify`` itself with a seed of its own, so its actions, start states and
lengths differ. Each finding is a line of ``findings.jsonl``. At the end the table of
docs/studies.md is made from these lines.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import click
from document import bounds, fill
from tabulate import tabulate

ROOT = Path(__file__).parents[2]
FINDINGS = ROOT / "results" / "studies" / "honest-verify" / "findings.jsonl"
FAMILIES = ("atari", "mujoco", "dm_control", "classic_control", "box2d", "gym")
TASKS = {"gym": ["--task", "Acrobot-v1"]}  # this family has no task of its own
RUNS = 20


def findings() -> list[dict[str, Any]]:
    """The recorded findings."""
    if not FINDINGS.exists():
        return []
    return [json.loads(line) for line in FINDINGS.read_text(encoding="utf-8").splitlines()]


def verified(family: str, seed: int, backend: str) -> list[dict[str, Any]]:
    """One run of ``envbench verify``: a finding for each backend."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "envbench", "verify", "--env", family, "--seed", str(seed)]
        done = subprocess.run(
            [*words, *TASKS.get(family, []), "--backend", backend, "--results", folder,
             "--yes", "--json"],
            stdout=subprocess.PIPE, cwd=ROOT, text=True, check=False,
        )  # fmt: skip
    took = round(time.monotonic() - began, 1)
    return [
        {
            "family": family, "seed": seed, "seconds": took, "code": done.returncode,
            **{name: found[name] for name in ("env", "task", "backend", "settings", "verdict")},
            "failure": found["failure"],
        }
        for found in json.loads(done.stdout)["verifications"]
    ]  # fmt: skip


def accused(found: dict[str, Any]) -> bool:
    """Was the backend refused, or found unequal to its reference in lock-step?"""
    return bool(found["verdict"]["refused"] or found["verdict"]["unequal"])


def report() -> str:
    """A row per family and backend."""
    by_row: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for found in findings():
        by_row[found["family"], found["task"], found["backend"]].append(found)
    rows = []
    for (family, task, backend), every in by_row.items():
        wrong, failed = sum(map(accused, every)), sum(bool(each["failure"]) for each in every)
        badges = " ".join(dict.fromkeys(each["verdict"]["badge"] for each in every))
        most = 100 * bounds(wrong, len(every))[1]
        took = [each["seconds"] / 60 for each in every]
        rows.append(
            [family, f"{task} `{backend}`", len(every), badges, wrong, f"{most:.0f} %", failed,
             f"{median(took):.1f} min", f"{max(took):.1f} min"]
        )  # fmt: skip
    heads = ["family", "backend", "runs", "badge", "accused", "at most", "failed",
             "family took", "longest"]  # fmt: skip
    return tabulate(rows, heads, "github", disable_numparse=True)


@click.command()
@click.option("--only", default=",".join(FAMILIES), help="Families, separated by commas.")
@click.option("--backend", default="all", help="Only these, separated by commas.")
@click.option("--at-most", default=RUNS, help="Runs of each family.")
@click.option("--fill", "into_docs", is_flag=True, help="Put the table into docs/studies.md.")
def main(only: str, backend: str, at_most: int, into_docs: bool) -> None:
    """Verify each family until it has its runs, and print the table."""
    FINDINGS.parent.mkdir(parents=True, exist_ok=True)
    for seed in range(1, at_most + 1):
        for family in only.split(","):
            if any(
                (each["family"], each["seed"]) == (family, seed)
                and (backend == "all" or each["backend"] in backend.split(","))
                for each in findings()
            ):
                continue
            lines = [json.dumps(each) + "\n" for each in verified(family, seed, backend)]
            with FINDINGS.open("a", encoding="utf-8") as file:
                file.writelines(lines)
    print(report())
    if into_docs:
        fill("honest backends", report())


if __name__ == "__main__":
    main()
