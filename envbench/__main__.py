"""``python -m envbench`` and the ``envbench`` script."""

from __future__ import annotations

import errno
import io
import os
import sys


def main() -> None:
    """Run the command line, and exit with its exit code."""
    # If a shell closed a stream (``>&-``), it is None here.
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that is not UTF-8 is shown, not raised
            stream.reconfigure(errors="backslashreplace")
    try:
        from envbench.cli import envbench

        envbench(prog_name="envbench")
    except KeyboardInterrupt:  # before a command could take the signal
        sys.exit(130)
    except OSError as error:
        output = error.errno in (errno.ENOSPC, errno.EIO) and error.filename is None
        what = "the output cannot be written" if output else "envbench cannot start"
        sys.stderr.write(f"Error: {what}: {error.strerror if output else error}\n")
        sys.stderr.flush()
        os._exit(1)  # a normal exit would try to write the output again


if __name__ == "__main__":
    main()
