"""``envbench doctor``: what makes this machine noisy, and how small a change can be seen here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from envbench.cli.options import AS_JSON, WAIT

if TYPE_CHECKING:
    from envbench.machine.disturbance import Sign
    from envbench.own_noise import OwnNoise


@click.command()
@WAIT
@AS_JSON
def doctor(wait: bool, as_json: bool) -> None:
    """What makes this machine noisy, what to do about it, and what a check can see here.

    Takes some twenty seconds: a look at the load, then equal workers that step in turn.
    """
    from envbench import lock
    from envbench.cli import tell
    from envbench.machine.disturbance import signs
    from envbench.own_noise import measure
    from envbench.regression import Rule

    with lock.acquire(wait=wait, on_wait=tell):
        tell("Looking at the load …")
        found = signs()
        tell("Stepping a fixed kernel, a pair of equal workers at a time …")
        noise = measure(Rule(), lambda done, of: tell(f"[{done}/{of}]"))
    if as_json:
        _print_json(found, noise)
    else:
        _print_table(found, noise)


def _print_table(found: list[Sign], noise: OwnNoise) -> None:
    from tabulate import tabulate

    rows = [[sign.name, sign.found, sign.state, sign.advice] for sign in found]
    click.echo(tabulate(rows, ["", "found", "", "what to do"], disable_numparse=True))
    click.echo(
        f"\nEqual workers differ by {100 * noise.stage.spread:.2f} % (standard deviation of "
        f"{noise.stage.pairs} pairs).\nA default check of one thread can find a slowdown of "
        f"{100 * noise.detectable:.1f} % here; pools and processes spread more."
    )


def _print_json(found: list[Sign], noise: OwnNoise) -> None:
    import msgspec

    whole: dict[str, Any] = {
        "schema": 1,
        "signs": found,
        "spread": noise.stage.spread,
        "pairs": noise.stage.pairs,
        "detectable": noise.detectable,
    }
    click.echo(msgspec.json.format(msgspec.json.encode(whole)).decode())
