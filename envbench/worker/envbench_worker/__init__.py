"""The measuring side of envbench: standard library and numpy only, Python 3.8 or newer.

It runs in the backend's own interpreter, which does not know envbench: nothing here imports the
controller. The two sides share only JSON (``job.json`` in, events and ``reply.json`` out).
"""
