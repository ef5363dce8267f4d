"""Do two backends do the same work? Compare traces and settings, and judge. Pure.

``traces`` compares what two backends did with the same actions, ``reference`` the settings of a
step, and ``judge`` puts what ``envbench verify`` found into words.
"""
