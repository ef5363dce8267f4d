"""One module or folder per experiment: which block comes next, and what the records mean.

``recorded_plans`` lists them all, and finds, abandons and deletes what they have recorded.
"""
