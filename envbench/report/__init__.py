"""Records to tables to Markdown. Everything but ``report.files`` is pure: values in, values out.

``selection`` picks each cell's measurement, ``subjects`` sorts them into tables' subjects,
``existing`` reads what already stands in a document, ``table`` merges the two, ``markdown``
writes the table down, ``blocks`` and ``document`` put it between a document's markers.
"""
