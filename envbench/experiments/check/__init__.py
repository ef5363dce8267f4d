"""Did it get slower? A candidate against a baseline: two arms, pairs of processes, a verdict.

``stages`` decides which pair comes next and what they mean, ``size`` how many pairs that takes.
``arms`` makes the two sides. ``against`` and ``stored_baseline`` compare with another day.
"""
