"""Did it get slower? A candidate against a baseline: two arms, pairs of processes, a verdict.

``arms`` makes the two sides (``git_tree``, ``local_copies``), ``pairing`` has two workers start and
step by turns (``starting``, ``stopping``), ``checking`` carries a check out by ``procedure`` and
goes on with one that was stopped (``resuming``), and ``regression`` is the rule. ``gauging`` and
``stored_baseline`` compare with another day, ``own_noise`` says what can be seen here.
"""
