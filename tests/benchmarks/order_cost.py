"""Do actions in a random order cost anything? The bank in its order against the bank shuffled.

    python tests/benchmarks/order_cost.py [--pairs 300] [--slice 0.05]

``run`` gives each slice the bank of actions in a new random order, so that no adapter can know the
next actions (``envbench_worker.contract.shuffled``). An order that never repeats is harder to
predict for the processor, too. For each backend and family, the library's bare loop steps the same
environments with both orders, in ABBA order. The figure is the rate with shuffled actions divided
by the rate in order, as in ``loop_cost_real_steps.py``. Prints one JSON document per line.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from loop_cost_real_steps import make, ratio

from envbench_worker.contract import from_batch, shuffled  # isort: skip - the line above finds it

CELLS = (
    ("classic_control", "for-loop", 4),
    ("classic_control", "envpool-sync", 4),
    ("mujoco", "for-loop", 4),
    ("mujoco", "envpool-sync", 8),
    ("atari", "envpool-sync", 4),
)


class Order:
    """The bare loop with the bank in one order or in a new random one; each slice goes on where
    the last one ended."""

    def __init__(self, bare: Any, bank: list[Any], random: bool) -> None:
        self.bare, self.bank, self.random, self.made = bare, bank, random, 0

    def stretch(self, calls: int) -> float:
        bank = shuffled(self.bank) if self.random else self.bank
        self.bare.batches = from_batch(bank, 0 if self.random else self.made)
        self.made += calls
        seconds: float = self.bare.stretch(calls)
        return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--slice", type=float, default=0.05, dest="slice_s")
    parser.add_argument("--env", choices=sorted({family for family, *_ in CELLS}), action="append")
    given = parser.parse_args()
    for family, backend, numenv in CELLS:
        if family in (given.env or [family]):
            ours, bare = make(family, backend, numenv)
            bank = ours.adapter.bank
            in_order, at_random = Order(bare, bank, random=False), Order(bare, bank, random=True)
            found = ratio(at_random, in_order, given.pairs, given.slice_s)
            ours.adapter.close()
            cell = {"env": family, "backend": backend, "numenv": numenv, "pairs": given.pairs}
            print(json.dumps({**cell, **found}), flush=True)


if __name__ == "__main__":
    main()
