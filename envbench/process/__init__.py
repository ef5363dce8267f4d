"""One job in, one supervised process, one validated reply out.

``one_job`` runs a job and returns its reply. ``reply`` is what a worker reports and answers.
``supervisor`` watches the process, and ``killing`` ends everything that it started. ``signals``
raises or delays the signals that stop a measurement. ``alternate``, ``slice_order`` and
``starting`` let the workers of a block step alternately. ``code_hash`` hashes the code that a
worker runs.
"""
