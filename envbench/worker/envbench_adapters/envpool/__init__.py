"""EnvPool: synchronous, asynchronous, and one pool per NUMA node."""
