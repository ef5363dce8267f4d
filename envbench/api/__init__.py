"""Measure and read results from Python, such as in a notebook.

    import envbench

    found = envbench.measure("Pong-v5", backend="envpool-async", numenv=8)
    found.fps, found.interval           # frames per second
    envbench.load("results").cells      # a pandas DataFrame

``measure`` does what ``envbench run`` does, with the same records in the same folder: a stopped
measurement resumes, and ``envbench report`` shows it. Interrupting a notebook's kernel (Ctrl-C)
ends the workers and raises ``KeyboardInterrupt``. It runs in any thread, but Python delivers
signals to the main thread only: a measurement in any other thread cannot be interrupted.

Messages and progress are the log ``envbench``. Where no handler is set up for it, ``measure``
writes them to stderr; ``progress=False`` keeps it quiet.
"""

from envbench.api.measuring import Result, measure
from envbench.api.results import Results, load

__all__ = ["Result", "Results", "load", "measure"]
