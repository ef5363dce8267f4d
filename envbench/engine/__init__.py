"""The one loop that measures, and what it needs: how a request becomes cells, what can run here,
and how a plan resumes.

``request`` turns a person's options into cells. ``experiment`` is the interface of an experiment,
``carry_out`` carries one out, ``availability`` finds what can run here, ``resume`` finds an
unfinished plan, ``campaign`` is the loop, and ``local_executor`` executes a block on this machine.
``pairs`` builds the blocks of two alternating trials. ``git`` runs git.
"""
