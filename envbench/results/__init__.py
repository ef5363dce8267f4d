"""Store records, read them, and choose which measurement of a cell is shown."""
