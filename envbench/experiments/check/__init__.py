"""Did it get slower? A candidate against a baseline: two arms, pairs of processes, a verdict.

``stages`` decides how many pairs to make and which comes next, and forms verdicts. ``sources``
makes the two arms. ``baseline`` stores rates, and ``against`` compares with stored ones.
"""
