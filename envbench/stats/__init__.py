"""Pure mathematics: rates of runs, intervals of rates and ratios, alternating blocks. No files, no
clock.

``summary`` computes the rates of runs and cells, and ``intervals`` their intervals.
``block_model`` compares cells that alternated; ``reml`` is its arithmetic. ``drift`` estimates how
much sessions differ. ``costs`` has what a cell costs besides its steps, by ``latency``, ``memory``
and ``service``. ``reset_rates`` and ``without_stops`` find figures to doubt.
"""
