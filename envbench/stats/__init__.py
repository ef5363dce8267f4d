"""Pure mathematics: rates of runs, and intervals of rates and ratios. No files, no clock."""
