"""One job in, one supervised process, one validated reply out.

``execute`` runs a job and returns its reply. ``events`` are what a worker reports while it runs,
``reply`` is what it answers, and ``job_folder`` is where both sides leave their files.
``supervisor`` watches the process. ``guarded`` and ``guardian`` end all that it started, and
``orphans`` ends that if the guardian was killed, and ``owner`` names the controller to which it
belongs. ``process_table`` shows which processes exist, and ``memory_kills`` counts those that the
kernel ended.
"""
