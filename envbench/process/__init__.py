"""One job in, one supervised process, one validated reply out.

``execute`` runs a job and returns its reply. ``events`` are what a worker reports while it runs,
``reply`` is what it answers, and ``job_folder`` is where both sides leave their files.
``supervisor`` watches the process. ``guarded_worker`` and ``guardian`` end everything that it
started; ``orphans`` does so if the guardian, or an earlier envbench, was killed. ``alternate``,
``slice_order`` and ``starting`` let the workers of a block step alternately. ``worker_code`` hashes
the code that a worker runs.
"""
