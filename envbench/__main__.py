"""``python -m envbench`` and the ``envbench`` script."""

from __future__ import annotations


def main() -> None:
    """Run the command line; the exit code is the process's."""
    from envbench.cli import envbench

    envbench(prog_name="envbench")


if __name__ == "__main__":
    main()
