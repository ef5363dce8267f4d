"""What is on record: stored values joined into what a report reads."""
