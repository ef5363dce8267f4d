"""``envbench doctor``: show how noisy this machine is, and how small a slowdown a check finds."""

from __future__ import annotations

import click

from envbench.cli.conduct import conduct
from envbench.cli.options import AS_JSON, WAIT
from envbench.cli.terminal import print_json, share_text, table, tell
from envbench.engine.campaign import Campaign
from envbench.engine.experiment import Options
from envbench.errors import EnvbenchError
from envbench.experiments.noise import NoiseExperiment, OwnNoise
from envbench.machine.disturbance import Sign, signs
from envbench.model import Failure, fields
from envbench.runtimes.interpreters import cache_folder

NO_SLICE = Failure(
    reason="stalled",
    message="it completed no slice.",
    hint="Try again, and look at what else runs on this machine.",
)


@click.command()
@WAIT
@AS_JSON
def doctor(wait: bool, as_json: bool) -> None:
    """Show how noisy this machine is, and how small a slowdown a check finds.

    This takes about half a minute. envbench looks at the load, then steps pairs of equal workers
    alternately. To resume a stopped measurement, give the same command within ten minutes.

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
            failure = next((each.failure for each in outcome.done if each.failure), NO_SLICE)
            message = f"the reference kernel failed: {failure.message}"
            raise EnvbenchError(message, hint=failure.hint)
        if as_json:
            measured = {
                **fields(noise.stage, "spread pairs"),
                **fields(noise, "spread_interval detectable detectable_interval"),
            }
            print_json({"schema": 1, "signs": found, **measured})
        else:
            _print_table(found, noise)
        return 0

    try:
        conduct(NoiseExperiment(), options, show)
    except EnvbenchError as error:
        if "--results" in error.hint:  # an option of the other measuring commands
            error.hint = "Set ENVBENCH_CACHE to a folder that you can write to."
        raise


def _print_table(found: list[Sign], noise: OwnNoise) -> None:
    rows = [[sign.name, sign.found, sign.state, sign.advice] for sign in found]
    click.echo(table(rows, ["", "found", "", "what to do"]))
    click.echo(
        "\nEqual workers that step a fixed kernel differ by "
        f"{_percents(noise.stage.spread, noise.spread_interval)} here (standard deviation of "
        f"{noise.stage.pairs} pairs, with its 95 % interval).\nA default check of one "
        f"thread can find a slowdown of {_percents(noise.detectable, noise.detectable_interval)}. "
        "Thread pools and processes vary more, and so may your environment:\n"
        "`envbench check` without --baseline and --candidate measures by how much."
    )


def _percents(middle: float, span: tuple[float, float]) -> str:
    return f"{share_text(middle)} ({100 * span[0]:.1f} to {100 * span[1]:.1f})"
