"""Did it get slower? A candidate against a baseline: two arms, pairs of processes, a verdict.

``experiment`` decides which pair comes next and what they mean, ``size`` how many pairs that takes,
and ``regression`` is the rule. ``against`` and ``stored_baseline`` compare with another day.
"""
