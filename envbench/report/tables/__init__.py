"""Measurements laid out as tables, as values: rows, columns, footnotes.

``table`` is a table as a value. ``build`` makes a table of FPS, ``note`` the note below it, and
``footnotes`` its footnotes. ``overview`` makes the tables that say what is fastest and what to use,
``costs`` those of start-up, memory, latency and resets, and ``details`` those of equal work,
commands and records.
"""
