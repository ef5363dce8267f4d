"""``envbench doctor``: show what makes this machine noisy, and what a check can find here."""

from __future__ import annotations

from collections.abc import Sequence

import click

from envbench.cli.options import AS_JSON, WAIT
from envbench.cli.output import fields, percent, print_json, table, tell
from envbench.cli.run_experiment import conduct
from envbench.engine.campaign import Campaign
from envbench.engine.experiment import Options
from envbench.errors import EnvbenchError
from envbench.experiments.noise import NoiseExperiment, OwnNoise
from envbench.machine.disturbance import Sign, signs
from envbench.model import BlockRecord
from envbench.runtimes.interpreters import cache_folder


@click.command()
@WAIT
@AS_JSON
def doctor(wait: bool, as_json: bool) -> None:
    """Show what makes this machine noisy, what to do about it, and what a check can find here.

    This takes about half a minute: envbench looks at the load, then lets equal workers step
    alternately. A stopped measurement can be resumed for ten minutes, by the same command.

    The records are kept in $ENVBENCH_CACHE/doctor if that variable is set, else in
    envbench/doctor in the user's cache (~/.cache on Linux, ~/Library/Caches on macOS).
    `envbench plans --results ~/.cache/envbench/doctor` lists them.
    """
    tell("Looking at the load …")
    found = signs()
    tell("Stepping a fixed kernel, one pair of equal workers after another …")
    options = Options(results=cache_folder().parent / "doctor", wait=wait)

    def show(outcome: Campaign[OwnNoise | None]) -> int:
        noise = outcome.findings
        if noise is None:
            outcome.concluded()
            raise _failure(outcome.done)
        if as_json:
            print_json(
                {
                    "schema": 1,
                    "signs": found,
                    **fields(noise.stage, "spread", "pairs"),
                    "spread_interval": noise.spreads,
                    "detectable": noise.detectable,
                    "detectable_interval": noise.detectables,
                }
            )
        else:
            _print_table(found, noise)
        return 0

    conduct(NoiseExperiment(), options, show)


def _failure(done: Sequence[BlockRecord]) -> EnvbenchError:
    for failure in [each.failure for each in done if each.failure]:
        return EnvbenchError(f"the reference kernel failed: {failure.message}", hint=failure.hint)
    return EnvbenchError(
        "the reference kernel completed no slice.",
        hint="Try again, and look at what else runs on this machine.",
    )


def _print_table(found: list[Sign], noise: OwnNoise) -> None:
    rows = [[sign.name, sign.found, sign.state, sign.advice] for sign in found]
    click.echo(table(rows, ["", "found", "", "what to do"]))
    click.echo(
        "\nEqual workers that step a fixed kernel differ by "
        f"{_percents(noise.stage.spread, noise.spreads)} here (standard deviation of "
        f"{noise.stage.pairs} pairs, with its 95 % interval).\nA default check of one "
        f"thread can find a slowdown of {_percents(noise.detectable, noise.detectables)}. Pools "
        "and processes vary more, and so may your environment:\n`envbench check` without arms "
        "measures by how much."
    )


def _percents(middle: float, span: tuple[float, float]) -> str:
    low, high = span
    return f"{percent(middle)} ({100 * low:.1f} to {100 * high:.1f})"
