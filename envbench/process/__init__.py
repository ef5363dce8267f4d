"""One job in, one supervised process, one validated reply out.

``execute`` runs a job and returns its reply. ``reply`` is what a worker reports and answers.
``supervisor`` watches the process. ``guarded_worker`` and ``guardian`` end everything that it
started; ``owners`` makes the job's folder, and removes what a killed envbench left. ``alternate``,
``slice_order`` and ``starting`` let the workers of a block step alternately. ``worker_code`` hashes
the code that a worker runs.
"""
