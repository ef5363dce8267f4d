"""Did it get slower? A candidate against a baseline: two arms, pairs of processes, a verdict.

``stages`` decides which pair comes next and forms verdicts, ``size`` decides how many pairs to
make, and ``arms`` makes the two sides. ``baseline`` stores rates and compares with those of
another time.
"""
