"""``python -m envbench`` and the ``envbench`` script."""

from __future__ import annotations

import errno
import os
import sys


def main() -> None:
    """Run the command line; the exit code is the process's."""
    # Where a shell closed them (``>&-``) there is no stream at all, and nobody to tell.
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    try:
        from envbench.cli import envbench

        envbench(prog_name="envbench")
    except KeyboardInterrupt:  # before a command could take the signal
        sys.exit(130)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO) or error.filename is not None:
            raise
        sys.stderr.write(f"Error: the output cannot be written: {error.strerror}\n")
        sys.stderr.flush()
        os._exit(1)  # an ordinary exit would try to write it once more


if __name__ == "__main__":
    main()
