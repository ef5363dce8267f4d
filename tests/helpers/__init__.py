"""What several test files share. Tests import it as ``helpers.NAME``: ``tests/`` is on the path."""
