"""Measurements laid out as tables, as values: rows, columns, footnotes."""
