"""The sides of a comparison: interpreters, requirements and git refs made into runtimes.

``sources`` says what an arm is and makes it, ``git_tree`` checks out a ref, and ``local_copies``
keeps wheels and folders as they are now.
"""
