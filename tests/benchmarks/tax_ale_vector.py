"""Does measuring ale-vector cost anything? envbench's loop against ale-py's own ``step`` loop.

    python tests/benchmarks/tax_ale_vector.py [--pairs 100] [--slice 0.25] [--numenv 4]

On one set of environments by turns, as ``tax.py`` does it: see there for the figure.
"""

from __future__ import annotations

import argparse

import tax


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--slice", type=float, default=0.25, dest="slice_s")
    parser.add_argument("--numenv", type=int, default=4)
    given = parser.parse_args()
    found = tax.compare("atari", "ale-vector", given.numenv, given.pairs, given.slice_s)
    low, high = found["interval"]
    print(
        f"ale-vector x{given.numenv}  ours / bare = {found['ratio']:.4f}  [{low:.4f}, {high:.4f}]"
    )


if __name__ == "__main__":
    main()
