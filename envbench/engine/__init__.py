"""The one loop that measures, and what it needs: how a request becomes cells, what can run here,
and how a plan resumes.

``request`` turns a person's options into cells, each with its backend and family: a ``target``.
``experiment`` is the interface of an experiment, and ``carry_out`` carries one out.
``availability`` finds what can run here, ``new_plan`` makes a plan, ``resume`` finds an unfinished
one, and ``campaign`` is the loop. ``local_executor`` executes a block on this machine:
``worker_job`` is the order for each worker, and ``lock_step`` compares a trial with its reference.
``git`` runs git.
"""
