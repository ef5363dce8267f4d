"""The sides of a comparison: interpreters, requirements and git refs become runtimes.

``sources`` describes an arm and makes it, ``git_tree`` checks out a ref, and ``local_copies``
copies wheels and folders.
"""
