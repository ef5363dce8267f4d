"""``envbench doctor``: what makes this machine noisy, and how small a change can be seen here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from envbench.cli import tell
from envbench.cli.options import AS_JSON, WAIT
from envbench.errors import EnvbenchError

if TYPE_CHECKING:
    from envbench.engine.session import Outcome
    from envbench.experiments.noise import OwnNoise
    from envbench.machine.disturbance import Sign
    from envbench.model import BlockRecord


@click.command()
@WAIT
@AS_JSON
def doctor(wait: bool, as_json: bool) -> None:
    """What makes this machine noisy, what to do about it, and what a check can see here.

    Takes about half a minute: a look at the load, then equal workers that step alternately. The
    same command resumes within ten minutes.

    Its records are kept in $ENVBENCH_CACHE/doctor where that variable is set, else in
    envbench/doctor of the user's cache (~/.cache on Linux, ~/Library/Caches on macOS);
    `envbench plans --results ~/.cache/envbench/doctor` lists them.
    """
    from envbench.cli.conduct import conduct
    from envbench.engine.experiment import Options
    from envbench.experiments.noise import NoiseExperiment
    from envbench.machine.disturbance import signs
    from envbench.runtimes.interpreters import cache_folder

    tell("Looking at the load …")
    found = signs()
    tell("Stepping a fixed kernel, one pair of equal workers after another …")
    options = Options(results=cache_folder().parent / "doctor", wait=wait)

    def show(outcome: Outcome[OwnNoise | None]) -> int:
        noise = outcome.findings
        if noise is None:
            outcome.concluded()
            raise _failure(outcome.done)
        (_print_json if as_json else _print_table)(found, noise)
        return 0

    conduct(NoiseExperiment(), options, show)


def _failure(done: Sequence[BlockRecord]) -> EnvbenchError:
    for failure in [each.failure for each in done if each.failure]:
        return EnvbenchError(f"the reference kernel failed: {failure.message}", hint=failure.hint)
    hint = "Try again, and look at what else runs."
    return EnvbenchError("the reference kernel made no slice.", hint=hint)


def _print_table(found: list[Sign], noise: OwnNoise) -> None:
    from tabulate import tabulate

    rows = [[sign.name, sign.found, sign.state, sign.advice] for sign in found]
    click.echo(tabulate(rows, ["", "found", "", "what to do"], disable_numparse=True))
    click.echo(
        "\nEqual workers that step a fixed kernel differ by "
        f"{_percents(noise.stage.spread, noise.spreads)} here (standard deviation of "
        f"{noise.stage.pairs} pairs, and its 95 % interval).\nA default check of one "
        f"thread can find a slowdown of {_percents(noise.detectable, noise.detectables)}; pools "
        "and processes spread more, and so may your environment: `envbench check` without arms\n"
        "measures that."
    )


def _percents(middle: float, span: tuple[float, float]) -> str:
    low, high = span
    return f"{100 * middle:.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def _print_json(found: list[Sign], noise: OwnNoise) -> None:
    import msgspec

    whole: dict[str, Any] = {
        "schema": 1,
        "signs": found,
        "spread": noise.stage.spread,
        "spread_interval": noise.spreads,
        "pairs": noise.stage.pairs,
        "detectable": noise.detectable,
        "detectable_interval": noise.detectables,
    }
    click.echo(msgspec.json.format(msgspec.json.encode(whole)).decode())
