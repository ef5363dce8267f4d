"""Find or build the interpreter that a backend runs in."""

from envbench.runtimes.interpreters import (
    ask,
    environment,
    find,
    interpreter,
    kept_programs,
    make,
    status,
)
