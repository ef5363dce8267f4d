"""Pure rules that turn numbers into a verdict. No files, no processes, no clock.

``slowdown``: is the candidate of a check slower? ``fastest``: which figures are equal within noise,
and which is a column's best? ``ranking``: which cells of a session are shown to be faster than
which? ``equal_work``: do two backends do the same work? ``traces`` compares what they did with the
same actions.
"""
