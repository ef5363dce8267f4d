"""Store records, read them, and choose which measurement of a cell is shown.

``store`` writes a results file, ``reading`` reads it, and ``joining`` joins its records.
``published_csv`` reads figures that others have published. ``folder`` loads all files, and
``selection`` selects what is shown: values of ``measured_cells``. For that, ``verifications`` finds
the verification of each row, ``plausible`` the refused and doubtful figures, and ``memory_lines``
the memory per environment. ``relations`` relates two measurements.
"""
