"""Do two backends do the same work? Compare traces and settings, and judge. Pure.

``traces`` compares what two backends did with the same actions. ``judge`` compares the settings of
a step, and describes the result in words.
"""
