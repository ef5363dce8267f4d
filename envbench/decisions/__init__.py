"""Pure rules that turn numbers into a verdict. No files, no processes, no clock.

``slowdown``: is the candidate of a check slower? ``ranking``: which cells of a session are shown to
be faster than which? (``session`` fits the model of their rates.) ``equal_work``: do two backends
do the same work? ``ledger`` compares what they report. ``traces``, ``starts``, ``actions`` and
``responses`` compare what they did, which ``trace_file`` reads.
"""
