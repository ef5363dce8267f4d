"""``python -m envbench`` and the ``envbench`` script."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; the exit code is the process's."""
    try:
        from envbench.cli import envbench

        envbench(prog_name="envbench")
    except KeyboardInterrupt:  # before a command could take the signal
        sys.exit(130)


if __name__ == "__main__":
    main()
