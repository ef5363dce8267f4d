"""Do two backends do the same work? Compare traces and settings, and judge. Pure.

``traces`` compares what two backends did with the same actions. ``reference`` compares the settings
of a step. ``judge`` describes the result in words.
"""
