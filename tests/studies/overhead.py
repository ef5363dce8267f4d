"""What measuring costs on each backend: envbench's loop and the library's own, alternating.

    python tests/studies/overhead.py                   # everything; resumes if it was stopped
    python tests/studies/overhead.py --only brax --again

This runs the benchmarks of ``tests/benchmarks``, each in its backend's own runtime, which is built
if it is missing. Every result is a line of ``results/studies/overhead/measured.txt``, one JSON
document each. An existing result is measured again only with ``--again``. Then both stay, and the
table of docs/studies.md shows both. A second table pools the results of each repeated
measurement. It takes about 40 minutes. Do not use the machine for anything else.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import click
from document import fill
from scipy.stats import norm, t
from tabulate import tabulate

from envbench import backends, runtimes
from envbench.machine.host import fingerprint

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "tests" / "benchmarks"
MEASURED = ROOT / "results" / "studies" / "overhead" / "measured.txt"
SLICE_S = 0.25
# Since BUFFERED_SINCE, the backends of BUFFERED count in a buffer of bytes, no longer in a list.
BUFFERED_SINCE = "2026-11-23T13"
BUFFERED = ("for-loop", "subprocess", "envpool-sync", "envpool-async", "envpool-numa")


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One call of a script that measures a backend in one family."""

    backend: str
    env: str
    script: str
    words: tuple[str, ...]
    mode: str = ""

    @property
    def known_by(self) -> tuple[str, str, str]:
        return self.backend, self.env, self.mode

    def measure(self, pairs: int, slice_s: float) -> dict[str, Any]:
        found = runtimes.find(backends.get(self.backend), {}, self.env)
        if not found.ready:
            found = runtimes.make(backends.get(self.backend), click.echo, self.env)
        asked = [found.python, BENCHMARKS / self.script, *self.words, "--pairs", str(pairs)]
        if slice_s != SLICE_S:
            asked += ["--slice", str(slice_s)]
        packages = {"CONTROLLER_PACKAGES": sysconfig.get_path("platlib")}
        done = subprocess.run(
            asked, cwd=ROOT, capture_output=True, text=True, env={**os.environ, **packages}
        )
        if done.returncode:
            raise SystemExit(f"{self.backend} failed:\n{done.stderr[-2000:]}")
        made = json.loads(done.stdout.splitlines()[-1])
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        cpu = fingerprint().cpu
        known = {"backend": self.backend, "env": self.env, "mode": self.mode, "utc": when}
        return {**known, "cpu": cpu, **made}


def every() -> Iterator[Benchmark]:
    for env in ("atari", "mujoco", "box2d", "classic_control", "dm_control"):
        for name in ("for-loop", "subprocess", "envpool-sync", "envpool-async"):
            yield Benchmark(backend=name, env=env, script="loop_cost_real_steps.py",
                            words=("--backend", name, "--env", env))  # fmt: skip
        for name, script in (("envpool-numa", "loop_cost_envpool_numa.py"),
                             ("sample-factory", "loop_cost_sample_factory.py")):  # fmt: skip
            if env in backends.get(name).families:
                yield Benchmark(backend=name, env=env, script=script, words=("--env", env))
    yield Benchmark(backend="ale-vector", env="atari", script="loop_cost_real_steps.py",
                    words=("--backend", "ale-vector", "--env", "atari"))  # fmt: skip
    for name in ("mujoco-rollout", "mujoco-warp", "genesis"):
        yield Benchmark(backend=name, env="mujoco", script="loop_cost_physics.py", words=(name,))
    for name in ("brax", "mjx"):
        for mode in ("scan", "step"):
            yield Benchmark(backend=name, env="mujoco", script="loop_cost_jax.py", mode=mode,
                            words=("--here", "--backend", name, "--mode", mode))  # fmt: skip


def measured() -> list[dict[str, Any]]:
    if not MEASURED.exists():
        return []
    return [json.loads(line) for line in MEASURED.read_text().splitlines()]


def key(found: dict[str, Any]) -> tuple[str, str, str]:
    return found["backend"], found["env"], found["mode"]


def in_order() -> list[dict[str, Any]]:
    """What was measured, in the order of ``every``."""
    order = {each.known_by: number for number, each in enumerate(every())}
    return sorted(measured(), key=lambda each: order[key(each)])


def table() -> str:
    rows = [
        [
            _name(each),
            each["env"],
            each["utc"][:10],
            each["numenv"],
            each["pairs"],
            f"{_slice_s(each):g} s",
            f"{each['ratio']:.3f}",
            "{:.3f}–{:.3f}".format(*each["interval"]),
            _percent(each["added_cpu"]) if "added_cpu" in each else "",
        ]
        for each in in_order()
    ]
    heads = ["backend", "env", "date", "numenv", "pairs", "slice", "ours / bare", "95 % interval"]
    return tabulate(rows, [*heads, "added CPU"], tablefmt="github", disable_numparse=True)


def together() -> str:
    """The second table: what was measured more than once with today's code, per slice length."""

    def kind(each: dict[str, Any]) -> tuple[Any, ...]:
        return (*key(each), -_slice_s(each))

    rows = []
    of_today = [
        each
        for each in in_order()
        if each["backend"] not in BUFFERED or each["utc"] >= BUFFERED_SINCE
    ]
    for _, group in groupby(sorted(of_today, key=kind), kind):
        found = list(group)
        if len(found) > 1:
            ratio, low, high = pooled(found)
            rows.append(
                [_name(found[0]), found[0]["env"], f"{_slice_s(found[0]):g} s", len(found),
                 f"{ratio:.3f}", f"{low:.3f}–{high:.3f}"]
            )  # fmt: skip
    heads = ["backend", "env", "slice", "rows", "together", "95 % interval"]
    return tabulate(rows, heads, tablefmt="github", disable_numparse=True)


def pooled(found: Sequence[dict[str, Any]]) -> tuple[float, float, float]:
    """The mean ratio and its 95 % interval: log ratios, each weighted by its precision."""
    weights = []
    for each in found:
        low, high = map(math.log, each["interval"])
        error = (high - low) / 2 / t.ppf(0.975, each["pairs"] - 1)
        weights.append(error**-2)
    logs = [math.log(each["ratio"]) for each in found]
    mean = sum(weight * log for weight, log in zip(weights, logs, strict=True)) / sum(weights)
    half = norm.ppf(0.975) / math.sqrt(sum(weights))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def _name(each: dict[str, Any]) -> str:
    return f"{each['backend']} ({each['mode']})" if each["mode"] else str(each["backend"])


def _slice_s(each: dict[str, Any]) -> float:
    return float(each.get("slice_s", SLICE_S))


def _percent(added: list[float]) -> str:
    mean, low, high = (100 * each for each in added)
    return f"{mean:+.2f} % ({low:+.2f} to {high:+.2f})"


@click.command(help=(__doc__ or "").splitlines()[0])
@click.option(
    "--only", multiple=True, help="Measure only this backend. Repeatable.  [default: all]"
)
@click.option("--env", "envs", multiple=True, help="Only this family. Repeatable.  [default: all]")
@click.option("--again", is_flag=True, help="Measure existing results again.")
@click.option(
    "--pairs", default=60, show_default=True, help="Pairs of slices per backend and family."
)
@click.option("--slice", "slice_s", default=SLICE_S, show_default=True, help="Seconds per slice.")
def main(
    only: tuple[str, ...], envs: tuple[str, ...], again: bool, pairs: int, slice_s: float
) -> None:
    known = set() if again else {key(each) for each in measured()}
    wanted = [each for each in every() if not only or each.backend in only]
    wanted = [each for each in wanted if not envs or each.env in envs]
    todo = [each for each in wanted if each.known_by not in known]
    MEASURED.parent.mkdir(parents=True, exist_ok=True)
    for number, each in enumerate(todo, start=1):
        click.echo(f"[{number}/{len(todo)}] {' '.join(each.known_by)} … ", nl=False)
        made = each.measure(pairs, slice_s)
        with MEASURED.open("a") as file:
            file.write(json.dumps(made) + "\n")
        click.echo("{:.4f} [{:.4f}, {:.4f}]".format(made["ratio"], *made["interval"]))
    fill("overhead-together", together())
    fill("overhead", table())


if __name__ == "__main__":
    sys.exit(main())
