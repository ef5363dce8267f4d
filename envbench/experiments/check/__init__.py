"""Did it get slower? A candidate against a baseline: two arms, pairs of processes, a verdict.

``cells`` chooses what is compared, and how many pairs are made. ``stages`` decides which pair comes
next, and ``verdicts`` judges them. ``sources`` makes the two arms. ``baseline`` stores rates, and
``against`` compares with stored ones.
"""
