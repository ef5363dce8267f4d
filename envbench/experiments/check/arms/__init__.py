"""The sides of a comparison: interpreters, requirements and git refs become runtimes.

``sources`` describes an arm and makes it; ``copies`` keeps copies of wheels and folders, and checks
out a ref.
"""
