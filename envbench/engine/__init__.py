"""The one loop that measures: blocks, the campaign, resume, and how a request gets there.

``request`` turns what a person asked for into cells, ``experiment`` is what an experiment has to
say, ``session`` carries one out, ``preflight`` asks what can run here, ``planning`` makes a plan,
``resume`` finds an unfinished one, ``campaign`` is the loop, and ``executor`` executes a block.
"""
