"""Everything that measures: one loop, and one module (or folder) per experiment.

``campaign`` is the loop: ask the experiment for the next block, execute it, record it, repeat.
``session`` brings a request there: cells, lock, preflight, resume. ``run``, ``check``, ``verify``,
``baseline`` and ``noise`` decide which block comes next and what the records mean; both are pure.
"""
