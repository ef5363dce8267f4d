"""envbench: how fast do reinforcement-learning environments step, on this machine?"""

__version__ = "0.1.0"
