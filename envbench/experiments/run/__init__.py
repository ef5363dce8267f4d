"""How fast are these cells? Rounds of random blocks, in which cells alternate.

``rounds`` is the experiment, ``dealing`` puts the cells of a round into blocks, ``expected`` says
how long they will take, and ``preview`` what the command would do (``run --plan``). ``flame`` shows
where the time of a cell goes (``run --profile``).
"""
