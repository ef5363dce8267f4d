"""The one loop that measures, and what it needs: how a request becomes cells, what can run here,
and how a plan resumes.

``request`` turns a person's options into cells, each with its backend and family: a ``target``.
``experiment`` is the interface of an experiment, and ``carry_out`` carries one out.
``availability`` finds what can run here, ``new_plan`` makes a plan, ``resume`` finds an unfinished
one, ``campaign`` is the loop, and ``local_executor`` executes a block on this machine. ``pairs``
builds the blocks of two alternating trials. ``git`` runs git.
"""
